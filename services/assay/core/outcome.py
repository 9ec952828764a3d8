"""How a request ends.

Invariant: every accepted request ends in exactly one outcome, and a reward is present exactly where
`carries_reward` says so. An infrastructure failure is never a reward.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

NumberT = TypeVar("NumberT", int, float)


class Outcome(StrEnum):
    """How a request ended; the same spelling on the wire, in metrics, in logs and in the store."""

    SCORED = "SCORED"
    RESOURCE_LIMIT = "RESOURCE_LIMIT"
    INFRA_FAILED = "INFRA_FAILED"
    EXPIRED = "EXPIRED"
    CANCELLED = "CANCELLED"
    REJECTED_INVALID = "REJECTED_INVALID"

    @property
    def carries_reward(self) -> bool:
        """True where the response was judged, even if only by the limit that it broke."""
        return self in {Outcome.SCORED, Outcome.RESOURCE_LIMIT}


def outcome_named(name: str) -> Outcome:
    """The outcome of this name; one that only a later release has is `INFRA_FAILED` here: what this
    release cannot read is never a reward."""
    try:
        return Outcome(name)
    except ValueError:
        return Outcome.INFRA_FAILED


def by_outcome(values: Mapping[str, NumberT]) -> dict[Outcome, NumberT]:
    """Numbers per outcome, by its name; those of outcomes that this release does not know are
    added to `INFRA_FAILED`, so that the sum stays."""
    found: dict[Outcome, NumberT] = {}
    for name, value in values.items():
        outcome = outcome_named(name)
        found[outcome] = found[outcome] + value if outcome in found else value
    return found
