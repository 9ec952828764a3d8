"""The pipeline `math`: `extract` finds the answer, `math.verify` reads and compares it.

Both take many requests at once. `extract` is one linear pass over text. `math.verify` runs a
computer algebra system on hostile text, so it runs in a warm process that may be killed: when an
answer takes longer than `verifiers.math_cpu_s`, the worker kills the process from outside and the
request ends as RESOURCE_LIMIT. Of one resource shape and both confined, they run as one stage
(`assay.verifiers.fusion`), unless a plugin has a pipeline with only one of them.
"""

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Final

from pydantic import Field

from assay.config.settings import VerifierSettings
from assay.core.ids import PipelineName, StageName
from assay.core.pipeline import PipelineSpec, Resources, StageSpec
from assay.verifiers.options import Strategy
from assay.verifiers.port import (
    Control,
    PipelineDefinition,
    PipelineSettings,
    Reference,
    StageDefinition,
    Tools,
)

EXTRACT: Final = StageName("extract")
VERIFY: Final = StageName("math.verify")
EXTRACT_CPU_S_MAX: Final = 1.0
"""CPU time to find answers: it takes milliseconds per response, however long that is."""
AUDIT_CPU_S_MAX: Final = 2.0
"""CPU time for the controls of one reference. It is added to the limit of the response, so that a
slow reference takes no time from the first response that uses it."""
ANSWER_CPU_S_MAX: Final = 2.0
"""CPU time for the comparison of one answer. What is not decided by then is not equal."""


class MathSettings(PipelineSettings):
    """Where the answer is looked for, and what counts as equal."""

    strategies: tuple[Strategy, ...] = Field(
        default=(
            Strategy.TAG,
            Strategy.BOXED,
            Strategy.HASHES,
            Strategy.ANSWER_IS,
            Strategy.ANSWER_COLON,
            Strategy.TAIL,
        ),
        min_length=1,
    )
    """Where to look for the answer, in this order. In the text from `tail` and `whole`, it is the
    last run of mathematics."""
    answer_chars_max: int = Field(default=2_000, gt=0)
    """A longer answer ends as RESOURCE_LIMIT."""
    float_rounding: int = Field(default=6, ge=0, le=50)
    """Decimal places to which floats are rounded before they are compared."""
    rounded_golds: bool = True
    """A decimal reference of four or more digits is a rounded value, for which a more exact value
    passes that rounds to it: `2/3` for `0.6667`. Otherwise decimals are compared as they stand."""
    numeric_precision: int = Field(default=15, ge=1, le=200)
    """Significant digits of numeric evaluation."""
    strict: bool = True
    """Variable names must match, and a set is not a tuple."""
    allow_set_relation_comp: bool = True
    """`1 < x < 2` passes for `x \\in (1, 2)`; math-verify refuses it by default."""
    option_strings: tuple[str, ...] = Field(default=(), max_length=64)
    """Words that are answers themselves (`A`, `B`, `yes`)."""
    second_judge_share: float = Field(default=0.01, ge=0, le=1)
    """Share of the answers, selected by a hash of their content, that a second judge also judges;
    its result is evidence and a metric, never a reward."""


class MathReference(Reference):
    """The right answers of a problem."""

    answers: tuple[str, ...] = Field(min_length=1, max_length=64)
    """Right answers, plain or LaTeX; the response passes when it equals one of them."""


def _controls(reference: MathReference, settings: MathSettings) -> Sequence[Control]:
    """Created on demand: listing pipelines does not load the grammar."""
    made: Sequence[Control] = import_module("assay.verifiers.math.controls").controls(
        reference, settings
    )
    return made


def define_pipelines(settings: VerifierSettings) -> Iterable[PipelineDefinition]:
    """The pipeline `math` with its two stages."""
    shape = Resources(cpu_cores=1.0, memory_bytes=512 * 1024 * 1024)
    extract = StageDefinition(
        spec=StageSpec(
            name=EXTRACT,
            resources=shape,
            timeout_s=10.0,
            cpu_s_max=EXTRACT_CPU_S_MAX,
            batch_max=64,
            on_demand=True,
        ),
        handler="assay.verifiers.math.extract:ExtractHandler",
        confined=True,
    )
    verify = StageDefinition(
        spec=StageSpec(
            name=VERIFY,
            resources=shape,
            timeout_s=4 * (settings.math_cpu_s + AUDIT_CPU_S_MAX) + 10,
            cpu_s_max=settings.math_cpu_s + AUDIT_CPU_S_MAX,
            batch_max=32,
            on_demand=True,
        ),
        handler="assay.verifiers.math.verify:VerifyHandler",
        confined=True,
        finds_faults=True,
    )
    yield PipelineDefinition(
        spec=PipelineSpec(
            name=PipelineName("math"),
            description="The final answer equals a reference answer, as mathematics.",
            stages=(EXTRACT, VERIFY),
        ),
        stages=(extract, verify),
        settings=MathSettings,
        reference=MathReference,
        example_reference={"answers": ["\\frac{1}{2}"]},
        controls=_controls,
        deterministic=True,
        tools=Tools(distributions=("math-verify", "latex2sympy2_extended", "sympy")),
    )
