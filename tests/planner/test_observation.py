"""From the store's records to what policies see; any content of the store gets a decision."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.planner import snapshots
from tests.planner.snapshots import COMPILE, JUDGE, NOW, RUN, S

from assay.core.errors import InvalidRequest
from assay.core.ids import StageName
from assay.core.outcome import Outcome
from assay.core.records import BatchHistory, BatchState, RequestHistory
from assay.model.stage_order import in_pipeline_order
from assay.planner.session.messages import fits_floor, resting
from assay.planner.session.observe import (
    in_columns,
    observation_of,
    read_batch,
    read_history,
)
from assay.planner.session.session import reorder, with_floors

AT = snapshots.task()
KEY = (AT.tenant, AT.task_id)


def scene(snapshot, *batches):
    known = {KEY: read_history(AT, batches, (), batches_max=9)} if batches else {}
    return observation_of(snapshot, known, None)


def only(snapshot, *batches):
    (task,) = scene(snapshot, *batches).observation.tasks
    return task


def test_a_running_request_has_run_since_its_claim_and_a_queued_one_not_at_all():
    requests = [
        snapshots.in_flight(claimed_ns=NOW - 7 * S),
        snapshots.in_flight(RUN, arrived_ns=3 * S),
    ]
    batch = only(snapshots.snapshot(snapshots.work(AT, requests, opened_ns=NOW - 20 * S))).open
    assert batch.elapsed_ns.tolist() == [7 * S, -1]
    assert batch.stage.tolist() == [0, 1]
    assert batch.natural_ns.tolist() == [7 * S, 3 * S]


def test_a_clock_behind_the_stores_gives_no_negative_time():
    batch = only(
        snapshots.snapshot(snapshots.work(AT, [snapshots.in_flight(claimed_ns=NOW + 9 * S)]))
    ).open
    assert batch.elapsed_ns.tolist() == [0]


def test_instants_count_from_the_origin_so_that_the_simulations_far_is_far():
    found = scene(snapshots.snapshot(snapshots.work(AT))).observation
    assert found.now_ns == 1000 * S
    assert found.tasks[0].open.opened_ns == 1000 * S


def test_counters_read_after_the_requests_are_brought_to_agree():
    work = snapshots.work(AT, [snapshots.in_flight()] * 3, ended=4, submitted=9)
    batch = only(snapshots.snapshot(work)).open
    assert batch.arrived == 7, "two that came between the readings are still to come"
    assert batch.sequence.tolist() == [4, 5, 6]


@pytest.mark.parametrize(
    ("state", "said", "arrived", "expected"),
    [
        (BatchState.OPEN, 20, 3, 20),
        (BatchState.OPEN, 2, 3, 3),
        (BatchState.SEALED, 20, 3, 3),
        (BatchState.OPEN, 0, 3, 0),
    ],
)
def test_the_size_is_what_was_said_and_never_less_than_what_came(state, said, arrived, expected):
    one = snapshots.task(batch_size=0)
    work = snapshots.work(one, [snapshots.in_flight()] * arrived, size=said, state=state)
    assert only(snapshots.snapshot(work)).open.size == expected


def test_a_task_without_batch_size_takes_that_of_the_open_batch():
    one = snapshots.task(batch_size=0)
    assert only(snapshots.snapshot(snapshots.work(one, size=33))).batch_size == 33


def test_a_hint_is_a_batch_opened_then_of_which_nothing_has_come():
    snapshot = snapshots.snapshot(hints=(snapshots.hint(AT, size=12, hinted_ns=NOW - S),))
    batch = only(snapshot, snapshots.past(every_ns=2 * S)).open
    assert (batch.size, batch.arrived, len(batch.stage)) == (12, 0, 0)


def test_a_batch_that_is_late_to_begin_counts_as_opened_later_so_that_pools_stay_warm():
    snapshot = snapshots.snapshot(hints=(snapshots.hint(AT, hinted_ns=NOW - 100 * S),))
    batch = only(snapshot, snapshots.past()).open
    assert batch.opened_ns == snapshot.now_ns - snapshot.origin_ns, (
        "its first request comes at once"
    )


def test_a_hint_that_nobody_followed_is_forgotten():
    snapshot = snapshots.snapshot(hints=(snapshots.hint(AT, hinted_ns=NOW - 3_000 * S),))
    assert only(snapshot).open is None


def test_a_request_at_a_stage_without_a_pool_is_left_out():
    requests = [snapshots.in_flight(JUDGE), snapshots.in_flight(RUN)]
    assert only(snapshots.snapshot(snapshots.work(AT, requests))).open.stage.tolist() == [1]


def test_a_task_none_of_whose_stages_has_a_pool_is_left_out():
    one = snapshots.task(stages=(JUDGE,))
    assert (
        scene(
            snapshots.snapshot(snapshots.work(one, [snapshots.in_flight(JUDGE, stages=1)]))
        ).subjects
        == ()
    )


def test_a_stage_that_vanished_and_one_that_appeared_change_columns_not_rows():
    batch = read_batch(snapshots.past(requests=2), (COMPILE, RUN))
    found = in_columns(batch.past, (COMPILE, RUN), (JUDGE, COMPILE))
    assert found.columns is not None
    assert found.columns.tolist() == [1, -1]
    assert found.service_ns is batch.past.service_ns


NONSENSE = {
    "negative": (-1, 0),
    "not a number": (math.nan, 0),
    "endless": (math.inf, 0),
    "beyond 64 bits": (2**70, 0),
    "beyond a month": (40 * 24 * 3600 * S, 0),
    "a stage too many": (1, 2, 3),
    "text": ("soon", 0),
}


@pytest.mark.parametrize("took", NONSENSE.values(), ids=NONSENSE)
def test_a_past_batch_that_makes_no_sense_is_refused_and_the_others_are_read(took):
    request = RequestHistory(arrived_after_ns=0, service_ns=took, outcome=Outcome.SCORED)
    broken = replace(snapshots.past("broken"), requests=(request,))
    with pytest.raises(InvalidRequest):
        read_batch(broken, AT.stages)
    read = read_history(AT, [broken, snapshots.past("good")], (), batches_max=4)
    assert [one.batch_id for one in read.batches] == ["good"]
    assert len(read.unread) == 1
    assert read.unread[0].startswith("broken: ")


def test_history_is_put_together_newest_first_read_once_and_bounded():
    first = read_history(AT, [snapshots.past("b2"), snapshots.past("b1")], (), batches_max=3)
    news = [snapshots.past("b4"), snapshots.past("b3"), snapshots.past("b2")]
    second = read_history(AT, news, first.batches, batches_max=3)
    assert [one.batch_id for one in second.batches] == ["b4", "b3", "b2"]
    assert second.batches[2].past is first.batches[0].past


def test_a_batch_in_which_nothing_was_judged_teaches_nothing():
    empty = BatchHistory(
        batch_id=snapshots.past().batch_id, opened_ns=0, completed_ns=0, deadline_ns=0, requests=()
    )
    assert read_history(AT, [empty], (), batches_max=3).batches == ()


@pytest.mark.parametrize("rate", [math.nan, math.inf, -5.0])
def test_a_cost_rate_that_makes_no_sense_counts_as_nothing(rate):
    one = snapshots.task(trainer_cost_rate=rate)
    assert only(snapshots.snapshot(snapshots.work(one))).trainer_cost == 0.0


# -- what planning makes of it ---------------------------------------------------------------------


def answer(snapshot, **changes):
    return snapshots.session(**changes).step(snapshot)


def test_a_first_batch_without_any_history_gets_slots():
    found = answer(snapshots.snapshot(snapshots.work(AT, [snapshots.in_flight()] * 5)))
    assert found.ready, found.why
    assert {one.stage for one in found.slots} >= {COMPILE}
    assert found.plan.batches[0].source == "prior"


def test_history_of_a_like_task_is_borrowed_and_named():
    other = snapshots.sent(snapshots.task("other"), snapshots.past("theirs"))
    found = answer(
        snapshots.snapshot(snapshots.work(AT, [snapshots.in_flight()]), histories=(other,))
    )
    assert found.plan.batches[0].source == "history of tasks with the same stages"
    assert found.plan.batches[0].history == ("theirs",)


def test_a_hint_orders_slots_before_the_first_request():
    hint = snapshots.hint(AT)
    found = answer(
        snapshots.snapshot(hints=(hint,), histories=(snapshots.sent(AT, snapshots.past()),))
    )
    assert {one.stage: one.slots > 0 for one in found.slots}[COMPILE]
    assert found.plan.batches[0].batch_id == ""


def test_stages_in_another_order_begin_a_new_plan():
    one = snapshots.session()
    work = snapshots.work(AT, [snapshots.in_flight()])
    assert one.step(snapshots.snapshot(work)).ready
    swapped = snapshots.snapshot(
        work, stages=snapshots.limits((JUDGE, COMPILE, RUN)), now_ns=NOW + S
    )
    assert one.step(swapped).ready


def test_a_batch_marked_at_risk_is_taken_back_once_it_is_safe():
    work = snapshots.work(AT, [snapshots.in_flight()])
    marked = replace(work, batch=replace(work.batch, deadline_at_risk=True))
    snapshot = snapshots.snapshot(
        marked, pools=snapshots.pools(slots=20), histories=(snapshots.sent(AT, snapshots.past()),)
    )
    (risk,) = answer(snapshot).risks
    assert risk.at_risk is False


def test_where_somebody_waits_there_is_a_slot_whatever_the_plan_says():
    found = scene(snapshots.snapshot(snapshots.work(AT, [snapshots.in_flight(RUN)])))
    assert [(one.stage, one.slots) for one in with_floors(found, {0: 0, 1: 0})] == [(RUN, 1)]


def test_batches_that_are_reordered_change_deadlines():
    a = snapshots.work(AT, [snapshots.in_flight()], batch="a", order_deadline_ns=NOW + 10 * S)
    b = snapshots.work(
        snapshots.task("u"), [snapshots.in_flight()], batch="b", order_deadline_ns=NOW + 20 * S
    )
    found = scene(snapshots.snapshot(a, b))
    orders = reorder((1, 0), found)
    assert {one.batch[1]: one.deadline_ns for one in orders} == {
        "b": NOW + 10 * S,
        "a": NOW + 20 * S,
    }
    assert reorder((0, 1), found) == ()


def test_once_the_caps_bind_no_more_a_batch_goes_by_its_own_deadline_again():
    moved = snapshots.work(AT, [snapshots.in_flight()], order_deadline_ns=NOW + 7 * S)
    history = (snapshots.sent(AT, snapshots.past()),)
    (order,) = answer(snapshots.snapshot(moved, histories=history)).priorities
    assert (order.batch[1], order.deadline_ns) == ("b", 0)
    tight = snapshots.snapshot(moved, histories=history, stages=snapshots.limits(most=1))
    assert answer(tight).priorities == ()


def test_what_cannot_be_planned_leaves_pools_as_they_are_and_says_why():
    stages = tuple(replace(limits, cost=math.nan) for limits in snapshots.limits())
    found = answer(snapshots.snapshot(snapshots.work(AT, [snapshots.in_flight()]), stages=stages))
    assert not found.ready
    assert "cannot plan" in found.why
    assert found.slots == ()


def test_a_planner_that_does_not_lead_sets_nothing():
    found = answer(snapshots.snapshot(snapshots.work(AT, [snapshots.in_flight()]), leader=False))
    assert (found.slots, found.risks, found.priorities) == ((), (), ())


numbers = st.integers(0, 3)
durations = st.integers(0, 40 * S)
stages = st.lists(st.sampled_from([COMPILE, RUN, JUDGE]), unique=True, min_size=1, max_size=3)


@st.composite
def any_past(draw, stages):
    rows = draw(st.lists(st.tuples(durations, *(durations for _ in range(stages))), max_size=6))
    return BatchHistory(
        batch_id=draw(st.sampled_from(["x", "y", "z"])), opened_ns=0, completed_ns=0, deadline_ns=0,
        requests=tuple(
            RequestHistory(
                arrived_after_ns=row[0], service_ns=row[1:], outcome=draw(st.sampled_from(Outcome))
            )
            for row in rows
        ),
    )  # fmt: skip


@st.composite
def any_look(draw):
    one = snapshots.task(stages=draw(stages), batch_size=draw(numbers), delay_budget_ms=draw(
        st.one_of(st.none(), st.integers(0, 10_000))))  # fmt: skip
    there = draw(st.lists(st.sampled_from([COMPILE, RUN, JUDGE]), unique=True, max_size=3))
    requests = [
        snapshots.in_flight(
            draw(st.sampled_from(one.stages)), arrived_ns=draw(durations), stages=len(one.stages),
            claimed_ns=draw(st.sampled_from([0, NOW - S, NOW + S])),
        )
        for _ in range(draw(numbers))
    ]  # fmt: skip
    work = snapshots.work(
        one, requests, size=draw(numbers), ended=draw(numbers),
        opened_ns=NOW - draw(durations), state=draw(st.sampled_from(["OPEN", "SEALED"])),
    )  # fmt: skip
    history = draw(st.lists(any_past(len(one.stages)), max_size=2))
    most = draw(numbers)
    return snapshots.snapshot(
        *([work] if draw(st.booleans()) else []),
        stages=snapshots.limits(there, least=min(draw(numbers), most), most=most),
        pools=snapshots.pools(there, slots=draw(numbers)),
        hints=(snapshots.hint(one, size=draw(numbers)),) if draw(st.booleans()) else (),
        histories=(snapshots.sent(one, *history),),
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(any_look(), min_size=1, max_size=3))
def test_every_look_is_answered_within_floors_and_caps(several):
    one = snapshots.session()
    for later, snapshot in enumerate(several):
        found = one.step(replace(snapshot, now_ns=NOW + later * 20 * S))
        assert found.wake_after_ns > 0
        limits = {limits.stage: (limits.slots_min, limits.slots_max) for limits in snapshot.stages}
        slots = {pool.stage: pool.desired for pool in snapshot.pools}
        for order in found.slots:
            least, most = limits[order.stage]
            assert least <= order.slots <= max(most, least)
            slots[order.stage] = order.slots
        for request in (request for work in snapshot.work for request in work.requests):
            if found.ready and not request.claimed_ns and request.stage in limits:
                assert slots[request.stage] >= min(1, limits[request.stage][1]), "none waits alone"


@given(st.integers(-(10**6), 10**6))
def test_a_plan_does_not_depend_on_the_date(shift_s):
    def at(shift_ns):
        requests = [snapshots.in_flight(claimed_ns=NOW + shift_ns), snapshots.in_flight()]
        work = snapshots.work(AT, requests, opened_ns=NOW + shift_ns)
        history = snapshots.sent(AT, snapshots.past())
        snapshot = snapshots.snapshot(work, now_ns=NOW + shift_ns, histories=(history,))
        return answer(replace(snapshot, origin_ns=snapshot.origin_ns + shift_ns)).slots

    assert at(shift_s * S) == at(0)


# -- without planning ------------------------------------------------------------------------------


def test_work_that_cannot_wait_for_the_warm_slots_needs_no_plan():
    warm = snapshots.limits(least=2)
    assert fits_floor(warm, (), ())
    assert fits_floor(warm, [snapshots.work(AT, [snapshots.in_flight()], size=2)], ())
    assert not fits_floor(warm, [snapshots.work(AT, [snapshots.in_flight()], size=3)], ())
    assert not fits_floor(warm, [snapshots.work(AT, [snapshots.in_flight()], size=0)], ())
    two = [snapshots.work(AT, size=1, batch="a"), snapshots.work(AT, size=2, batch="b")]
    assert not fits_floor(warm, two, ())
    assert not fits_floor(warm, (), [snapshots.hint(AT, size=20)])
    assert not fits_floor(snapshots.limits(), [snapshots.work(AT, size=1)], ())


def test_at_rest_pools_are_set_to_their_floors_and_left_alone_there():
    orders = resting(snapshots.limits(least=2), snapshots.pools(slots=5))
    assert {one.stage: one.slots for one in orders} == {COMPILE: 2, RUN: 2}
    assert resting(snapshots.limits(least=2), snapshots.pools(slots=2)) == ()


def test_all_stages_come_after_those_before_them_in_any_pipeline():
    a, b, c, d = (StageName(name) for name in "abcd")
    order = in_pipeline_order([(b, d), (a, b), (c, d)])
    assert sorted(order) == [a, b, c, d]
    assert order.index(a) < order.index(b) < order.index(d)
    assert order.index(c) < order.index(d)


def test_pipelines_that_contradict_each_other_still_have_an_order():
    a, b = StageName("a"), StageName("b")
    assert sorted(in_pipeline_order([(a, b), (b, a)])) == [a, b]


def test_columns_agree_with_numpy_about_what_a_stage_without_work_is():
    batch = read_batch(snapshots.past(took_ns=(0, 0)), (COMPILE, RUN))
    assert np.array_equal(batch.past.service_ns, np.zeros((20, 2)))
