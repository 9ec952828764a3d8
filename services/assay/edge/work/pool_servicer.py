"""The port of a worker host that operators and planners call: `PoolService`, health and reflection
over gRPC. It knows the host by a protocol only, so that workers know no messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from assay.edge.connections.port import FrontedPort
from assay.edge.grpc_edge import GrpcEdge, Health, open_server, server_options
from assay.v1 import worker_pb2, worker_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Sequence

    import grpc

    from assay.config.access import TlsBranch
    from assay.core.ids import StageName
    from assay.edge.calls import CallGuard
    from assay.edge.clock import Clock

SERVICE: Final = worker_pb2.DESCRIPTOR.services_by_name["PoolService"].full_name
READINESS_EVERY_S: Final = 0.5
READY_EVERY_S: Final = 1.0
"""While it is ready."""
MESSAGE_BYTES_MAX: Final = 64 * 1024
STOP_S: Final = 1.0


class StartTimes(Protocol):
    """How long the latest slots took to start."""

    @property
    def measured(self) -> int:
        """Starts that were measured."""
        ...

    @property
    def p50_s(self) -> float:
        """Half of them took at most this long."""
        ...

    @property
    def p90_s(self) -> float:
        """Nine of ten took at most this long."""
        ...


class Pool(Protocol):
    """A stage's slots as of one instant."""

    @property
    def stage(self) -> StageName:
        """Whose slots these are."""
        ...

    @property
    def desired(self) -> int:
        """Size that was asked for."""
        ...

    @property
    def ready(self) -> int:
        """Slots that are idle or busy."""
        ...

    @property
    def busy(self) -> int:
        """Slots that hold a request."""
        ...

    @property
    def startup(self) -> StartTimes:
        """How long its latest slots took to start."""
        ...


class PoolHost(Protocol):
    """What this port needs of a worker host."""

    @property
    def sandbox_mode(self) -> str:
        """How untrusted code is isolated there."""
        ...

    @property
    def why_not_ready(self) -> str:
        """Why it takes no work; empty if it does."""
        ...

    def pools(self) -> Sequence[Pool]:
        """Return all stages."""
        ...

    def resize(self, stage: str, slots: int) -> Pool:
        """Set the size of a stage's pool.

        Raises:
            NotFound: this host does not serve the stage.
        """
        ...


class PoolServicer(worker_pb2_grpc.PoolServiceServicer):
    """Implements `PoolService` on the host."""

    def __init__(self, host: PoolHost, worker: str) -> None:
        self._host = host
        self._worker = worker

    async def ResizePool(  # noqa: N802 - the proto's names
        self, request: worker_pb2.ResizePoolRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> worker_pb2.ResizePoolResponse:
        """Set the size of a stage's pool."""
        del context
        state = self._host.resize(request.stage, request.slots)
        return worker_pb2.ResizePoolResponse(pool=_message(state))

    async def ListPools(  # noqa: N802
        self, request: worker_pb2.ListPoolsRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> worker_pb2.ListPoolsResponse:
        """Return all stages of this host."""
        del request, context
        return worker_pb2.ListPoolsResponse(
            pools=[_message(state) for state in self._host.pools()],
            sandbox_mode=self._host.sandbox_mode,
            worker=self._worker,
        )


def _message(state: Pool) -> worker_pb2.StagePool:
    return worker_pb2.StagePool(
        stage=state.stage,
        slots_desired=state.desired,
        slots_ready=state.ready,
        slots_busy=state.busy,
        starts_measured=state.startup.measured,
        startup_p50_s=state.startup.p50_s,
        startup_p90_s=state.startup.p90_s,
    )


class ControlServer:
    """Listens on the control port."""

    def __init__(self, host: PoolHost, *, worker: str, guard: CallGuard, clock: Clock) -> None:
        self._host = host
        self._clock = clock
        self._health = Health()
        self._reported: int | None = None
        self._port = FrontedPort(time_s=lambda: clock.monotonic_ns() / 1e9)
        edge = GrpcEdge(
            guard=guard, message_bytes_max=MESSAGE_BYTES_MAX, connections=self._port.connections
        )
        self._server = open_server(edge, server_options(MESSAGE_BYTES_MAX, watched=True))
        worker_pb2_grpc.add_PoolServiceServicer_to_server(PoolServicer(host, worker), self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)

    async def start(self, host: str, port: int, tls: TlsBranch) -> str:
        """Listen; returns the address.

        Raises:
            OSError: the port is taken.
        """
        await self._report()
        return await self._port.open(
            self._server, host, port, setting="worker.control_port", tls=tls
        )

    async def watch_readiness(self) -> None:
        """Keep the health service up to date; never returns."""
        while True:
            ready = await self._report()
            await self._clock.sleep(READY_EVERY_S if ready else READINESS_EVERY_S)

    async def _report(self) -> bool:
        statuses = health_pb2.HealthCheckResponse
        ready = not self._host.why_not_ready
        status = statuses.SERVING if ready else statuses.NOT_SERVING
        if status != self._reported:
            self._reported = status
            for name in ("", SERVICE):
                await self._health.set(name, status)
        return ready

    async def drain(self) -> None:
        """Report that the host takes no more work."""
        await self._health.enter_graceful_shutdown()

    async def stop(self) -> None:
        """Close all connections."""
        await self._port.stop(self._server, STOP_S)
