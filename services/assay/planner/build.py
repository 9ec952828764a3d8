"""Builds the planner; the only module here that knows every concrete class."""

import asyncio
import os
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Protocol

import structlog

from assay.config.access import OperatorSettings
from assay.config.environment import SettingError
from assay.config.ready_files import Part, ready_file
from assay.config.settings import PlannerSettings, Settings
from assay.core.ids import PipelineName, StageName, WorkerId
from assay.edge import lifecycle
from assay.edge.access.audit import Audit, open_audit
from assay.edge.auth import Operator, refuse_open_listener, refuse_open_port
from assay.edge.calls import CallGuard
from assay.edge.clock import Clock
from assay.edge.door import Door, DoorLimits
from assay.edge.metrics import Metrics, open_metrics
from assay.edge.tracing import NoTracer, Tracer
from assay.model.stage_order import in_pipeline_order
from assay.planner.process.parent import PlanningProcess
from assay.planner.service.controller import Controller, LimitsOf
from assay.planner.service.hosts import (
    TIMEOUT_S,
    CostOf,
    Costs,
    HostsScaler,
    LocalHost,
    PerStage,
)
from assay.planner.service.leader import LeaderLease
from assay.planner.service.scaler import Scaler
from assay.planner.service.server import PlannerServer
from assay.planner.service.stage_limits import stage_limits
from assay.planner.session.messages import Machine, PoolState, StageLimits
from assay.store.fitness import until_fit, watch_fitness
from assay.store.port import Store
from assay.store.valkey import open_store
from assay.verifiers.named_stages import for_planner
from assay.verifiers.port import PipelineDefinition
from assay.verifiers.registry import load_pipelines, stages_of

CALLS_MAX: Final = 64
CALLS_BYTES_MAX: Final = 16 * 1024**2
KEDA_CALLS_MAX: Final = 512
"""As many of either kind, a stage's stream among them."""

Pipelines = Mapping[PipelineName, PipelineDefinition]

log = structlog.get_logger(__name__)


