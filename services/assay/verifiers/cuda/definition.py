"""The pipeline `cuda`: a kernel in the form of KernelBench, rewarded by its speed-up."""

import ast
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final

from pydantic import Field, model_validator

from assay.config.settings import VerifierSettings
from assay.core.ids import PipelineName, StageName
from assay.core.pipeline import PipelineSpec, Resources, StageSpec
from assay.sandbox.port import MIB
from assay.verifiers.code.source.choices import BlockChoice, Extraction
from assay.verifiers.port import (
    PipelineDefinition,
    PipelineSettings,
    Reference,
    StageDefinition,
    Tools,
)

CUDA_COMPILE: Final = StageName("cuda.compile")
CUDA_RUN: Final = StageName("cuda.run")
PROBLEM_CHARS_MAX: Final = 200_000
TRIALS_MAX: Final = 64
WARM_UPS: Final = 2
"""Trials that are compared and not timed: first calls load code."""
RUN_MEMORY_BYTES: Final = 16 * 1_024 * MIB
"""Of a slot of the run stage."""
_WORKER_BYTES: Final = 2 * 1_024 * MIB
"""Of it for the worker itself; the box has the rest."""
_LOAD_S_MAX: Final = 1_800.0
_CALL_S_MAX: Final = 120.0
PROBLEM_NAMES: Final = ("Model", "get_inputs", "get_init_inputs")


class RewardForm(StrEnum):
    """What a right kernel earns."""

    SPEEDUP = "speedup"
    """Its speed-up over the reference, at most `speedup_max`."""
    FASTER = "faster"
    """`reward_pass` if its speed-up is `speedup_min` or more, else `reward_fail` (KernelBench's
    fast_p)."""
    CORRECT = "correct"
    """`reward_pass`, however fast it is."""


class CudaSettings(PipelineSettings):
    """How kernels are compiled, tried and timed, and what speed-up earns."""

    extraction: Extraction = Extraction.AUTO
    """Where in the response the program is."""
    block: BlockChoice = BlockChoice.LAST
    """Which of several blocks."""
    architecture: str = Field(default="sm_90a", pattern=r"^sm_[0-9]{2,3}[af]?$")
    """What the compile stage compiles for; the run stage compiles for the GPU that it has."""
    own_kernel: bool = True
    """Refuse responses without a kernel of their own, which only call libraries."""
    compile_cpu_s: float = Field(default=20.0, gt=0, le=120)
    """CPU time of the compilation of one source."""
    compile_memory_bytes: int = Field(default=1_024 * MIB, ge=256 * MIB, le=8_192 * MIB)
    """Memory of the compilation."""
    reward_form: RewardForm = RewardForm.SPEEDUP
    """What a right kernel earns."""
    speedup_max: float = Field(default=10.0, gt=0, le=1_000)
    """Most that a speed-up earns."""
    speedup_min: float = Field(default=1.0, gt=0, le=1_000)
    """Speed-up that passes, with `faster`."""
    absolute_tolerance: float = Field(default=1e-4, ge=0, le=1)
    """Allowed difference of an output value, beside the relative one."""
    relative_tolerance: float = Field(default=1e-4, ge=0, le=1)
    """Allowed difference of an output value, relative to the reference's."""
    trials: int = Field(default=10, ge=3, le=TRIALS_MAX)
    """Timed calls, each on fresh inputs; all outputs are compared."""
    load_s: float = Field(default=300.0, gt=0, le=_LOAD_S_MAX)
    """Time to import the program and build its extension."""
    call_s: float = Field(default=20.0, gt=0, le=_CALL_S_MAX)
    """Time of one step of a trial: making inputs, the call, the delivery of its outputs."""
    memory_bytes: int = Field(
        default=RUN_MEMORY_BYTES - _WORKER_BYTES, ge=512 * MIB, le=512 * 1_024 * MIB
    )
    """Host memory of both sides together, with the outputs; more than the default needs workers
    with more memory than the stage asks for."""
    output_bytes_max: int = Field(default=0, ge=0, le=16 * 1_024 * MIB)
    """Of one call; 0: as much as `memory_bytes` and `trials` allow (0.54 GiB by default)."""

    @model_validator(mode="after")
    def _outputs_fit(self) -> "CudaSettings":
        """A candidate's outputs stay in memory until the reference has computed its own: they must
        not be what fills it, or a right program would break a limit."""
        if self.output_bytes_max > self._output_room:
            raise ValueError(
                f"output_bytes_max: at most {self._output_room}, so that the outputs of "
                f"{self.trials} trials fit into half of memory_bytes ({self.memory_bytes})"
            )
        return self

    @property
    def output_bytes(self) -> int:
        """Most that one call may put out."""
        return self.output_bytes_max or self._output_room

    @property
    def _output_room(self) -> int:
        """One more than a candidate's: the reference's of the trial that is compared."""
        return self.memory_bytes // 2 // (self.trials + WARM_UPS + 1)


