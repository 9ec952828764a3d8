"""What is always true of a plan, and what becomes of bad input."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planner.scenes import EMPTY, fresh_batch, pool, scene, task
from tests.sim.builders import small_workload

from assay.config.planning import PlanSettings
from assay.core.errors import InvalidRequest
from assay.model.arrays import to_ns
from assay.model.observation import past_batch
from assay.model.policy import swapped
from assay.model.queueing import Supply
from assay.planner.core.demand import budget_ns, open_tasks
from assay.planner.core.futures import draw_futures
from assay.planner.core.plan import (
    ORDER_FUTURES_MIN,
    ORDER_SERVED_MAX,
    best_order,
    make_plan,
    order_budget,
    orders,
)
from assay.planner.core.policy import Assay
from assay.planner.core.trial import (
    STRICT,
    Trial,
    find_peaks,
    settled,
    start_of_search,
    trust_in_later_plans,
    with_headroom,
)
from assay.sim.policies.by_deadline import ByDeadline
from assay.sim.pools.cluster import Cluster, Faults, StartUp
from assay.sim.pools.runner import order_deadline, simulate

FEW = PlanSettings(futures=6, shape_futures=6, spare_slots=5, tick_s=5.0, peak_factors=(1.0,))


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 1000), short=st.integers(0, 20), more=st.integers(1, 60))
def test_peaks_do_not_rise_when_the_budget_grows(seed, short, more):
    tight = make_plan(scene(task(seed, delay_budget_ns=to_ns(short))), FEW)
    loose = make_plan(scene(task(seed, delay_budget_ns=to_ns(short + more))), FEW)
    slack = [max(1, s.wanted // 40) for s in tight.stages]
    assert loose.stages[1].wanted <= tight.stages[1].wanted + slack[1]
    cost = [
        sum(c * s.wanted for c, s in zip((0.1, 1.0), p.stages, strict=True)) for p in (loose, tight)
    ]
    assert cost[0] <= cost[1] * 1.03 + 1.1


@given(
    startups_s=st.lists(st.integers(0, 600), min_size=1, max_size=3), replan_s=st.integers(1, 60)
)
def test_the_more_slowly_slots_start_the_less_is_left_to_later_plans(startups_s, replan_s):
    pools = [pool(j, startup_ns=to_ns(s)) for j, s in enumerate(startups_s)]
    trust = trust_in_later_plans(pools, PlanSettings(replan_s=float(replan_s), tick_s=2.0))
    applied_s = replan_s + 2.0
    assert trust == pytest.approx(min(max(applied_s / max(*startups_s, 0.001), STRICT), 1.0))


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 1000), cap=st.integers(1, 60), more=st.integers(1, 60))
def test_more_capacity_never_makes_a_batch_later(seed, cap, more):
    def late(slots):
        pools = (pool(0, cap=slots), pool(1, cap=slots))
        return make_plan(scene(task(seed), pools=pools), FEW).batches[0].delay_mean_ns

    assert late(cap + more) <= late(cap)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000), shift_s=st.integers(0, 10**6))
def test_a_plan_does_not_depend_on_when_it_is_made(seed, shift_s):
    shift = to_ns(shift_s)
    here = make_plan(scene(task(seed)), FEW)
    there = make_plan(scene(task(seed, fresh_batch(opened_ns=shift)), now_ns=shift), FEW)
    assert here.stages == there.stages


def test_a_plan_does_not_depend_on_what_tasks_are_called_or_on_their_place_in_the_list():
    first, second = task(1), task(2, fresh_batch(opened_ns=to_ns(-50)))
    one = make_plan(scene(first, second), FEW)
    other = make_plan(scene(second, first), FEW)
    assert [s.wanted for s in one.stages] == [s.wanted for s in other.stages]


def test_more_than_the_smallest_peak_is_bought_where_it_costs_less_than_the_trainers_wait():
    view = task(delay_budget_ns=to_ns(60))
    loose = FEW.model_copy(update={"guard": 1.0, "peak_factors": (1.0, 1.5), "peak_price_s": 0.0})
    free = make_plan(scene(view), loose)
    dear = make_plan(scene(view), loose.model_copy(update={"peak_price_s": 1e5}))
    assert sum(s.wanted for s in free.stages) > sum(s.wanted for s in dear.stages)
    assert free.batches[0].delay_mean_ns < dear.batches[0].delay_mean_ns


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 1000))
def test_a_few_more_of_the_dear_stage_are_bought_where_they_save_many_of_the_cheap_one(seed):
    """With the fewest, found while nothing else waited, the cheap stage would have no slack."""
    dear = FEW.model_copy(update={"guard": 1.0})
    seen = scene(task(seed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("assay.planner.core.trial.HEADROOM_SHARE", 0.0)
        fewest = [stage.wanted for stage in make_plan(seen, dear).stages]
    found = [stage.wanted for stage in make_plan(seen, dear).stages]
    assert found[1] == fewest[1] + round(fewest[1] / 5), (
        "a fifth of one or two slots is rounded down"
    )
    assert found[0] <= fewest[0]


@pytest.mark.parametrize(
    ("view", "startup_s", "left"),
    [(task(), 5, True), (task(), 120, False), (task(history=()), 5, False)],
    ids=["plans come sooner than slots", "slots start slowly", "no history"],
)
def test_a_plan_leaves_to_later_ones_only_what_these_can_mend(view, startup_s, left):
    seen = scene(view, pools=(pool(0), pool(1, startup_ns=to_ns(startup_s))))
    active = open_tasks(seen)
    futures = draw_futures(0, active, seen.tasks, count=20, seed=0, prior=FEW.prior)
    loose = FEW.model_copy(update={"guard": 1.0, "repeat_share": 2.0})
    trial = Trial(seen, active, futures, loose)
    used = trial.constraints[0].finish_ns.max() - futures[0].natural_ns.max()
    assert used == (to_ns(5) if left else to_ns(1))
    trial.begin_search(trial.most, 0)
    impossible = trial.most * 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trial, "serves", lambda k, _: k >= 2)  # two futures fail
        assert trial.keeps(impossible) is left


def test_the_first_future_alone_shows_where_to_search():
    """Of one future none may fail, or it would show nothing."""
    seen = scene(task(batch=fresh_batch(size=512)))
    active = open_tasks(seen)
    futures = draw_futures(0, active, seen.tasks, count=20, seed=0, prior=FEW.prior)
    loose = FEW.model_copy(update={"guard": 0.5, "repeat_share": 2.0})
    trial = Trial(seen, active, futures, loose)
    fewest = [start_of_search(trial, trial.most, stage) for stage in range(2)]
    found = find_peaks(trial)
    assert all(peak / 5 <= start <= 2 * peak for start, peak in zip(fewest, found, strict=True))


MOST = 60
NEEDS = st.lists(st.integers(1, MOST), min_size=20, max_size=20)


class Counting(Trial):
    """A trial in which the k-th future needs `needs[k]` slots of stage 0."""

    needs: Sequence[int] = ()

    def serves(self, k: int, supply: Supply) -> bool:
        return bool(supply.slots[0, supply.steps[0] - 1] >= self.needs[k])


def trial_of(needs: Sequence[int], waiting: int) -> Trial:
    """20 futures, each of which needs so many slots of stage 0."""
    seen = scene(pools=(pool(0, waiting=waiting), pool(1)))
    active = open_tasks(seen)
    futures = draw_futures(0, active, seen.tasks, count=20, seed=0, prior=FEW.prior)
    trial = Counting(seen, active, futures, FEW)
    trial.most[0], trial.needs = MOST, needs
    return trial


@settings(max_examples=50, deadline=None)
@given(needs=NEEDS, last=st.integers(1, MOST), waiting=st.integers(0, 1))
def test_slots_that_are_there_stay_until_they_clearly_do_not_do(needs, last, waiting):
    """Of 20 futures none may fail in a first plan; more is bought where two or more do."""
    trial = trial_of(needs, waiting)
    found = settled(trial, trial.most, 0, last)
    failed = sum(need > last for need in needs)
    if failed > 1:
        assert last < found <= sorted(needs)[-2] + MOST // 25, "the fewest with which one fails"
        assert sum(need > found for need in needs) <= 1
    elif failed or waiting:
        assert found == last
    else:
        assert max(needs) <= found <= last
    assert trial.risk == FEW.repeat_share, "as before"


@given(least=st.integers(1, 500), last=st.integers(0, 900), most=st.integers(1, 900))
def test_the_few_more_of_a_dear_stage_are_not_added_again_by_every_search(least, last, most):
    least = min(least, most)
    found = with_headroom(least, most, last)
    assert least <= found <= most
    assert with_headroom(least, most, found) == found
    more = with_headroom(least, most)
    assert found == (last if least <= last <= more else more)


def test_a_plan_rises_falls_and_ends():
    stage = make_plan(scene(), FEW).stages[0]
    assert stage.slots_by_bin[0] < max(stage.slots_by_bin) > stage.slots_by_bin[-1]
    assert stage.target < stage.peak
    assert stage.planned_s > stage.demand_s * 0.9


def test_under_a_cap_the_plan_stays_below_it_and_says_that_the_batch_is_at_risk():
    plan = make_plan(scene(pools=(pool(0, cap=5), pool(1))), FEW)
    assert max(plan.stages[0].slots_by_bin) <= 5
    assert plan.stages[0].wanted > 5
    assert plan.batches[0].at_risk
    assert not make_plan(scene(), FEW).batches[0].at_risk


def test_nothing_open_needs_nobody():
    plan = make_plan(scene(task(open=None)))
    assert plan.targets == (0, 0)


@pytest.mark.parametrize(
    "view",
    [
        task(history=()),
        task(history=(past_batch(EMPTY, np.zeros((0, 2), np.int64)),)),
        task(history=(), batch_size=0, open=fresh_batch(size=0)),
        task(open=fresh_batch(size=1), batch_size=1),
        task(history=(past_batch(np.array([5]), np.array([[to_ns(1), 0]])),)),
        task(history=(past_batch(np.array([0, 0]), np.array([[0, 0], [0, 0]])),)),
        task(delay_budget_ns=0),
    ],
    ids=[
        "no history", "an empty batch", "no history and no size", "one request",
        "one past request", "zero durations", "D = 0",
    ],
)  # fmt: skip
def test_thin_input_gets_a_safe_plan(view):
    plan = make_plan(scene(view), FEW)
    assert all(0 <= stage.target <= 10_000 for stage in plan.stages)


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (scene(pools=(pool(0, cap=-1), pool(1))), "pools[0]"),
        (scene(pools=(pool(0), pool(1, cost=float("nan")))), "pools[1]"),
        (scene(task(delay_budget_ns=-1)), "tasks[0].delay_budget_ns"),
        (scene(task(timeout_ns=np.array([1]))), "tasks[0].timeout_ns"),
        (scene(pools=(pool(0), pool(1), pool(2))), "tasks[0].timeout_ns"),
    ],
    ids=["cap below zero", "NaN cost", "negative D", "a stage vanished", "a stage came"],
)
def test_senseless_input_is_refused_by_field(bad, field):
    with pytest.raises(InvalidRequest) as refused:
        make_plan(bad, FEW)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("arrived", "service", "field"),
    [
        (np.array([-1]), np.array([[1]]), "arrived_ns"),
        (np.array([1]), np.array([[-1]]), "service_ns"),
        (np.array([0.5]), np.array([[1]]), "arrived_ns"),
        (np.array([1]), np.array([[float("nan")]]), "service_ns"),
        (np.array([1, 2]), np.array([[1]]), "service_ns"),
    ],
)
def test_history_that_cannot_be_is_refused_by_field(arrived, service, field):
    with pytest.raises(InvalidRequest) as refused:
        past_batch(arrived, service)
    assert refused.value.field == field


def test_the_default_budget_is_the_smaller_of_five_seconds_and_two_percent_of_t():
    assert budget_ns(task(delay_budget_ns=None)) == to_ns(5)
    short = past_batch(np.array([0]), np.array([[to_ns(100), 0]]))
    assert budget_ns(task(delay_budget_ns=None, history=(short,))) == to_ns(2)


def test_a_cap_of_zero_leaves_the_loop_alive_and_the_batch_at_risk():
    plan = make_plan(scene(pools=(pool(0, cap=0), pool(1))), FEW)
    assert plan.targets[0] == 0
    assert plan.batches[0].at_risk


@pytest.mark.parametrize(
    ("cluster", "past"),
    [
        (Cluster(), 3),
        (Cluster(startup=(StartUp(median_s=40.0),)), 3),
        (Cluster(), 0),
        (Cluster(caps=(6, 2)), 3),
        (Cluster(faults=Faults(slot_deaths_per_s=0.001)), 3),
    ],
    ids=["calm", "slow start", "cold", "capped", "deaths"],
)
def test_every_request_of_every_batch_ends(cluster, past):
    workload = small_workload(tasks=2, past=past)
    result = simulate(workload, cluster, Assay(FEW))
    assert [sum(b.outcomes.values()) for b in result.batches] == [150] * 4


def test_it_holds_fewer_slots_for_less_time_than_holding_the_peak():
    workload = small_workload(iterations=3, batch_size=600)
    result = simulate(workload, Cluster(), Assay())
    assert result.in_time_share == 1.0
    assert result.stages[0].waste < 1.6


def test_the_same_seed_plans_the_same():
    workload = small_workload()
    first, second = (simulate(workload, Cluster(), Assay(FEW)) for _ in range(2))
    assert first == second
    assert replace(first, seed=1) != second


def test_when_capacity_is_short_the_dearer_trainer_goes_first():
    cheap = task(1, fresh_batch(opened_ns=to_ns(-20)), trainer_cost=1.0)
    dear = task(2, trainer_cost=1000.0)
    pools = (pool(0, cap=6), pool(1))
    assert make_plan(scene(cheap, dear, pools=pools), FEW).order == (1, 0)
    assert make_plan(scene(cheap, dear), FEW).order == ()
    same = replace(dear, trainer_cost=1.0, weight=1000.0)
    assert make_plan(scene(cheap, same, pools=pools), FEW).order == (1, 0)


@pytest.mark.parametrize(("another", "order"), [(7, (1, 0)), (6, ())])
def test_an_order_stays_where_no_other_search_found_as_many_slots(another, order):
    """And where as many as were found twice are within the cap, there is none."""
    cheap = task(1, fresh_batch(opened_ns=to_ns(-20)), trainer_cost=1.0)
    dear = task(2, trainer_cost=1000.0)
    seen = scene(cheap, dear, pools=(pool(0, cap=6), pool(1)))
    policy = Assay(FEW)
    assert policy.decide(seen).order == (1, 0)
    found = policy.searches[-1]
    assert found[0] > 7
    policy.searches = ((another, found[1]),)
    later = replace(seen, now_ns=seen.now_ns + to_ns(FEW.search_s))
    assert policy.decide(later).order == order


def test_a_short_platform_costs_dear_trainers_less_than_deadline_order_alone():
    workload = small_workload(tasks=3, iterations=3, seed=4)
    tasks = tuple(
        replace(load, trainer_gpus=gpus)
        for load, gpus in zip(workload.tasks, (1.0, 1.0, 200.0), strict=True)
    )
    capped = replace(workload, tasks=tasks)
    cluster = Cluster(caps=(14, 4))
    result = simulate(capped, cluster, Assay(FEW))
    even = simulate(workload, cluster, Assay(FEW))
    by_deadline = simulate(capped, cluster, ByDeadline(FEW))

    def waited(found):
        return sum(b.extra_delay_s for b in found.batches if b.task == 2)

    assert waited(result) < waited(even)
    assert result.trainer_idle_gpu_s < by_deadline.trainer_idle_gpu_s


def short_trial(seed: int, batches: int, *, futures: int = 9) -> tuple[Trial, list[float]]:
    """Some open batches, and what their trainers cost."""
    rates = [1.0, 50.0, 5.0, 200.0, 20.0][:batches]
    views = [
        task(seed + k, fresh_batch(opened_ns=to_ns(-5 * k), size=60), trainer_cost=rate)
        for k, rate in enumerate(rates)
    ]
    seen = scene(*views, pools=(pool(0, cap=6), pool(1, cap=2)))
    active = open_tasks(seen)
    drawn = draw_futures(0, active, seen.tasks, count=futures, seed=seed, prior=FEW.prior)
    return Trial(seen, active, drawn, FEW), rates


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000), batches=st.integers(2, 5))
def test_an_order_is_never_dearer_over_all_futures_than_that_of_the_deadlines(seed, batches):
    """Though it is found on a few of them."""
    trial, rates = short_trial(seed, batches)
    peaks, weights = np.array([6, 2]), np.array(rates)
    plain = trial.measure(peaks)[1].mean(axis=0) @ weights
    order, _, delays = best_order(trial, peaks, list(range(batches)), ["t"] * batches, weights)
    assert sorted(order) == list(range(batches))
    assert delays.mean(axis=0) @ weights <= plain
    np.testing.assert_array_equal(trial.measure(peaks)[1], delays)


@given(requests=st.integers(1, 200_000), futures=st.integers(1, 1_000), moves=st.integers(1, 11))
def test_a_search_for_an_order_simulates_so_many_requests_at_most(requests, futures, moves):
    trial = SimpleNamespace(futures=[SimpleNamespace(batch_of=range(requests))] * futures)
    few, tries = order_budget(trial, moves)  # type: ignore[arg-type] # all that it looks at
    assert min(ORDER_FUTURES_MIN, futures) <= few <= futures
    assert tries >= moves
    assert few * tries * requests <= max(ORDER_SERVED_MAX, moves * ORDER_FUTURES_MIN * requests)


def test_a_search_for_an_order_ends_with_its_budget(monkeypatch):
    monkeypatch.setattr("assay.planner.core.plan.ORDER_SERVED_MAX", 1)
    trial, rates = short_trial(1, 5)
    moves = len(orders(list(range(5)), ["t"] * 5))
    best_order(trial, np.array([6, 2]), list(range(5)), ["t"] * 5, np.array(rates))
    assert trial.simulations == ORDER_FUTURES_MIN * moves + 2 * len(trial.futures)


def test_an_order_that_is_dearer_over_all_futures_is_not_used(monkeypatch):
    trial, rates = short_trial(1, 3)
    peaks, weights = np.array([6, 2]), np.array(rates)
    monkeypatch.setattr(
        Trial, "delays", lambda self, peaks, first: 1e12 - self.measure(peaks)[1][:first]
    )
    order, _, _ = best_order(trial, peaks, [1, 2, 0], ["t"] * 3, weights)
    assert order == [1, 2, 0]


def test_the_delays_of_a_few_futures_are_those_of_all():
    trial, _ = short_trial(3, 3)
    _, all_delays = trial.measure(np.array([6, 2]))
    np.testing.assert_array_equal(trial.delays(np.array([6, 2]), 4), all_delays[:4])


def test_weight_brings_a_long_batch_forward():
    plain = order_deadline(0, to_ns(600), to_ns(5), weight=1.0)
    assert plain == to_ns(605)
    assert order_deadline(0, to_ns(600), to_ns(5), weight=4.0) == to_ns(155)
    with pytest.raises(InvalidRequest):
        order_deadline(0, 1, 1, weight=0.0)


def test_an_order_moves_batches_within_their_tenant_only():
    assert orders([2, 0, 1], ["a", "b", "a"]) == [[2, 0, 1], [0, 2, 1]]
    assert orders([0, 1], ["a", "b"]) == [[0, 1]]
    assert swapped([30, 10, 20, 5], ["a", "b", "a", "b"]) == [20, 5, 30, 10]
