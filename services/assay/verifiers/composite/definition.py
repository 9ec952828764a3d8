"""The pipeline `composite`: a reward of weighted, named components from several verifiers."""

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

from pydantic import Field, ValidationInfo, model_validator

from assay.config.settings import VerifierSettings
from assay.core.errors import InvalidRequest
from assay.core.ids import PipelineName, StageName
from assay.core.pipeline import PipelineSpec, Resources, StageSpec
from assay.core.verdict import COMPONENT_NAME_CHARS_MAX
from assay.sandbox.port import MIB
from assay.verifiers.composite.combine import Combination
from assay.verifiers.intake import parse_settings
from assay.verifiers.port import PipelineDefinition, PipelineSettings, Reference, StageDefinition

COMPOSITE: Final = PipelineName("composite")
COMPOSITE_RUN: Final = StageName("composite.run")
COMPONENTS_MAX: Final = 16
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.\-]+$", max_length=COMPONENT_NAME_CHARS_MAX)]


class ComponentSettings(Reference):
    """One verifier of a composite reward."""

    pipeline: str = Field(max_length=128)
    """Any pipeline that judges a response by itself, but `composite`."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Its settings."""
    weight: float = Field(default=1.0, ge=0, le=1_000)
    """With what its reward counts."""
    gate: bool = False
    """The whole is `reward_fail` unless its reward is positive."""
    optional: bool = False
    """Where it cannot be judged (a failure of the platform), the others are the reward; by default
    the whole is not judged then. Never is a component that was not judged taken for a zero."""


class CompositeSettings(PipelineSettings):
    """The components of a verdict, and how their rewards become one."""

    components: dict[Name, ComponentSettings] = Field(min_length=1, max_length=COMPONENTS_MAX)
    """Name -> verifier."""
    combine: Combination = Combination.MEAN
    """How their rewards become one."""

    @model_validator(mode="after")
    def _usable(self, info: ValidationInfo) -> "CompositeSettings":
        for name, component in self.components.items():
            _check(name, component, info.context or {})
        weights = [one.weight for one in self.components.values() if not one.optional]
        if self.combine is Combination.MEAN and not any(weights):
            raise ValueError("components: one that is not optional needs a weight")
        return self


class CompositeReference(Reference):
    """What each component compares the response with."""

    components: dict[Name, dict[str, Any]] = Field(default_factory=dict, max_length=COMPONENTS_MAX)
    """Name -> reference for its verifier; `{}` for those that are left out."""


def _check(
    name: str, component: ComponentSettings, pipelines: Mapping[PipelineName, PipelineDefinition]
) -> None:
    place = f"components.{name}"
    definition = pipelines.get(PipelineName(component.pipeline))
    if definition is None or definition.spec.name == COMPOSITE:
        raise ValueError(f"{place}.pipeline: {component.pipeline!r} cannot be a component")
    if definition.group_stage is not None:
        raise ValueError(f"{place}.pipeline: {component.pipeline!r} judges whole groups")
    try:
        parse_settings(definition, json.dumps(component.settings).encode())
    except InvalidRequest as error:
        raise ValueError(f"{place}.{error.message}") from None


COMPOSITE_STAGE: Final = StageDefinition(
    spec=StageSpec(
        name=COMPOSITE_RUN,
        resources=Resources(memory_bytes=3_072 * MIB),
        timeout_s=8_400.0,
        on_demand=True,
    ),
    handler="assay.verifiers.composite.stage:CompositeHandler",
    runs_untrusted_code=True,
)


def define_pipelines(settings: VerifierSettings) -> Iterable[PipelineDefinition]:
    """The pipeline `composite`."""
    del settings
    yield PipelineDefinition(
        spec=PipelineSpec(
            name=COMPOSITE,
            description="Weighted, named components from several verifiers.",
            stages=(COMPOSITE_RUN,),
        ),
        stages=(COMPOSITE_STAGE,),
        settings=CompositeSettings,
        reference=CompositeReference,
        takes_artifacts=True,
        example_reference={"components": {"answer": {"answers": ["42"]}}},
    )
