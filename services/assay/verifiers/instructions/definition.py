"""The pipeline `instructions`: verifiable instructions of IFEval and IFBench."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from pydantic import Field, PrivateAttr, model_validator

from assay.config.branch import Described
from assay.config.settings import VerifierSettings
from assay.core.ids import PipelineName, StageName
from assay.core.pipeline import PipelineSpec, Resources, StageSpec
from assay.sandbox.port import MIB
from assay.verifiers.instructions.arguments import ArgumentError, Arguments, ConstraintFamily
from assay.verifiers.instructions.rules import RULES
from assay.verifiers.port import PipelineDefinition, PipelineSettings, Reference, StageDefinition

INSTRUCTIONS: Final = StageName("instructions")
INSTRUCTIONS_MAX: Final = 64
CONTROL_CPU_SHARE: Final = 0.5
"""Of the CPU time for a response; the controls of a reference have it each time."""
CONTROL_TRIES: Final = 2
"""A busy machine takes longer for the first."""


class Reward(StrEnum):
    """How several instructions become one reward."""

    ALL = "all"
    """`reward_pass` if all are followed, else `reward_fail`: prompt-level accuracy."""
    SHARE = "share"
    """Between the two, by the share that is followed: instruction-level accuracy."""


class InstructionsSettings(PipelineSettings):
    """How strictly instructions are judged, and what following some of them earns."""

    reward: Reward = Reward.ALL
    """How several instructions become one reward."""
    loose: bool = False
    """Also accept the response without its first or last line or its asterisks, as the published
    loose accuracy does."""


class Instruction(Described):
    """An instruction that the response has to follow, by its id in IFEval or IFBench."""

    id: str = Field(max_length=128)
    """Its name in the data set, such as `count:numbers`."""
    kwargs: Mapping[str, Any] = Field(default_factory=dict, max_length=64)
    """Its arguments; `null` counts as absent."""
    _arguments: Arguments = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _known(self) -> "Instruction":
        rule = RULES.get(self.id)
        if rule is None:
            raise ValueError(f"id: {self.id[:64]} is not an instruction of this pipeline")
        try:
            self._arguments = rule.read(self.kwargs)
        except ArgumentError as error:
            raise ValueError(f"kwargs.{error}") from None
        return self

    @property
    def rule(self) -> ConstraintFamily:
        """How it is judged."""
        return RULES[self.id]

    @property
    def arguments(self) -> Arguments:
        """Its arguments, converted."""
        return self._arguments


class InstructionsReference(Reference):
    """The instructions that a response has to follow."""

    instructions: tuple[Instruction, ...] = Field(min_length=1, max_length=INSTRUCTIONS_MAX)
    """All that the prompt asks for."""


def define_pipelines(settings: VerifierSettings) -> Iterable[PipelineDefinition]:
    """The pipeline `instructions`."""
    cpu_s = (1 + CONTROL_TRIES * CONTROL_CPU_SHARE) * settings.match_cpu_s
    stage = StageDefinition(
        spec=StageSpec(
            name=INSTRUCTIONS,
            resources=Resources(cpu_cores=0.25, memory_bytes=128 * MIB),
            timeout_s=4 * cpu_s + 5,
            cpu_s_max=cpu_s,
            batch_max=32,
            on_demand=True,
        ),
        handler="assay.verifiers.instructions.stage:InstructionsHandler",
        confined=True,
    )
    yield PipelineDefinition(
        spec=PipelineSpec(
            name=PipelineName("instructions"),
            description="Verifiable instructions of IFEval and IFBench.",
            stages=(INSTRUCTIONS,),
        ),
        stages=(stage,),
        settings=InstructionsSettings,
        reference=InstructionsReference,
        example_reference={"instructions": [{"id": "count:numbers", "kwargs": {"N": 3}}]},
        deterministic=True,
    )
