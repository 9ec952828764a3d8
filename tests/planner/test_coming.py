"""What is held for a batch that has not opened: when it may open, how much, and for how long."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planner import snapshots
from tests.planner.scenes import fresh_batch, pool, scene, task
from tests.planner.snapshots import COMPILE, NOW, S

from assay.config.planning import PlanSettings
from assay.model.arrays import to_ns
from assay.model.observation import past_batch
from assay.planner.core.coming import (
    OVERDUE_SHARE,
    Expected,
    Foreseen,
    Need,
    after_this,
    comes_before_a_start,
    coming,
    due,
    expect,
    foreseen,
    needed_ahead,
    needs_lead,
    standby_ns,
)
from assay.planner.core.policy import Assay, Orders
from assay.planner.core.trial import slots_over_time
from assay.sim.pools.cluster import Cluster, StartUp
from assay.sim.pools.runner import Options, simulate
from assay.sim.pools.workload import Stage, StageLoad, TaskLoad, draw_workload, steady

FEW = PlanSettings(futures=8, shape_futures=4, tick_s=5.0)
GAPS = st.lists(st.integers(1, to_ns(1e4)), min_size=1, max_size=8)
SLOW = 60.0
"""Start-up in seconds."""

EARLY = TaskLoad(
    name="early",
    stages=(
        StageLoad(
            stage=0,
            median_s=steady(20.0),
            sigma=0.3,
            timeout_s=90.0,
            hang_share=steady(0.02),
            fail_share=steady(0.0),
        ),
    ),
    batch_size=64,
    gap_s=150.0,
    starts_after_s=100.0,
)
"""A trainer whose first responses are there at once; no slot that is ordered then is in time."""


def early_workload(seed, **changes):
    return draw_workload(
        [replace(EARLY, **changes)],
        [Stage(name="run", cost=1.0)],
        iterations=3,
        seed=seed,
        sources=[np.linspace(1.0, 30.0, 200)],
        past=4,
    )


def simulated(seed, workload, **settings):
    policy = Assay(FEW.model_copy(update=settings))
    cluster = Cluster(startup=(StartUp(median_s=SLOW, sigma=0.05),))
    return simulate(workload, cluster, policy, Options(seed=seed))


# -- simulated -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2])
def test_a_batch_whose_first_requests_come_before_a_slot_could_start_is_in_time(seed):
    workload = early_workload(seed)
    late = simulated(seed, workload, standby_share=0.0)
    ready = simulated(seed, workload)
    assert min(late.delays_s) > SLOW / 2, "nothing was held: a start-up late"
    assert all(batch.in_time for batch in ready.batches), ready.delays_s
    assert ready.cost < late.cost


def test_slots_are_ordered_for_the_gap_and_not_held_through_it():
    long = simulated(1, early_workload(1, gap_s=1500.0))
    short = simulated(1, early_workload(1))
    assert all(batch.in_time for batch in (*long.batches, *short.batches))
    assert long.slot_cost < 1.1 * short.slot_cost


@pytest.mark.parametrize("seed", [1, 2])
def test_a_batch_that_follows_sooner_than_slots_start_is_prepared_while_its_predecessor_is_open(
    seed,
):
    found = simulated(seed, early_workload(seed, gap_s=SLOW / 6))
    assert all(batch.in_time for batch in found.batches), found.delays_s


def test_gaps_that_vary_cost_standby_and_not_the_budget():
    # The first batch apart, an opening may be earlier than all that history has seen.
    results = [simulated(s, early_workload(s, gap_sigma=0.3)) for s in (1, 2, 3)]
    assert np.mean([batch.in_time for one in results for batch in one.batches]) >= 8 / 9


# -- when ------------------------------------------------------------------------------------------


@given(gap_ns=st.integers(1, to_ns(1e4)), count=st.integers(1, 8), share=st.floats(0, 3))
def test_the_same_gap_again_and_again_is_expected_again(gap_ns, count, share):
    rested_ns = int(share * gap_ns)
    found = due((gap_ns,) * count, rested_ns, 0)
    assert found.after_ns == max(gap_ns - rested_ns, 0)
    assert found.stood_ns == found.overdue_ns == max(rested_ns - gap_ns, 0)


@given(gaps_ns=GAPS, rested_ns=st.integers(0, to_ns(2e4)))
def test_the_expected_opening_is_no_later_than_any_gap_that_is_still_possible(gaps_ns, rested_ns):
    found = due(gaps_ns, rested_ns, 0)
    assert found.after_ns >= 0
    assert found.stood_ns >= found.overdue_ns >= 0
    for gap_ns in gaps_ns:
        if gap_ns >= rested_ns:
            assert found.after_ns <= gap_ns - rested_ns
    if max(gaps_ns) < rested_ns:
        assert found.after_ns == 0
        assert found.overdue_ns == rested_ns - max(gaps_ns)


def test_without_any_gap_a_batch_may_open_at_any_moment():
    assert due((), to_ns(3), 0) == due((to_ns(100),), None, to_ns(3))
    assert due((), None, to_ns(3)).after_ns == 0
    assert due((), None, to_ns(3)).stood_ns == to_ns(3)


# -- how much --------------------------------------------------------------------------------------


LEVELS = st.lists(st.integers(0, 50), max_size=30)


@given(
    level=LEVELS,
    batches=st.lists(st.tuples(st.integers(0, 100), LEVELS, st.booleans()), max_size=3),
    free=st.booleans(),
    ahead_s=st.integers(0, 60),
)
def test_what_is_needed_ahead_is_the_most_at_once_until_a_slot_ordered_now_is_ready(
    level, batches, free, ahead_s
):
    """What is mostly free counts once for all: a lone call beside a batch of brief requests finds
    that batch's slot free."""

    def need(after_s, slots, mostly_free):
        return Need(after_ns=to_ns(after_s), slots_by_bin=slots, mostly_free=mostly_free)

    def at(one, b):
        after_s, slots, _ = one
        return slots[b - after_s // 5] if 0 <= b - after_s // 5 < len(slots) else 0

    present = (0, level, free)
    coming = [need(*one) for one in batches]
    found = needed_ahead(need(*present), coming, to_ns(ahead_s), FEW)
    bins = range(-(-ahead_s // 5) + 1)
    both = [
        sum(at(one, b) for one in (present, *batches) if not one[2])
        + max((at(one, b) for one in (present, *batches) if one[2]), default=0)
        for b in bins
    ]
    is_any = any(at(one, b) for one in batches for b in bins)
    assert found == (max(both) if is_any else 0)


@given(
    arrived_s=st.lists(st.integers(0, 100), min_size=1, max_size=20),
    first_s=st.integers(1, 100),
    startup_s=st.integers(0, 120),
)
def test_a_lead_is_needed_where_a_request_comes_before_a_slot_could_start(
    arrived_s, first_s, startup_s
):
    service = np.stack([np.full(len(arrived_s), to_ns(first_s)), np.ones(len(arrived_s))], axis=1)
    past = past_batch(np.array([to_ns(s) for s in arrived_s]), service.astype(np.int64))
    quick, slow = pool(0, startup_ns=0), pool(1, startup_ns=to_ns(startup_s))
    early = min(arrived_s) < FEW.tick_s
    late = min(arrived_s) + first_s < startup_s + FEW.tick_s
    assert needs_lead(past, (quick, slow), FEW) is (early or late)
    swapped = replace(past, columns=np.array([1, -1]))
    assert needs_lead(swapped, (quick, slow), FEW) is (min(arrived_s) < startup_s + FEW.tick_s)


def resting(**changes):
    return replace(task(), open=None, **changes)


def slow_pools():
    return pool(0, startup_ns=to_ns(SLOW)), pool(1, startup_ns=to_ns(SLOW))


def test_nothing_is_held_where_every_slot_can_be_ordered_in_time_after_the_opening():
    quick = pool(0, startup_ns=0), pool(1, startup_ns=0)
    assert expect(scene(resting(), pools=quick), 0, FEW).slots_by_bin == ()


def hurried():
    """A task whose requests all come in the first second."""
    service = np.full((150, 2), to_ns(30.0))
    return resting(history=(past_batch(np.arange(150) * to_ns(0.005), service),))


@given(
    idle=st.integers(0, 300), running=st.integers(0, 300), starting=st.integers(0, 300),
    waiting=st.integers(0, 300),
)  # fmt: skip
@settings(max_examples=10)
def test_what_the_next_batch_needs_does_not_depend_on_what_others_hold_now(
    idle, running, starting, waiting
):
    held = {"idle": idle, "running": running, "starting": starting, "waiting": waiting}
    busy = tuple(replace(one, target=idle, **held) for one in slow_pools())
    alone, beside = (
        expect(scene(hurried(), pools=pools), 0, FEW) for pools in (slow_pools(), busy)
    )
    assert alone.slots_by_bin, "its first requests come before a slot could start"
    assert beside.slots_by_bin == alone.slots_by_bin
    assert beside.cost == alone.cost


@given(gaps_ns=GAPS, ends_ns=st.integers(-to_ns(100), to_ns(1e4)), startup_s=st.integers(0, 200))
def test_an_open_batch_counts_as_ended_where_the_next_one_may_come_before_a_start(
    gaps_ns, ends_ns, startup_s
):
    view = after_this(replace(task(), gaps_ns=tuple(gaps_ns)), ends_ns)
    pools = pool(0, startup_ns=to_ns(startup_s)), pool(1, startup_ns=0)
    found = comes_before_a_start(view, pools, FEW)
    left_ns = to_ns(startup_s + FEW.tick_s) - max(ends_ns, 0)
    if min(gaps_ns) <= left_ns:
        assert found
    if min(gaps_ns) - (max(gaps_ns) - min(gaps_ns)) > left_ns:
        assert not found
    assert not comes_before_a_start(replace(view, gaps_ns=()), pools, FEW)


@given(
    told=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 500)), min_size=1, max_size=30),
    startup_s=st.integers(0, 100),
)
def test_an_end_that_moves_away_counts_for_as_long_as_a_start_takes(told, startup_s):
    pools, now_s, last = (pool(0, startup_ns=to_ns(startup_s)),), 0, None
    seen: list[tuple[int, int]] = []
    for after_s, ends_s in told:
        now_s += after_s
        seen.append((now_s, ends_s))
        last = foreseen(last, Foreseen(at_ns=to_ns(now_s), ends_ns=to_ns(ends_s)), pools)
        recent = {ends_s, *(end for at, end in seen if now_s - at < startup_s)}
        assert last.ends_ns <= to_ns(ends_s), "never later than the plan says"
        assert last.ends_ns in set(map(to_ns, recent)), "and of no plan older than a start"
        if (earliest := min(end for _, end in seen)) in recent:
            assert last.ends_ns == to_ns(earliest)


