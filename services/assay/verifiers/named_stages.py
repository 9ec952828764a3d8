"""Stages that settings name: one that was fused stands for the stage that it is a part of.

A name that no pipeline has is refused for a worker host, which would otherwise serve something else
than was meant. A planner may know fewer pipelines than its hosts do, so there it is logged.
"""

from collections.abc import Mapping
from typing import Final, TypeVar

import structlog

from assay.config.settings import Settings
from assay.core.errors import NotFound
from assay.core.ids import StageName
from assay.verifiers.fusion import parts_of
from assay.verifiers.port import StageDefinition

WORKER_VALUES: Final = ("slots_by_stage",)
PLANNER_VALUES: Final = (
    "slots_min_by_stage",
    "slots_max_by_stage",
    "memory_mean_share_by_stage",
    "startup_s_by_stage",
)
"""Settings with a value per stage."""
ValueT = TypeVar("ValueT", int, float)

log = structlog.get_logger()


def for_worker(settings: Settings, stages: Mapping[StageName, StageDefinition]) -> Settings:
    """The same settings, with stages as pipelines have them.

    Raises:
        NotFound: there is no such stage; names the setting.
    """
    worker, whole = settings.worker, _whole(stages)
    for setting in ("stages", *WORKER_VALUES):
        for name in getattr(worker, setting):
            if name not in whole:
                raise NotFound(f"no pipeline has a stage {name}", field=f"worker.{setting}")
    named = dict.fromkeys(whole[name] for name in worker.stages)
    values = {name: by_whole(getattr(worker, name), whole) for name in WORKER_VALUES}
    changed = worker.model_copy(update={"stages": tuple(named), **values})
    return settings.model_copy(update={"worker": changed})


def for_planner(settings: Settings, stages: Mapping[StageName, StageDefinition]) -> Settings:
    """The same settings, with stages as pipelines have them; logs names that no pipeline has."""
    planner, whole = settings.planner, _whole(stages)
    for setting in PLANNER_VALUES:
        for name in getattr(planner, setting):
            if name not in whole:
                log.warning("stage_unknown", stage=name, setting=f"planner.{setting}")
    values = {name: by_whole(getattr(planner, name), whole) for name in PLANNER_VALUES}
    return settings.model_copy(update={"planner": planner.model_copy(update=values)})


def by_whole(values: Mapping[str, ValueT], whole: Mapping[str, StageName]) -> dict[str, ValueT]:
    """Values by stage: what is set for the stage itself, otherwise the largest of its parts'."""
    found: dict[str, ValueT] = {}
    for name, value in values.items():
        stage = whole.get(name, name)
        if stage == name or stage not in values:
            found[stage] = value if stage == name else max(value, found.get(stage, value))
    return found


def _whole(stages: Mapping[StageName, StageDefinition]) -> Mapping[str, StageName]:
    found: dict[str, StageName] = {name: name for name in stages}
    return found | {str(part): whole for part, whole in parts_of(stages).items()}
