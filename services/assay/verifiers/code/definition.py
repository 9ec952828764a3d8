"""The pipelines `code.python` and `code.cpp`: their stages."""

from collections.abc import Iterable
from typing import Final

from assay.config.settings import VerifierSettings
from assay.core.ids import PipelineName, StageName
from assay.core.pipeline import PipelineSpec, Resources, StageSpec
from assay.sandbox.port import MIB
from assay.verifiers.code.controls import cpp_controls, python_controls
from assay.verifiers.code.references import CppReference, PythonReference
from assay.verifiers.code.settings import (
    TOTAL_BLOCKED_S_MAX,
    TOTAL_CPU_S_MAX,
    CppSettings,
    PythonSettings,
)
from assay.verifiers.packages import program_tools
from assay.verifiers.port import PipelineDefinition, StageDefinition, Tools

PYTHON_RUN: Final = StageName("python.run")
CPP_COMPILE: Final = StageName("cpp.compile")
CPP_RUN: Final = StageName("cpp.run")
_SLOWED_MAX: Final = 10.0
"""Factor by which a busy machine may slow a stage before its work is retried elsewhere."""
_COMPILE: Final = Resources(memory_bytes=2_048 * MIB)
_TIMEOUT_S: Final = _SLOWED_MAX * (TOTAL_CPU_S_MAX + TOTAL_BLOCKED_S_MAX)
PYTHON_RUN_STAGE: Final = StageDefinition(
    spec=StageSpec(
        name=PYTHON_RUN,
        resources=Resources(memory_bytes=1_024 * MIB),
        timeout_s=_TIMEOUT_S,
        on_demand=True,
    ),
    handler="assay.verifiers.code.python_stage:PythonRunHandler",
    artifacts="assay.verifiers.execution.keys:artifacts_of",
    runs_untrusted_code=True,
    audits=True,
)
CPP_COMPILE_STAGE: Final = StageDefinition(
    spec=StageSpec(name=CPP_COMPILE, resources=_COMPILE, timeout_s=1_800.0, on_demand=True),
    handler="assay.verifiers.code.cpp_stages:CompileHandler",
    artifacts="assay.verifiers.code.cpp.keys:artifacts_of",
    runs_untrusted_code=True,
)
CPP_RUN_STAGE: Final = StageDefinition(
    spec=StageSpec(
        name=CPP_RUN,
        resources=PYTHON_RUN_STAGE.spec.resources,
        timeout_s=_TIMEOUT_S,
        on_demand=True,
    ),
    handler="assay.verifiers.code.cpp_stages:RunHandler",
    artifacts="assay.verifiers.code.cpp.keys:artifacts_of",
    runs_untrusted_code=True,
)


def define_pipelines(settings: VerifierSettings) -> Iterable[PipelineDefinition]:
    """The pipelines `code.python` and `code.cpp`."""
    yield PipelineDefinition(
        spec=PipelineSpec(
            name=PipelineName("code.python"),
            description="A Python program passes its tests: stdin and stdout, calls, or asserts.",
            stages=(PYTHON_RUN,),
        ),
        stages=(PYTHON_RUN_STAGE,),
        settings=PythonSettings,
        reference=PythonReference,
        controls=python_controls,
        tools=program_tools(settings),
        example_reference={"tests": [{"stdin": "2 3\n", "stdout": "5\n"}]},
    )
    yield PipelineDefinition(
        spec=PipelineSpec(
            name=PipelineName("code.cpp"),
            description="A C++ program, compiled once, passes its tests.",
            stages=(CPP_COMPILE, CPP_RUN),
        ),
        stages=(CPP_COMPILE_STAGE, CPP_RUN_STAGE),
        settings=CppSettings,
        reference=CppReference,
        controls=cpp_controls,
        tools=Tools(programs=("g++",)),
        example_reference={"tests": [{"stdin": "2 3\n", "stdout": "5\n"}]},
    )