def test_a_plan_of_the_coming_batch_says_what_it_needs_from_its_opening_on():
    view = scene(hurried(), pools=slow_pools())
    found = expect(view, 0, FEW)
    assert found.origin is view.tasks[0].history[0].arrived_ns
    assert max(found.slots_by_bin[0][:2]) >= 100, "of 150 that come at once"
    assert max(found.slots_by_bin[1][:2], default=0) == 0, "their second stage is later"
    assert found.cost > 0


# -- how long --------------------------------------------------------------------------------------


EXPECTED = Expected(
    origin=np.zeros(0, np.int64), slots_by_bin=((20,), ()), cost=200.0, mostly_free=(False, False)
)


def held(gaps_s, rested_s, waited_s=0.0):
    view = resting(
        gaps_ns=tuple(map(to_ns, gaps_s)), rested_ns=None if rested_s is None else to_ns(rested_s)
    )
    return coming(view, EXPECTED, slow_pools(), to_ns(waited_s), FEW)


def test_standing_by_costs_at_most_what_a_batch_costs():
    assert standby_ns(EXPECTED, slow_pools(), FEW) == to_ns(100.0), "20 slots at 0.1 a second"
    assert held((), None, 99.0) is not None
    assert held((), None, 101.0) is None
    doubled = FEW.model_copy(update={"standby_share": 2.0})
    assert standby_ns(EXPECTED, slow_pools(), doubled) == to_ns(200.0)


