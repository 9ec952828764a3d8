"""Rewards of a group that depend on the group. Pure.

Kimi k1.5 (arXiv:2501.12599, section 2.3.3) rewards short right answers: with
`l = 0.5 - (length - shortest) / (longest - shortest)` over the responses to one prompt, a right one
gets `l` and a wrong one `min(0, l)`, so that no wrong answer gains by being short.
"""

from collections.abc import Sequence
from enum import StrEnum


class Spread(StrEnum):
    """How the lengths of a group become numbers from 0.5 (shortest) to -0.5 (longest)."""

    LINEAR = "linear"
    """As in the paper: one very long response moves all others together."""
    RANK = "rank"
    """By order; equal lengths share the mean of their places."""


def length_terms(lengths: Sequence[int], passed: Sequence[bool], spread: Spread) -> list[float]:
    """The length term of each response of a group, within -0.5 to 0.5.

    All are 0 where all lengths are equal, so also in a group of one.

    Args:
        lengths: of the responses, in any unit.
        passed: whether each is right.
        spread: how they are compared.
    """
    if not lengths or min(lengths) == max(lengths):
        return [0.0] * len(lengths)
    places = _linear(lengths) if spread is Spread.LINEAR else _ranks(lengths)
    terms = [0.5 - place for place in places]
    return [term if right else min(0.0, term) for term, right in zip(terms, passed, strict=True)]


def _linear(lengths: Sequence[int]) -> list[float]:
    shortest = min(lengths)
    span = max(lengths) - shortest
    return [(length - shortest) / span for length in lengths]


def _ranks(lengths: Sequence[int]) -> list[float]:
    """Share of the others that are shorter; half of those that are equal count."""
    others = len(lengths) - 1
    return [
        (
            sum(other < length for other in lengths)
            + (sum(other == length for other in lengths) - 1) / 2
        )
        / others
        for length in lengths
    ]
