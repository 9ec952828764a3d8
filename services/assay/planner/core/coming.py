"""The next batch of a task: when it may open, and what to hold for it until then. Pure.

A slot that is needed sooner after the opening than it takes to start has to be ordered before it.
Such slots are held from a start-up time before the earliest likely opening on, as far as a plan of
the coming batch, made from history alone, needs them. What is needed later is ordered when the
batch has opened.

A task whose open batch may be followed sooner than slots start counts as one that has none open.

When a batch opens is learnt from the times between the end of a batch and the next opening (its
gaps). A batch that does not come costs no more than `standby_share` of what a batch costs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from assay.config.planning import PlanSettings
from assay.model.arrays import SECOND_NS, Ints, to_ns
from assay.model.observation import Observation, OpenBatch, PastBatch, PoolView, TaskView
from assay.planner.core.demand import budget_ns
from assay.planner.core.plan import make_plan
from assay.planner.core.shape import StagePlan

OVERDUE_SHARE: Final = 0.5
"""A task whose batch is later than its longest gap by this share of it is taken to have stopped."""
SLOWER: Final = 1.25
"""Only where the batch would be in time even with starts that take so much longer, nothing is held
before it opens."""
NOTHING: Final[Ints] = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """When the next batch may open."""

    after_ns: int
    """From now to the earliest likely opening; 0 = at any moment."""
    stood_ns: int
    """How long it could have opened at any moment."""
    overdue_ns: int
    """How much longer than its longest gap the task has been without a batch."""


def due(gaps_ns: Sequence[int], rested_ns: int | None, waited_ns: int) -> Due:
    """When the next batch may open.

    Args:
        gaps_ns: known times from the end of a batch to the next opening.
        rested_ns: since the last batch ended; negative = it ends so much later; `None` = not known.
        waited_ns: since the task was first seen.

    Returns:
        With gaps: the shortest one that is still possible, earlier by their mean spacing, since the
        next one may be shorter than all that are known. Without: at any moment.
    """
    if not gaps_ns or rested_ns is None:
        stood_ns = waited_ns if rested_ns is None else rested_ns
        return Due(after_ns=0, stood_ns=stood_ns, overdue_ns=0)
    margin = (max(gaps_ns) - min(gaps_ns)) // len(gaps_ns)
    possible = min((gap for gap in gaps_ns if gap >= rested_ns), default=rested_ns)
    return Due(
        after_ns=max(possible - margin - rested_ns, 0),
        stood_ns=max(rested_ns - (min(gaps_ns) - margin), 0),
        overdue_ns=max(rested_ns - max(gaps_ns), 0),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Expected:
    """What history says that a task's next batch needs."""

    origin: Ints
    """Arrivals of the newest past batch: another array = the history has changed."""
    slots_by_bin: tuple[tuple[int, ...], ...]
    """By pool; bins count from the opening. Empty = every slot can be ordered in time later."""
    cost: float
    """Of the capacity of the whole batch, in the unit of the pools' costs times seconds."""
    mostly_free: tuple[bool, ...] = ()
    """By pool, as `Need.mostly_free`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Coming:
    """A batch for which slots are held."""

    after_ns: int
    slots_by_bin: tuple[tuple[int, ...], ...]
    mostly_free: tuple[bool, ...]
    """By pool, as `Need.mostly_free`."""

    def at(self, j: int) -> "Need":
        """What it needs of pool `j`."""
        return Need(
            after_ns=self.after_ns,
            slots_by_bin=self.slots_by_bin[j],
            mostly_free=self.mostly_free[j],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Slots of one pool that one batch, or all that are open, need."""

    after_ns: int
    """From now to the first bin."""
    slots_by_bin: Sequence[int]
    mostly_free: bool
    """They work for at most `epsilon` of the time, so others find them free in nearly all cases."""


