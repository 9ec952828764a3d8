"""The interface to the pools, and the implementation for the worker host of this machine.

A scaler knows sizes only. Every method raises `DependencyDown` when the pools cannot be reached;
the pools then stay as they are. A resize names the new size, so it may be repeated.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

import grpc

from assay.core.errors import DependencyDown, InvalidRequest
from assay.core.ids import StageName
from assay.edge.auth import Operator
from assay.edge.grpc_edge import operator_channel
from assay.planner.session.messages import PoolState
from assay.v1 import worker_pb2, worker_pb2_grpc

CALL_S_MAX: Final = 5.0


class Scaler(Protocol):
    """Sizes of pools, one per stage, over all worker hosts."""

    async def pools(self) -> Sequence[PoolState]:
        """Current state of all pools."""

    async def resize(self, stage: StageName, slots: int) -> PoolState:
        """Set the size of a pool.

        Raises:
            InvalidRequest: there is no such stage, or the hosts allow fewer.
        """

    async def close(self) -> None: ...


class LocalScaler:
    """The worker host named by its ready file in `data_dir/run`, else by the settings."""

    def __init__(self, ready_file: Path, *, fallback: str, operator: Operator) -> None:
        self._ready_file = ready_file
        self._operator = operator
        self._fallback = fallback
        self._address = ""
        self._channel: grpc.aio.Channel | None = None

    async def pools(self) -> Sequence[PoolState]:
        try:
            stub = await self._stub()
            answer = await stub.ListPools(worker_pb2.ListPoolsRequest(), timeout=CALL_S_MAX)
        except grpc.aio.AioRpcError as error:
            raise await self._down(error) from error
        return [_state(pool) for pool in answer.pools]

    async def resize(self, stage: StageName, slots: int) -> PoolState:
        request = worker_pb2.ResizePoolRequest(stage=stage, slots=slots)
        try:
            stub = await self._stub()
            answer = await stub.ResizePool(request, timeout=CALL_S_MAX)
        except grpc.aio.AioRpcError as error:
            if error.code() in {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND}:
                raise InvalidRequest(error.details() or "", field="slots") from error
            raise await self._down(error) from error
        return _state(answer.pool)

    async def close(self) -> None:
        """Close the connection."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    async def _stub(self) -> "worker_pb2_grpc.PoolServiceAsyncStub":
        """Read the address each time: a host that was started again may listen elsewhere."""
        address = self._address_in_file() or self._fallback
        if address != self._address:
            await self.close()
            self._address = address
        if self._channel is None:
            self._channel = operator_channel(address, self._operator)
        return worker_pb2_grpc.PoolServiceStub(self._channel)

    def _address_in_file(self) -> str:
        try:
            return str(json.loads(self._ready_file.read_text(encoding="utf-8"))["control"])
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    async def _down(self, error: grpc.aio.AioRpcError) -> DependencyDown:
        await self.close()
        message = f"the worker host at {self._address} does not answer: {error.code().name}"
        return DependencyDown(message)


def _state(pool: worker_pb2.StagePool) -> PoolState:
    return PoolState(
        stage=StageName(pool.stage),
        desired=pool.slots_desired,
        ready=pool.slots_ready,
        busy=pool.slots_busy,
    )
