"""When `assay` plans again, how far ahead it orders, and how many spare slots it keeps."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planner.scenes import fresh_batch, pool, scene, task

from assay.config.planning import PlanSettings
from assay.model.arrays import to_ns
from assay.model.observation import past_batch
from assay.planner.core.demand import ranks
from assay.planner.core.plan import make_plan
from assay.planner.core.policy import (
    LAST_REQUESTS,
    LATE_SLOTS,
    Assay,
    agreed_peaks,
    at_least,
    deviates,
    least,
)
from assay.planner.core.shape import spares_of, target_at

FEW = PlanSettings(futures=4, shape_futures=4, tick_s=5.0, peak_factors=(1.0,))


@settings(deadline=None)
@given(startup_s=st.integers(0, 120), need_bin=st.integers(1, 60), ahead_s=st.floats(0.0, 400.0))
def test_slots_are_ordered_a_start_up_and_a_tick_before_they_are_needed(
    startup_s, need_bin, ahead_s
):
    level = [0] * need_bin + [7] * 5
    need_s = need_bin * FEW.tick_s
    at_s = max(need_s - ahead_s, 0.0)
    found = target_at(tuple(level), to_ns(at_s), pool(startup_ns=to_ns(startup_s)), FEW)
    if need_s - at_s <= startup_s + FEW.tick_s:
        assert found == 7
    longest_s = startup_s + FEW.tick_s + max(startup_s, FEW.hold_s) + 2 * FEW.tick_s
    if need_s - at_s > longest_s:
        assert found == 0, "not sooner than a start-up and the longest gap that is held"


@pytest.mark.parametrize("startup_s", [5.0, 40.0])
def test_a_slot_is_kept_through_a_gap_that_is_shorter_than_a_start_up(startup_s):
    gap = int(startup_s / FEW.tick_s)
    level = (3, *[0] * gap, 3)
    view = pool(startup_ns=to_ns(startup_s))
    assert target_at(level, to_ns(FEW.tick_s), view, FEW) == 3


@settings(deadline=None)
@given(startup_s=st.integers(0, 120), held=st.integers(0, 9), need_bin=st.integers(1, 60))
def test_a_slot_that_is_not_held_is_ordered_no_earlier_than_it_has_to_be(startup_s, held, need_bin):
    level = [0] * need_bin + [7] * 5
    view = pool(startup_ns=to_ns(startup_s), target=held)
    found = target_at(level, 0, view, FEW)
    if need_bin * FEW.tick_s > startup_s + FEW.tick_s:
        assert found <= min(held, 7), "what is held may be kept, nothing is ordered"
    else:
        assert found == 7


def test_a_slot_that_is_held_and_needed_again_before_another_could_start_is_kept():
    level, view = [0, 0, 0, 5], pool(startup_ns=to_ns(FEW.tick_s), target=5)
    assert target_at(level, 0, view, FEW) == 5
    assert target_at(level, 0, replace(view, target=0), FEW) == 0


def test_where_slots_start_slowly_a_plan_holds_the_most_of_its_futures():
    many = PlanSettings(futures=20, tick_s=5.0, peak_factors=(1.0,))
    for startup_s, most in ((60.0, True), (5.0, False)):
        pools = tuple(pool(j, startup_ns=to_ns(startup_s)) for j in range(2))
        stage = make_plan(scene(pools=pools), many).stages[0]
        assert (stage.slots_by_bin == stage.busy_high) is most


def running(count):
    """Requests that run at the first stage, and the pool that holds them."""
    batch = replace(
        fresh_batch(size=150),
        arrived=count,
        stage=np.zeros(count, np.int64),
        elapsed_ns=np.full(count, to_ns(1)),
        natural_ns=np.full(count, to_ns(201)),
        sequence=np.arange(count),
    )
    held = pool(0, target=count, running=count)
    return scene(task(batch=batch), now_ns=to_ns(200), pools=(held, pool(1)))


@pytest.mark.parametrize(("count", "again"), [(30, False), (150, True), (0, True)])
def test_a_new_plan_is_made_at_once_when_running_requests_leave_its_band(count, again):
    policy = Assay(FEW)
    policy.decide(running(30))
    first = policy.plan
    assert first is not None
    later = replace(running(count), now_ns=to_ns(206))
    assert deviates(first, later) is again
    policy.decide(later)
    assert (policy.plan is not first) is again


def test_batches_with_the_same_deadline_keep_the_order_in_which_they_are_given():
    batches = [fresh_batch(number=k) for k in range(4)]
    assert ranks(batches).tolist() == [0, 1, 2, 3]
    earlier = replace(batches[2], deadline_ns=1)
    assert ranks([batches[0], batches[1], earlier, batches[3]]).tolist() == [1, 2, 0, 3]


@given(peak=st.integers(0, 10_000), most=st.integers(0, 50), worth=st.integers(1, 60))
def test_spare_slots_are_a_hundredth_of_the_peak_or_cost_no_more_than_one_elsewhere(
    peak, most, worth
):
    pools = (pool(0, cost=1.0), pool(1, cost=float(worth)), pool(2, cost=0.0))
    cheap, dear, free = spares_of([peak] * 3, pools, PlanSettings(spare_slots=most))
    assert min(most, 1) <= free == dear <= cheap <= most
    assert dear <= max(1, peak / 100 + 1)
    assert cheap == min(most, max(dear, worth))


def ending(to_come, *, running=0, waiting=0):
    """A batch that is not late, of which `to_come` requests have not arrived and the others that
    are left are at the first stage."""
    left = running + waiting
    batch = replace(
        fresh_batch(size=150),
        arrived=150 - to_come,
        stage=np.zeros(left, np.int64),
        elapsed_ns=np.where(np.arange(left) < running, to_ns(1), -1),
        natural_ns=np.full(left, to_ns(201)),
        sequence=np.arange(left),
        deadline_ns=to_ns(10_000),
    )
    held = pool(0, target=running, running=running, waiting=waiting)
    return scene(task(batch=batch), now_ns=to_ns(200), pools=(held, pool(1)))


@pytest.mark.parametrize(
    ("to_come", "running", "waiting", "slots"),
    [
        (LAST_REQUESTS + 1, 2, 0, [0, 0]),
        (LAST_REQUESTS, 2, 0, [3, 1]),
        (1, 0, 0, [1, 1]),
        (1, 2, 4, [1, 1]),
        (0, 2, 0, [1, 1]),
        (0, 0, 0, [0, 0]),
    ],
)
def test_the_last_requests_of_a_batch_find_a_free_slot(to_come, running, waiting, slots):
    assert least(ending(to_come, running=running, waiting=waiting)) == slots


@pytest.mark.parametrize(("longest_s", "slots"), [(0.25, 1), (0.26, 3)])
@pytest.mark.parametrize("columns", [None, np.array([0, 1]), np.array([-1, 0])])
def test_no_free_slot_is_held_where_a_busy_one_is_free_within_a_small_share_of_the_budget(
    longest_s, slots, columns
):
    seen = ending(LAST_REQUESTS, running=2)
    service = np.full((9, 2), to_ns(9.0))
    service[:, 0 if columns is None else columns.tolist().index(0)] = to_ns(longest_s)
    newest = replace(past_batch(np.arange(9), service), columns=columns)
    brief = replace(seen, tasks=(replace(seen.tasks[0], history=(newest,)),))
    assert least(brief)[0] == slots, "D is 5 s"


def test_a_free_slot_is_held_whatever_the_futures_say():
    seen, policy = ending(LAST_REQUESTS, running=2), Assay(FEW)
    plan = policy.replan(seen, search=True)
    empty = replace(plan, stages=tuple(replace(s, slots_by_bin=()) for s in plan.stages))
    assert policy.apply_open(empty, seen).targets == (3, 1)


PEAKS = st.lists(st.tuples(st.integers(0, 900), st.integers(0, 90)), min_size=1, max_size=3)


@given(searches=PEAKS)
def test_peaks_fall_at_once_and_rise_as_far_as_two_searches_agree(searches):
    agreed = agreed_peaks(searches)
    for found, *peaks in zip(agreed, *searches, strict=True):
        assert found <= peaks[-1]
        if len(peaks) == 1 or peaks[-1] <= min(peaks[:-1]):
            assert found == peaks[-1]
        else:
            assert found <= max(peaks[:-1]), "one search alone raises nothing"
            assert found >= min(peaks[-1], peaks[-2])


def doubled(plan):
    """What a search finds that asks for twice as much."""
    return replace(plan, stages=tuple(replace(s, wanted=2 * s.wanted) for s in plan.stages))


def test_a_single_search_buys_no_peak_and_the_next_one_that_agrees_does():
    policy, seen = Assay(FEW), scene(now_ns=to_ns(1))
    first = policy.replan(scene(), search=True)
    high = doubled(first)
    held = policy.confirmed(high, seen, again=True)
    assert [s.wanted for s in held.stages] == [s.wanted for s in first.stages]
    assert policy.confirmed(high, seen, again=True) is high


def test_peaks_of_other_batches_rise_at_once_and_those_of_late_ones_by_a_few():
    seen = scene(now_ns=to_ns(1))
    policy = Assay(FEW)
    high = doubled(policy.replan(scene(), search=True))
    assert policy.confirmed(high, seen, again=False) is high
    policy = Assay(FEW)
    first = policy.replan(scene(), search=True)
    batch = replace(fresh_batch(), deadline_ns=to_ns(100))
    late = scene(task(batch=batch), now_ns=to_ns(1))
    few = policy.confirmed(high, late, again=True)
    assert [s.wanted for s in few.stages] == [s.wanted + LATE_SLOTS for s in first.stages]
    assert policy.confirmed(high, late, again=True) is high, "the second search that asks for it"


SIZE = st.integers(0, 60)


@given(target=SIZE, running=SIZE, waiting=SIZE, spare=st.integers(0, 9), peak=SIZE, cap=SIZE)
def test_what_waits_in_a_late_batch_raises_a_pool_a_little_and_not_at_every_tick(
    target, running, waiting, spare, peak, cap
):
    view = pool(running=running, waiting=waiting, cap=cap)
    found = at_least(target, view, spare, peak)
    assert min(target, cap) <= found <= min(max(target, peak + spare), cap)
    if waiting and running < peak:
        assert found >= min(running + min(waiting, spare), cap)
