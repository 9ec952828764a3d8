"""Listens: gRPC and HTTP on one event loop, with health, reflection, TLS and draining.

Order of a stop: health reports NOT_SERVING and `/readyz` 503, streams end (their clients resume
elsewhere from their cursors), new calls are refused, running calls may continue for `drain_s`, then
they are cancelled, which cancels the batches of `Score` calls.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import grpc
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from starlette.types import ASGIApp

from assay.config.settings import RewardSettings
from assay.core.errors import AssayError, DependencyDown
from assay.edge.auth import in_url
from assay.edge.calls import CallGuard
from assay.edge.clock import Clock
from assay.edge.connections.front import LOOPBACK, Front
from assay.edge.connections.places import Connections
from assay.edge.connections.tls import server_tls
from assay.edge.connections.watch import GrpcConnections
from assay.edge.grpc_edge import (
    PART_BYTES_MAX,
    GrpcEdge,
    Health,
    open_server,
    server_options,
    take_port,
)
from assay.edge.http_listener import HttpListener, TlsFiles
from assay.edge.lifecycle import heard, joined
from assay.edge.metrics import Metrics
from assay.edge.probes import Probes
from assay.reward.readers import Readers
from assay.reward.service import RewardService
from assay.reward.servicer import PARTS, RAW, RewardServicer
from assay.store.port import Store
from assay.v1 import reward_pb2, reward_pb2_grpc

SERVICE: Final = reward_pb2.DESCRIPTOR.services_by_name["RewardService"].full_name
READINESS_EVERY_S: Final = 2.0
LAG_EVERY_S: Final = 0.1
"""Interval of the samples of the event loop's lag while there are calls."""
LAG_ALONE_S: Final = 1.0
"""While there is none: a sample costs an idle service 0.1 ms."""
START_S_MAX: Final = 10.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Addresses of the service, with the real port numbers."""

    grpc: str
    http: str
    workers: str = ""
    """Of the port of workers; empty: there is none."""
    probes: str = ""
    """Of the port of probes; empty: there is none."""

    def as_mapping(self) -> Mapping[str, str]:
        """Contents of the ready file."""
        found = {"grpc": self.grpc, "http": self.http}
        more = {"workers": self.workers, "probes": self.probes}
        return {**found, **{name: address for name, address in more.items() if address}}


class Readiness:
    """Whether calls may be sent here; checks the store."""

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics
        self._stopping = False
        self._pinging: asyncio.Task[float] | None = None

    def stop(self) -> None:
        """Not ready any more, permanently."""
        self._stopping = True

    async def ping(self) -> float:
        """Return the round trip to the store in seconds.

        Raises:
            DependencyDown: it cannot be reached, or this service is stopping.
        """
        if self._stopping:
            raise DependencyDown("this service is stopping")
        if self._pinging is None or self._pinging.done():
            self._pinging = heard(asyncio.create_task(self._ping(), name="ping"))
        # Concurrent callers share one round trip, because anyone may ask. The next one may have
        # begun before this caller goes on.
        return await joined(self._pinging)

    async def _ping(self) -> float:
        try:
            round_trip_s = await self._store.ping()
        except AssayError:
            self._metrics.store_fit(fit=False)
            raise
        self._metrics.store_fit(fit=True)
        self._metrics.store_called(operation="ping", seconds=round_trip_s)
        return round_trip_s


class RewardServer:
    """The two listeners around one `RewardService`."""

    def __init__(
        self,
        *,
        service: RewardService,
        readers: Readers,
        app: ASGIApp,
        guard: CallGuard,
        readiness: Readiness,
        settings: RewardSettings,
        clock: Clock,
        on_lag: Callable[[float], None],
    ) -> None:
        self._on_lag = on_lag
        self._service = service
        self._readers = readers
        self._guard = guard
        self._readiness = readiness
        self._settings = settings
        self._clock = clock
        self._health = Health()
        self._tasks: list[asyncio.Task[None]] = []
        self.connections = GrpcConnections(time_s=lambda: clock.monotonic_ns() / 1e9)
        """Connections to the gRPC port."""
        self._front = Front(
            connections=self.connections,
            connections_max=settings.connections_max,
            time_s=lambda: clock.monotonic_ns() / 1e9,
            one_tenant=len(settings.tenants) <= 1 and settings.tenants_file is None,
        )
        self._why_not_ready = "it starts"
        self._probes = Probes(
            why_not_ready=lambda: self._why_not_ready, setting="reward.probe_port"
        )
        self._http = HttpListener(
            app,
            setting="reward.http_port",
            connections=Connections(
                connections_max=settings.connections_max,
                per_peer_max=settings.connections_per_peer_max,
                body_s_max=settings.body_s_max,
            ),
            drain_s=settings.drain_s,
            tls=TlsFiles(
                certificate=settings.tls_certificate,
                key=settings.tls_key,
                client_ca=settings.tls_client_ca,
            ),
        )

    @property
    def calls(self) -> int:
        """Number of calls in progress, refused ones that wait included."""
        return self._guard.calls + self._guard.door.refusals_held

    async def start(self) -> Addresses:
        """Listen on both ports.

        Raises:
            OSError: a port is taken.
        """
        http = self._http.bind(self._settings.host, self._settings.http_port)
        self._grpc = self._grpc_server()
        try:
            probes = await self._open_probes()
            grpc_address = self._front.bind(
                self._settings.host, self._settings.grpc_port, setting="reward.grpc_port"
            )
            tls = server_tls(
                self._settings.tls_certificate,
                self._settings.tls_key,
                self._settings.tls_client_ca,
                setting="reward.grpc_port",
            )
            behind = take_port(self._grpc, LOOPBACK, 0, setting="reward.grpc_port")
        except OSError:
            await self._probes.stop()
            self._http.unbind()
            self._front.stop_accepting()
            raise
        await self._grpc.start()
        inner_port = int(behind.rpartition(":")[2])
        self.connections.listen(inner_port)
        await self._front.serve(inner_port, tls=tls)
        self._watching = asyncio.create_task(self.connections.run(), name="connections")
        await self._http.serve()
        await self._report_readiness()
        self._tasks.append(asyncio.create_task(self._watch_readiness(), name="readiness"))
        self._tasks.append(asyncio.create_task(self._watch_lag(), name="lag"))
        return Addresses(grpc=grpc_address, http=http, probes=probes)

    async def _open_probes(self) -> str:
        port = self._settings.probe_port
        if port is None:
            return ""
        host = self._settings.host
        return f"http://{in_url(host)}:{await self._probes.start(host, port)}"

    async def stop(self) -> None:
        """Drain and stop."""
        log.info("draining", calls=self._guard.calls, drain_s=self._settings.drain_s)
        self._readiness.stop()
        self._why_not_ready = "it is stopping"
        await self._health.enter_graceful_shutdown()
        self._service.stop()
        self._http.stop_accepting()
        self._watching.cancel()  # its descriptors are gRPC's
        self._front.stop_accepting()
        await self._grpc.stop(self._settings.drain_s)
        await self._front.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(self._watching, *self._tasks, return_exceptions=True)
        await self._http.stopped()
        await self._probes.stop()
        await self._service.close()
        self._readers.stop()

    # -- gRPC ----------------------------------------------------------------------------------
    def _grpc_server(self) -> grpc.aio.Server:
        settings = self._settings
        bytes_max = min(settings.message_bytes_max, settings.grpc_message_bytes_max)
        edge = GrpcEdge(
            guard=self._guard,
            message_bytes_max=bytes_max,
            raw=RAW,
            parts=PARTS,
            whole_bytes_max=settings.message_bytes_max,
            connections=self.connections,
        )
        options = server_options(
            max(bytes_max, PART_BYTES_MAX),
            connections_max=settings.connections_max,
            watched=True,
        )
        server = open_server(edge, options)
        # Abstract to the type checker: it does not know the methods that the contract defines.
        servicer = RewardServicer(self._service, self._readers)  # type: ignore[abstract]
        reward_pb2_grpc.add_RewardServiceServicer_to_server(servicer, server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        names = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server)
        return server

    # -- health --------------------------------------------------------------------------------
    async def _watch_readiness(self) -> None:
        while True:
            await self._clock.sleep(READINESS_EVERY_S)
            await self._report_readiness()

    async def _watch_lag(self) -> None:
        """Sample at regular times, so that the share of late samples is that of late calls."""
        begun = -1
        while True:
            every_s = LAG_EVERY_S if self.calls or self._guard.begun != begun else LAG_ALONE_S
            begun = self._guard.begun
            due_ns = self._clock.monotonic_ns() + int(every_s * 1e9)
            await self._clock.sleep(every_s)
            self._on_lag(max(0, self._clock.monotonic_ns() - due_ns) / 1e9)

    async def _report_readiness(self) -> None:
        try:
            await self._readiness.ping()
        except AssayError as error:
            self._why_not_ready = error.message
            ready = False
        else:
            self._why_not_ready = ""
            ready = True
        serving = health_pb2.HealthCheckResponse
        status = serving.SERVING if ready else serving.NOT_SERVING
        for name in ("", SERVICE):
            await self._health.set(name, status)
