"""Sums and products of rewards are numbers, whatever the rewards are."""

import math
import sys
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assay.core.tools import rewards

REWARD = st.floats(allow_nan=False, allow_infinity=False)
WEIGHT = st.floats(min_value=0.0, max_value=1_000.0)
LARGEST = sys.float_info.max


@given(st.lists(st.tuples(WEIGHT, REWARD), min_size=1, max_size=16))
@example([(1.0, 1e308), (1.0, 1e308)])
@example([(1_000.0, 1e308), (1_000.0, -1e308)])
def test_a_sum_is_the_exact_one_within_the_numbers_that_there_are(
    terms: list[tuple[float, float]],
) -> None:
    found = rewards.weighted_sum(terms)
    exact = sum(Fraction(weight) * Fraction(value) for weight, value in terms)
    wanted = float(max(Fraction(-LARGEST), min(Fraction(LARGEST), exact)))
    spread = math.fsum(min(LARGEST / 16, abs(weight * value)) for weight, value in terms)
    assert abs(found) <= LARGEST
    assert found == pytest.approx(wanted, rel=1e-12, abs=1e-12 * spread + 1e-300)


@given(st.lists(REWARD, min_size=1, max_size=16))
@example([1e308] * 3)
def test_a_mean_lies_between_the_least_and_the_greatest(values: list[float]) -> None:
    slack = 1e-12 * max(map(abs, values)) + 1e-300
    assert min(values) - slack <= rewards.mean(values) <= max(values) + slack


@given(st.lists(REWARD, min_size=1, max_size=16))
@example([1e308, 1e308])
@example([-1e308, 1e308])
def test_a_product_has_its_sign_and_is_a_number(values: list[float]) -> None:
    found = rewards.product(values)
    assert math.isfinite(found)
    is_negative = sum(value < 0 for value in values) % 2 == 1
    assert found <= 0 if is_negative else found >= 0


@given(REWARD, REWARD, st.floats(min_value=0.0, max_value=1.0))
@example(-1.7e308, 1.7e308, 0.5)
def test_a_share_of_a_span_lies_in_it(low: float, high: float, share: float) -> None:
    slack = 1e-12 * max(abs(low), abs(high)) + 1e-300
    assert min(low, high) - slack <= rewards.between(low, high, share) <= max(low, high) + slack


@pytest.mark.parametrize(("terms", "wanted"), [([(3.0, 1.0), (1.0, 0.0)], 0.75)])
def test_ordinary_rewards_are_weighed_as_always(
    terms: list[tuple[float, float]], wanted: float
) -> None:
    assert rewards.weighted_mean(terms) == wanted
