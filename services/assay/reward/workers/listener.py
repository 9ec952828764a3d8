"""The port of workers without access to the store: apart from that of tenants, with its own limits.

Each waiting stage of a worker holds a call, so the number of calls is that of workers times stages;
tenants' calls are not among them, and a network policy can tell the two ports apart. Workers are
the operator's: together they are one caller for the front, which paces strangers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from assay.config.access import TlsBranch
from assay.config.settings import RewardSettings
from assay.edge.calls import CallGuard
from assay.edge.connections.port import FrontedPort
from assay.edge.grpc_edge import GrpcEdge, Health, open_server, server_options
from assay.reward.workers.gateway import WorkGateway
from assay.reward.workers.servicer import RAW, WorkServicer
from assay.v1 import worker_pb2, worker_pb2_grpc

SERVICE: Final = worker_pb2.DESCRIPTOR.services_by_name["WorkService"].full_name
FRAME_BYTES_MAX: Final = 64 * 1024
"""What a message adds to the artifact in it."""
REPORTS_BYTES_MAX: Final = 32 * 1024**2
"""A worker sends its reports in messages of 8 MiB; a larger report alone."""


STOP_S: Final = 0.5
"""Calls that wait for work have no reason to be waited for."""


@dataclass(slots=True, kw_only=True)
class WorkListener:
    """Listens where workers ask for work."""

    gateway: WorkGateway
    guard: CallGuard
    settings: RewardSettings
    artifact_bytes_max: int
    time_s: Callable[[], float]
    """Monotonic, in seconds."""
    _server: grpc.aio.Server | None = None
    _port: FrontedPort | None = None

    async def start(self) -> str:
        """Listen; returns the address.

        Raises:
            OSError: the port is taken.
        """
        settings = self.settings
        bytes_max = max(self.artifact_bytes_max, REPORTS_BYTES_MAX) + FRAME_BYTES_MAX
        port = FrontedPort(time_s=self.time_s, connections_max=settings.connections_max)
        edge = GrpcEdge(
            guard=self.guard, message_bytes_max=bytes_max, raw=RAW, connections=port.connections
        )
        options = server_options(bytes_max, connections_max=settings.connections_max, watched=True)
        server = open_server(edge, options)
        worker_pb2_grpc.add_WorkServiceServicer_to_server(WorkServicer(self.gateway), server)
        healthy = Health()
        health_pb2_grpc.add_HealthServicer_to_server(healthy, server)
        for name in ("", SERVICE):
            await healthy.set(name, health_pb2.HealthCheckResponse.SERVING)
        tls = TlsBranch(
            tls_certificate=settings.tls_certificate,
            tls_key=settings.tls_key,
            tls_client_ca=settings.worker_tls_client_ca,
        )
        address = await port.open(
            server, settings.host, settings.worker_port, setting="reward.worker_port", tls=tls
        )
        self._server, self._port = server, port
        return address

    async def stop(self) -> None:
        """End all calls: workers go to another replica, and what they were given goes back."""
        if self._server is not None and self._port is not None:
            await self._port.stop(self._server, STOP_S)
        await self.gateway.close()
