"""The listener of the rollout service: gRPC with health and reflection.

Order of a stop: health reports NOT_SERVING, streams end (their readers resume from their cursors
when the service returns), running calls get `drain_s` to finish, then sessions are cancelled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from assay.edge.grpc_edge import GrpcEdge, Health, server_options, take_port
from assay.rollout.service.servicer import RAW, RolloutServicer
from assay.v1 import rollout_pb2, rollout_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.config.rollouts import RolloutSettings
    from assay.edge.calls import CallGuard
    from assay.edge.clock import Clock
    from assay.rollout.service.service import RolloutService
    from assay.rollout.service.weights import ServerFolder, WeightSlots
    from assay.rollout.service.wire import Served

SERVICE: Final = rollout_pb2.DESCRIPTOR.services_by_name["RolloutService"].full_name
READINESS_EVERY_S: Final = 1.0
FRAME_BYTES_MAX: Final = 1024**2
"""A push of whole weights in frames of 16 KiB takes the sender a third more CPU."""


class RolloutServer:
    """The listener around one `RolloutService`."""

    def __init__(
        self,
        service: RolloutService,
        *,
        served: Served,
        weights: WeightSlots | ServerFolder | None,
        unsupported: Sequence[str] = (),
        guard: CallGuard,
        settings: RolloutSettings,
        clock: Clock,
    ) -> None:
        self._service = service
        self._served = served
        self._weights = weights
        self._unsupported = unsupported
        self._guard = guard
        self._settings = settings
        self._clock = clock
        self._health = Health()

    async def start(self) -> str:
        """Listen; returns the address.

        Raises:
            OSError: the port is taken.
        """
        self._service.start()
        bytes_max = self._settings.message_bytes_max
        edge = GrpcEdge(guard=self._guard, message_bytes_max=bytes_max, raw=RAW)
        options = server_options(bytes_max, frame_bytes_max=FRAME_BYTES_MAX)
        self._server = grpc.aio.server(interceptors=[edge], options=options)
        servicer = RolloutServicer(
            self._service,
            served=self._served,
            weights=self._weights,
            unsupported=self._unsupported,
            shared_dir=self._settings.shared_dir,
        )
        rollout_pb2_grpc.add_RolloutServiceServicer_to_server(servicer, self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)
        settings = self._settings
        address = take_port(
            self._server,
            settings.host,
            settings.grpc_port,
            setting="rollout.grpc_port",
            certificate=settings.tls_certificate,
            key=settings.tls_key,
            client_ca=settings.tls_client_ca,
        )
        await self._report()
        await self._server.start()
        return address

    async def watch_readiness(self) -> None:
        """Keep the health service up to date, and close idle sessions, until cancelled."""
        while True:
            await self._clock.sleep(READINESS_EVERY_S)
            await self._report()
            self._service.report()
            self._service.close_idle()

    async def _report(self) -> None:
        statuses = health_pb2.HealthCheckResponse
        status = statuses.NOT_SERVING if self._service.why_not_ready else statuses.SERVING
        for name in ("", SERVICE):
            await self._health.set(name, status)

    async def stop(self) -> None:
        """Drain and stop."""
        await self._health.enter_graceful_shutdown()
        self._service.end_streams()
        await self._server.stop(self._settings.drain_s)
        await self._service.close()
