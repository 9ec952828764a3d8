"""The loop keeps its hands off the pools unless it leads and sees."""

from dataclasses import replace

import numpy as np
from tests.planner.scenes import fresh_batch, pool, scene, task

from assay.config.planning import PlanSettings
from assay.model.arrays import to_ns
from assay.model.observation import past_batch
from assay.planner.core.loop import (
    AtRisk,
    Observed,
    PlannerLoop,
    Readiness,
    Resize,
    StoreDown,
    Wake,
)
from assay.planner.core.policy import Assay

FEW = PlanSettings(futures=4, shape_futures=4, spare_slots=5, tick_s=5.0, peak_factors=(1.0,))


def loop() -> PlannerLoop:
    return PlannerLoop(Assay(FEW))


def of(kind, effects):
    return [effect for effect in effects if isinstance(effect, kind)]


def test_without_the_store_pools_stay_and_the_readiness_says_why():
    effects = loop().step(StoreDown(now_ns=7, why="no route"))
    assert effects == (Readiness(ready=False, why="no route"), Wake(at_ns=7 + to_ns(2)))


def test_a_standby_looks_and_touches_nothing():
    assert (
        of(Resize, loop().step(Observed(observation=scene(now_ns=to_ns(150)), leader=False))) == []
    )


def test_the_leader_orders_slots_before_the_requests_come():
    resizes = of(Resize, loop().step(Observed(observation=scene(now_ns=to_ns(150)), leader=True)))
    assert [resize.pool for resize in resizes] == [0]
    assert resizes[0].target > 3


def test_a_batch_at_risk_is_said_once():
    planner = loop()
    tight = scene(pools=(pool(0, cap=3), pool(1)), now_ns=to_ns(100))
    first = planner.step(Observed(observation=tight, leader=True))
    assert [(risk.task, risk.number) for risk in of(AtRisk, first)] == [(0, 0)]
    later = replace(tight, now_ns=to_ns(105))
    assert of(AtRisk, planner.step(Observed(observation=later, leader=True))) == []
    assert all(resize.target <= 3 for resize in of(Resize, first) if resize.pool == 0)


def test_what_cannot_be_planned_leaves_the_pools_and_names_the_field():
    bad = scene(task(delay_budget_ns=-1))
    effects = loop().step(Observed(observation=bad, leader=True))
    assert of(Resize, effects) == []
    assert of(Readiness, effects)[0].why.startswith("cannot plan: tasks[0].delay_budget_ns")
    assert of(Wake, effects)


def test_a_batch_that_opened_while_the_store_was_out_is_planned_at_the_next_look():
    planner = loop()
    planner.step(Observed(observation=scene(task(open=None)), leader=True))
    planner.step(StoreDown(now_ns=1, why="out"))
    seen = scene(now_ns=to_ns(150))
    assert of(Resize, planner.step(Observed(observation=seen, leader=True)))


def test_the_last_slot_stays_while_a_late_request_may_still_come_to_its_stage():
    """All history says that what runs this long times out; it may be wrong."""
    running = replace(
        fresh_batch(size=1),
        arrived=1,
        stage=np.array([0]),
        elapsed_ns=np.array([to_ns(119)]),
        natural_ns=np.array([to_ns(519)]),
        sequence=np.array([0]),
    )
    only_timeouts = past_batch(np.array([0]), np.array([[to_ns(120), 0]]))
    seen = scene(
        task(batch=running, history=(only_timeouts,)),
        now_ns=to_ns(519),
        pools=(pool(0, target=1, running=1), pool(1, target=1, idle=1)),
    )
    assert of(Resize, loop().step(Observed(observation=seen, leader=True))) == []
    early = replace(running, deadline_ns=to_ns(10_000))
    last = replace(seen, tasks=(replace(seen.tasks[0], open=early),))
    assert of(Resize, loop().step(Observed(observation=last, leader=True))) == []
    many = replace(early, size=100)
    calm = replace(seen, tasks=(replace(seen.tasks[0], open=many),))
    assert Resize(pool=1, target=0) in loop().step(Observed(observation=calm, leader=True))
