"""Builds the reward service; the only module here that knows every concrete class."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import structlog
from fastapi import FastAPI

from assay.config.ready_files import Part, ready_file
from assay.config.settings import RewardSettings, Settings
from assay.console import build as console_build
from assay.console.build import Console
from assay.console.viewer import ConsoleCallers
from assay.core.ids import PipelineName
from assay.edge import lifecycle
from assay.edge.access.audit import open_audit
from assay.edge.auth import (
    MetricsReader,
    Operator,
    Tenants,
    refuse_open_listener,
    warn_clear_tokens,
)
from assay.edge.calls import CallGuard
from assay.edge.clock import Clock
from assay.edge.door import Door, DoorLimits
from assay.edge.http_edge import make_routes
from assay.edge.metrics import Metrics, open_metrics
from assay.edge.tracing import NoTracer, Tracer
from assay.reward.endpoints.ors_sessions import StoreShelf
from assay.reward.http import build_app
from assay.reward.readers import Readers
from assay.reward.server import Addresses, Readiness, RewardServer
from assay.reward.service import RewardService
from assay.reward.workers.build import open_work_port
from assay.reward.workers.listener import WorkListener
from assay.reward.workers.scopes import ArtifactScopes, KeptReports
from assay.store.fitness import until_fit
from assay.store.port import Store
from assay.store.valkey import open_store
from assay.verifiers.port import PipelineDefinition
from assay.verifiers.registry import load_pipelines

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardApi:
    """The service, its listeners and its store."""

    settings: Settings
    store: Store
    server: RewardServer
    console: Console | None
    workers: WorkListener | None = None
    """Where hosts without access to the store ask for work."""

    async def start(self) -> Addresses:
        """Open the ports; calls are served from now on."""
        addresses = await self.server.start()
        if self.workers is not None:
            addresses = replace(addresses, workers=await self.workers.start())
        log.info("listening", **addresses.as_mapping())
        return addresses

    async def stop(self) -> None:
        """Drain, stop, close the store."""
        if self.workers is not None:
            await self.workers.stop()
        if self.console is not None:
            await self.console.stop()
        await self.server.stop()
        if self.console is not None:
            await self.console.close()
        await self.store.close()
        log.info("stopped")

    async def run(self) -> None:
        """Serve until a signal stops it."""
        with lifecycle.stop_on_signals() as stop:
            await until_fit(self.store, wait_s=self.settings.store.start_wait_s)
            with lifecycle.starting():
                addresses = await self.start()
            ready = ready_file(self.settings.data_dir, Part.REWARD)
            try:
                with lifecycle.listening(ready, addresses.as_mapping()):
                    async with lifecycle.collecting(lambda: self.server.calls):
                        await stop.wait()
            finally:
                await self.stop()


def build(
    settings: Settings,
    *,
    store: Store | None = None,
    pipelines: Mapping[PipelineName, PipelineDefinition] | None = None,
    clock: Clock | None = None,
    tracer: Tracer | None = None,
    metrics: Metrics | None = None,
) -> RewardApi:
    """Build the API from the settings; tests pass their own parts.

    Raises:
        OpenToAllError: it would listen on the network without requiring tokens.
        ValueError: a tenant is misconfigured.
    """
    reward = settings.reward
    clock = clock or Clock()
    tenants = Tenants.of(reward, clock)
    operator = Operator(settings.operator, clock)
    _check_listener(settings, tenants)
    store = store or open_store(settings.store, data_dir=settings.data_dir)
    metrics = metrics or open_metrics(settings.data_dir, settings.telemetry.otlp_endpoint)
    door = Door(_limits(reward, tenants.count), count=lambda: tenants.count)
    audit = open_audit(settings, "reward", asks=tenants.ask_for_token, clock=clock)
    pipelines = load_pipelines(settings.verifiers) if pipelines is None else pipelines
    traced = partial(CallGuard, tracer=tracer or NoTracer(), on_call=metrics.api_called)
    guard_of = partial(traced, door=door, clock=clock, audit=audit)
    guard = guard_of(callers=tenants)
    paced = _is_paced(reward, tenants)
    service = _service(reward, store, pipelines, clock, metrics, door=door, paced=paced)
    readers = _readers(settings, tenants, metrics)
    readiness = Readiness(store, metrics)
    app = build_app(
        service,
        readers=readers,
        guard=guard,
        ping=readiness.ping,
        registry=metrics.registry,
        metrics_reader=MetricsReader(operator, tenants),
        body_bytes_max=reward.message_bytes_max,
        kept=KeptReports(store.artifact_get, ArtifactScopes(pipelines)),
        shelf=StoreShelf(store, clock),
        settings=reward,
    )
    viewers = guard_of(callers=ConsoleCallers(tenants, operator))
    console = _console(settings, store, pipelines, operator, viewers, clock)
    _complete(app, console)
    server = RewardServer(
        service=service,
        readers=readers,
        app=app,
        guard=guard,
        readiness=readiness,
        settings=reward,
        clock=clock,
        on_lag=metrics.loop_lagged,
    )
    api = RewardApi(settings=settings, store=store, server=server, console=console)
    return _with_work_port(api, pipelines, clock, metrics)


def _with_work_port(
    api: RewardApi,
    pipelines: Mapping[PipelineName, PipelineDefinition],
    clock: Clock,
    metrics: Metrics,
) -> RewardApi:
    workers = open_work_port(api.settings, api.store, pipelines, clock, metrics)
    return replace(api, workers=workers)


def _check_listener(settings: Settings, tenants: Tenants) -> None:
    reward = settings.reward
    refuse_open_listener(
        reward.host,
        tenants,
        setting="reward.host",
        needs="reward.tenants",
        allow=settings.operator.allow_open_ports,
    )
    warn_clear_tokens(reward.host, reward.tls_certificate, part="reward")


def _service(
    reward: RewardSettings,
    store: Store,
    pipelines: Mapping[PipelineName, PipelineDefinition],
    clock: Clock,
    metrics: Metrics,
    *,
    door: Door,
    paced: bool,
) -> RewardService:
    return RewardService(
        store=store,
        pipelines=pipelines,
        settings=reward,
        clock=clock,
        metrics=metrics,
        new_id=lambda: secrets.token_hex(16),
        pace=door.pace_requests if paced else None,
        turn=door.turn_to_answer,
    )


def _complete(app: FastAPI, console: Console | None) -> None:
    """Give the application its last routes."""
    if console is not None:
        console.install(app)
    make_routes(app)


def _console(
    settings: Settings,
    store: Store,
    pipelines: Mapping[PipelineName, PipelineDefinition],
    operator: Operator,
    guard: CallGuard,
    clock: Clock,
) -> Console | None:
    if not settings.reward.console:
        return None
    return console_build.build(
        settings,
        store=store,
        stages=(stage for each in pipelines.values() for stage in each.spec.stages),
        operator=operator,
        guard=guard,
        clock=clock,
    )


def _readers(settings: Settings, tenants: Tenants, metrics: Metrics) -> Readers:
    return Readers(
        settings.reward,
        settings.verifiers,
        tenants=tenants.count,
        on_replaced=partial(metrics.part_replaced, part="reader", reason="died"),
    )


def _is_paced(reward: RewardSettings, tenants: Tenants) -> bool:
    """Whether requests are stored at a rate: of several tenants, and of one with a rate."""
    own = any(tenant.requests_per_s_max for tenant in reward.tenants.values())
    return own or tenants.count > 1


def _limits(reward: RewardSettings, tenants: int) -> DoorLimits:
    return DoorLimits(
        calls_max=reward.calls_concurrent_max,
        streams_max=reward.streams_concurrent_max,
        bytes_max=reward.bytes_in_flight_max,
        tenants=tenants,
        tenant_share=reward.tenant_share_max,
        tenant_calls_per_s=reward.tenant_calls_per_s_max,
        tenant_bytes_per_s=reward.tenant_bytes_per_s_max,
        tenant_requests_per_s=reward.tenant_requests_per_s_max,
        body_s_max=reward.body_s_max,
        stream_idle_s_max=reward.stream_idle_s_max,
        stream_s_max=reward.stream_s_max,
    )
