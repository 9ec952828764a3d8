"""Futures keep what is known and draw the rest from whole past requests."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.planner.scenes import fresh_batch, task

from assay.config.planning import PriorSettings
from assay.model.arrays import SECOND_NS, to_ns
from assay.model.observation import past_batch
from assay.planner.core.futures import (
    NEAR_SHARE,
    draw_futures,
    fitted,
    like,
    pace,
)


def drawn(view, now_ns):
    return draw_futures(now_ns, [(view, view.open)], [view], count=8, seed=0, prior=PriorSettings())


def test_a_running_request_gets_what_is_left_of_a_past_one_that_ran_longer():
    history = past_batch(
        np.array([0, 1, 2]), np.array([[to_ns(10), 7], [to_ns(20), 8], [to_ns(30), 9]])
    )
    batch = replace(
        fresh_batch(size=2),
        arrived=2,
        stage=np.array([0, 0]),
        elapsed_ns=np.array([to_ns(25), to_ns(119)]),
        natural_ns=np.array([to_ns(25), to_ns(119)]),
        sequence=np.arange(2),
    )
    for future in drawn(task(history=(history,), batch=batch), to_ns(60)):
        known, outlived = future.demand.service_ns.tolist()
        assert known == [to_ns(5), 9]
        assert 1 <= outlived[0] <= to_ns(1), "the timeout is 120 s"
        assert future.demand.running.tolist() == [0, 0]
        assert future.natural_ns[0] <= to_ns(120)


def test_what_will_come_is_whole_past_requests_that_arrived_about_then():
    history = past_batch(np.arange(100) * to_ns(1), np.stack([np.arange(1, 101)] * 2, axis=1))
    batch = replace(fresh_batch(size=100), arrived=60, ended_natural_ns=1)
    for future in drawn(task(history=(history,), batch=batch), to_ns(60)):
        service = future.demand.service_ns
        assert len(service) == 40
        assert (service[:, 0] == service[:, 1]).all()
        assert service[:, 0].min() > 60 - 100 * NEAR_SHARE
        assert (np.diff(future.demand.release_ns) >= 0).all()
        assert future.demand.release_ns.min() >= to_ns(60)


@given(
    row=st.integers(0, 999),
    rows=st.integers(1, 1000),
    luck=st.floats(0, 1, exclude_max=True),
)
def test_durations_are_those_of_a_request_that_arrived_alike(row, rows, luck):
    row = row % rows
    assert abs(like(row, rows, luck) - row) <= NEAR_SHARE * rows
    assert 0 <= like(row, rows, luck) < rows


def test_the_few_that_hang_hang_at_other_places_in_other_futures():
    service = np.full((200, 2), to_ns(1))
    service[[20, 190]] = to_ns(60)
    history = past_batch(np.arange(200) * to_ns(0.1), service)
    places = set()
    for future in drawn(task(history=(history,), batch=fresh_batch(size=200)), 0):
        hangs = future.demand.service_ns[:, 0] == to_ns(60)
        places |= set(future.demand.release_ns[hangs].tolist())
    assert len(places) > 4, "two arrived at the places of those that hung"


@given(
    last_s=st.floats(1, 1e3),
    lull_s=st.floats(0, 1e3),
    seen_s=st.floats(0.1, 5e3),
    arrived=st.integers(1, 100),
)
def test_in_a_lull_of_the_past_batch_nothing_says_that_the_batch_is_slow(
    last_s, lull_s, seen_s, arrived
):
    found = pace(seen_s, last_s, last_s + lull_s, arrived, 100)
    if last_s <= seen_s <= last_s + lull_s:
        assert found == 1.0
    elif seen_s < last_s:
        assert found <= 1.0, "as many came sooner"
    else:
        assert found >= 1.0, "no more have come by now"


def test_early_arrivals_say_little_about_the_pace_of_the_others():
    """A few seconds at the start of a long ramp are not that share of all that follows."""
    found = [pace(80, 100, 100, arrived, 100) for arrived in (3, 10, 30, 90)]
    assert found == pytest.approx([0.98, 1 - 0.2 / 3, 0.8, 0.8])


@given(ratio=st.floats(0.5, 2.0), count=st.integers(1, 100), step=st.integers(1, 9))
def test_the_pace_of_arrivals_is_found_whole_or_thinned(ratio, count, step):
    past = np.arange(50, 150) * to_ns(1)
    mine = (past[:count] * ratio).astype(np.int64)
    assert fitted(mine, past, count / 100) == pytest.approx(ratio, rel=0.05)
    if count > 10 * step:
        assert fitted(mine[step // 2 :: step], past, count / 100) == pytest.approx(ratio, rel=0.1)
    assert fitted(np.zeros(0, np.int64), past, 0.0) == 1.0


WAVE_S = 100.0
"""Time between two bursts."""


@pytest.mark.parametrize("extra", [-4, 0, 4])
@pytest.mark.parametrize("ratio", [1.0, 1.1])
def test_a_burst_is_expected_when_it_comes_although_the_last_was_a_few_larger_or_smaller(
    extra, ratio
):
    """By count alone a batch that is four requests behind is still within its first burst."""
    waves = np.concatenate([np.linspace(0, 10, 100) + k * WAVE_S for k in range(1, 4)])
    history = past_batch((waves * SECOND_NS).astype(np.int64), np.ones((300, 2), np.int64))
    arrived = 100 + extra
    arrivals = ratio * np.linspace(WAVE_S, WAVE_S + 10, arrived) * SECOND_NS
    batch = replace(
        fresh_batch(size=300),
        arrived=arrived,
        ended_natural_ns=1,
        arrivals_ns=arrivals.astype(np.int64),
    )
    now_s = ratio * (WAVE_S + 70)
    for future in drawn(task(history=(history,), batch=batch), to_ns(now_s)):
        release_s = future.demand.release_ns / SECOND_NS
        second = release_s[release_s > now_s + 1]
        assert len(second) >= 180
        assert second.min() == pytest.approx(ratio * 2 * WAVE_S, abs=3)


def test_a_batch_that_runs_late_is_expected_to_go_on_late():
    history = past_batch(np.arange(100) * to_ns(1), np.ones((100, 2), np.int64))
    batch = replace(fresh_batch(size=100), arrived=50, ended_natural_ns=1)
    ends = [
        max(f.demand.release_ns.max() for f in drawn(task(history=(history,), batch=batch), now))
        for now in (to_ns(50), to_ns(75))
    ]
    assert ends[1] > 1.4 * ends[0]


@pytest.mark.parametrize("behind", [0, 10, 20])
def test_what_should_have_arrived_by_now_is_spread_over_the_rest_of_the_curve(behind):
    """Else every plan of a batch that is behind by chance would see a burst at its own moment."""
    history = past_batch(np.arange(400) * to_ns(0.25), np.ones((400, 2), np.int64))
    now_s, arrived = 50.0, 200 - behind
    batch = replace(
        fresh_batch(size=400),
        arrived=arrived,
        ended_natural_ns=1,
        arrivals_ns=np.arange(arrived) * to_ns(0.25),
    )
    for future in drawn(task(history=(history,), batch=batch), to_ns(now_s)):
        release_s = future.demand.release_ns / SECOND_NS
        assert len(release_s) == 200 + behind
        assert np.histogram(release_s, np.arange(now_s, 101))[0].max() <= 14, "four per second"


def test_a_batch_of_which_nothing_has_arrived_begins_later_and_not_all_at_once():
    history = past_batch(np.arange(100) * to_ns(1), np.ones((100, 2), np.int64))
    batch = replace(fresh_batch(size=100), arrived=0)
    for late_s in (0, 30):
        for future in drawn(task(history=(history,), batch=batch), to_ns(late_s)):
            first, last = future.demand.release_ns.min(), future.demand.release_ns.max()
            assert to_ns(late_s) <= first <= to_ns(late_s + 10)
            assert to_ns(late_s + 90) <= last <= to_ns(late_s + 99)