class Listener(Protocol):
    """Something else that listens beside the planner's own service."""

    async def start(self) -> str:
        """Listen; returns the address."""

    async def stop(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerService:
    """The planner, its listeners and its store."""

    settings: Settings
    store: Store
    controller: Controller
    server: PlannerServer
    keda: Listener | None = None
    """KEDA's external scaler, where KEDA sizes the pools."""

    async def run(self) -> None:
        """Serve until a signal stops it.

        Raises:
            ExceptionGroup: a bug; it is in the log.
        """
        with lifecycle.stop_on_signals() as stop:
            await until_fit(self.store, wait_s=self.settings.store.start_wait_s)
            with lifecycle.starting():
                addresses = dict(await self.server.start())
                if self.keda is not None:
                    addresses["keda"] = await self.keda.start()
            log.info("listening", **addresses)
            try:
                with lifecycle.listening(
                    ready_file(self.settings.data_dir, Part.PLANNER), addresses
                ):
                    await self.work(stop)
            finally:
                await self.stop()

    async def work(self, stop: asyncio.Event) -> None:
        """Plan until `stop` is set.

        Raises:
            ExceptionGroup: a bug.
        """
        jobs = [
            asyncio.create_task(self.controller.run(), name="planner"),
            asyncio.create_task(self.server.watch_readiness(), name="readiness"),
            asyncio.create_task(self._watch_store(), name="store fitness"),
        ]
        stopping = asyncio.create_task(stop.wait(), name="stop")
        try:
            done, _ = await asyncio.wait((*jobs, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for job in (*jobs, stopping):
                job.cancel()
            await asyncio.gather(*jobs, stopping, return_exceptions=True)
        for job in done:
            job.result()

    async def _watch_store(self) -> None:
        async for why in watch_fitness(self.store):
            self.controller.store_unfit = why

    async def stop(self) -> None:
        """Change no more pools, give up the lease, close connections."""
        log.info("draining")
        await self.controller.stop()
        if self.keda is not None:
            await self.keda.stop()
        await self.server.stop()
        await self.store.close()
        log.info("stopped")


def build(
    settings: Settings,
    *,
    store: Store | None = None,
    scaler: Scaler | None = None,
    pipelines: Pipelines | None = None,
    clock: Clock | None = None,
    tracer: Tracer | None = None,
    metrics: Metrics | None = None,
) -> PlannerService:
    """Build the planner from the settings; called inside the event loop that will run it.

    Raises:
        OpenToAllError: it would listen on the network without a token.
        SettingError: see `scaler_of`.
    """
    refuse_open_listener(
        settings.planner.host,
        operator := Operator(settings.operator),
        setting="planner.host",
        needs="operator.token",
        allow=settings.operator.allow_open_ports,
    )
    clock = clock or Clock()
    store = store or open_store(settings.store, data_dir=settings.data_dir)
    metrics = metrics or open_metrics(settings.data_dir, settings.telemetry.otlp_endpoint)
    pools = scaler or scaler_of(settings, store, clock, metrics, pipelines)
    controller = Controller(
        store=store,
        scaler=pools,
        lease=lease_of(settings.planner, store, clock),
        process=PlanningProcess(settings.planner, clock=clock, metrics=metrics),
        limits_of=limits_of(settings, pipelines),
        history_batches=settings.planner.history_batches,
        clock=clock,
        metrics=metrics,
    )
    _connect(pools, controller)
    server = PlannerServer(
        controller=controller,
        store=store,
        guard=call_guard(
            operator,
            clock,
            tracer or NoTracer(),
            metrics,
            audit=open_audit(settings, "planner", asks=operator.ask_for_token, clock=clock),
        ),
        operator=operator,
        settings=settings.planner,
        clock=clock,
        metrics=metrics,
    )
    keda = keda_server(settings.planner, pools, controller, clock=clock, metrics=metrics)
    return PlannerService(
        settings=settings, store=store, controller=controller, server=server, keda=keda
    )


def _connect(scaler: Scaler, controller: Controller) -> None:
    """A host that comes or goes is a reason to plan."""
    if isinstance(scaler, HostsScaler):
        scaler.on_change = controller.look_again


def lease_of(planner: PlannerSettings, store: Store, clock: Clock) -> LeaderLease:
    """This planner's part in who leads."""
    name = this_process(planner)
    return LeaderLease(store, planner=name, lease_s=planner.lease_s, clock=clock)


def this_process(planner: PlannerSettings) -> str:
    """A name unique to this process, for the leader's lease; behind a space, where its KEDA port
    is reached."""
    address = planner.kubernetes.keda_address if planner.scaler == "keda" else ""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)} {address}".strip()


def call_guard(
    operator: Operator,
    clock: Clock,
    tracer: Tracer,
    metrics: Metrics,
    *,
    audit: Audit | None = None,
) -> CallGuard:
    """Guard that authenticates callers and limits concurrent calls."""
    limits = DoorLimits(calls_max=CALLS_MAX, streams_max=CALLS_MAX, bytes_max=CALLS_BYTES_MAX)
    return CallGuard(
        callers=operator,
        door=Door(limits),
        clock=clock,
        tracer=tracer,
        on_call=metrics.api_called,
        audit=audit,
    )


def keda_guard(clock: Clock, metrics: Metrics) -> CallGuard:
    """The same for KEDA's port: KEDA shows no token, so all who may connect are one caller."""
    day_s = 86_400.0  # it streams one word per change of a plan
    limits = DoorLimits(
        calls_max=KEDA_CALLS_MAX,
        streams_max=KEDA_CALLS_MAX,
        bytes_max=CALLS_BYTES_MAX,
        stream_idle_s_max=day_s,
        stream_s_max=day_s,
    )
    return CallGuard(
        callers=Operator(OperatorSettings()),
        door=Door(limits),
        clock=clock,
        tracer=NoTracer(),
        on_call=metrics.api_called,
    )


def scaler_of(
    settings: Settings,
    store: Store,
    clock: Clock,
    metrics: Metrics,
    pipelines: Pipelines | None = None,
) -> Scaler:
    """The scaler that the settings name.

    Raises:
        SettingError: it needs the extra `kubernetes`, or no Deployment is named.
    """
    planner = settings.planner
    if planner.scaler == "local":
        return hosts_scaler(
            settings, store=store, clock=clock, pipelines=pipelines, on_doubt=metrics.hosts_doubted
        )
    if not planner.kubernetes.deployments and not planner.kubernetes.warm_pools:
        message = f"planner.kubernetes.deployments: planner.scaler={planner.scaler} sizes these"
        raise SettingError(message)
    try:
        from assay.planner.kubernetes.doubts import PodDoubts
        from assay.planner.kubernetes.hosts import PodHosts
        from assay.planner.kubernetes.keda import KedaScaler
        from assay.planner.kubernetes.scaler import KubernetesScaler
    except ImportError as error:
        message = f"planner.scaler={planner.scaler} needs assay[kubernetes]: {error}"
        raise SettingError(message) from error

    async def running(stages: Sequence[StageName]) -> Mapping[StageName, int]:
        return {depth.stage: depth.running for depth in await store.depths(stages)}

    doubts = PodDoubts(
        store,
        timeout_of=timeout_of(settings, pipelines),
        on_doubt=metrics.hosts_doubted,
    )
    kind = KedaScaler if planner.scaler == "keda" else KubernetesScaler
    return kind(
        planner.kubernetes,
        running=running,
        clock=clock,
        metrics=metrics,
        hosts=PodHosts(store, attempts_max=settings.store.attempts_max, doubts=doubts),
    )


def keda_server(
    settings: PlannerSettings,
    scaler: Scaler,
    controller: Controller,
    *,
    clock: Clock,
    metrics: Metrics,
) -> Listener | None:
    """KEDA's door, where KEDA sizes the pools.

    Raises:
        OpenToAllError: anyone could call it.
    """
    if settings.scaler != "keda":
        return None
    kubernetes = settings.kubernetes
    refuse_open_port(
        settings.host,
        asks=kubernetes.tls_client_ca is not None,
        setting="planner.host",
        needs="planner.kubernetes.tls_client_ca",
        allow=kubernetes.keda_open,
    )
    from assay.planner.kubernetes.keda import (
        ExternalScaler,
        KedaScaler,
        KedaServer,
        Leader,
    )

    if not isinstance(scaler, KedaScaler):
        return None
    leader = Leader(
        is_here=lambda: controller.leading,
        address=lambda: controller.leader.partition(" ")[2],
        tls=kubernetes,
        server_name=kubernetes.keda_server_name,
    )
    servicer = ExternalScaler(scaler, leader)
    return KedaServer(
        servicer,
        guard=keda_guard(clock, metrics),
        time_s=lambda: clock.monotonic_ns() / 1e9,
        host=settings.host,
        port=kubernetes.keda_port,
        tls=kubernetes,
    )


def hosts_scaler(
    settings: Settings,
    *,
    store: Store,
    clock: Clock,
    pipelines: Pipelines | None,
    on_doubt: Callable[[StageName, int], None] = lambda *_: None,
) -> HostsScaler:
    """Scaler for all worker hosts."""
    worker = settings.worker
    known = load_pipelines(settings.verifiers) if pipelines is None else pipelines
    specs = {name: one.spec for name, one in stages_of(known).items()}
    cores = {name: spec.resources.cpu_cores for name, spec in specs.items()}
    return HostsScaler(
        store,
        local=LocalHost(
            ready_file=ready_file(settings.data_dir, Part.WORKER),
            fallback=f"{worker.control_host}:{worker.control_port}",
        ),
        operator=Operator(settings.operator),
        costs=Costs(
            cores_of=lambda stage: cores.get(stage, 1.0),
            timeout_of=timeout_of(settings, known),
            core_cost_of=core_cost_of(settings.planner.core_cost_by_host),
            core_cost=settings.planner.core_cost,
        ),
        attempts_max=settings.store.attempts_max,
        clock=clock,
        on_doubt=on_doubt,
    )


def timeout_of(settings: Settings, pipelines: Pipelines | None) -> PerStage:
    """Time-out of each stage, in seconds."""
    known = load_pipelines(settings.verifiers) if pipelines is None else pipelines
    timeouts = {name: one.spec.timeout_s for name, one in stages_of(known).items()}
    return lambda stage: timeouts.get(stage, TIMEOUT_S)


def core_cost_of(by_host: Mapping[str, float]) -> CostOf:
    """The cost of the first pattern that a host's name matches."""

    def found(worker: WorkerId) -> float | None:
        matching = (cost for pattern, cost in by_host.items() if fnmatchcase(worker, pattern))
        return next(matching, None)

    return found


def limits_of(settings: Settings, pipelines: Pipelines | None) -> LimitsOf:
    """Map pools to the limits of their stages."""
    known = load_pipelines(settings.verifiers) if pipelines is None else pipelines
    order = in_pipeline_order(pipeline.spec.stages for pipeline in known.values())
    specs = {name: stage.spec for name, stage in stages_of(known).items()}
    settings = for_planner(settings, stages_of(known))
    machine = this_machine()

    def found(pools: Sequence[PoolState]) -> tuple[StageLimits, ...]:
        return stage_limits(pools, order, specs, settings.planner, settings.worker, machine)

    return found


def this_machine() -> Machine:
    """Cores and memory of this machine."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Machine(cores=len(os.sched_getaffinity(0)), memory_bytes=memory_bytes)