def test_a_task_that_is_far_later_than_its_longest_gap_has_stopped():
    over = OVERDUE_SHARE * 20.0 + FEW.tick_s
    assert held((20.0,), 20.0 + over - 0.1) is not None
    assert held((20.0,), 20.0 + over + 0.1) is None


def test_nothing_is_held_for_a_task_whose_batches_have_not_followed_each_other_yet():
    assert held((), 1.0) is None


def test_while_no_batch_comes_slots_are_held_for_a_time_and_then_given_back():
    policy, targets = Assay(FEW), []
    for at_s in range(0, 20_000, 50):
        sizing = policy.decide(scene(hurried(), now_ns=to_ns(at_s), pools=slow_pools()))
        targets.append(sizing.targets[0])
    assert targets[0] > 100
    assert targets[-1] == 0
    assert sorted(targets, reverse=True) == targets, "given back once"


# -- slots that are starting -----------------------------------------------------------------------


@given(
    orders=st.lists(st.tuples(st.integers(1, 50), st.integers(1, 30)), max_size=10), data=st.data()
)
def test_those_that_are_starting_are_the_newest_ordered(orders, data):
    made, now_s, held = Orders(), 0, 0
    ages: list[int] = []
    for slots, later_s in orders:
        made.add(scene(now_ns=to_ns(now_s), pools=(pool(0, idle=held), pool(1))), (held + slots, 0))
        ages = [*(age + later_s for age in ages), *[later_s] * slots]
        held, now_s = held + slots, now_s + later_s
    starting = data.draw(st.integers(0, held + 1))
    found = made.age_ns(0, pool(0, starting=starting), to_ns(now_s))
    if starting == 0 or starting > held:
        assert found is None
    else:
        assert found == pytest.approx(to_ns(sum(ages[-starting:]) / starting), abs=10)


