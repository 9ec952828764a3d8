"""Combines the rewards of several verifiers. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from assay.core.tools.rewards import product, weighted_mean, weighted_sum


class Combination(StrEnum):
    """How rewards of components become one."""

    MEAN = "mean"
    """Weighted mean."""
    SUM = "sum"
    """Weighted sum."""
    MIN = "min"
    """The smallest; weights do not count."""
    PRODUCT = "product"
    """The product; weights do not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredComponent:
    """The reward of one component."""

    name: str
    value: float
    weight: float
    is_gate: bool
    """Whether the whole is `closed` unless its value is positive."""


def combined(parts: Sequence[ScoredComponent], how: Combination, *, closed: float) -> float:
    """The reward of all parts.

    Args:
        parts: at least one; for a mean, with a positive sum of weights.
        how: the rule.
        closed: the reward where a gate's value is not positive.
    """
    if any(part.is_gate and part.value <= 0 for part in parts):
        return closed
    values = [part.value for part in parts]
    match how:
        case Combination.MIN:
            return min(values)
        case Combination.PRODUCT:
            return product(values)
        case Combination.SUM:
            return weighted_sum((part.weight, part.value) for part in parts)
    return weighted_mean((part.weight, part.value) for part in parts)
