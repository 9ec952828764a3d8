"""What a group's rewards are worth, whoever is missing."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.advantages import Estimator, advantages

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
