"""Objects that the stages of a host share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from assay.core.ids import PipelineName, StageName, WorkerId
from assay.edge.clock import Clock
from assay.edge.metrics import Metrics
from assay.edge.tracing import Tracer
from assay.store.port import WorkerStore
from assay.verifiers.port import PipelineDefinition
from assay.worker.artifacts.broker import ArtifactBroker
from assay.worker.assignment import HeldClaim
from assay.worker.forking.client import SlotForks
from assay.worker.reports import REPORTS_MAX, Reports
from assay.worker.reuse import Reuse, ReusePolicy
from assay.worker.slots.pool import Spawn
from assay.worker.store_health import StoreHealth


@dataclass(frozen=True, slots=True, kw_only=True)
class HostParts:
    """Objects that the stages of a host share."""

    store: WorkerStore
    health: StoreHealth
    clock: Clock
    forks: SlotForks
    broker: ArtifactBroker
    metrics: Metrics
    tracer: Tracer | None
    worker: WorkerId
    attempts_max: int
    scratch: Path
    spawn: Spawn
    on_wanting: Callable[[StageName], None]
    """Called when a stage has idle slots and no known work."""
    version_of: Callable[[PipelineName, bytes], str]
    """Version of a pipeline with a task's settings on this host."""
    reuse: ReusePolicy
    """Which tasks want that the same request is judged once."""
    slots_on_demand: int = 0
    """Slots that a stage `on_demand` gets with its first request; 0 = none by itself."""
    reports_max: int = REPORTS_MAX
    """Maximum number of reports in one call to the store."""
    pipelines: Mapping[PipelineName, PipelineDefinition] = field(default_factory=dict)
    """Those that slots may make artifacts for."""

    def answered(self, operation: str, began_ns: int) -> None:
        """The store has answered a call that began then."""
        self.health.worked()
        spent_s = (self.clock.monotonic_ns() - began_ns) / 1e9
        self.metrics.store_called(operation=operation, seconds=spent_s)

    def open_reports(
        self,
        stage: StageName,
        more_soon: Callable[[], bool],
        on_settled: Callable[[HeldClaim], None],
    ) -> Reports:
        """Return the reports of a stage; arguments as of `Reports`."""
        return Reports(
            stage=stage,
            store=self.store,
            health=self.health,
            clock=self.clock,
            metrics=self.metrics,
            attempts_max=self.attempts_max,
            spawn=self.spawn,
            more_soon=more_soon,
            on_settled=on_settled,
            reports_max=self.reports_max,
        )

    def open_reuse(self, stage: StageName) -> Reuse:
        """Return the reusable verdicts of a stage."""
        return Reuse(
            stage=stage,
            store=self.store,
            policy=self.reuse,
            version_of=self.version_of,
            metrics=self.metrics,
            now_s=lambda: self.clock.monotonic_ns() / 1e9,
            spawn=self.spawn,
        )
