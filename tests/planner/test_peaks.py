"""How many slots a search asks for: the fewest that suffice, and more only for a reason."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planner.scenes import scene

from assay.config.planning import PlanSettings
from assay.planner.core.demand import open_tasks
from assay.planner.core.futures import draw_futures
from assay.planner.core.trial import (
    FINENESS,
    RISE_SHARE,
    Trial,
    fewest,
    find_peaks,
    gallop,
    with_headroom,
    without_headroom,
)

COUNT = 20
PLANS = PlanSettings(futures=COUNT)
STAGE = 0
SLOTS_MAX = 149


@pytest.fixture(scope="module")
def trial():
    """The futures of a batch of 150 requests that has not begun."""
    seen = scene()
    active = open_tasks(seen)
    futures = draw_futures(0, active, seen.tasks, count=COUNT, seed=0, prior=PLANS.prior)
    return Trial(seen, active, futures, PLANS)


def needing(trial, needs, patch):
    """Future k is in time with `needs[k]` slots and more."""

    def serves(k, supply):
        return supply.workers[STAGE, supply.steps[STAGE] - 1] >= needs[k]

    patch.setattr(trial, "serves", serves)


def exactly(needs, failing):
    """The fewest slots with which no more than so many futures fail; 1 at least."""
    return max(sorted(needs)[COUNT - 1 - failing], 1)


def close(found, least):
    """As many as needed, and no more than the search leaves open."""
    return least <= found <= least + SLOTS_MAX // FINENESS


NEEDS = st.lists(st.integers(0, 99), min_size=COUNT, max_size=COUNT)


@settings(max_examples=100, deadline=None)
@given(needs=NEEDS, start=st.integers(0, 120), most=st.integers(1, SLOTS_MAX))
def test_a_search_finds_the_fewest_slots_wherever_it_starts(trial, needs, start, most):
    peaks = trial.most.copy()
    with pytest.MonkeyPatch.context() as patch:
        needing(trial, needs, patch)
        for failing in (0, 2, 8):
            found = gallop(trial, peaks, STAGE, start, most, failing)
            assert close(found, min(exactly(needs, failing), most))


@settings(max_examples=100, deadline=None)
@given(needs=NEEDS, start=st.integers(0, 120), bought=st.integers(1, SLOTS_MAX))
def test_what_was_bought_is_used_and_more_is_asked_for_where_many_futures_fail(
    trial, needs, start, bought
):
    """Up to what was bought, a tenth may fail; beyond it, two fifths."""
    assert (trial.allowed, trial.tolerated) == (2, int(RISE_SHARE * COUNT))
    strict, loose = exactly(needs, trial.allowed), exactly(needs, trial.tolerated)
    with pytest.MonkeyPatch.context() as patch:
        needing(trial, needs, patch)
        found = fewest(trial, trial.most.copy(), STAGE, start, bought)
    assert close(found, strict if strict <= bought else max(bought, loose))


@given(slots=st.integers(0, 3_000))
def test_headroom_is_taken_off_as_it_was_put_on(slots):
    least = without_headroom(slots)
    assert with_headroom(least, 10_000) <= slots or slots == 0
    assert with_headroom(least + 1, 10_000) > slots


@settings(max_examples=5, deadline=None)
@given(scale=st.floats(0.3, 3.0))
def test_known_peaks_of_the_same_batches_rise_less_than_new_ones(trial, scale):
    new = find_peaks(trial)
    bought = np.maximum(new * scale, 1).astype(np.int64).tolist()
    again = find_peaks(trial, bought, bought)
    for stage, found in enumerate(again):
        assert found <= max(new[stage] * 1.1 + 1, 1)
    if scale < 1:
        assert again.sum() <= new.sum() + 2
