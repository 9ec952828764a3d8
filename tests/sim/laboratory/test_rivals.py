"""The rivals do what their descriptions say, and get every batch done."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planner.scenes import fresh_batch, pool, scene, task
from tests.sim.builders import small_workload

from assay.core.errors import InvalidRequest
from assay.model.arrays import to_ns
from assay.model.observation import Cause
from assay.sim.policies.distrs import Distrs
from assay.sim.policies.rivals import CappedReaction, PinnedToTrajectory, Reaction, StaticByTask
from assay.sim.pools.cluster import Cluster
from assay.sim.pools.runner import Options, simulate

LOADS = st.lists(
    st.tuples(st.floats(0.5, 20), st.integers(0, 500), st.integers(0, 500)), min_size=1, max_size=30
)


@settings(deadline=None)
@given(loads=LOADS, spare=st.integers(0, 9), keep_s=st.floats(1, 60))
def test_a_reaction_holds_the_most_of_its_window_and_the_spare(loads, spare, keep_s):
    policy = Reaction(spare=spare, keep_s=keep_s)
    seen: list[tuple[int, int]] = []
    now_ns = 0
    for after_s, running, waiting in loads:
        now_ns += to_ns(after_s)
        views = tuple(pool(j, running=running, waiting=waiting) for j in range(2))
        seen.append((now_ns, running + waiting + spare))
        sizing = policy.decide(scene(now_ns=now_ns, pools=views))
        expected = max(n for at, n in seen if at > now_ns - to_ns(keep_s))
        assert sizing.targets == (expected, expected)


def test_a_reaction_holds_nothing_between_batches():
    policy = Reaction(spare=5)
    assert policy.decide(scene(task(batch=None, open=None))).targets == (0, 0)


def test_a_lone_call_is_no_batch_of_which_more_may_come():
    call = task(batch=fresh_batch(size=1), batch_size=1)
    assert Reaction(spare=5).decide(scene(call)).targets == (0, 0)
    assert Reaction(spare=5).decide(scene(call, task())).targets == (5, 5)


@pytest.mark.parametrize("keep_s", [0.0, -1.0, float("nan"), float("inf")])
def test_a_reaction_without_a_window_is_refused(keep_s):
    with pytest.raises(InvalidRequest):
        Reaction(keep_s=keep_s)


def test_the_capped_reaction_holds_no_more_than_distrs_and_leaves_no_stage_empty():
    views = (pool(0, waiting=9_999), pool(1, waiting=9_999))
    seen = replace(
        scene(task(batch=replace(fresh_batch(), arrived=1)), pools=views), cause=Cause.FIRST_REQUEST
    )
    assert CappedReaction().decide(seen).targets == Distrs().decide(seen).targets
    nothing = replace(scene(task(open=None), pools=views), cause=Cause.BATCH_END)
    assert CappedReaction().decide(nothing).targets == (1, 1)


def test_a_pinned_slot_is_held_from_the_rollouts_start_to_the_reward():
    start = PinnedToTrajectory().decide(scene(task(batch=fresh_batch(size=150))))
    assert start.targets == (150, 150)
    later = replace(fresh_batch(size=150), arrived=40)
    assert PinnedToTrajectory().decide(scene(task(batch=later))).targets == (110, 110)


def test_static_pools_never_change():
    workload = small_workload(tasks=2)
    result = simulate(workload, Cluster(), StaticByTask(), Options(seed=1))
    assert result.resizes == 4, "one per pool, at the start"
    assert result.slots_peak == result.slots_started


@pytest.mark.parametrize("make", [Reaction, CappedReaction, PinnedToTrajectory, StaticByTask])
@settings(deadline=None, max_examples=3)
@given(seed=st.integers(0, 9))
def test_every_rival_gets_every_batch_done(make, seed):
    result = simulate(small_workload(seed=seed), Cluster(), make(), Options(seed=seed))
    assert all(sum(batch.outcomes.values()) == 150 for batch in result.batches)
