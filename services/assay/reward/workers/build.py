"""Builds the port of workers without access to the store."""

from collections.abc import Mapping
from typing import Final

from assay.config.settings import Settings
from assay.core.ids import PipelineName
from assay.edge.access.audit import open_audit
from assay.edge.auth import SEVERAL
from assay.edge.calls import CallGuard
from assay.edge.clock import Clock
from assay.edge.door import Door, DoorLimits
from assay.edge.metrics import Metrics
from assay.edge.tracing import NoTracer
from assay.edge.work.tokens import WorkerCallers
from assay.reward.workers.gateway import WorkGateway
from assay.reward.workers.listener import WorkListener
from assay.store.port import Store
from assay.verifiers.port import PipelineDefinition
from assay.verifiers.registry import load_pipelines, stages_of

BYTES_IN_FLIGHT_MAX: Final = 256 * 1024**2
"""Bytes of workers' messages, received and not yet stored; artifacts are the largest."""


def open_work_port(
    settings: Settings,
    store: Store,
    pipelines: Mapping[PipelineName, PipelineDefinition] | None,
    clock: Clock,
    metrics: Metrics,
) -> WorkListener | None:
    """The port, where a key for the tokens of workers is set.

    Raises:
        ValueError: the keys cannot be read.
    """
    reward = settings.reward
    if reward.worker_key_file is None:
        return None
    callers = WorkerCallers(reward.worker_key_file, clock)
    limits = DoorLimits(
        calls_max=reward.worker_calls_concurrent_max,
        streams_max=1,
        bytes_max=max(reward.bytes_in_flight_max, BYTES_IN_FLIGHT_MAX),
        tenants=SEVERAL,
    )
    guard = CallGuard(
        callers=callers,
        door=Door(limits),
        clock=clock,
        tracer=NoTracer(),
        on_call=metrics.api_called,
        audit=open_audit(settings, "workers", asks=True, clock=clock),
    )
    known = load_pipelines(settings.verifiers) if pipelines is None else pipelines
    gateway = WorkGateway(
        store=store,
        pipelines=known,
        stages=stages_of(known),
        keys=lambda: callers.keys,
        token_s=reward.worker_token_s,
        attempts_max=settings.store.attempts_max,
        clock=clock,
        waits_max=reward.worker_calls_concurrent_max * 3 // 4,
        on_completed=lambda one: metrics.batch_completed(one.batch, slack_s=one.slack_ms / 1e3),
    )
    return WorkListener(
        gateway=gateway,
        guard=guard,
        settings=reward,
        artifact_bytes_max=settings.store.artifact_bytes_max,
        time_s=lambda: clock.monotonic_ns() / 1e9,
    )
