"""What a group's rewards are worth, no matter which of them are missing."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.advantages import Estimator, advantages, zero_shift_micro
from assay.core.errors import InvalidRequest

REWARDS = st.floats(-1e6, 1e6, allow_nan=False)
GROUPS = st.lists(st.none() | REWARDS, max_size=32)
ALL = pytest.mark.parametrize("estimator", Estimator)


def test_one_that_nobody_judged_leaves_the_baseline() -> None:
    found = advantages([1.0, None, 0.0, 0.0], Estimator.DR_GRPO)
    assert found == [pytest.approx(2 / 3), None, pytest.approx(-1 / 3), pytest.approx(-1 / 3)]


def test_the_estimators_on_numbers_worked_out_by_hand() -> None:
    rewards = [1.0, 1.0, 0.0, 0.0]
    assert advantages(rewards, Estimator.GRPO) == [1.0, 1.0, -1.0, -1.0]
    assert advantages(rewards, Estimator.DR_GRPO) == [0.5, 0.5, -0.5, -0.5]
    assert advantages(rewards, Estimator.RLOO) == pytest.approx([2 / 3, 2 / 3, -2 / 3, -2 / 3])


@given(st.lists(st.none() | st.integers(-8, 8).map(lambda n: n / 4), max_size=16))
def test_the_shift_is_the_distance_between_what_zeros_would_give_and_what_is(
    group: list[float | None],
) -> None:
    is_there = [a or 0.0 for a in advantages(group)]
    would_be = [a or 0.0 for a in advantages([reward or 0.0 for reward in group])]
    shift = math.fsum(abs(a - b) for a, b in zip(would_be, is_there, strict=True))
    assert zero_shift_micro(group) == pytest.approx(shift * 1e6, abs=1.0)


def test_rewards_beyond_moments_shift_nothing_that_can_be_said() -> None:
    assert zero_shift_micro([1.7e308, 1.6e308, None]) == 0
    assert zero_shift_micro([1.0, 0.0, 0.0, None]) == 1_154_701


LARGE = st.floats(allow_nan=False, allow_infinity=False)


@ALL
@given(rewards=st.lists(LARGE, min_size=1, max_size=16))
def test_rewards_of_any_size_have_finite_advantages_or_are_refused(
    rewards: list[float], estimator: Estimator
) -> None:
    try:
        found = advantages(rewards, estimator)
    except InvalidRequest:
        found = []
        assert estimator is not Estimator.GRPO
        assert max(map(abs, rewards)) > 1e307
    assert all(one is not None and math.isfinite(one) for one in found)


@ALL
@given(rewards=st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=16))
def test_advantages_grow_with_their_rewards(rewards: list[float], estimator: Estimator) -> None:
    """Exactly, since a power of two only moves the exponent."""
    whole = [float(round(reward)) for reward in rewards]
    found = advantages([math.ldexp(reward, 900) for reward in whole], estimator)
    unit = 0 if estimator is Estimator.GRPO else 900
    assert found == [math.ldexp(one or 0.0, unit) for one in advantages(whole, estimator)]


@ALL
def test_the_largest_rewards_are_told_apart(estimator: Estimator) -> None:
    found = advantages([1.7e308, 1.6e308, 1.6e308, 1.7e308], estimator)
    assert [(one or 0.0) > 0 for one in found] == [True, False, False, True]


@ALL
@pytest.mark.parametrize("reward", [math.inf, -math.inf, math.nan])
def test_a_reward_that_is_not_finite_is_named(reward: float, estimator: Estimator) -> None:
    with pytest.raises(InvalidRequest) as refused:
        advantages([0.0, None, reward], estimator)
    assert refused.value.field == "rewards[2]"


@ALL
@given(rewards=GROUPS)
def test_the_missing_are_missing_and_the_others_do_not_see_them(
    rewards: list[float | None], estimator: Estimator
) -> None:
    found = advantages(rewards, estimator)
    assert [a is None for a in found] == [r is None for r in rewards]
    alone = advantages([r for r in rewards if r is not None], estimator)
    assert [a for a in found if a is not None] == alone


@ALL
@given(rewards=st.lists(REWARDS, min_size=1, max_size=32))
def test_advantages_sum_to_nothing_and_keep_the_order(
    rewards: list[float], estimator: Estimator
) -> None:
    found = [a for a in advantages(rewards, estimator) if a is not None]
    scale = max(abs(r) for r in rewards) + 1.0
    assert math.fsum(found) == pytest.approx(0.0, abs=1e-6 * scale * len(rewards))
    order = sorted(range(len(rewards)), key=lambda i: rewards[i])
    assert all(found[i] <= found[j] for i, j in itertools.pairwise(order))


@ALL
@given(reward=REWARDS, k=st.integers(1, 32))
def test_equal_rewards_teach_nothing(reward: float, k: int, estimator: Estimator) -> None:
    assert advantages([reward] * k, estimator) == [0.0] * k
