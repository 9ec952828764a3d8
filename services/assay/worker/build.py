"""Builds the worker host; the only module that imports every concrete class."""

import asyncio
import os
import secrets
import shutil
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import structlog

import assay
from assay.config.computed import computed_dir
from assay.config.environment import SettingError
from assay.config.ready_files import Part, ready_file
from assay.config.settings import Settings, WorkerSettings
from assay.core.hosts.record import CORES_MAX, HostRecord
from assay.core.ids import PipelineName, StageName, WorkerId
from assay.core.pipeline import followers
from assay.edge import lifecycle
from assay.edge.access.audit import open_audit
from assay.edge.auth import Operator, in_url, refuse_open_listener
from assay.edge.calls import CallGuard
from assay.edge.clock import Clock
from assay.edge.door import Door, DoorLimits
from assay.edge.metrics import Metrics, open_metrics
from assay.edge.probes import Probes
from assay.edge.tracing import NoTracer, Tracer
from assay.edge.work.credential import PoolCallers, new_credential
from assay.edge.work.pool_servicer import ControlServer
from assay.edge.work.store import RemoteStore
from assay.edge.work.token_files import TokenFiles
from assay.sandbox.probe import require_isolation
from assay.store.fitness import until_fit, watch_fitness
from assay.store.port import WorkerStore
from assay.store.valkey import open_store
from assay.verifiers.named_stages import for_worker
from assay.verifiers.port import PipelineDefinition, StageDefinition
from assay.verifiers.registry import load_pipelines, stages_of
from assay.verifiers.version import Versions
from assay.worker.artifacts.broker import ArtifactBroker
from assay.worker.artifacts.cache import ArtifactCache
from assay.worker.forking.client import ForkServers
from assay.worker.forking.roots import environment_for_slots
from assay.worker.host import BackgroundTasks, HostSettings, WorkerHost
from assay.worker.membership import Life, Membership
from assay.worker.parts import HostParts
from assay.worker.reuse import ReusePolicy
from assay.worker.slots.main import SlotSettings
from assay.worker.store_health import StoreHealth
from assay.worker.supervisor import Supervisor

CALLS_MAX: Final = 64
CALLS_BYTES_MAX: Final = 16 * 1024**2

NO_SANDBOX: Final = "unused"
"""The mode of a host whose stages run no untrusted code."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerService:
    """The host, its listeners and its store."""

    settings: Settings
    store: WorkerStore
    host: WorkerHost
    control: ControlServer
    probes: Probes
    tasks: BackgroundTasks
    scratch: Path
    worker: WorkerId
    membership: Membership
    forks: ForkServers
    credential: str = field(repr=False)
    """Of its pool service; planners find it in the host's record."""

    async def start(self) -> Mapping[str, str]:
        """Start slots and listen; returns the addresses."""
        worker = self.settings.worker
        self.tasks.spawn(self.forks.warm(), name="warm fork server")
        self.host.start()
        control = await self.control.start(
            worker.control_host, worker.control_port, self.settings.operator
        )
        http = await self.probes.start(worker.control_host, worker.http_port)
        self.tasks.spawn(self.control.watch_readiness(), name="readiness")
        addresses = {
            "control": control,
            "http": f"{in_url(worker.control_host)}:{http}",
        }
        log.info("listening", **addresses)
        self.membership.begin(
            host_record(
                worker, self.worker, self.host, control=control, credential=self.credential
            ),
            busy=lambda: sum(pool.busy for pool in self.host.pools()),
        )
        return addresses

    async def stop(self) -> None:
        """Drain, stop, close the store."""
        self.host.begin_drain()  # before the first wait: what waits here may take seconds
        await self.control.drain()
        await self.membership.leave()
        await self.host.stop()
        self.membership.end()
        await self.control.stop()
        await self.probes.stop()
        await self.store.close()
        await asyncio.to_thread(shutil.rmtree, self.scratch, ignore_errors=True)
        log.info("stopped")

    async def run(self) -> None:
        """Serve until stopped by a signal.

        Raises:
            HostFailed: a bug; it is in the log.
        """
        with lifecycle.stop_on_signals() as stop:
            try:
                await until_fit(self.store, wait_s=self.settings.store.start_wait_s)
                with lifecycle.starting():
                    addresses = await self.start()
                self.tasks.spawn(self._watch_store(), name="store fitness")
                with lifecycle.listening(
                    ready_file(self.settings.data_dir, Part.WORKER), addresses
                ):
                    await self.host.run(stop)
            finally:
                await self.stop()

    async def _watch_store(self) -> None:
        async for why in watch_fitness(self.store):
            self.host.store_unfit = why


