"""Listens: `PlannerService` with health and reflection on gRPC, probes on HTTP."""

import asyncio
from collections.abc import Mapping
from typing import Final

from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from assay.config.settings import PlannerSettings
from assay.edge.auth import Operator, in_url
from assay.edge.calls import CallGuard
from assay.edge.clock import Clock
from assay.edge.connections.port import FrontedPort
from assay.edge.grpc_edge import GrpcEdge, Health, open_server, server_options
from assay.edge.metrics import Metrics
from assay.edge.probes import Probes
from assay.planner.service.controller import Controller
from assay.planner.service.servicer import PlannerServicer
from assay.store.port import Store
from assay.v1 import planner_pb2, planner_pb2_grpc

SERVICE: Final = planner_pb2.DESCRIPTOR.services_by_name["PlannerService"].full_name
READINESS_EVERY_S: Final = 0.25
READY_EVERY_S: Final = 1.0
"""While it is ready."""
MESSAGE_BYTES_MAX: Final = 1024**2


class PlannerServer:
    """The listeners around one `Controller`."""

    def __init__(
        self,
        *,
        controller: Controller,
        store: Store,
        guard: CallGuard,
        operator: Operator,
        settings: PlannerSettings,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._controller = controller
        self._settings = settings
        self._tls = operator.tls
        self._clock = clock
        self._health = Health()
        self._reported: int | None = None
        self._probes = Probes(
            why_not_ready=lambda: controller.why_not_ready,
            registry=metrics.registry,
            operator=operator,
        )
        self._port = FrontedPort(time_s=lambda: clock.monotonic_ns() / 1e9)
        edge = GrpcEdge(
            guard=guard, message_bytes_max=MESSAGE_BYTES_MAX, connections=self._port.connections
        )
        self._grpc = open_server(edge, server_options(MESSAGE_BYTES_MAX, watched=True))
        servicer = PlannerServicer(controller, store)
        planner_pb2_grpc.add_PlannerServiceServicer_to_server(servicer, self._grpc)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._grpc)
        names = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._grpc)

    async def start(self) -> Mapping[str, str]:
        """Listen; returns the addresses.

        Raises:
            OSError: a port is taken.
        """
        host = self._settings.host
        await self._report()
        address = await self._port.open(
            self._grpc, host, self._settings.grpc_port, setting="planner.grpc_port", tls=self._tls
        )
        http = await self._probes.start(host, self._settings.http_port)
        return {"grpc": address, "http": f"{in_url(host)}:{http}"}

    async def watch_readiness(self) -> None:
        """Keep the health service up to date until cancelled."""
        while True:
            await self._report()
            ready = self._reported == health_pb2.HealthCheckResponse.SERVING
            await self._clock.sleep(READY_EVERY_S if ready else READINESS_EVERY_S)

    async def _report(self) -> None:
        serving = health_pb2.HealthCheckResponse
        status = serving.NOT_SERVING if self._controller.why_not_ready else serving.SERVING
        if status == self._reported:
            return
        self._reported = status
        for name in ("", SERVICE):
            await self._health.set(name, status)

    async def stop(self) -> None:
        """Report NOT_SERVING, let calls finish, close."""
        await self._health.enter_graceful_shutdown()
        await asyncio.gather(
            self._port.stop(self._grpc, self._settings.drain_s), self._probes.stop()
        )
