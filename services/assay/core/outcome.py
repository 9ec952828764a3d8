"""How a request ends.

Invariant: every accepted request ends in exactly one outcome, and a reward is present exactly where
`carries_reward` says so. An infrastructure failure is never a reward.
"""

from enum import StrEnum


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
