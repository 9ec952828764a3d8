"""Group statistics: over present rewards only, population deviation, stable under order."""

import itertools
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.group import can_vary, summarize
from assay.core.ids import GroupId

REWARDS = st.lists(
    st.one_of(st.none(), st.floats(-1e6, 1e6, allow_nan=False)), min_size=0, max_size=64
)


@given(REWARDS)
def test_statistics_are_those_of_the_present_rewards(rewards: list[float | None]) -> None:
    present = [reward for reward in rewards if reward is not None]
    summary = summarize(GroupId("g"), rewards)
    assert (summary.size, summary.rewards) == (len(rewards), len(present))
    if not present:
        assert summary.mean is None
        assert summary.std is None
        return
    assert summary.mean is not None
    assert summary.std is not None
    assert math.isclose(summary.mean, statistics.fmean(present), rel_tol=1e-9, abs_tol=1e-9)
    assert math.isclose(summary.std, statistics.pstdev(present), rel_tol=1e-6, abs_tol=1e-6)


@given(REWARDS, st.randoms(use_true_random=False))
def test_the_order_in_which_requests_end_does_not_matter(rewards, random) -> None:  # type: ignore[no-untyped-def]
    shuffled = list(rewards)
    random.shuffle(shuffled)
    assert summarize(GroupId("g"), rewards) == summarize(GroupId("g"), shuffled)


def test_an_infrastructure_failure_does_not_hide_that_a_group_is_degenerate() -> None:
    assert summarize(GroupId("g"), [1.0, None, 1.0]).degenerate
    assert not summarize(GroupId("g"), [1.0, None, 0.0]).degenerate


@pytest.mark.parametrize("rewards", [[1.7e308, 1.6e308], [1.7e308, -1.7e308, 0.0]])
def test_the_largest_rewards_have_statistics_too(rewards: list[float]) -> None:
    summary = summarize(GroupId("g"), rewards)
    small = summarize(GroupId("g"), [reward / 1e300 for reward in rewards])
    assert summary.mean == pytest.approx((small.mean or 0.0) * 1e300)
    assert summary.std == pytest.approx((small.std or 0.0) * 1e300)
    assert not summary.degenerate


def test_a_group_without_rewards_is_degenerate() -> None:
    assert summarize(GroupId("g"), [None, None]).degenerate


@given(st.floats(-1e6, 1e6, allow_nan=False), st.integers(1, 64))
def test_equal_rewards_deviate_by_exactly_nothing(reward: float, size: int) -> None:
    summary = summarize(GroupId("g"), [reward] * size)
    assert (summary.mean, summary.std, summary.degenerate) == (reward, 0.0, True)


FEW = st.lists(st.sampled_from([None, 0.0, 0.5, 1.0]), max_size=5)


@given(FEW, st.integers(0, 3), st.integers(1, 3))
def test_a_group_can_vary_exactly_if_some_rewards_to_come_make_it(
    rewards: list[float | None], left: int, minority_min: int
) -> None:
    values = [0.0, 0.5, 1.0, 2.0, 3.0, 4.0]  # enough for new ones

    def minority(ended: list[float | None]) -> int:
        present = [reward for reward in ended if reward is not None]
        return len(present) - max((present.count(value) for value in present), default=0)

    possible = any(
        minority([*rewards, *more]) >= minority_min
        for more in itertools.product(values, repeat=left)
    )
    assert can_vary(rewards, left, minority_min) == possible


@given(REWARDS)
def test_a_group_that_ended_can_vary_if_it_is_not_degenerate(rewards: list[float | None]) -> None:
    assert can_vary(rewards, 0, 1) != summarize(GroupId("g"), rewards).degenerate
