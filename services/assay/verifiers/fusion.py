"""Stages that run as one: what may share a process needs no trip through the store in between.

Whether two stages of a pipeline are fused follows from their definitions alone. They run as one
stage, under the name of the second, where that changes no verdict and no isolation:

* wherever one of them stands, in any pipeline, the first is directly followed by the second;
* they have the same resource shape, and both count CPU time;
* both are confined, so they hold nothing but memory and cost nothing but time when they run again;
* neither gathers groups, and the first does nothing for references or artifacts.

Three and more in a row become one, too. A request that the first ends never reaches the second.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from assay.core.ids import PipelineName, StageName
from assay.core.verdict import Ended, HandedOver, StageVerdict
from assay.verifiers.port import (
    FaultFindingHandler,
    PipelineDefinition,
    StageDefinition,
    StageHandler,
    TrustingHandler,
    Work,
)
from assay.verifiers.total import TRIVIAL

HANDLER: Final = "assay.verifiers.fusion:FusedHandler"
Defined = Mapping[PipelineName, PipelineDefinition]


def with_fused_stages(pipelines: Defined) -> Defined:
    """The same pipelines, with one stage in place of stages that may run as one."""
    while pair := _next_pair(pipelines):
        whole = _fused(*pair)
        pipelines = {name: _with(one, pair, whole) for name, one in pipelines.items()}
    return pipelines


def parts_of(stages: Mapping[StageName, StageDefinition]) -> Mapping[StageName, StageName]:
    """Name of each stage that was fused -> the stage that it is a part of."""
    return {part.spec.name: name for name, whole in stages.items() for part in whole.parts}


def _next_pair(pipelines: Defined) -> tuple[StageDefinition, StageDefinition] | None:
    for pipeline in pipelines.values():
        for first, second in zip(pipeline.stages, pipeline.stages[1:], strict=False):
            if _may_run_as_one(first, second) and _always_together(first, second, pipelines):
                return first, second
    return None


def _may_run_as_one(first: StageDefinition, second: StageDefinition) -> bool:
    serves_references = first.finds_faults or first.audits or first.trusts
    return (
        first.spec.resources == second.spec.resources
        and None not in (first.spec.cpu_s_max, second.spec.cpu_s_max)
        and first.confined
        and second.confined
        and not (first.spec.gathers or second.spec.gathers)
        and not (serves_references or first.artifacts)
    )


def _always_together(first: StageDefinition, second: StageDefinition, pipelines: Defined) -> bool:
    for pipeline in pipelines.values():
        stages = pipeline.spec.stages
        at = stages.index(first.spec.name) if first.spec.name in stages else -1
        follows = stages.index(second.spec.name) if second.spec.name in stages else -1
        if (at, follows) != (-1, -1) and (at < 0 or follows != at + 1):
            return False
    return True


def _fused(first: StageDefinition, second: StageDefinition) -> StageDefinition:
    """Limits of time add up; it takes as many requests at once as the smaller of them."""
    spec = replace(
        second.spec,
        timeout_s=first.spec.timeout_s + second.spec.timeout_s,
        cpu_s_max=(first.spec.cpu_s_max or 0.0) + (second.spec.cpu_s_max or 0.0),
        lease_s=min(first.spec.lease_s, second.spec.lease_s),
        batch_max=min(first.spec.batch_max, second.spec.batch_max),
        on_demand=first.spec.on_demand and second.spec.on_demand,
    )
    return replace(
        second,
        spec=spec,
        handler=HANDLER,
        runs_untrusted_code=first.runs_untrusted_code or second.runs_untrusted_code,
        parts=(*(first.parts or (first,)), *(second.parts or (second,))),
    )


def _with(
    pipeline: PipelineDefinition,
    pair: tuple[StageDefinition, StageDefinition],
    whole: StageDefinition,
) -> PipelineDefinition:
    gone, kept = (one.spec.name for one in pair)
    if gone not in pipeline.spec.stages:
        return pipeline
    stages = tuple(
        whole if stage.spec.name == kept else stage
        for stage in pipeline.stages
        if stage.spec.name != gone
    )
    spec = replace(pipeline.spec, stages=tuple(stage.spec.name for stage in stages))
    return replace(pipeline, spec=spec, stages=stages)


class FusedHandler:
    """Runs the handlers of the parts one after the other, on what each hands over."""

    def __init__(self, parts: Sequence[StageHandler]) -> None:
        """Take over the handlers, at least one, in the order of their stages."""
        self._parts = tuple(parts)

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        """Judge each request by the parts until one ends it."""
        verdicts: list[StageVerdict] = list(self._parts[0].run(works))
        for part in self._parts[1:]:
            going = [at for at, one in enumerate(verdicts) if isinstance(one, HandedOver)]
            if not going:
                break
            reached = [replace(works[at], handover=_handed(verdicts[at])) for at in going]
            for at, verdict in zip(going, part.run(reached), strict=True):
                verdicts[at] = replace(verdict, use=verdicts[at].use.plus(verdict.use))
        return verdicts

    def fault(self, work: Work) -> str:
        """See `FaultFindingHandler.fault`: only the last part may find any."""
        last = self._parts[-1]
        return last.fault(work) if isinstance(last, FaultFindingHandler) else ""

    def trusted(self, work: Work) -> Work:
        """See `TrustingHandler.trusted`: a response that reaches as many parts as it can."""
        first = self._parts[0]
        if isinstance(first, TrustingHandler):
            return first.trusted(work)
        responses = dict.fromkeys(response for response, _ in TRIVIAL)
        tried = [replace(work, response=response, messages=()) for response in responses]
        return next((one for one in tried if not _is_ended_by(first, one)), tried[0])

    def close(self) -> None:
        """Close all of them."""
        for part in self._parts:
            part.close()


def _handed(verdict: StageVerdict) -> bytes:
    return verdict.artifact if isinstance(verdict, HandedOver) else b""


def _is_ended_by(part: StageHandler, work: Work) -> bool:
    [verdict] = part.run([work])
    return isinstance(verdict, Ended)
