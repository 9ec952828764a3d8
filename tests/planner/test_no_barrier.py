"""Tasks whose trainers use rewards as they come: D bounds how late each single request is."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planner import snapshots
from tests.planner.scenes import fresh_batch, pool, scene, task
from tests.sim.builders import small_workload

from assay.config.planning import PlanSettings
from assay.model.arrays import Floats, to_ns
from assay.planner.core.demand import open_tasks
from assay.planner.core.futures import draw_futures
from assay.planner.core.plan import make_plan
from assay.planner.core.policy import Assay, any_late, least
from assay.planner.session.observe import observation_of
from assay.sim.pools.cluster import Cluster, StartUp
from assay.sim.pools.runner import Options, Runner
from assay.sim.pools.workload import Workload

FEW = PlanSettings(futures=8, shape_futures=8, spare_slots=5, tick_s=2.0, peak_factors=(1.0,))
CAPPED = Cluster(startup=(StartUp(median_s=2.0),))


def request_delays_s(workload: Workload, plans: PlanSettings = FEW) -> tuple[Floats, list[float]]:
    """How much later than without queueing each request of each task ended, largest per task, and d
    of every batch as the simulation reports it."""
    runner = Runner(workload, CAPPED, Assay(plans), Options(seed=1))
    result = runner.run()
    state, found = runner.world.state, []
    for places in runner.world.places:
        rows = [slice(place.first, place.end) for place in places]
        late = [
            state.ended_ns[r] - state.arrived_ns[r] - state.service_ns[r].sum(axis=1) for r in rows
        ]
        found.append(np.concatenate(late) / 1e9)
    return np.array(found), [batch.extra_delay_s for batch in result.batches]


def test_no_request_is_held_back_for_longer_than_the_budget_where_there_is_no_barrier():
    mine = small_workload(iterations=2, seed=3, delay_budget_s=4.0)
    alone = replace(mine, tasks=tuple(replace(one, barrier=False) for one in mine.tasks))
    held_back, _ = request_delays_s(mine)
    late, delays = request_delays_s(alone)
    assert np.quantile(held_back, 0.95) > 4.0, "a batch may hold requests back until its end"
    assert np.quantile(late, 0.95) <= 4.0
    assert late.mean() < held_back.mean() / 2
    assert max(delays) == late.max(), "d is the largest over the requests"


def test_both_kinds_share_a_pool_and_each_keeps_its_own_goal():
    mine = small_workload(tasks=2, iterations=2, seed=5, delay_budget_s=4.0)
    first, second = mine.tasks
    mixed = replace(mine, tasks=(first, replace(second, barrier=False)))
    late, delays = request_delays_s(mixed)
    assert np.quantile(late[1], 0.95) <= 4.0
    assert np.quantile(late[0], 0.95) <= 4.0
    assert np.mean(np.array(delays[: len(delays) // 2]) <= 4.0) >= 0.5


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000))
def test_each_request_has_its_own_end_without_a_barrier_and_its_batch_s_with_one(seed):
    both = scene(task(seed), task(seed + 1, barrier=False))
    futures = draw_futures(
        0, open_tasks(both), both.tasks, count=2, seed=seed, prior=PlanSettings().prior
    )
    for future in futures:
        due, possible = future.ends_due(), future.ends_possible()
        work = future.demand.service_ns.sum(axis=1)
        kept = future.batch_of == 0
        assert (due[kept] == future.natural_ns[0]).all()
        assert (due[~kept] == (future.demand.release_ns + work)[~kept]).all()
        assert due[~kept].max() == future.natural_ns[1], "T is the end of the last"
        assert (possible[~kept] <= due[~kept]).all()


def test_a_request_that_has_waited_is_late_by_that():
    waited = np.array([to_ns(30)])
    batch = replace(
        fresh_batch(size=150), arrived=1, stage=np.array([0]), elapsed_ns=np.array([-1]),
        natural_ns=np.array([0]), sequence=np.array([0]),
    )  # fmt: skip
    now = scene(task(1, batch, barrier=False), now_ns=int(waited[0]))
    (future,) = draw_futures(
        now.now_ns, open_tasks(now), now.tasks, count=1, seed=0, prior=PlanSettings().prior
    )
    assert future.ends_possible()[0] - future.ends_due()[0] == waited[0]


def test_a_plan_without_a_barrier_needs_more_slots_and_no_fewer_when_time_is_short():
    held = [make_plan(scene(task(seed)), FEW).stages[0].wanted for seed in range(3)]
    alone = [make_plan(scene(task(seed, barrier=False)), FEW).stages[0].wanted for seed in range(3)]
    loose = [
        make_plan(scene(task(seed, barrier=False, delay_budget_ns=to_ns(60))), FEW).stages[0].wanted
        for seed in range(3)
    ]
    assert sum(alone) > sum(held)
    assert sum(alone) > sum(loose)


def test_a_task_without_a_barrier_is_never_late_as_a_batch_but_keeps_a_slot_where_work_may_come():
    late = fresh_batch()
    soon = to_ns(599)
    with_one = scene(task(1, late), now_ns=soon, pools=(pool(0), pool(1)))
    without = scene(task(1, late, barrier=False), now_ns=soon, pools=(pool(0), pool(1)))
    assert any_late(with_one)
    assert not any_late(without)
    assert least(without) == [1, 1]


def test_patterns_of_the_settings_name_the_tasks():
    one, two = snapshots.task("stream-1"), snapshots.task("steps")
    seen = snapshots.snapshot(snapshots.work(one), snapshots.work(two, batch="c"))
    for patterns, expected in [((), [True, True]), (("team/stream-*",), [False, True])]:
        views = observation_of(seen, {}, None, None, patterns).observation.tasks
        assert sorted(view.barrier for view in views) == sorted(expected)
    found = snapshots.session(no_barrier=("team/*",))
    assert found.step(seen).ready
    scene_ = found._scene
    assert scene_ is not None
    assert not any(view.barrier for view in scene_.observation.tasks)
