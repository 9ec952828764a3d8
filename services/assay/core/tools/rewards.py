"""Arithmetic on rewards that always gives a number. Pure.

Rewards are finite, but a sum, product or span of finite rewards may exceed the largest double. The
result is then the largest double: with an infinite reward a right response would lose its own. If
no step exceeds it, results are those of plain floating-point arithmetic.
"""

import math
import sys
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Final

_LARGEST: Final = sys.float_info.max


def is_finite(number: float) -> bool:
    """Whether a number may be a reward; integers beyond all doubles may not."""
    return -_LARGEST <= number <= _LARGEST


def weighted_sum(terms: Iterable[tuple[float, float]]) -> float:
    """The sum of weight times value."""
    terms = list(terms)
    try:
        found = math.fsum(weight * value for weight, value in terms)
    except (OverflowError, ValueError):  # infinite parts, also of both signs
        found = math.inf
    return found if math.isfinite(found) else _bounded(_exact_sum(terms))


def weighted_mean(terms: Iterable[tuple[float, float]]) -> float:
    """`weighted_sum` per weight; the sum of the weights is positive."""
    terms = list(terms)
    weights = math.fsum(weight for weight, _ in terms)
    try:
        found = math.fsum(weight * value for weight, value in terms) / weights
    except (OverflowError, ValueError):
        found = math.inf
    return found if math.isfinite(found) else _bounded(_exact_sum(terms) / Fraction(weights))


def mean(values: Sequence[float]) -> float:
    """As `weighted_mean`, of at least one value and with equal weights."""
    return weighted_mean((1.0, value) for value in values)


def product(values: Sequence[float]) -> float:
    """All values times each other; of the right sign also where it is bounded."""
    found = math.prod(values)
    return (
        found
        if math.isfinite(found)
        else _bounded(math.prod(map(Fraction, values), start=Fraction(1)))
    )


def between(low: float, high: float, share: float) -> float:
    """What lies at `share`, 0 to 1, of the way from `low` to `high`."""
    found = low + (high - low) * share
    return found if math.isfinite(found) else low * (1.0 - share) + high * share


def _exact_sum(terms: Sequence[tuple[float, float]]) -> Fraction:
    return sum((Fraction(weight) * Fraction(value) for weight, value in terms), Fraction())


def _bounded(exact: Fraction) -> float:
    return float(max(Fraction(-_LARGEST), min(Fraction(_LARGEST), exact)))
