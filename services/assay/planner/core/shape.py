"""The plan: slots per stage and bin of time, and how many slots to hold now.

A bin's slots are a quantile, over the futures, of the most requests that run at once in it; the
largest where slots start more slowly than plans are made, since a later plan comes too late to mend
what this one left to chance, and where a trainer uses rewards as they come. A slot that is needed
within its start-up time must be ordered now; one that is held and will be idle for less than
another takes to start is kept.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from assay.config.planning import PlanSettings
from assay.model.arrays import Floats, Ints, to_ns
from assay.model.observation import Observation, PoolView
from assay.planner.core.demand import open_tasks
from assay.planner.core.trial import Trial, startup_of

SPARE_SHARE: Final = 0.01
"""Spare slots of a stage, as a share of its peak."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOutlook:
    """The expected end of one open batch under the plan."""

    task: int
    """Index into the observation's tasks."""
    number: int
    budget_ns: int
    late_share: float
    """Share of futures with d > D."""
    delay_mean_ns: int
    at_risk: bool
    """D is missed in more than eps of the futures."""
    ends_ns: int
    """When it ends if nothing queues: the median over the futures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePlan:
    """Slots of one stage."""

    target: int
    """Slots to hold from now on."""
    peak: int
    """Most at any time."""
    wanted: int
    """`peak` without the cap."""
    slots_by_bin: tuple[int, ...]
    """N_j(t), one entry per bin from `Plan.now_ns` on."""
    busy_low: tuple[int, ...]
    busy_high: tuple[int, ...]
    """Per bin, the fewest and the most requests that ran at once, over the futures."""
    demand_s: float
    """Slot-seconds of work left (mean over the futures): no plan can hold less."""
    planned_s: float
    """Slot-seconds of `slots_by_bin`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`N_j(t)` per stage, and its origin."""

    now_ns: int
    bin_ns: int
    stages: tuple[StagePlan, ...]
    batches: tuple[BatchOutlook, ...]
    order: tuple[int, ...]
    """Tasks in the order to serve them, where the caps bind and another order than by deadline
    costs the trainers less; else empty."""
    futures: int
    simulations: int
    reason: str

    @property
    def targets(self) -> tuple[int, ...]:
        """Slots per stage to hold from now on."""
        return tuple(stage.target for stage in self.stages)


NO_SLOTS: Final = StagePlan(
    target=0,
    peak=0,
    wanted=0,
    slots_by_bin=(),
    busy_low=(),
    busy_high=(),
    demand_s=0.0,
    planned_s=0.0,
)
"""Of a stage that no open batch needs."""


def empty_plan(observation: Observation, settings: PlanSettings) -> Plan:
    """The plan while no batch is open: no slots."""
    return Plan(
        now_ns=observation.now_ns,
        bin_ns=to_ns(settings.tick_s),
        stages=tuple(NO_SLOTS for _ in observation.pools),
        batches=(),
        order=(),
        futures=0,
        simulations=0,
        reason="no batch is open",
    )


def shape_plan(
    observation: Observation,
    settings: PlanSettings,
    trial: Trial,
    wanted: Ints,
    peaks: Ints,
    busy: Ints,
    delays: Floats,
) -> Plan:
    """Make the plan from what the futures showed.

    Args:
        observation: what was planned from.
        settings: how to plan.
        trial: the futures.
        wanted: (stages,) peaks without the caps.
        peaks: (stages,) peaks within the caps.
        busy: (futures, stages, bins) most requests that ran at once.
        delays: (futures, batches) extra delays in ns.
    """
    low, high = busy.min(axis=0), busy.max(axis=0)
    level = np.quantile(busy, settings.shape_quantile, axis=0, method="higher").astype(np.int64)
    alone = [task for task, _ in open_tasks(observation) if not task.barrier]
    strict = [
        startup_of(pool) > to_ns(settings.replan_s) or any(task.timeout_ns[j] for task in alone)
        for j, pool in enumerate(observation.pools)
    ]
    level[strict] = high[strict]
    spare = np.array(spares_of(peaks.tolist(), observation.pools, settings), np.int64)
    level = np.maximum(level, np.minimum(high, spare[:, None]))
    stages = []
    for j, pool in enumerate(observation.pools):
        work = np.mean([f.demand.service_ns[:, j].sum() for f in trial.futures]) / 1e9
        stages.append(
            StagePlan(
                target=target_at(level[j], 0, pool, settings),
                peak=int(peaks[j]),
                wanted=int(wanted[j]),
                slots_by_bin=trim(level[j]),
                busy_low=trim(low[j]),
                busy_high=trim(high[j]),
                demand_s=float(work),
                planned_s=float(level[j].sum() * settings.tick_s),
            )
        )
    return Plan(
        now_ns=observation.now_ns,
        bin_ns=to_ns(settings.tick_s),
        stages=tuple(stages),
        batches=outlook(observation, settings, trial, delays),
        order=(),
        futures=len(trial.futures),
        simulations=trial.simulations,
        reason="planned",
    )


def spares_of(peaks: Sequence[int], pools: Sequence[PoolView], settings: PlanSettings) -> list[int]:
    """Spare slots of each stage: a share of its peak, and at least as many as cost no more than one
    slot of the most expensive stage. In a thin trickle, spare slots are most of the cost."""
    highest = max((pool.cost for pool in pools), default=0.0)
    return [
        min(
            settings.spare_slots,
            max(math.ceil(SPARE_SHARE * peak), int(highest / pool.cost) if pool.cost else 1, 1),
        )
        for peak, pool in zip(peaks, pools, strict=True)
    ]


def target_at(
    level: Ints | Sequence[int], offset_ns: int, pool: PoolView, settings: PlanSettings
) -> int:
    """Slots to hold `offset_ns` after the plan was made: those needed within a start-up time and a
    tick, and of those held the ones needed again before another could start."""
    startup_s = pool.startup_ns / 1e9
    kept_s = max(startup_s + settings.start_price_s, settings.hold_s)
    ordered_s = startup_s + settings.tick_s
    needed, again = peaks_at(level, offset_ns, settings, ordered_s=ordered_s, kept_s=kept_s)
    return min(max(needed, min(again, pool.target)), pool.cap)


def peaks_at(
    level: Ints | Sequence[int],
    offset_ns: int,
    settings: PlanSettings,
    *,
    ordered_s: float,
    kept_s: float,
) -> tuple[int, int]:
    """Most slots from `offset_ns` until what is ordered then is there (`ordered_s`), and from there
    for `kept_s`."""
    tick_ns, ordered_ns = to_ns(settings.tick_s), offset_ns + to_ns(ordered_s)
    first, soon = offset_ns // tick_ns, ordered_ns // tick_ns + 1
    last = -(-(ordered_ns + to_ns(kept_s)) // tick_ns) + 1
    needed, again = (
        max((int(n) for n in part), default=0) for part in (level[first:soon], level[soon:last])
    )
    return needed, again


def trim(level: Ints) -> tuple[int, ...]:
    """The levels without the zeros at the end."""
    last = int(np.flatnonzero(level).max(initial=-1))
    return tuple(level[: last + 1].tolist())


def outlook(
    observation: Observation, settings: PlanSettings, trial: Trial, delays: Floats
) -> tuple[BatchOutlook, ...]:
    """The expected end of each open batch."""
    indices = [k for k, task in enumerate(observation.tasks) if task.open is not None]
    found = []
    for b, (task, (_, batch)) in enumerate(zip(indices, open_tasks(observation), strict=True)):
        late = float(np.mean(delays[:, b] > trial.budgets[b]))
        found.append(
            BatchOutlook(
                task=task,
                number=batch.number,
                budget_ns=int(trial.budgets[b]),
                late_share=late,
                delay_mean_ns=int(delays[:, b].mean()),
                at_risk=late > settings.epsilon,
                ends_ns=int(np.median([int(future.earliest_ns[b]) for future in trial.futures])),
            )
        )
    return tuple(found)
