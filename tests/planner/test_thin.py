"""A batch of many requests is planned on every k-th of them, and the plan is multiplied."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planner.scenes import fresh_batch, pool, scene, task

from assay.config.planning import PlanSettings
from assay.model.arrays import to_ns
from assay.model.observation import Observation, OpenBatch, PastBatch, past_batch
from assay.planner.core import thin
from assay.planner.core.plan import make_plan, plan_each
from assay.planner.core.thin import every_kth, thinned, thinned_past

FEW = PlanSettings(futures=4, shape_futures=4, tick_s=5.0, peak_factors=(1.0,))


def history(rows: int, seed: int = 1) -> tuple[PastBatch, ...]:
    random = np.random.default_rng(seed)
    service = np.exp(random.normal(0.0, 0.5, (rows, 2))) * np.array([50e9, 3e9])
    service = np.minimum(service, np.array([to_ns(120), to_ns(60)])).astype(np.int64)
    return (past_batch(np.sort(random.integers(0, to_ns(300), rows)), service),)


def large(size: int, **pools: object) -> Observation:
    view = task(history=history(5_000), batch=fresh_batch(size=size), batch_size=size)
    room = {"cap": 10**6, **pools}
    return scene(view, pools=(pool(0, **room), pool(1, **room)))


def amid(random: np.random.Generator, arrived: int, present: int, size: int) -> OpenBatch:
    """A batch of which some requests are present, at either stage, waiting or running."""
    rows = np.sort(random.choice(arrived, present, replace=False)).astype(np.int64)
    elapsed = random.integers(-1, to_ns(50), present)
    elapsed[random.random(present) < 0.3] = -1
    return replace(
        fresh_batch(size=size),
        arrived=arrived,
        stage=random.integers(0, 2, present),
        elapsed_ns=elapsed,
        natural_ns=random.integers(1, to_ns(300), present),
        sequence=rows,
    )


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6), arrived=st.integers(0, 3_000), share=st.floats(0, 1),
    more=st.integers(0, 3_000), k=st.integers(2, 300),
)  # fmt: skip
def test_every_kth_request_of_each_stage_and_state_is_kept(seed, arrived, share, more, k):
    batch = amid(np.random.default_rng(seed), arrived, int(share * arrived), arrived + more)
    busy = tuple(int(((batch.stage == j) & batch.running).sum()) for j in range(2))
    pools = tuple(pool(j, running=n, idle=3, starting=k, cap=1) for j, n in enumerate(busy))
    found = thinned(scene(task(batch=batch), pools=pools), k)
    kept = found.tasks[0].open
    assert kept is not None
    for j in range(2):
        for state in (True, False):
            before = ((batch.stage == j) & (batch.running == state)).sum()
            after = ((kept.stage == j) & (kept.running == state)).sum()
            assert abs(after - before / k) <= 1
        running = int(((kept.stage == j) & kept.running).sum())
        assert found.pools[j].running == running
        assert found.pools[j].cap == 1, "a cap is never thinned to nothing"
        assert found.pools[j].starting == 1
    assert kept.arrived == -(-arrived // k)
    assert kept.arrived <= kept.size or not kept.size
    assert (kept.sequence < kept.arrived).all(), "each has a random number"


@settings(max_examples=30)
@given(rows=st.integers(1, 20_000), k=st.integers(1, 100), seed=st.integers(0, 99))
def test_of_a_past_batch_enough_rows_stay_and_so_does_its_span(rows, k, seed):
    (past,) = history(rows, seed)
    found = thinned_past(past, k)
    assert len(found.arrived_ns) >= min(rows, thin.THINNED_REQUESTS)
    assert found.natural_ns == past.natural_ns


@settings(max_examples=4, deadline=None)
@given(k=st.integers(2, 8), seed=st.integers(0, 99))
def test_the_peaks_are_those_of_all_requests_within_the_root_of_k_over_them(k, seed):
    exact = PlanSettings(futures=3, shape_futures=3, tick_s=5.0, peak_factors=(1.0,), seed=seed)
    seen = large(3_000)
    whole = plan_each(seen, exact, None, search=True)
    part = thin.multiplied(plan_each(thinned(seen, k), exact, None, search=True), k, seen)
    for a, b, one in zip(whole.stages, part.stages, seen.pools, strict=True):
        error = 3 * np.sqrt(k * a.wanted) + k + 0.08 * a.wanted
        assert abs(a.wanted - b.wanted) <= error, one
        assert b.demand_s == pytest.approx(a.demand_s, rel=0.1)
        assert b.planned_s == pytest.approx(a.planned_s, rel=0.15 + float(error / a.wanted))
        assert max(b.slots_by_bin) <= b.peak


def test_a_large_batch_is_planned_again_while_it_runs():
    random = np.random.default_rng(1)
    batch = amid(random, 30_000, 12_000, 60_000)
    busy = [int(((batch.stage == j) & batch.running).sum()) for j in range(2)]
    pools = tuple(pool(j, running=n, target=n, cap=10**6) for j, n in enumerate(busy))
    seen = scene(task(history=history(5_000), batch=batch), pools=pools, now_ns=to_ns(150))
    plan = make_plan(seen, FEW)
    assert all(s.busy_high[0] >= 0.95 * n for s, n in zip(plan.stages, busy, strict=True))


def test_small_batches_are_planned_whole_and_large_ones_are_not():
    assert every_kth(large(thin.EXACT_REQUESTS_MAX)) == 1
    assert thinned(large(50), 1).tasks[0].open is not None
    assert every_kth(large(thin.EXACT_REQUESTS_MAX + 1)) == 3
    assert every_kth(large(1_000_000)) == 250
    many = [task(batch=fresh_batch(size=9_000, number=n)) for n in range(20)]
    assert every_kth(scene(*many)) == 5
    assert every_kth(scene(task(open=None))) == 1


def test_a_cap_below_k_is_kept():
    for stage in make_plan(large(1_000_000, cap=100), FEW).stages:
        assert stage.peak == 100
        assert max(stage.slots_by_bin) == 100
        assert stage.target <= 100


def test_a_million_requests_are_planned_within_the_caps():
    plan = make_plan(large(1_000_000, cap=70_000), FEW)
    assert plan.reason.endswith("from every 250th request")
    assert plan.stages[0].wanted > 70_000 >= max(plan.stages[0].slots_by_bin)
    assert plan.stages[0].peak <= 70_000
    assert plan.stages[0].demand_s == pytest.approx(1_000_000 * 54, rel=0.1)
    assert plan.batches[0].at_risk
    again = make_plan(
        large(1_000_000), FEW, peaks_hint=[s.wanted for s in plan.stages], search=False
    )
    assert again.stages[0].peak == pytest.approx(plan.stages[0].wanted, rel=0.01)