@given(ago_s=st.one_of(st.none(), st.integers(0, 300)))
def test_a_slot_that_is_starting_is_ready_when_the_rest_of_a_start_has_passed(ago_s):
    view = pool(
        starting=7, startup_ns=to_ns(100), started_ago_ns=None if ago_s is None else to_ns(ago_s)
    )
    (_, none), (soon_ns, up), (_, most) = slots_over_time(view, 9)
    assert (none, up, most) == (0, 7, 9)
    assert soon_ns == to_ns(50 if ago_s is None else max(100 - ago_s, 10))


def test_a_plan_in_the_middle_of_a_long_start_does_not_cancel_it():
    batch = replace(fresh_batch(size=150), opened_ns=0)
    view = scene(replace(hurried(), open=batch), pools=slow_pools())
    policy = Assay(FEW)
    ordered = policy.decide(view).targets[0]
    assert ordered > 100
    starting = replace(slow_pools()[0], target=ordered, starting=ordered)
    requests = replace(
        batch,
        arrived=150,
        stage=np.zeros(150, np.int64),
        elapsed_ns=np.full(150, -1),
        natural_ns=np.zeros(150, np.int64),
        sequence=np.arange(150),
    )
    waits = replace(starting, waiting=150)
    later = scene(
        replace(hurried(), open=requests),
        now_ns=to_ns(55),
        pools=(waits, pool(1, target=150, idle=150)),
    )
    assert policy.decide(later).targets[0] >= ordered
    assert policy.plan is not None
    assert policy.plan.batches[0].delay_mean_ns < to_ns(75), "55 s have passed, some 6 are left"


# -- in the platform's names -----------------------------------------------------------------------


def one_past(name, opened_s, completed_s):
    batch = snapshots.past(name, every_ns=S // 10)
    return replace(batch, opened_ns=NOW + opened_s * S, completed_ns=NOW + completed_s * S)


def test_a_session_holds_slots_before_the_next_batch_opens_and_says_that_it_waits():
    history = snapshots.sent(
        snapshots.task(),
        one_past("b3", -30, 0),
        one_past("b2", -100, -70),
        one_past("b1", -170, -140),
    )
    slow = tuple(replace(one, startup_ns=10 * S) for one in snapshots.limits())
    session = snapshots.session(tick_s=2.0)

    def step(after_s, *histories):
        return session.step(
            snapshots.snapshot(now_ns=NOW + after_s * S, stages=slow, histories=histories)
        )

    begin = step(1, history)
    assert begin.awaits
    assert begin.slots == (), "40 s are left"
    assert begin.wake_after_ns > 20 * S
    soon = step(31)
    assert {one.stage: one.slots > 0 for one in soon.slots}[COMPILE], "ordered 10 s ahead"
    gone = step(70)
    assert not gone.awaits
    assert gone.slots == ()
