"""When `assay` plans again, how far ahead it orders, and how many spare slots it keeps."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planner.scenes import fresh_batch, pool, scene, task

from assay.config.planning import PlanSettings
from assay.model.arrays import to_ns
from assay.planner.core.demand import ranks
from assay.planner.core.plan import make_plan
from assay.planner.core.policy import Assay, at_least, deviates
from assay.planner.core.shape import spare_of, target_at

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


@given(peak=st.integers(0, 10_000), most=st.integers(0, 50))
def test_spare_slots_are_a_hundredth_of_the_peak_and_one_at_least(peak, most):
    found = spare_of(peak, PlanSettings(spare_slots=most))
    assert min(most, 1) <= found <= most
    assert found <= max(1, peak / 100 + 1)


@given(
    target=st.integers(0, 50), running=st.integers(0, 50), peak=st.integers(0, 50),
    spare=st.integers(0, 5), waiting=st.integers(0, 50),
)  # fmt: skip
def test_the_last_requests_get_spare_slots_which_do_not_add_up_at_the_crest(
    target, running, peak, spare, waiting
):
    held = running
    for _ in range(20):
        view = pool(running=held, waiting=waiting, cap=60)
        found = at_least(target, view, peak, spare)
        assert found >= min(target, 60)
        assert found >= min(held + min(waiting, spare), peak + spare, 60)
        assert found <= max(target, peak + spare), "however long requests wait"
        held = found


class Recorded:
    """Stands for `make_plan`: keeps what it was asked."""

    def __init__(self):
        self.bought: list[Any] = []

    def __call__(self, *args, bought, **kwargs):
        self.bought.append(bought)
        return make_plan(*args, bought=bought, **kwargs)


def test_what_a_batch_was_given_or_promised_is_bought_until_the_batches_change(monkeypatch):
    asked = Recorded()
    monkeypatch.setattr("assay.planner.core.policy.make_plan", asked)
    policy = Assay(FEW)
    policy.replan(scene(), search=True)
    promised = policy.plan
    assert promised is not None
    wanted = [stage.wanted for stage in promised.stages]
    policy.replan(scene(now_ns=to_ns(1)), search=True)
    assert asked.bought == [None, wanted], "promised"
    given = (wanted[0] + 9, 1)
    applied = policy.plan
    assert applied is not None
    applied = replace(
        applied,
        stages=tuple(
            replace(stage, slots_by_bin=(n,) * 9)
            for stage, n in zip(applied.stages, given, strict=True)
        ),
    )
    policy.plan = applied
    policy.apply(applied, scene(now_ns=to_ns(2)))
    policy.replan(scene(now_ns=to_ns(3)), search=True)
    assert asked.bought[-1][0] == given[0]
    policy.replan(scene(task(batch=fresh_batch(number=1)), now_ns=to_ns(4)), search=True)
    assert asked.bought[-1:] == [None]
    policy.replan(scene(task(batch=fresh_batch(number=1)), now_ns=to_ns(5)), search=True)
    assert asked.bought[-1][0] < given[0], "another batch has bought nothing yet"
