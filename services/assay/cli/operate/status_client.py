"""Read the state of a platform: from its store, its worker host and its planner.

Imports no pipeline: the stages come from the worker host. Only where none answers, or where it
serves a part of the stages, are the pipelines loaded.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Protocol, Self

import grpc

from assay.cli.operate.snapshot import BATCHES_READ_MAX, Host, Pool, Snapshot
from assay.config.settings import load_settings
from assay.core.batches.record import BatchRecord, StageDepth
from assay.core.errors import DependencyDown
from assay.core.ids import StageName
from assay.edge.access.channels import OperatorChannels, Options, operator_token
from assay.edge.clock import Clock
from assay.v1 import planner_pb2, planner_pb2_grpc, worker_pb2, worker_pb2_grpc

POOLS_TIMEOUT_S = 2.0
NO_PLANNER = "none: pools keep their size"

Metadata = tuple[tuple[str, str], ...]
PoolsOfHost = worker_pb2.ListPoolsResponse | None
PoolsEverywhere = planner_pb2.GetPoolsResponse | None


class Observed(Protocol):
    """What of a store is asked: that of `Store`, or of `Looking`."""

    async def round_trip(self) -> float: ...

    async def depths(self, stages: Sequence[StageName]) -> Sequence[StageDepth]: ...

    async def batches(self, *, batches_max: int) -> Sequence[BatchRecord]: ...


def stages_of_all_pipelines() -> Sequence[StageName]:
    """Return the stages of all pipelines, in the order of the pipelines."""
    from assay.verifiers.registry import load_pipelines  # half as much again as all of the above

    pipelines = load_pipelines().values()
    return list(dict.fromkeys(stage for pipeline in pipelines for stage in pipeline.spec.stages))


def channel_to(address: str, options: Options = ()) -> grpc.aio.Channel:
    """Return a channel to an operator's port, with TLS where the settings say so.

    Raises:
        OSError: a file of `operator.tls_*` cannot be read.
    """
    return OperatorChannels(load_settings().operator).to(address, options)


def operator_metadata() -> tuple[tuple[str, str], ...]:
    """Return what a call to an operator's port carries: the token of the settings, if any."""
    return operator_token(load_settings().operator)


async def list_pools(control: str) -> worker_pb2.ListPoolsResponse | None:
    """Ask a worker host; `None` when it does not answer."""
    async with channel_to(control) as channel:
        return await _pools_of(channel, operator_metadata())


async def _pools_of(channel: grpc.aio.Channel, token: Metadata) -> PoolsOfHost:
    stub = worker_pb2_grpc.PoolServiceStub(channel)
    try:
        return await stub.ListPools(
            worker_pb2.ListPoolsRequest(), timeout=POOLS_TIMEOUT_S, metadata=token
        )
    except grpc.aio.AioRpcError:
        return None


async def resize_pool(control: str, *, stage: str, slots: int) -> Pool:
    """Set the size of a stage's pool.

    Raises:
        DependencyDown: no worker host answers.
        grpc.aio.AioRpcError: it refuses.
    """
    async with channel_to(control) as channel:
        stub = worker_pb2_grpc.PoolServiceStub(channel)
        request = worker_pb2.ResizePoolRequest(stage=stage, slots=slots)
        try:
            answer = await stub.ResizePool(
                request, timeout=POOLS_TIMEOUT_S, metadata=operator_metadata()
            )
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            message = f"no worker host answers on {control}; start one with: assay up"
            raise DependencyDown(message) from error
    return _pool(answer.pool)


async def ask_planner(address: str) -> str:
    """Return the state of the planner in a few words."""
    if not address:
        return NO_PLANNER
    async with channel_to(address) as channel:
        return await _state_of(channel, operator_metadata())


async def _state_of(channel: grpc.aio.Channel, token: Metadata) -> str:
    stub = planner_pb2_grpc.PlannerServiceStub(channel)
    try:
        answer = await stub.GetPlan(
            planner_pb2.GetPlanRequest(), timeout=POOLS_TIMEOUT_S, metadata=token
        )
    except grpc.aio.AioRpcError:
        return "does not answer"
    if not answer.ready:
        return f"not ready: {answer.why}"
    if answer.plan.batches:
        return f"{answer.why}, plans {len(answer.plan.batches)} batches"
    return answer.why


