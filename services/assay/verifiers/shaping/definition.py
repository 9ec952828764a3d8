"""The pipeline `shape`: format and length of a response, as a reward or as a part of one."""

from collections.abc import Iterable
from typing import Final

from pydantic import Field, model_validator

from assay.config.settings import VerifierSettings
from assay.core.ids import PipelineName, StageName
from assay.core.pipeline import PipelineSpec, Resources, StageSpec
from assay.sandbox.port import MIB
from assay.verifiers.port import PipelineDefinition, PipelineSettings, Reference, StageDefinition
from assay.verifiers.shaping.rules import LengthUnit, ResponseForm

SHAPE: Final = StageName("shape")


class ShapeSettings(PipelineSettings):
    """Which form and which length of a response earn what."""

    form: ResponseForm = ResponseForm.NONE
    """Which form counts: `reward_pass` if the response has it, `reward_fail` if not."""
    length_max: int = Field(default=0, ge=0, le=100_000_000)
    """Length from which on the penalty is complete; 0: length does not count."""
    length_cache: int = Field(default=0, ge=0, le=100_000_000)
    """Length over which the penalty grows (DAPO's cache), below `length_max`."""
    length_unit: LengthUnit = LengthUnit.GIVEN
    """What lengths count."""
    length_weight: float = Field(default=1.0, ge=0, le=100)
    """The penalty, -1 to 0, is multiplied by this and added to the reward."""

    @model_validator(mode="after")
    def _consistent(self) -> "ShapeSettings":
        if self.length_cache > self.length_max:
            raise ValueError("length_cache: more than length_max")
        if self.form is ResponseForm.NONE and not self.length_max:
            raise ValueError("give form, length_max, or both")
        return self


class ShapeReference(Reference):
    """The length of the response, where the trainer gives it."""

    length: int | None = Field(default=None, ge=0, le=1_000_000_000)
    """Length of the response in tokens, where `length_unit` is `given`."""


def define_pipelines(settings: VerifierSettings) -> Iterable[PipelineDefinition]:
    """The pipeline `shape`."""
    stage = StageDefinition(
        spec=StageSpec(
            name=SHAPE,
            resources=Resources(cpu_cores=0.25, memory_bytes=128 * MIB),
            timeout_s=4 * settings.match_cpu_s + 5,
            cpu_s_max=settings.match_cpu_s,
            batch_max=32,
            on_demand=True,
        ),
        handler="assay.verifiers.shaping.stage:ShapeHandler",
        confined=True,
    )
    yield PipelineDefinition(
        spec=PipelineSpec(
            name=PipelineName("shape"),
            description="Format (think tags) and length (DAPO's overlong penalty) of a response.",
            stages=(SHAPE,),
        ),
        stages=(stage,),
        settings=ShapeSettings,
        reference=ShapeReference,
        example_reference={"length": 1_000},
    )
