"""What capacity costs, and how far ahead nodes are ordered."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planner.scenes import fresh_batch, pool, scene, task

from assay.config.planning import PlanSettings
from assay.model.arrays import to_ns
from assay.model.observation import NodeView
from assay.planner.core.demand import open_tasks
from assay.planner.core.futures import draw_futures
from assay.planner.core.plan import make_plan
from assay.planner.core.prices import Damper, most_together, node_seconds, nodes_at, price
from assay.planner.core.shape import Plan, target_at
from assay.planner.core.thin import thinned_nodes
from assay.planner.core.trial import STEPS_MAX, Trial, slots_over_time

FEW = PlanSettings(futures=4, shape_futures=4, tick_s=5.0, peak_factors=(1.0,))
NODES = NodeView(slots=16, ready=0, starting=0, cap=100, cost=1.0, startup_ns=to_ns(90))


@settings(deadline=None)
@given(
    startup_s=st.integers(0, 300), need_bin=st.integers(1, 90), ahead_s=st.floats(0.0, 600.0),
    need=st.integers(1, 400),
)  # fmt: skip
def test_nodes_are_ordered_before_their_slots_are_needed(startup_s, need_bin, ahead_s, need):
    level = [0] * need_bin + [need] * 5
    need_s = need_bin * FEW.tick_s
    at_s = max(need_s - ahead_s, 0.0)
    view = pool(nodes=replace(NODES, startup_ns=to_ns(startup_s)))
    found = nodes_at(level, to_ns(at_s), view, FEW)
    lead_s = startup_s + 5.0
    if need_s - at_s <= lead_s + FEW.tick_s:
        assert found == -(-need // 16)
    if need_s - at_s > lead_s + 3 * FEW.tick_s:
        assert found == 0, "not sooner than a node and a slot take to start"
    assert nodes_at(level, to_ns(at_s), pool(), FEW) == 0, "no nodes to order"


@pytest.mark.parametrize(("startup_s", "hold_s"), [(90, 30.0), (30, 90.0)])
@pytest.mark.parametrize(("ready", "starting"), [(1, 0), (0, 1), (3, 2), (0, 0)])
def test_nodes_are_held_but_none_is_ordered_for_a_need_within_a_start_and_the_longest_gap(
    startup_s, hold_s, ready, starting
):
    held = FEW.model_copy(update={"hold_s": hold_s})
    nodes = replace(NODES, startup_ns=to_ns(startup_s), ready=ready, starting=starting)
    view = pool(nodes=nodes, startup_ns=to_ns(5))
    held_s = startup_s + 5.0 + 90.0
    level = [0] * int(held_s / held.tick_s) + [32]
    assert nodes_at(level, 0, view, held) == min(2, ready + starting)
    assert nodes_at([0] * 4 + level, 0, view, held) == 0, "a later one is ordered again"


@given(level=st.lists(st.integers(0, 300), max_size=40), ready=st.integers(0, 20))
def test_node_seconds_hold_every_slot_and_one_start_of_each_new_node(level, ready):
    found = node_seconds(np.array(level, np.int64), replace(NODES, ready=ready), FEW)
    assert found * 16 >= sum(level) * FEW.tick_s
    starts = max(-(-max(level, default=0) // 16) - ready, 0)
    assert found >= 90 * starts


def test_every_price_raises_the_cost_of_a_plan():
    seen = scene(task())
    plan = make_plan(seen, FEW)
    plain = price(plan, seen.pools, FEW)
    dear = {"peak_price_s": 100.0, "start_price_s": 10.0}
    for name, value in dear.items():
        assert price(plan, seen.pools, FEW.model_copy(update={name: value})) > plain
    on_nodes = [replace(one, nodes=NODES) for one in seen.pools]
    assert price(plan, on_nodes, FEW) > plain


def test_a_start_that_costs_more_is_avoided_through_a_longer_gap():
    level = (3, *[0] * 6, 3)
    view = pool(startup_ns=to_ns(5), target=3)
    assert target_at(level, to_ns(FEW.tick_s), view, FEW) == 0
    dear = FEW.model_copy(update={"start_price_s": 30.0})
    assert target_at(level, to_ns(FEW.tick_s), view, dear) == 3


@given(
    peak=st.integers(0, 500), ready=st.integers(0, 9), starting=st.integers(0, 9),
    busy=st.integers(0, 144), coming=st.integers(0, 20), start_s=st.integers(0, 60),
)  # fmt: skip
def test_slots_come_in_steps_and_never_beyond_the_nodes(
    peak, ready, starting, busy, coming, start_s
):
    nodes = replace(NODES, ready=ready, starting=starting)
    busy = min(busy, nodes.room)
    coming = min(coming, nodes.room - busy)
    view = pool(idle=0, running=busy, starting=coming, nodes=nodes, startup_ns=to_ns(start_s))
    course = slots_over_time(view, peak)
    assert len(course) <= STEPS_MAX
    assert [at for at, _ in course] == sorted(at for at, _ in course)
    assert course[-1] == (to_ns(start_s + 90), min(peak, 1_600))
    for at_ns, count in course[:-1]:
        room = nodes.room if at_ns < to_ns(start_s + 45) else nodes.room + 16 * starting
        assert count <= room


@pytest.mark.parametrize("k", [2, 5, 16, 40])
def test_nodes_of_every_kth_request_hold_a_kth_of_the_slots(k):
    few = thinned_nodes(replace(NODES, ready=200, cap=1_000), k)
    assert few.ready * few.slots == pytest.approx(200 * 16 / k, rel=0.05, abs=few.slots)
    assert few.cost * few.ready == pytest.approx(200.0, rel=0.05, abs=few.cost)


def test_nodes_that_are_not_there_yet_make_a_trial_count_on_fewer_slots():
    near = scene(task(batch=fresh_batch()), now_ns=to_ns(60))
    slow = replace(NODES, startup_ns=to_ns(600))
    far = replace(near, pools=tuple(replace(p, nodes=slow) for p in near.pools))
    active = open_tasks(near)
    futures = draw_futures(near.now_ns, active, near.tasks, count=4, seed=0, prior=FEW.prior)
    delays = [
        Trial(seen, active, futures, FEW).measure(np.array([40, 10]))[1] for seen in (near, far)
    ]
    assert (delays[1] >= delays[0]).all()
    assert delays[1].mean() > delays[0].mean()


def drawn_plan(*levels: tuple[int, ...], now_ns: int = 0) -> Plan:
    """A plan of these slots by bin."""
    made = make_plan(scene(task()), FEW)
    stages = tuple(replace(made.stages[0], slots_by_bin=level) for level in levels)
    return replace(made, now_ns=now_ns, stages=stages)


def applied(plan: Plan, until_tick: int, prices: PlanSettings) -> list[tuple[int, ...]]:
    """The targets of each tick; what was asked for is there at the next one."""
    damper, targets, found = Damper(), tuple(0 for _ in plan.stages), []
    for tick in range(until_tick):
        now_ns = tick * to_ns(FEW.tick_s)
        pools = tuple(pool(j, target=n, startup_ns=0) for j, n in enumerate(targets))
        levels = [stage.slots_by_bin for stage in plan.stages]
        pairs = zip(levels, pools, strict=True)
        wanted = [target_at(level, now_ns, view, prices) for level, view in pairs]
        targets = damper.targets(scene(now_ns=now_ns, pools=pools), plan, wanted, prices)
        found.append(targets)
    return found


def changes(targets: list[tuple[int, ...]], j: int) -> int:
    return sum(a[j] != b[j] for a, b in pairwise([(0,) * len(targets[0]), *targets]))


WAVES = tuple(20 + tick // 6 % 2 for tick in range(60))
LEVELS = st.lists(st.integers(0, 60), min_size=1, max_size=24)


def test_a_cheap_pool_keeps_a_slot_that_comes_and_goes_and_an_expensive_one_releases_it():
    free = FEW.model_copy(update={"resize_price_s": 0.0, "hold_s": 0.0})
    priced = free.model_copy(update={"resize_price_s": 4.0})
    plan = drawn_plan(WAVES, WAVES)
    plain, damped = applied(plan, 50, free), applied(plan, 50, priced)
    assert changes(plain, 0) == changes(plain, 1) > 6
    assert changes(damped, 0) == 1
    assert changes(damped, 1) == changes(plain, 1), "a slot for a tick costs more than a change"


def test_the_only_slot_of_a_pool_is_kept_through_short_gaps_too():
    gaps = tuple(tick // 6 % 2 for tick in range(60))
    free = FEW.model_copy(update={"resize_price_s": 0.0, "hold_s": 0.0})
    priced = free.model_copy(update={"resize_price_s": 4.0})
    plan = drawn_plan(gaps, ())
    plain, damped = applied(plan, 50, free), applied(plan, 50, priced)
    assert changes(plain, 0) > 6
    assert changes(damped, 0) == 1


def test_a_ramp_is_ordered_in_fewer_steps_and_not_later():
    ramp = tuple(range(1, 40))
    free = FEW.model_copy(update={"resize_price_s": 0.0})
    plain, damped = (applied(drawn_plan(ramp, ()), 30, prices) for prices in (free, FEW))
    assert all(more[0] >= n[0] for more, n in zip(damped, plain, strict=True))
    assert changes(damped, 0) <= changes(plain, 0) / 3


@settings(deadline=None)
@given(levels=st.lists(LEVELS, min_size=2, max_size=2), price_s=st.floats(0.0, 50.0))
def test_a_damped_target_is_never_below_the_plan_and_costs_a_change_at_most(levels, price_s):
    first, second = (tuple(level) for level in levels)
    prices = FEW.model_copy(update={"resize_price_s": price_s})
    plan = drawn_plan(first, second)
    targets: tuple[int, ...] = (0, 0)
    damper, spent, most = Damper(), [0.0, 0.0], 0
    for tick in range(len(first)):
        now_ns = tick * to_ns(FEW.tick_s)
        pools = tuple(pool(j, target=n, startup_ns=0) for j, n in enumerate(targets))
        wanted = [target_at(lv, now_ns, p, prices) for lv, p in zip(levels, pools, strict=True)]
        found = damper.targets(scene(now_ns=now_ns, pools=pools), plan, wanted, prices)
        most = max(most, sum(wanted))
        assert sum(found) <= max(most, most_together(plan, now_ns)), "no higher peak"
        for j, (target, want) in enumerate(zip(found, wanted, strict=True)):
            assert want <= target <= max(targets[j], *levels[j], want)
            kept_on = target == targets[j] and target > want
            spent[j] += (target - want) * FEW.tick_s * pools[j].cost
            spent[j] = spent[j] if kept_on else 0.0
            assert spent[j] <= price_s + 1e-6, "in the unit of the most expensive stage, cost 1"
        targets = found


def test_kept_slots_are_released_where_other_stages_rise_to_the_largest_total():
    free = FEW.model_copy(update={"resize_price_s": 0.0, "hold_s": 0.0})
    priced = free.model_copy(update={"resize_price_s": 1_000.0})
    plan = drawn_plan((50, 40, 30, 20, 10), (0, 10, 20, 30, 40))
    plain, damped = applied(plan, 5, free), applied(plan, 5, priced)
    assert max(map(sum, damped)) == max(map(sum, plain)) == 60


def test_a_damper_forgets_a_batch_when_nothing_is_open_and_pools_that_are_gone():
    plan, damper = drawn_plan((9, 5, 5), ()), Damper()
    pools = (pool(0, target=9, startup_ns=0), pool(1))
    for now_s, wanted, target in ((0.0, 9, 9), (5.0, 5, 9), (10.0, 5, 9), (15.0, 5, 5)):
        seen = scene(now_ns=to_ns(now_s), pools=pools)
        assert damper.targets(seen, plan, [wanted, 0], FEW) == (target, 0)
    damper.rest(to_ns(15.0))
    assert damper.most == 0
    one = scene(now_ns=to_ns(15.0), pools=(pool(0),))
    assert damper.targets(one, drawn_plan((9,)), [9], FEW) == (9,)
