"""The available pipelines: the built-in ones and those of entry points.

Invariants: one definition per pipeline name and per stage name (two pipelines may share a stage
only through the same definition). Definitions are plain data, so the API knows every pipeline
without importing any handler.
"""

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType

from assay.config.settings import VerifierSettings
from assay.core.ids import NAME_FORM, PipelineName, StageName
from assay.verifiers import noop
from assay.verifiers.code import definition as code_definition
from assay.verifiers.composite import definition as composite_definition
from assay.verifiers.cuda import definition as cuda_definition
from assay.verifiers.execution import definition as execution_definition
from assay.verifiers.function import definition as function_definition
from assay.verifiers.fusion import FusedHandler, with_fused_stages
from assay.verifiers.harbor import definition as harbor_definition
from assay.verifiers.instructions import definition as instructions_definition
from assay.verifiers.judge import definition as judge_definition
from assay.verifiers.judged import definition as judged_definition
from assay.verifiers.languages import definition as languages_definition
from assay.verifiers.math import definition as math_definition
from assay.verifiers.port import (
    ENTRY_POINT_GROUP,
    GroupHandler,
    HandlerContext,
    PipelineDefinition,
    StageDefinition,
    StageHandler,
)
from assay.verifiers.relative import definition as relative_definition
from assay.verifiers.reward_model import definition as reward_model_definition
from assay.verifiers.shaping import definition as shaping_definition
from assay.verifiers.sql import definition as sql_definition
from assay.verifiers.text import definition as text_definition

DefinePipelines = Callable[[VerifierSettings], Iterable[PipelineDefinition]]

BUILT_IN: tuple[DefinePipelines, ...] = (
    noop.define_pipelines,
    text_definition.define_pipelines,
    math_definition.define_pipelines,
    relative_definition.define_pipelines,
    code_definition.define_pipelines,
    execution_definition.define_pipelines,
    languages_definition.define_pipelines,
    judged_definition.define_pipelines,
    sql_definition.define_pipelines,
    cuda_definition.define_pipelines,
    shaping_definition.define_pipelines,
    instructions_definition.define_pipelines,
    harbor_definition.define_pipelines,
    judge_definition.define_pipelines,
    reward_model_definition.define_pipelines,
    composite_definition.define_pipelines,
    function_definition.define_pipelines,
)


class PipelineError(Exception):
    """A pipeline cannot be loaded; the operator must remove or repair its package."""


class PipelineClash(PipelineError):
    """Two different definitions of one pipeline or stage name."""


class PipelineMalformed(PipelineError):
    """An entry point does not provide a usable definition."""


_kept: list[tuple[VerifierSettings, Mapping[PipelineName, PipelineDefinition]]] = []


def keep_pipelines(settings: VerifierSettings) -> None:
    """Load all pipelines now; later calls with equal settings return these, which processes that
    are forked from this one share."""
    _kept[:] = [(settings, load_pipelines(settings))]


def load_pipelines(
    settings: VerifierSettings | None = None, *, found: Iterable[EntryPoint] | None = None
) -> Mapping[PipelineName, PipelineDefinition]:
    """Return all pipelines by name.

    Args:
        settings: the operator's settings for the built-in pipelines.
        found: the entry points to load; by default those of installed packages.

    Raises:
        PipelineClash: one name, two definitions.
        PipelineMalformed: an entry point cannot be imported or provides something else.
    """
    limits = settings or VerifierSettings()
    if found is None and _kept and _kept[0][0] == limits:
        return _kept[0][1]
    pipelines: dict[PipelineName, PipelineDefinition] = {}
    stages: dict[StageName, StageDefinition] = {}
    for define in BUILT_IN:
        for definition in define(limits):
            _add(definition, pipelines, stages, source="assay")
    for entry in entry_points(group=ENTRY_POINT_GROUP) if found is None else found:
        for definition in _definitions(entry, limits):
            _add(definition, pipelines, stages, source=entry.value)
    pipelines = dict(with_fused_stages(pipelines))
    loaded = MappingProxyType(pipelines)
    pipelines.update({name: replace(one, beside=loaded) for name, one in pipelines.items()})
    return loaded


