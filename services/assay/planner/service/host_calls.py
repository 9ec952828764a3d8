"""Connections of a planner to worker hosts: what is shown to which of them.

Invariants: a host that registered is shown the credential of its own record, and never a token of
the operator: what listens at an address that was registered learns only what was registered with
it. Each host has a connection of its own, so one that registers the address of another disturbs
none of its calls. An address names a host and a port, whatever it looks like.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from assay.core.errors import InvalidRequest
from assay.core.hosts.record import HostRecord, address_of
from assay.core.ids import WorkerId
from assay.edge.access.channels import LeftChannels, OperatorChannels
from assay.edge.auth import Operator
from assay.v1 import worker_pb2_grpc

if TYPE_CHECKING:
    import grpc

LOOK_S_MAX: Final = 2.0
"""A host that takes longer to answer is busy or away; its last answer counts for a while."""
ANSWER_BYTES_MAX: Final = 256 * 1024
"""256 stages with names of 256 bytes, and as much again."""
OPTIONS: Final = [
    ("grpc.max_receive_message_length", ANSWER_BYTES_MAX),
    ("grpc.max_metadata_size", 16 * 1024),
    ("grpc.enable_retries", 0),
    ("grpc.service_config_disable_resolution", 1),
]

Metadata = tuple[tuple[str, str], ...]


class HostConnections:
    """One per host that is known."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._connect = OperatorChannels(operator.tls)
        self._channels: dict[WorkerId, tuple[str, grpc.aio.Channel]] = {}
        self._left = LeftChannels()

    def stub(self, host: HostRecord) -> "worker_pb2_grpc.PoolServiceAsyncStub":
        """Its pool service; connects when it is called."""
        address, channel = self._channels.get(host.worker, ("", None))
        if channel is None or address != host.address:
            self.forget(host.worker)
            channel = self._connect.to(target_of(host.address), OPTIONS)
            self._channels[host.worker] = (host.address, channel)
        return worker_pb2_grpc.PoolServiceStub(channel)

    def shown_to(self, host: HostRecord) -> Metadata:
        """What a call of it carries."""
        if not host.stages:  # the one of this machine, which did not register
            return self._operator.metadata
        return (("authorization", f"Bearer {host.credential}"),) if host.credential else ()

    def forget(self, worker: WorkerId) -> None:
        """Close its connection once the calls on it have ended."""
        _, channel = self._channels.pop(worker, ("", None))
        if channel is not None:
            self._left.leave(channel)

    async def close(self) -> None:
        """Close the connections to all hosts."""
        present = [channel for _, channel in self._channels.values()]
        self._channels.clear()
        await self._left.close(*present)


def target_of(address: str) -> str:
    """An address as gRPC's target, with the scheme: `unix:1` or `dns:53` would be taken for one."""
    return f"dns:///{address}"


async def refuses(address: str) -> bool:
    """Whether the machine answers that no process listens there."""
    try:
        async with asyncio.timeout(LOOK_S_MAX):
            _, writer = await asyncio.open_connection(*address_of(address))
    except ConnectionRefusedError:
        return True
    except (OSError, TimeoutError, InvalidRequest):
        return False
    writer.close()
    return False
