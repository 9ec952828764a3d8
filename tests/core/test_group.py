"""Group statistics: over present rewards only, population deviation, stable under order."""

import math
import statistics

from hypothesis import given
from hypothesis import strategies as st

from assay.core.group import summarize
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


def test_a_group_without_rewards_is_degenerate() -> None:
    assert summarize(GroupId("g"), [None, None]).degenerate


@given(st.floats(-1e6, 1e6, allow_nan=False), st.integers(1, 64))
def test_equal_rewards_deviate_by_exactly_nothing(reward: float, size: int) -> None:
    summary = summarize(GroupId("g"), [reward] * size)
    assert (summary.mean, summary.std, summary.degenerate) == (reward, 0.0, True)