def is_mostly_free(stage: StagePlan, settings: PlanSettings) -> bool:
    """Whether the plan's slots of this stage work for at most `epsilon` of their time."""
    return stage.demand_s <= settings.epsilon * stage.planned_s


def lead_ns(pool: PoolView) -> int:
    """Time from ordering a slot until it is ready, where it needs a new node."""
    return pool.startup_ns + (pool.nodes.startup_ns if pool.nodes is not None else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """The end of an open batch."""

    at_ns: int
    """When it was foreseen."""
    ends_ns: int


def foreseen(last: Foreseen | None, new: Foreseen, pools: Sequence[PoolView]) -> Foreseen:
    """The end to use: the new forecast, unless an earlier end was forecast within a start-up time.
    Forecasts come from a few futures and vary. A slot that is ordered for the next batch and
    released before it has started costs its start-up for nothing.
    """
    kept_ns = max(map(lead_ns, pools), default=0)
    is_kept = last is not None and last.ends_ns < new.ends_ns and new.at_ns - last.at_ns < kept_ns
    return last if last is not None and is_kept else new


def after_this(task: TaskView, ends_after_ns: int) -> TaskView:
    """The task as it will be when its open batch has ended."""
    return replace(task, open=None, rested_ns=-max(ends_after_ns, 0))


def comes_before_a_start(task: TaskView, pools: Sequence[PoolView], settings: PlanSettings) -> bool:
    """Whether the task's next batch may open before a slot that is ordered a tick later is ready.

    A batch that follows its predecessor sooner than slots start has to be prepared while that one
    is still open.
    """
    if not task.gaps_ns:
        return False
    after_ns = due(task.gaps_ns, task.rested_ns, 0).after_ns
    return after_ns <= max(map(lead_ns, pools), default=0) + to_ns(settings.tick_s)


def bins_ahead(ahead_ns: int, settings: PlanSettings) -> int:
    """Number of bins for which slots must be ordered now."""
    return int(np.ceil(ahead_ns / to_ns(settings.tick_s))) + 1


def needs_lead(past: PastBatch, pools: Sequence[PoolView], settings: PlanSettings) -> bool:
    """Whether a request of the past batch came to a stage before a slot could have started."""
    before_ns = past.arrived_ns.copy()
    stages = range(past.service_ns.shape[1]) if past.columns is None else past.columns.tolist()
    for column, stage in enumerate(stages):
        took_ns = past.service_ns[:, column]
        soonest = before_ns[took_ns > 0].min(initial=np.iinfo(np.int64).max)
        if stage >= 0 and soonest < lead_ns(pools[stage]) + to_ns(settings.tick_s):
            return True
        before_ns += took_ns
    return False


def expect(observation: Observation, k: int, settings: PlanSettings) -> Expected:
    """What the next batch of task `k` needs, planned alone and with empty pools."""
    task, pools = observation.tasks[k], observation.pools
    newest = task.history[0]
    if not any(needs_lead(past, pools, settings) for past in task.history):
        return Expected(origin=newest.arrived_ns, slots_by_bin=(), cost=0.0)
    now_ns = observation.now_ns
    at_once = opening(observation, k, now_ns)
    slower = tuple(replace(p, startup_ns=int(SLOWER * p.startup_ns)) for p in at_once.pools)
    later = make_plan(replace(at_once, pools=slower), settings)
    if not any(batch.late_share > 0 for batch in later.batches):
        return Expected(origin=newest.arrived_ns, slots_by_bin=(), cost=0.0)
    ahead = bins_ahead(max(lead_ns(pool) for pool in pools), settings)
    opened_ns = now_ns + ahead * to_ns(settings.tick_s)
    plan = make_plan(opening(observation, k, opened_ns), settings)
    cost = sum(
        pool.cost * (stage.planned_s + stage.peak * pool.startup_ns / SECOND_NS)
        for stage, pool in zip(plan.stages, pools, strict=True)
    )
    return Expected(
        origin=newest.arrived_ns,
        slots_by_bin=tuple(stage.slots_by_bin[ahead:] for stage in plan.stages),
        cost=cost,
        mostly_free=tuple(is_mostly_free(stage, settings) for stage in plan.stages),
    )


def opening(observation: Observation, k: int, opened_ns: int) -> Observation:
    """The observation with the next batch of task `k` alone, and empty pools."""
    task = observation.tasks[k]
    span_ns = task.history[0].natural_ns + budget_ns(task)
    batch = OpenBatch(
        number=0,
        opened_ns=opened_ns,
        deadline_ns=opened_ns + span_ns,
        size=task.batch_size,
        arrived=0,
        ended_natural_ns=0,
        stage=NOTHING,
        elapsed_ns=NOTHING,
        natural_ns=NOTHING,
        sequence=NOTHING,
    )
    return replace(
        observation,
        pools=tuple(empty(pool) for pool in observation.pools),
        tasks=tuple(
            replace(other, open=batch if other is task else None) for other in observation.tasks
        ),
    )


def empty(pool: PoolView) -> PoolView:
    """The pool without slots, as it is when nothing is held for a batch."""
    nodes = replace(pool.nodes, ready=0, starting=0) if pool.nodes is not None else None
    return replace(pool, target=0, idle=0, running=0, starting=0, waiting=0, nodes=nodes)


def standby_ns(expected: Expected, pools: Sequence[PoolView], settings: PlanSettings) -> int:
    """How long slots are held for a batch that could open at any moment."""
    rate = sum(
        pool.cost * max(levels[: bins_ahead(lead_ns(pool), settings)], default=0)
        for levels, pool in zip(expected.slots_by_bin, pools, strict=True)
    )
    return to_ns(settings.standby_share * expected.cost / rate) if rate > 0 else 0


def coming(
    task: TaskView,
    expected: Expected,
    pools: Sequence[PoolView],
    waited_ns: int,
    settings: PlanSettings,
) -> Coming | None:
    """The task's next batch; `None` where nothing is held for it: nothing need be ordered before it
    opens, no batch of the task has followed another so far, or it has not come for too long."""
    if not expected.slots_by_bin or task.open is not None:
        return None
    if task.rested_ns is not None and not task.gaps_ns:
        return None
    when = due(task.gaps_ns, task.rested_ns, waited_ns)
    patience_ns = OVERDUE_SHARE * max(task.gaps_ns, default=0) + to_ns(settings.tick_s)
    if when.stood_ns >= standby_ns(expected, pools, settings) or when.overdue_ns > patience_ns:
        return None
    return Coming(
        after_ns=when.after_ns,
        slots_by_bin=expected.slots_by_bin,
        mostly_free=expected.mostly_free,
    )


def needed_ahead(
    present: Need, batches: Iterable[Need], ahead_ns: int, settings: PlanSettings
) -> int:
    """Slots that open and coming batches need together before one ordered now is ready.

    Slots that are mostly free are there for all batches whose slots are: a sum of what each needs
    would hold a slot per task where one serves them all.

    Args:
        present: of the open batches.
        batches: of each coming batch.
        ahead_ns: from ordering a slot until it is ready.
        settings: how to plan.

    Returns:
        0 where no coming batch needs a slot so soon: the plan of the open batches is enough.
    """
    tick_ns, bins = to_ns(settings.tick_s), bins_ahead(ahead_ns, settings)
    own, shared = np.zeros(bins, np.int64), np.zeros(bins, np.int64)

    def add(one: Need) -> None:
        first = one.after_ns // tick_ns
        part = np.array(one.slots_by_bin[: max(bins - first, 0)], np.int64)
        into = slice(first, first + len(part))
        if one.mostly_free:
            shared[into] = np.maximum(shared[into], part)
        else:
            own[into] += part

    for one in batches:
        add(one)
    if not (own + shared).any():
        return 0
    add(present)
    return int((own + shared).max())