class CudaReference(Reference):
    """A problem of KernelBench."""

    problem: str = Field(min_length=1, max_length=PROBLEM_CHARS_MAX)
    """Python text that defines `Model`, `get_inputs` and `get_init_inputs`."""

    @model_validator(mode="before")
    @classmethod
    def _from_data_set(cls, data: Any) -> Any:  # noqa: ANN401 - whatever the caller sent
        """KernelBench's rows: `code`, or `ref_arch_src`, among other columns."""
        if isinstance(data, dict) and "problem" not in data:
            for name in ("ref_arch_src", "code"):
                if isinstance(data.get(name), str):
                    return {"problem": data[name]}
        return data

    @model_validator(mode="after")
    def _defines_all(self) -> "CudaReference":
        try:
            tree = ast.parse(self.problem)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ValueError(f"problem: no Python program: {error}") from None
        defined = {
            node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)
        }
        missing = [name for name in PROBLEM_NAMES if name not in defined]
        if missing:
            raise ValueError(f"problem: does not define {', '.join(missing)}")
        return self


COMPILE_STAGE: Final = StageDefinition(
    spec=StageSpec(
        name=CUDA_COMPILE,
        resources=Resources(memory_bytes=2_048 * MIB),
        timeout_s=10_000.0,
        on_demand=True,
    ),
    handler="assay.verifiers.cuda.compile_stage:CompileHandler",
    runs_untrusted_code=True,
)
RUN_STAGE: Final = StageDefinition(
    spec=StageSpec(
        name=CUDA_RUN,
        resources=Resources(cpu_cores=2.0, memory_bytes=RUN_MEMORY_BYTES, gpu=1),
        timeout_s=2 * _LOAD_S_MAX + 6 * TRIALS_MAX * _CALL_S_MAX,
        on_demand=True,
    ),
    handler="assay.verifiers.cuda.run_stage:RunHandler",
    runs_untrusted_code=True,
)

_EXAMPLE_PROBLEM: Final = """\
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, a, b):
        return a + b

def get_inputs():
    return [torch.randn(4096, 4096), torch.randn(4096, 4096)]

def get_init_inputs():
    return []
"""


def define_pipelines(settings: VerifierSettings) -> Iterable[PipelineDefinition]:
    """The pipeline `cuda`."""
    del settings
    yield PipelineDefinition(
        spec=PipelineSpec(
            name=PipelineName("cuda"),
            description="A CUDA kernel has the reference's outputs; the reward is its speed-up.",
            stages=(CUDA_COMPILE, CUDA_RUN),
        ),
        stages=(COMPILE_STAGE, RUN_STAGE),
        settings=CudaSettings,
        reference=CudaReference,
        tools=Tools(programs=("nvcc",), distributions=("nvidia-cuda-nvrtc", "torch")),
        example_reference={"problem": _EXAMPLE_PROBLEM},
    )