async def _pools_everywhere(channel: grpc.aio.Channel, token: Metadata) -> PoolsEverywhere:
    """The pools over all worker hosts; `None`: no planner leads there, or it is of an earlier
    release."""
    stub = planner_pb2_grpc.PlannerServiceStub(channel)
    try:
        answer = await stub.GetPools(
            planner_pb2.GetPoolsRequest(), timeout=POOLS_TIMEOUT_S, metadata=token
        )
    except grpc.aio.AioRpcError:
        return None
    return answer if answer.leading and answer.pools else None


class Asking:
    """Asks a worker host and a planner; a context manager, connected until it ends."""

    def __init__(self) -> None:
        operator = load_settings().operator
        self._connect, self._token = OperatorChannels(operator), operator_token(operator)
        self._channels: dict[str, grpc.aio.Channel] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.rest()

    async def rest(self) -> None:
        """Close the connections until the next question: open ones wake threads of gRPC."""
        channels, self._channels = self._channels, {}
        await asyncio.gather(*(channel.close() for channel in channels.values()))

    async def asked(self, control: str, planner: str) -> tuple[PoolsOfHost, str, PoolsEverywhere]:
        """Ask both at once."""
        for gone in self._channels.keys() - {control, planner}:
            await self._channels.pop(gone).close()
        to_host = self._to(control)
        if not planner:
            return await _pools_of(to_host, self._token), NO_PLANNER, None
        to_planner = self._to(planner)
        return await asyncio.gather(
            _pools_of(to_host, self._token),
            _state_of(to_planner, self._token),
            _pools_everywhere(to_planner, self._token),
        )

    def _to(self, address: str) -> grpc.aio.Channel:
        if address not in self._channels:
            self._channels[address] = self._connect.to(address)
        return self._channels[address]


async def observe(
    store: Observed,
    control: str,
    *,
    clock: Clock,
    planner: str = "",
    all_stages_served: bool = False,
    asking: Asking | None = None,
) -> Snapshot:
    """Take a snapshot.

    Args:
        store: of the platform.
        control: address of its worker host.
        clock: for the time of the snapshot.
        planner: address of its planner; empty: there is none.
        all_stages_served: the worker host serves every stage, so its pools name them all.
        asking: connections to keep; without it they are opened for this snapshot.

    Raises:
        DependencyDown: the store cannot be reached.
    """
    round_trip_s = await store.round_trip()
    async with AsyncExitStack() as opened:
        if asking is None:
            asking = await opened.enter_async_context(Asking())
        batches, (own, planning, everywhere) = await asyncio.gather(
            store.batches(batches_max=BATCHES_READ_MAX), asking.asked(control, planner)
        )
    if own and all_stages_served:
        stages = [StageName(pool.stage) for pool in own.pools]
    else:
        stages = list(stages_of_all_pipelines())
    depths = await store.depths(stages)
    return Snapshot(
        at_ns=clock.now_ns(),
        store_round_trip_s=round_trip_s,
        sandbox_mode=own.sandbox_mode if own else "",
        depths=depths,
        pools=_pools(own, everywhere),
        batches=batches,
        planner=planning,
        hosts=_hosts(everywhere),
        hosts_all=everywhere.hosts_all if everywhere else 0,
    )


def _pools(own: PoolsOfHost, everywhere: PoolsEverywhere) -> dict[str, Pool]:
    """Over all hosts where a planner leads; without one those of this machine."""
    if everywhere is not None:
        return {pool.stage: _summed(pool) for pool in everywhere.pools}
    return {pool.stage: _pool(pool) for pool in own.pools} if own else {}


def _hosts(everywhere: PoolsEverywhere) -> list[Host]:
    if everywhere is None:
        return []
    return [
        Host(
            host=one.host,
            state=one.state,
            cores=one.cores,
            pools=[_summed(pool) for pool in one.pools],
        )
        for one in everywhere.hosts
    ]


def _summed(pool: planner_pb2.PoolOfStage) -> Pool:
    return Pool(
        stage=pool.stage,
        slots_desired=pool.slots_desired,
        slots_ready=pool.slots_ready,
        slots_busy=pool.slots_busy,
        slots_max=pool.slots_max,
        starts_measured=pool.startup.measured,
        startup_p50_s=pool.startup.p50_s,
        startup_p90_s=pool.startup.p90_s,
        core_cost=pool.core_cost,
        condition=pool.condition,
    )


def _pool(pool: worker_pb2.StagePool) -> Pool:
    return Pool(
        stage=pool.stage,
        slots_desired=pool.slots_desired,
        slots_ready=pool.slots_ready,
        slots_busy=pool.slots_busy,
        starts_measured=pool.starts_measured,
        startup_p50_s=pool.startup_p50_s,
        startup_p90_s=pool.startup_p90_s,
    )
