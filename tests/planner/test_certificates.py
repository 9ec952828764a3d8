"""What a plan says of itself: its gap to the bound, its alternatives, what outlives its history."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from tests.planner.snapshots import NOW, S, in_flight, limits, past, sent, session, snapshot, work
from tests.planner.snapshots import task as record

from assay.planner.service.narrate import outlook
from assay.planner.session.messages import Change, PoolState
from assay.planner.session.what_if import changed


def planning(startup_s=1, slots=0, **more):
    """A session with a plan of a batch that opens now, and its decision."""
    one, task = session(), record()
    stages = tuple(replace(limit, startup_ns=startup_s * S) for limit in limits())
    pools = tuple(
        PoolState(stage=limit.stage, desired=slots, ready=slots, busy=0) for limit in stages
    )
    look = snapshot(
        work(task, [in_flight()]), stages=stages, pools=pools, histories=(sent(task, past()),),
        **more,
    )  # fmt: skip
    return one, one.step(look)


@examples(max_examples=10, deadline=None)
@given(startup_s=st.integers(0, 120), slots=st.sampled_from([0, 3, 50]))
def test_no_plan_is_cheaper_than_its_bound(startup_s, slots):
    _, decision = planning(startup_s, slots)
    assert decision.plan is not None
    assert decision.plan.gap >= 0.99


def test_the_gap_is_to_the_bound_and_not_to_the_work():
    _, decision = planning(startup_s=100)
    plan = decision.plan
    assert plan is not None
    assert any(stage.slots_bound for stage in plan.stages)
    planned = sum(
        s.cost * (s.planned_s + 100 * max(s.slots_by_bin, default=0)) for s in plan.stages
    )
    work_alone = sum(stage.cost * stage.bound_s for stage in plan.stages)
    bound = work_alone + sum(s.cost * 100 * s.slots_bound for s in plan.stages)
    assert plan.gap == pytest.approx(planned / bound)
    assert plan.gap < planned / work_alone


def test_what_if_compares_two_plans_of_one_instant():
    one, decision = planning()
    same = one.what_if(Change())
    assert same.plan == same.present
    other = one.what_if(Change(delay_budget_ns=30 * S))
    assert other.present == same.present, "the present plan does not depend on the question"
    assert other.plan.made_ns == other.present.made_ns == decision.plan.made_ns
    assert {b.delay_budget_s for b in other.plan.batches} == {30.0}
    assert {b.delay_budget_s for b in other.present.batches} != {30.0}


def test_a_change_leaves_the_scene_as_it_was():
    one, _ = planning()
    before = one._scene
    assert before is not None
    changed(before, Change(slots_max={"run": 1}))
    assert one.what_if(Change()).present.stages[1].slots_max == 50


@pytest.mark.parametrize(("ran_s", "count"), [(4, 0), (6, 1), (30, 1)])
def test_an_explanation_counts_what_has_run_longer_than_all_history(ran_s, count):
    one, task = session(), record()
    running = in_flight(claimed_ns=NOW - ran_s * S)
    look = snapshot(
        work(task, [running, in_flight()], opened_ns=NOW - 40 * S),
        histories=(sent(task, past(took_ns=(5 * S, S))),),
    )
    plan = one.step(look).plan
    assert plan is not None
    (batch,) = plan.batches
    assert batch.outlived == count
    assert ("run longer than any of its history" in outlook(batch)) is (count > 0)
