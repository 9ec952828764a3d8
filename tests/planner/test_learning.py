"""A plan learns from its own batch: durations, also of what still runs, and transitions."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planner.scenes import fresh_batch, task

from assay.config.planning import PriorSettings
from assay.model.arrays import to_ns
from assay.model.observation import past_batch
from assay.planner.core.futures import draw_futures
from assay.planner.core.learn import adapted, share_going_on, stretch, went_on
from assay.planner.core.policy import Assay
from assay.sim.laboratory.trials.mixes import draw, named_mixes
from assay.sim.pools.runner import simulate

TIMEOUT = to_ns(120)


def drawn_times(seed: int, count: int, scale: float = 1.0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.rint(to_ns(10) * scale * np.exp(0.5 * random.normal(size=count))).astype(np.int64)


def batch_of(passed, running=(), stage=0):
    """A batch whose finished times are `passed` (m, stages), with requests that run."""
    running = np.array(running, np.int64)
    present = np.zeros((len(running), passed.shape[1]), np.int64)
    reached = np.max(np.where(passed > 0, np.arange(passed.shape[1]), -1), axis=1, initial=-1)
    return replace(
        fresh_batch(size=1_000),
        arrived=len(passed) + len(running),
        stage=np.full(len(running), stage),
        elapsed_ns=running,
        natural_ns=running,
        sequence=np.arange(len(running)),
        passed_ns=np.concatenate([passed, present]),
        reached=np.concatenate([reached, np.full(len(running), stage)]),
    )


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), factor=st.floats(0.2, 5.0))
def test_the_factor_of_many_requests_is_found(seed, factor):
    found = stretch(
        drawn_times(seed, 400, factor), np.zeros(0, np.int64), drawn_times(seed + 1, 400), TIMEOUT
    )
    assert found == pytest.approx(factor, rel=0.2)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), factor=st.floats(0.3, 4.0), at=st.floats(0.9, 2.0))
def test_what_still_runs_counts_as_having_run_that_long(seed, factor, at):
    """Cut at any instant, the same requests tell nearly the same factor."""
    times = drawn_times(seed, 400, factor)
    now = int(at * to_ns(10) * factor)
    done, running = times[times <= now], np.full((times > now).sum(), now)
    past = drawn_times(seed + 1, 400)
    assert stretch(done, running, past, TIMEOUT) == pytest.approx(factor, rel=0.35)
    ignored = stretch(done, np.zeros(0, np.int64), past, TIMEOUT)
    assert ignored < stretch(done, running, past, TIMEOUT) + 0.06


@settings(deadline=None)
@given(past=st.lists(st.integers(1, 10**11), min_size=1, max_size=50))
def test_without_evidence_history_is_kept(past):
    none = np.zeros(0, np.int64)
    assert stretch(none, none, np.array(past), TIMEOUT) == 1.0
    assert stretch(none, np.array([1, 1]), np.array([TIMEOUT]), TIMEOUT) == 1.0


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_a_batch_like_its_history_changes_little(seed):
    found = stretch(
        drawn_times(seed, 100), np.zeros(0, np.int64), drawn_times(seed + 1, 400), TIMEOUT
    )
    assert 0.75 < found < 1.35


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6), share=st.floats(0.01, 0.4), so_far=st.lists(st.floats(1.0, 100.0))
)
def test_hangs_that_history_has_too_say_nothing_about_the_pace(seed, share, so_far):
    """However long they have run: of a batch like its history, as many requests hang."""
    hangs = max(int(share * 400), 1)
    timeout = to_ns(10**6)
    past, mine = drawn_times(seed + 1, 400), drawn_times(seed, 200)
    past[:hangs] = timeout
    done = mine[hangs // 2 :]
    longest = past[hangs:].max()
    running = np.resize([longest * one for one in so_far or [100.0]], hangs // 2).astype(np.int64)
    found = stretch(done, running, past, timeout)
    assert found == pytest.approx(
        stretch(done, np.full(hangs // 2, longest), past, timeout), rel=0.07
    )


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), factor=st.floats(1.5, 4.0), hangs=st.integers(0, 40))
def test_a_slow_batch_is_not_taken_for_one_of_hangs(seed, factor, hangs):
    """All of its requests have outlived all of history: it is slow, whatever hung there."""
    past = drawn_times(seed, 400)
    past[:hangs] = TIMEOUT
    now = min(int(factor * past[hangs:].max()), TIMEOUT - 1)
    found = stretch(np.zeros(0, np.int64), np.full(200, now), past, TIMEOUT)
    assert found > 0.9 * now / past[hangs:].max()


def test_two_slow_requests_do_not_overturn_history():
    found = stretch(np.array([to_ns(60)] * 2), np.zeros(0, np.int64), drawn_times(1, 400), TIMEOUT)
    assert 1.0 <= found < 2.2


def test_hangs_of_history_stay_hangs_and_times_end_at_the_timeout():
    first = np.concatenate([drawn_times(1, 95), np.full(5, TIMEOUT)])
    past = past_batch(np.arange(100), np.stack([first, np.ones(100, np.int64)], axis=1))
    batch = batch_of(np.stack([drawn_times(2, 300, 5.0), np.ones(300, np.int64)], axis=1))
    found = adapted(past, batch, np.array([TIMEOUT, to_ns(60)]))
    assert found.service_ns[:, 0].max() == TIMEOUT
    assert (found.service_ns[:, 0] >= past.service_ns[:, 0]).all()
    assert np.median(found.service_ns[:, 0]) > 3 * np.median(past.service_ns[:, 0])
    assert (np.diff(found.service_ns[found.by_service[0], 0]) >= 0).all()


def test_requests_that_skip_a_stage_say_nothing_about_what_follows_it():
    service = np.full((100, 2), to_ns(5))
    service[50:, 1] = 0
    passed = np.zeros((60, 2), np.int64)
    passed[:10, 0] = to_ns(5)  # ten end behind the first stage
    passed[10:, 1] = to_ns(5)  # fifty come to the second alone
    share = share_going_on(batch_of(passed), past_batch(np.arange(100), service), 0)
    assert share < 0.5


@settings(max_examples=40, deadline=None)
@given(
    before=st.floats(0.1, 0.9), now=st.floats(0.0, 1.0), seed=st.integers(0, 99),
    count=st.integers(0, 600),
)  # fmt: skip
def test_the_share_that_goes_on_moves_to_that_of_the_batch(before, now, seed, count):
    random = np.random.default_rng(seed)
    service = np.stack([drawn_times(seed, 500), drawn_times(seed + 1, 500)], axis=1)
    service[random.random(500) > before, 1] = 0
    passed = np.stack([drawn_times(seed + 2, count), drawn_times(seed + 3, count)], axis=1)
    passed[random.random(count) > now, 1] = 0
    past, batch = past_batch(np.arange(500), service), batch_of(passed)
    found = adapted(past, batch, np.array([TIMEOUT, TIMEOUT]))
    here, later = went_on(found.service_ns, 0)
    assert later.sum() / here.sum() == pytest.approx(share_going_on(batch, past, 0), abs=0.06)
    if count == 0:
        assert found is past


def test_what_outlives_all_history_is_drawn_up_to_the_timeout_and_may_go_on():
    history = past_batch(np.arange(50), np.full((50, 2), to_ns(5)))
    batch = replace(
        fresh_batch(size=200),
        arrived=200,
        stage=np.zeros(200, np.int64),
        elapsed_ns=np.full(200, to_ns(20)),
        natural_ns=np.full(200, to_ns(20)),
        sequence=np.arange(200),
    )
    view = task(history=(history,), batch=batch)
    (future,) = draw_futures(
        to_ns(20), [(view, batch)], [view], count=1, seed=0, prior=PriorSettings()
    )
    rest = future.demand.service_ns[:, 0]
    assert 0.35 < np.mean(rest <= to_ns(20)) < 0.65, "each doubling leaves half"
    assert rest.min() > 0
    assert rest.max() == to_ns(100), "the timeout"
    cut = rest == to_ns(100)
    assert (future.demand.service_ns[cut, 1] == 0).all()
    assert (future.demand.service_ns[~cut, 1] == to_ns(5)).all()


def test_a_misleading_history_delays_a_batch_by_two_seconds_at_most():
    mix = replace(named_mixes()["history 0.2x"], iterations=1)
    small = replace(mix, tasks=(replace(mix.tasks[0], batch_size=400),))
    result = simulate(draw(small, seed=1), small.cluster, Assay())
    assert result.delay_max_s <= 2.0
