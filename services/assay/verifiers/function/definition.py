"""The pipeline `python_function`: the user's own function, run in isolation.

The function is code that the operator put in one of `verifiers.function_paths`. The response that
it reads is untrusted, so each call gets a fresh box without network, with limits, in which only the
standard library and those directories are visible.
"""

from collections.abc import Iterable
from typing import Any, Final

from pydantic import Field

from assay.config.settings import VerifierSettings
from assay.core.ids import PipelineName, StageName
from assay.core.pipeline import PipelineSpec, Resources, StageSpec
from assay.sandbox.port import MIB
from assay.verifiers.port import (
    PipelineDefinition,
    PipelineSettings,
    Reference,
    StageDefinition,
    Tools,
)

FUNCTION_RUN: Final = StageName("function.run")
_CPU_S_MAX: Final = 120.0


class FunctionSettings(PipelineSettings):
    """Settings of `python_function`. `reward_pass` has no effect; `reward_fail` is for a response
    that the function cannot read, though it reads a trusted one."""

    function: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$")
    """`module:function`, called as `function(response, reference)`, with `messages` and `artifacts`
    (name to bytes) where it has parameters of these names. It returns a finite number, or a dict
    with one under `score`, and possibly named parts of it under `components`."""
    cpu_s: float = Field(default=10.0, gt=0, le=_CPU_S_MAX)
    """CPU time of one call, the import of the module included."""
    blocked_s: float = Field(default=5.0, gt=0, le=60)
    """Time that one call may sleep or be blocked by itself; waiting for a core never counts."""
    memory_bytes: int = Field(default=512 * MIB, ge=32 * MIB, le=8_192 * MIB)
    """Memory of one call."""


class FunctionReference(Reference):
    """Reference of `python_function`."""

    value: Any = None
    """Any JSON; the function's second argument."""


def define_pipelines(settings: VerifierSettings) -> Iterable[PipelineDefinition]:
    """The pipeline `python_function`."""
    stage = StageDefinition(
        spec=StageSpec(
            name=FUNCTION_RUN,
            resources=Resources(memory_bytes=1_024 * MIB),
            timeout_s=10 * _CPU_S_MAX,
            on_demand=True,
        ),
        handler="assay.verifiers.function.stage:FunctionHandler",
        runs_untrusted_code=True,
    )
    yield PipelineDefinition(
        spec=PipelineSpec(
            name=PipelineName("python_function"),
            description="An operator's Python function judges the response.",
            stages=(FUNCTION_RUN,),
        ),
        stages=(stage,),
        settings=FunctionSettings,
        reference=FunctionReference,
        example_reference={"value": {"answer": "18"}},
        takes_artifacts=True,
        tools=Tools(folders=settings.function_paths),
    )
