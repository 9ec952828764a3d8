"""A scene under other conditions, for the question "what would be planned if"."""

from dataclasses import replace

import numpy as np

from assay.core.errors import InvalidRequest
from assay.model.observation import PoolView
from assay.planner.session.messages import Change
from assay.planner.session.observe import Scene


def changed(scene: Scene, change: Change) -> Scene:
    """The scene under other conditions.

    Raises:
        InvalidRequest: a stage that has no pool, or a number that is out of range.
    """
    check(change, [limits.stage for limits in scene.stages])
    before = scene.observation
    names = [limits.stage for limits in scene.stages]
    pools = tuple(
        changed_pool(pool, name, change) for name, pool in zip(names, before.pools, strict=True)
    )
    tasks = before.tasks
    if change.delay_budget_ns is not None:
        tasks = tuple(replace(task, delay_budget_ns=change.delay_budget_ns) for task in tasks)
    stages = tuple(
        replace(limits, slots_max=pool.cap, cost=pool.cost, startup_ns=pool.startup_ns)
        for limits, pool in zip(scene.stages, pools, strict=True)
    )
    observation = replace(before, tasks=tasks, pools=pools)
    return replace(scene, observation=observation, stages=stages)


def check(change: Change, stages: list[str]) -> None:
    """Check a change.

    Raises:
        InvalidRequest: a stage that has no pool, or a number that is out of range.
    """
    given = (("slots_max", change.slots_max), ("cost", change.cost))
    for field, by_stage in (*given, ("startup_s", change.startup_ns)):
        for stage, value in by_stage.items():
            if stage not in stages:
                raise InvalidRequest(f"no pool of stage {stage}", field=field)
            if not np.isfinite(value) or value < 0:
                message = f"{field} of stage {stage}: must be a number of at least 0"
                raise InvalidRequest(message, field=field)
    if change.delay_budget_ns is not None and change.delay_budget_ns < 0:
        raise InvalidRequest("delay_budget_s: below 0", field="delay_budget_s")


def changed_pool(pool: PoolView, stage: str, change: Change) -> PoolView:
    """The pool of a stage under other conditions."""
    return replace(
        pool,
        cap=change.slots_max.get(stage, pool.cap),
        cost=change.cost.get(stage, pool.cost),
        startup_ns=change.startup_ns.get(stage, pool.startup_ns),
    )
