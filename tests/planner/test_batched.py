"""Stages whose slots take several requests at once: what a slot counts for, and what a plan holds.

The platform's rule, as a simulation of calls: a slot that becomes idle takes an even share of what
waits, at most `batch_max`; a call takes a fixed time and a time per request, for all its requests.
"""

from dataclasses import replace
from heapq import heappop, heappush

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planner import snapshots
from tests.planner.scenes import fresh_batch, pool, scene, task
from tests.planner.snapshots import COMPILE

from assay.config.planning import PlanSettings
from assay.config.settings import PlannerSettings, WorkerSettings
from assay.core.pipeline import StageSpec
from assay.model.arrays import Ints, to_ns
from assay.model.observation import PastBatch, past_batch
from assay.planner.core.batched import calls_of, in_places, places_by, places_of
from assay.planner.core.plan import make_plan
from assay.planner.service.stage_limits import limits_of_stage
from assay.planner.session.messages import Machine
from assay.planner.session.observe import observation_of

FEW = PlanSettings(futures=6, shape_futures=6, tick_s=1.0, peak_factors=(1.0,))
BATCH_MAX = 32
FIXED_S, EACH_S = 4.0, 0.05
TIMEOUT_NS = np.array([to_ns(120)])


def calls(arrived_ns: Ints, slots: int, batch_max: int = BATCH_MAX) -> tuple[Ints, Ints]:
    """When each request ends, and how long its call took."""
    ends, took = np.zeros_like(arrived_ns), np.zeros_like(arrived_ns)
    free, at = slots, 0
    waiting: list[int] = []
    busy: list[tuple[int, int]] = []
    while at < len(arrived_ns) or waiting or busy:
        upcoming = [busy[0][0]] if busy else []
        if at < len(arrived_ns):
            upcoming.append(int(arrived_ns[at]))
        now = min(upcoming)
        while at < len(arrived_ns) and arrived_ns[at] <= now:
            waiting.append(at)
            at += 1
        while busy and busy[0][0] <= now:
            heappop(busy)
            free += 1
        while free and waiting:
            share = min(batch_max, -(-len(waiting) // free))
            taken, waiting = waiting[:share], waiting[share:]
            lasts = to_ns(FIXED_S + EACH_S * share) + taken[0]  # no two calls take the same time
            ends[taken], took[taken] = now + lasts, lasts
            free -= 1
            heappush(busy, (now + lasts, taken[0]))
    return ends, took


def arrivals(seed: int, count: int = 600, span_s: float = 120.0) -> Ints:
    random = np.random.default_rng(seed)
    return np.sort(np.rint(random.uniform(0, span_s * 1e9, count)).astype(np.int64))


def past(seed: int, slots: int) -> PastBatch:
    arrived = arrivals(seed)
    return past_batch(arrived, calls(arrived, slots)[1].reshape(-1, 1))


@settings(max_examples=60, deadline=None)
@given(sizes=st.lists(st.integers(1, 40), max_size=30), seed=st.integers(0, 100))
def test_the_size_of_a_call_is_the_number_of_requests_with_its_time(sizes, seed):
    random = np.random.default_rng(seed)
    times = to_ns(1) + random.permutation(len(sizes))
    rows = random.permutation(np.repeat(times, sizes).astype(np.int64)).reshape(-1, 1)
    batch = past_batch(np.arange(len(rows)), rows)
    found, took = calls_of(batch, 0)
    assert dict(zip(took, found, strict=True)) == dict(zip(times, sizes, strict=True))


@settings(max_examples=100, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=8, max_size=40),
    fixed=st.floats(0, 100),
    each=st.floats(0.01, 10),
    batch_max=st.integers(2, 64),
)
def test_a_slot_counts_for_what_its_calls_had_up_to_what_it_takes_at_most(
    sizes, fixed, each, batch_max
):
    n = np.array(sizes, np.float64)
    places = places_by(n, fixed + each * n, batch_max)
    usual = min((n**2).sum() / n.sum(), batch_max)
    assert usual - 1e-6 * usual <= places <= batch_max * (1 + 1e-6)
    assert places <= places_by(n, fixed + 1 + each * n, batch_max) * (1 + 1e-6), "more is shared"
    if sizes != [sizes[0]] * len(sizes):
        law = batch_max * (fixed + each * usual) / (fixed + each * batch_max)
        assert places == pytest.approx(max(law, 1), rel=1e-3)


def test_without_calls_a_slot_takes_one_request_and_a_few_show_no_gain():
    none = np.zeros(0)
    assert places_by(none, none, 32) == 1.0
    few = np.array([1.0, 3.0])
    assert places_by(few, np.array([4.0, 4.1]), 32) == pytest.approx(10 / 4)


def test_places_are_those_of_each_pool_with_calls_in_its_own_column():
    one = past(1, 3)
    wide = replace(one, columns=np.array([1]))
    here = task(history=(wide,), timeout_ns=np.array([to_ns(60), to_ns(120)]))
    pools = (pool(0, batch_max=BATCH_MAX), pool(1, batch_max=BATCH_MAX))
    found = places_of(scene(here, pools=pools))
    assert found[0] == 1.0
    assert (
        found[1]
        == places_of(
            scene(
                task(history=(one,), timeout_ns=TIMEOUT_NS), pools=(pool(0, batch_max=BATCH_MAX),)
            )
        )[0]
    )
    counted = in_places(scene(here, pools=(pool(0), pool(1, idle=2, cap=5))), np.array([1.0, 2.5]))
    assert [(p.idle, p.cap) for p in counted.pools] == [(0, 10_000), (5, 12)]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_plan_holds_the_slots_that_calls_need_and_the_batch_is_in_time(seed):
    history = tuple(past(100 * seed + k, 3) for k in range(3))
    mine = task(
        history=history, timeout_ns=TIMEOUT_NS, batch=fresh_batch(size=600), batch_size=600,
        delay_budget_ns=to_ns(10), pool_of=np.array([0]),
    )  # fmt: skip
    alone = make_plan(scene(mine, pools=(pool(0, startup_ns=0),)), FEW).stages[0]
    together = make_plan(
        scene(mine, pools=(pool(0, startup_ns=0, batch_max=BATCH_MAX),)), FEW
    ).stages[0]
    assert together.peak <= alone.peak / 5
    assert together.planned_s < alone.planned_s / 5
    assert together.demand_s <= together.planned_s
    arrived = arrivals(seed)
    ends, took = calls(arrived, together.peak)
    natural = arrived + to_ns(FIXED_S + EACH_S)
    assert ends.max() - natural.max() <= to_ns(10)
    assert len(np.unique(took)) < len(took) / 4, "they were served in calls"


def test_the_stages_batch_reaches_the_plan_and_the_rest():
    spec = StageSpec(name=COMPILE, batch_max=8)
    machine = [Machine(cores=8, memory_bytes=1 << 40)]
    found = limits_of_stage(spec, PlannerSettings(), WorkerSettings(), machine)
    assert found.batch_max == 8
    group = limits_of_stage(
        replace(spec, gathers=True), PlannerSettings(), WorkerSettings(), machine
    )
    assert group.batch_max == 1, "a group counts for its requests"
    wide = tuple(replace(one, batch_max=20) for one in snapshots.limits())
    seen = observation_of(snapshots.snapshot(snapshots.work(), stages=wide), {}, None)
    assert [one.batch_max for one in seen.observation.pools] == [20, 20]
    assert pool(0, waiting=41, batch_max=20).awaited == 3
