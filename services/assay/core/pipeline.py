"""Pipelines and stages as plain data: what runs, in which order, on which resources."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from assay.core.ids import PipelineName, StageName


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Resources of one worker of a stage; the unit that the planner counts in."""

    cpu_cores: float = 1.0
    memory_bytes: int = 512 * 1024 * 1024
    gpu: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSpec:
    """One step with one queue, one worker pool, one resource shape, one timeout.

    Several pipelines may name the same stage; they then share its queue and its workers.
    """

    name: StageName
    resources: Resources = field(default_factory=Resources)
    timeout_s: float = 60.0
    """How long one claim of work may take. Where the stage's own sandbox enforces the limits of its
    programs, the worker is then killed and the attempt has failed. Elsewhere it is killed when it
    was blocked (slept, waited for itself) for the second half of this time, and the request ends as
    RESOURCE_LIMIT; time in which other processes used the machine does not count."""
    cpu_s_max: float | None = None
    """CPU time of one call of the handler, after which its process is killed. A request that was
    alone in the call ends as RESOURCE_LIMIT; a batch is run again one by one, so that only requests
    that break the limit by themselves end so. `None` where the stage's own sandbox enforces it."""
    lease_s: float = 30.0
    """A lease not renewed for this long is lost; the worker renews after a third of it."""
    batch_max: int = 1
    """Requests that one worker takes at once. More than one only where each takes little time and
    none can affect the others. For a stage that gathers: groups."""
    gathers: bool = False
    """One work of this stage is a whole group: it waits until all requests of the group have
    arrived here or ended otherwise. A request needs a `group_id`, its batch a `group_size`."""
    on_demand: bool = False
    """A host that serves all stages starts its slots with the first request. Not for a stage whose
    first request cannot wait for the import of its handler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSpec:
    """An ordered list of stages for one kind of reward."""

    name: PipelineName
    description: str
    stages: tuple[StageName, ...]

    def next_stage(self, stage: StageName) -> StageName | None:
        """The stage after `stage`, or `None` when it is the last.

        Raises:
            ValueError: the pipeline has no such stage.
        """
        following = self.stages.index(stage) + 1
        return self.stages[following] if following < len(self.stages) else None


def followers(pipelines: Iterable[PipelineSpec]) -> dict[StageName, tuple[StageName, ...]]:
    """The stages that come after each stage, whatever pipeline its request is of."""
    found: dict[StageName, tuple[StageName, ...]] = {}
    for pipeline in pipelines:
        for index, stage in enumerate(pipeline.stages):
            after = pipeline.stages[index + 1 :]
            found[stage] = tuple(one for one in found.get(stage, after) if one in after)
    return {stage: after for stage, after in found.items() if after}