def stages_of(
    pipelines: Mapping[PipelineName, PipelineDefinition],
) -> Mapping[StageName, StageDefinition]:
    """Return the stages of all `pipelines` by name."""
    return MappingProxyType(
        {stage.spec.name: stage for pipeline in pipelines.values() for stage in pipeline.stages}
    )


def load_handler(
    stage: StageDefinition,
) -> Callable[[HandlerContext], StageHandler | GroupHandler]:
    """Import the stage's handler factory; called in worker processes only.

    Raises:
        PipelineMalformed: there is no such module or attribute, or it cannot be called.
    """
    if stage.parts:
        factories = [load_handler(part) for part in stage.parts]
        return lambda context: FusedHandler([_single(made(context)) for made in factories])
    module_name, _, attribute = stage.handler.partition(":")
    try:
        factory = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        message = f"stage {stage.spec.name}: cannot import handler {stage.handler}: {error}"
        raise PipelineMalformed(message) from error
    if not callable(factory):
        message = f"stage {stage.spec.name}: handler {stage.handler} cannot be called"
        raise PipelineMalformed(message)
    made: Callable[[HandlerContext], StageHandler | GroupHandler] = factory
    return made


def _single(handler: StageHandler | GroupHandler) -> StageHandler:
    if isinstance(handler, GroupHandler):
        raise TypeError("a stage that does not gather has a handler that judges groups")
    return handler


def _definitions(entry: EntryPoint, settings: VerifierSettings) -> Iterable[PipelineDefinition]:
    """Load one entry point: a definition, or a function of the settings that returns one."""
    try:
        given = entry.load()
        if callable(given):
            given = given(settings)
    except Exception as error:  # a user's module may raise anything while it is imported
        message = f"entry point {entry.name} ({entry.value}): {error!r}"
        raise PipelineMalformed(message) from error
    several = [given] if isinstance(given, PipelineDefinition) else given
    if not isinstance(several, (list, tuple)) or not all(
        isinstance(definition, PipelineDefinition) for definition in several
    ):
        message = f"entry point {entry.name} ({entry.value}) gives {type(given).__name__}, not a "
        raise PipelineMalformed(message + "PipelineDefinition, a list of them, or a function")
    return several


def _add(
    definition: PipelineDefinition,
    pipelines: dict[PipelineName, PipelineDefinition],
    stages: dict[StageName, StageDefinition],
    *,
    source: str,
) -> None:
    _check_form(definition, source)
    known = pipelines.setdefault(definition.spec.name, definition)
    if known != definition:
        message = f"pipeline {definition.spec.name} of {source} is already defined differently"
        raise PipelineClash(message)
    for stage in definition.stages:
        if stages.setdefault(stage.spec.name, stage) != stage:
            message = f"stage {stage.spec.name} of {source} is already defined differently"
            raise PipelineClash(message)


def _check_form(definition: PipelineDefinition, source: str) -> None:
    names = tuple(stage.spec.name for stage in definition.stages)
    name = definition.spec.name
    if not names or names != definition.spec.stages or len(set(names)) != len(names):
        message = f"pipeline {name} of {source}: spec.stages and stages name different stages"
        raise PipelineMalformed(message)
    gathering = [stage for stage in definition.stages if stage.spec.gathers]
    if len(gathering) > 1 or any(stage.audits for stage in gathering):
        message = f"pipeline {name} of {source}: at most one stage gathers, and it does not audit"
        raise PipelineMalformed(message)
    if not all(NAME_FORM.fullmatch(word) for word in (name, *names)):
        message = f"pipeline {name} of {source}: names are {NAME_FORM.pattern}"
        raise PipelineMalformed(message)