def build(
    settings: Settings,
    *,
    store: WorkerStore | None = None,
    pipelines: Mapping[PipelineName, PipelineDefinition] | None = None,
    clock: Clock | None = None,
    tracer: Tracer | None = None,
    metrics: Metrics | None = None,
) -> WorkerService:
    """Build the host from the settings; called inside the event loop that will run it.

    Raises:
        NotFound: `worker.stages` or `worker.slots_by_stage` names a stage that no pipeline has.
        IsolationUnavailable: a stage runs untrusted code and this machine cannot isolate it.
        OpenToAllError: it would listen on the network without requiring a token.
    """
    operator = Operator(settings.operator)
    _check_listener(settings, operator)
    clock = clock or Clock()
    known = load_pipelines(settings.verifiers) if pipelines is None else pipelines
    settings = for_worker(settings, stages_of(known))
    stages = served_stages(settings.worker, stages_of(known))
    scratch = settings.data_dir / "scratch" / str(os.getpid())
    forks = _forks(settings, scratch)
    with forks.begun(stages_awake(settings.worker, known) & stages.keys()):
        mode = _sandbox_mode(settings, stages, clock)  # a trial takes as long as its imports
    worker = WorkerId(f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(2)}")
    store = store or work_store(settings, worker, clock)
    metrics = metrics or open_metrics(settings.data_dir, settings.telemetry.otlp_endpoint)
    metrics.sandbox_seen(mode=mode)
    shared = _Shared(
        store=store,
        health=StoreHealth(clock),
        clock=clock,
        metrics=metrics,
        tasks=BackgroundTasks(),
        scratch=scratch,
        tracer=tracer,
        pipelines=known,
        reuse=ReusePolicy(known),
    )
    versions = Versions(known, settings.verifiers, now_s=lambda: clock.monotonic_ns() / 1e9)
    host = _host(settings, stages, mode, shared, versions, worker, forks)
    credential = new_credential()
    guard = _guard(settings, operator, credential, clock, metrics)
    return WorkerService(
        settings=settings,
        store=store,
        host=host,
        control=ControlServer(host, worker=worker, guard=guard, clock=clock),
        probes=Probes(
            why_not_ready=lambda: host.why_not_ready, registry=metrics.registry, operator=operator
        ),
        tasks=shared.tasks,
        scratch=scratch,
        worker=worker,
        membership=_membership(settings, list(stages), shared, worker),
        forks=forks,
        credential=credential,
    )


def _membership(
    settings: Settings, stages: Sequence[StageName], shared: "_Shared", worker: WorkerId
) -> Membership:
    return Membership(
        store=shared.store,
        stages=stages,
        life=Life(settings.data_dir / "run" / "worker.life", worker),
        attempts_max=settings.store.attempts_max,
        clock=shared.clock,
        metrics=shared.metrics,
    )


def work_store(settings: Settings, worker: WorkerId, clock: Clock) -> WorkerStore:
    """Where work comes from: the store, or the API for a host without access to it.

    Raises:
        SettingError: `worker.api` names no address; a certificate without its key.
        OSError: a file of TLS cannot be read.
    """
    own = settings.worker
    if not own.api:
        return open_store(settings.store, data_dir=settings.data_dir)
    addresses = [one.strip() for one in own.api.split(",") if one.strip()]
    if not addresses:
        raise SettingError("worker.api: not an address")
    if (own.api_certificate is None) != (own.api_key is None):
        raise SettingError("worker.api_certificate and worker.api_key: set both, or neither")
    kept = settings.data_dir / "run" / "worker.token"
    return RemoteStore(
        addresses,
        worker=worker,
        tokens=TokenFiles(own.api_token_file, kept),
        authority=None if own.api_ca is None else own.api_ca.read_bytes(),
        identity=_identity(own),
        clock=clock,
    )


def _identity(own: WorkerSettings) -> tuple[bytes, bytes] | None:
    """Key and certificate that are shown to the API."""
    if own.api_certificate is None or own.api_key is None:
        return None
    return own.api_key.read_bytes(), own.api_certificate.read_bytes()


