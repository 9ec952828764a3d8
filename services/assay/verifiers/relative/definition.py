"""The pipeline `math.concise`: right answers, the shorter the better among the group's.

`math.measure` judges each response as `math` does; `relative.length` sees the whole group.
"""

from collections.abc import Iterable
from typing import Final

from pydantic import Field

from assay.config.settings import VerifierSettings
from assay.core.ids import PipelineName, StageName
from assay.core.pipeline import PipelineSpec, Resources, StageSpec
from assay.verifiers.math.definition import AUDIT_CPU_S_MAX, MathReference, MathSettings
from assay.verifiers.port import PipelineDefinition, StageDefinition, Tools
from assay.verifiers.relative.shaping import Spread

MEASURE: Final = StageName("math.measure")
COMPARE: Final = StageName("relative.length")


class ConciseSettings(MathSettings):
    """Settings of `math.concise`: those of `math`, and how length counts."""

    length_weight: float = Field(default=0.5, ge=0, le=10)
    """With what the length term, -0.5 (longest) to 0.5 (shortest), counts beside right or wrong."""
    length_spread: Spread = Spread.LINEAR
    """`linear`: by length, `rank`: by the order of lengths."""


def define_pipelines(settings: VerifierSettings) -> Iterable[PipelineDefinition]:
    """The pipeline `math.concise` with its two stages."""
    measure = StageDefinition(
        spec=StageSpec(
            name=MEASURE,
            resources=Resources(cpu_cores=1.0, memory_bytes=512 * 1024 * 1024),
            timeout_s=4 * (settings.math_cpu_s + AUDIT_CPU_S_MAX) + 10,
            cpu_s_max=settings.math_cpu_s + AUDIT_CPU_S_MAX,
            batch_max=32,
            on_demand=True,
        ),
        handler="assay.verifiers.relative.measure:MeasureHandler",
        confined=True,
    )
    compare = StageDefinition(
        spec=StageSpec(
            name=COMPARE,
            resources=Resources(cpu_cores=0.25, memory_bytes=128 * 1024 * 1024),
            timeout_s=30.0,
            batch_max=16,
            gathers=True,
            on_demand=True,
        ),
        handler="assay.verifiers.relative.compare:CompareHandler",
        trusts=True,
    )
    yield PipelineDefinition(
        spec=PipelineSpec(
            name=PipelineName("math.concise"),
            description="As `math`; within a group, shorter right answers get more.",
            stages=(MEASURE, COMPARE),
        ),
        stages=(measure, compare),
        settings=ConciseSettings,
        reference=MathReference,
        example_reference={"answers": ["\\frac{1}{2}"]},
        tools=Tools(distributions=("math-verify", "latex2sympy2_extended", "sympy")),
    )
