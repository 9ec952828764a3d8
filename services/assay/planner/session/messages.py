"""What goes to the planning process and what comes back: plain values, stages and batches by name.

The shell, which must stay light, builds a `Look` from what the store and the worker hosts said; the
planning process answers with an `Answer`. Invariant: nothing here needs numpy.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from assay.core.errors import AssayError
from assay.core.ids import BatchId, StageName, TaskId, TenantId
from assay.core.records import BatchHistory, HintRecord, OpenWork, TaskRecord
from assay.planner.session.plan_view import BatchKey, PlanView

TaskKey = tuple[TenantId, TaskId]

READY: Final = "ready"
"""What the planning process says once it can be asked."""

HINTED: Final = BatchId("")
"""Stands for the batch that a hint announced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFacts:
    """A stage as the planner may size it."""

    stage: StageName
    timeout_ns: int
    slots_min: int
    """Kept warm without work."""
    slots_max: int
    cost: float
    """Of a slot-second, in GPU-seconds."""
    startup_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFacts:
    """A stage's pool, over all worker hosts."""

    stage: StageName
    desired: int
    ready: int
    busy: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskHistory:
    """The last finished batches of a task, newest first."""

    task: TaskRecord
    batches: tuple[BatchHistory, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at the platform."""

    now_ns: int
    """By the store's clock."""
    origin_ns: int
    """What instants are counted from while planning: the same for all looks of one planner."""
    leader: bool
    stages: tuple[StageFacts, ...]
    """In the order in which requests pass them; stages without a pool are not named."""
    pools: tuple[PoolFacts, ...]
    work: tuple[OpenWork, ...]
    hints: tuple[tuple[HintRecord, TaskRecord], ...]
    histories: tuple[TaskHistory, ...] = ()
    """Those that changed since the last look; others are remembered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSlots:
    """Want this many slots."""

    stage: StageName
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPriority:
    """Serve the batch as if its deadline were that."""

    batch: BatchKey
    deadline_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRisk:
    """Say that the batch's deadline may be missed, or that it no longer is at risk."""

    batch: BatchKey
    at_risk: bool
    late_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What to do after a look."""

    ready: bool
    why: str
    wake_after_ns: int
    slots: tuple[SetSlots, ...] = ()
    priorities: tuple[SetPriority, ...] = ()
    risks: tuple[SetRisk, ...] = ()
    plan: PlanView | None = None
    """The present plan."""
    made: bool = False
    """It was made at this look."""
    planning_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What to plan with instead; `None` or not named = as it is."""

    delay_budget_ns: int | None = None
    epsilon: float | None = None
    slots_max: dict[str, int] = field(default_factory=dict)
    cost: dict[str, float] = field(default_factory=dict)
    startup_ns: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Instead of an answer."""

    error: AssayError | None = None
    """The question was wrong."""
    traceback: str = ""
    """It is a bug."""


def resting(stages: Sequence[StageFacts], pools: Sequence[PoolFacts]) -> tuple[SetSlots, ...]:
    """What to set where there is nothing to plan for: every pool at its floor."""
    floors = {facts.stage: facts.slots_min for facts in stages}
    return tuple(
        SetSlots(stage=pool.stage, slots=floors[pool.stage])
        for pool in pools
        if pool.stage in floors and pool.desired != floors[pool.stage]
    )


def fits_floor(
    stages: Sequence[StageFacts],
    work: Sequence[OpenWork],
    hints: Sequence[tuple[HintRecord, TaskRecord]],
) -> bool:
    """Whether no request can wait even if all of them come to one stage at once: then there is
    nothing to plan."""
    floors = {facts.stage: facts.slots_min for facts in stages}
    need: dict[StageName, int] = {}
    coming = [(hint.size or task.batch_size, task) for hint, task in hints]
    for one in work:
        left = len(one.requests)
        if not one.batch.over:
            left = max(left, one.batch.size - one.batch.ended)
        if one.batch.size == 0 and one.batch.state == "OPEN":
            return False
        coming.append((left, one.task))
    for size, task in coming:
        if size == 0:
            return False
        for stage in task.stages:
            if stage in floors:
                need[stage] = need.get(stage, 0) + size
    return all(count <= floors[stage] for stage, count in need.items())