def host_record(
    settings: WorkerSettings,
    worker: WorkerId,
    host: WorkerHost,
    *,
    control: str,
    credential: str,
) -> HostRecord:
    """A host's record.

    Args:
        settings: `address` says how planners reach it, if not as it listens.
        worker: owner of its leases.
        host: for its stages.
        control: where its pool service listens.
        credential: what its pool service accepts.
    """
    listens, _, port = control.rpartition(":")
    if listens in {"0.0.0.0", "[::]"}:  # noqa: S104 compared, not listened on
        control = f"{socket.gethostname()}:{port}"
    return HostRecord(
        worker=worker,
        address=settings.address or control,
        stages=tuple(pool.stage for pool in host.pools()),
        cores=min(len(os.sched_getaffinity(0)), CORES_MAX),
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        slots_max=settings.slots_max,
        credential=credential,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared:
    """What the host and each of its supervisors are given."""

    store: WorkerStore
    health: StoreHealth
    clock: Clock
    metrics: Metrics
    tasks: BackgroundTasks
    scratch: Path
    tracer: Tracer | None
    pipelines: Mapping[PipelineName, PipelineDefinition]
    reuse: ReusePolicy


def _forks(settings: Settings, scratch: Path) -> ForkServers:
    return ForkServers(
        SlotSettings(
            sandbox=settings.sandbox,
            verifiers=settings.verifiers,
            scratch=scratch,
            shared=settings.data_dir / "shared",
            computed=computed_dir(assay.__path__, os.environ),
        ),
        environment=environment_for_slots(os.environ, settings.worker.environment),
    )


def _host(
    settings: Settings,
    stages: Mapping[StageName, StageDefinition],
    mode: str,
    shared: _Shared,
    versions: Versions,
    worker: WorkerId,
    forks: ForkServers,
) -> WorkerHost:
    """Build the host with one supervisor per stage; they refer to each other."""
    supervisors: dict[StageName, Supervisor] = {}
    host = WorkerHost(
        settings=host_settings(settings.worker, stages, shared.pipelines, mode),
        supervisors=supervisors,
        store=shared.store,
        health=shared.health,
        forks=forks,
        clock=shared.clock,
        metrics=shared.metrics,
        tasks=shared.tasks,
    )
    cache = ArtifactCache(
        settings.data_dir / "artifacts", bytes_max=settings.worker.artifact_cache_bytes_max
    )
    parts = HostParts(
        store=shared.store,
        health=shared.health,
        clock=shared.clock,
        forks=forks,
        broker=ArtifactBroker(store=shared.store, cache=cache, metrics=shared.metrics),
        metrics=shared.metrics,
        tracer=shared.tracer,
        worker=worker,
        attempts_max=settings.store.attempts_max,
        scratch=shared.scratch,
        spawn=shared.tasks.spawn,
        on_wanting=host.on_wanting,
        version_of=versions.of,
        pipelines=shared.pipelines,
        reuse=shared.reuse,
        slots_on_demand=settings.worker.slots,
    )
    supervisors.update({name: Supervisor(stage, parts) for name, stage in stages.items()})
    return host


def _check_listener(settings: Settings, operator: Operator) -> None:
    refuse_open_listener(
        settings.worker.control_host,
        operator,
        setting="worker.control_host",
        needs="operator.token",
        allow=settings.operator.allow_open_ports,
    )


def _guard(
    settings: Settings, operator: Operator, credential: str, clock: Clock, metrics: Metrics
) -> CallGuard:
    limits = DoorLimits(calls_max=CALLS_MAX, streams_max=CALLS_MAX, bytes_max=CALLS_BYTES_MAX)
    return CallGuard(
        callers=PoolCallers(operator, credential),
        door=Door(limits),
        clock=clock,
        tracer=NoTracer(),
        on_call=metrics.api_called,
        audit=open_audit(settings, "worker", asks=operator.ask_for_token, clock=clock),
    )


def served_stages(
    settings: WorkerSettings, known: Mapping[StageName, StageDefinition]
) -> Mapping[StageName, StageDefinition]:
    """The stages that the settings name, or all."""
    return {name: known[name] for name in map(StageName, settings.stages)} or known


def _sandbox_mode(
    settings: Settings, stages: Mapping[StageName, StageDefinition], clock: Clock
) -> str:
    if any(stage.runs_untrusted_code for stage in stages.values()):
        return require_isolation(settings.sandbox, clock).mode
    return NO_SANDBOX


def stages_awake(
    settings: WorkerSettings, pipelines: Mapping[PipelineName, PipelineDefinition]
) -> frozenset[StageName]:
    """The stages of `pipelines_awake`, whose slots start with the host."""
    return frozenset(
        stage
        for pipeline in pipelines.values()
        if pipeline.spec.name in settings.pipelines_awake
        for stage in pipeline.spec.stages
    )


def host_settings(
    settings: WorkerSettings,
    stages: Mapping[StageName, StageDefinition],
    pipelines: Mapping[PipelineName, PipelineDefinition],
    mode: str,
) -> HostSettings:
    """Slots at the start, and what else a host goes by."""
    awake = stages_awake(settings, pipelines)
    for name in settings.pipelines_awake:
        if name not in pipelines:
            log.warning("pipeline_unknown", pipeline=name, setting="worker.pipelines_awake")
    return HostSettings(
        slots={
            name: settings.slots_at_start(name, on_demand=one.spec.on_demand and name not in awake)
            for name, one in stages.items()
        },
        slots_max=settings.slots_max,
        drain_s=settings.drain_s,
        reap_every_s=settings.reap_every_s,
        sandbox_mode=mode,
        followers=followers(one.spec for one in pipelines.values()),
    )
