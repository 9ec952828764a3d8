"""A pipeline that judges nothing; it measures the cost of the path around a verifier."""

from collections.abc import Iterable, Sequence

from assay.config.settings import VerifierSettings
from assay.core.ids import PipelineName, StageName
from assay.core.pipeline import PipelineSpec, Resources, StageSpec
from assay.core.verdict import Evidence, StageVerdict
from assay.verifiers.port import (
    HandlerContext,
    PipelineDefinition,
    StageDefinition,
    Work,
    scored,
)

STAGE = StageDefinition(
    spec=StageSpec(
        name=StageName("noop"),
        resources=Resources(cpu_cores=0.1, memory_bytes=64 * 1024 * 1024),
        timeout_s=10.0,
        batch_max=64,
        on_demand=True,
    ),
    handler="assay.verifiers.noop:NoopHandler",
)


def define_pipelines(_settings: VerifierSettings) -> Iterable[PipelineDefinition]:
    """Every response passes."""
    yield PipelineDefinition(
        spec=PipelineSpec(
            name=PipelineName("noop"),
            description="Passes every response without looking at it; for measurements.",
            stages=(STAGE.spec.name,),
        ),
        stages=(STAGE,),
        deterministic=True,
    )


class NoopHandler:
    """Passes every request."""

    def __init__(self, _context: HandlerContext) -> None:
        """Nothing to set up."""

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        """Pass every request."""
        return [
            scored(passed=True, settings=work.settings, evidence=Evidence(verdict="pass"))
            for work in works
        ]

    def close(self) -> None:
        """Nothing to release."""
