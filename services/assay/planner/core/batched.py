"""Stages whose slots take several requests at once. Pure.

Every request of one call has the call's own time in its history, to the nanosecond, so equal times
tell how many a call had. Over the calls, the time is a fixed part and a part per request. A slot
then counts for so many *places*, each of which serves one request at a time for the time that
history has: together they serve what the slot serves when its calls are full.

Plans are made in places and divided again, since simulations know slots that serve one at a time.
"""

from dataclasses import replace
from typing import Final

import numpy as np

from assay.config.planning import PlanSettings
from assay.model.arrays import Floats
from assay.model.observation import Observation, PastBatch, PoolView
from assay.planner.core.shape import Plan, StagePlan, target_at

CALLS_MIN: Final = 8
"""Calls from which the time of a larger one is estimated; of fewer, none gains by its size."""
PAST_MAX: Final = 2
"""Past batches of each task that calls are counted in, the newest."""


def calls_of(past: PastBatch, column: int) -> tuple[Floats, Floats]:
    """Sizes and times of the calls at a stage."""
    times = past.service_ns[past.by_service[column], column]
    times = times[times > 0]
    starts = np.flatnonzero(np.diff(times, prepend=-1))
    sizes = np.diff(np.append(starts, len(times)))
    return sizes.astype(np.float64), times[starts].astype(np.float64)


def places_by(sizes: Floats, times: Floats, batch_max: int) -> float:
    """Places of a slot, from the calls that are known.

    As many as its calls had on average, which assumes that a larger call takes longer in
    proportion; more where the calls show that a part of their time does not grow with their size.
    """
    if len(sizes) == 0:
        return 1.0
    usual = float((sizes**2).sum() / sizes.sum())
    fixed, each = 0.0, 1.0
    if len(sizes) >= CALLS_MIN and sizes.min() < sizes.max():
        spread = sizes - sizes.mean()
        each = max(float(spread @ times / (spread @ spread)), 0.0)
        fixed = max(float(times.mean() - each * sizes.mean()), 0.0)
    if fixed + each <= 0:
        return 1.0
    usual = min(usual, float(batch_max))
    return max(batch_max * (fixed + each * usual) / (fixed + each * batch_max), 1.0)


def places_of(observation: Observation) -> Floats:
    """(pools,): places of a slot of each pool; 1 where it takes one request at a time."""
    found = np.ones(len(observation.pools))
    for j, pool in enumerate(observation.pools):
        if pool.batch_max <= 1:
            continue
        calls = [
            calls_of(past, column)
            for task in observation.tasks
            for past in task.history[:PAST_MAX]
            if (column := column_of(past, j)) is not None
        ]
        if calls:
            sizes = np.concatenate([one[0] for one in calls])
            times = np.concatenate([one[1] for one in calls])
            found[j] = places_by(sizes, times, pool.batch_max)
    return found


def column_of(past: PastBatch, stage: int) -> int | None:
    """The column of the stage in a past batch; `None` where it has none."""
    if past.columns is None:
        return stage
    there = np.flatnonzero(past.columns == stage)
    return int(there[0]) if len(there) else None


def in_places(observation: Observation, places: Floats) -> Observation:
    """The observation, its pools counted in places."""
    pools = tuple(
        pool if each == 1 else pool_in_places(pool, float(each))
        for pool, each in zip(observation.pools, places, strict=True)
    )
    return replace(observation, pools=pools)


def pool_in_places(pool: PoolView, places: float) -> PoolView:
    """The pool, in whole places."""
    nodes = pool.nodes
    if nodes is not None:
        nodes = replace(nodes, slots=max(int(nodes.slots * places), 1))
    return replace(
        pool,
        target=int(pool.target * places),
        idle=int(pool.idle * places),
        running=int(pool.running * places),
        starting=int(pool.starting * places),
        cap=int(pool.cap * places),
        cost=pool.cost / places,
        nodes=nodes,
    )


def in_slots(plan: Plan, places: Floats, observation: Observation, settings: PlanSettings) -> Plan:
    """The plan in slots again, within the caps of `observation`."""
    stages = tuple(
        stage if each == 1 else stage_in_slots(stage, float(each), pool, settings)
        for stage, each, pool in zip(plan.stages, places, observation.pools, strict=True)
    )
    return replace(plan, stages=stages)


def stage_in_slots(
    stage: StagePlan, places: float, pool: PoolView, settings: PlanSettings
) -> StagePlan:
    """One stage: the fewest slots that have as many places."""

    def slots(count: int) -> int:
        return int(np.ceil(count / places - 1e-9))

    level = tuple(min(slots(n), pool.cap) for n in stage.slots_by_bin)
    return StagePlan(
        target=target_at(level, 0, pool, settings),
        peak=min(slots(stage.peak), pool.cap),
        wanted=slots(stage.wanted),
        slots_by_bin=level,
        busy_low=tuple(int(n / places) for n in stage.busy_low),
        busy_high=tuple(slots(n) for n in stage.busy_high),
        demand_s=stage.demand_s / places,
        planned_s=float(sum(level) * settings.tick_s),
    )
