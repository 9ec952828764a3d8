"""Pauses before a call is sent again, and when to give up. Pure.

Pauses double, are drawn from their upper half at random (so that clients that failed together do
not retry together), and end when their sum would exceed `total_s`.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Limits of the pauses; `pauses` draws them for each call."""

    first_s: float = 0.1
    longest_s: float = 5.0
    total_s: float = 120.0
    """Time spent on pauses before the last error is raised. 0 = never send again."""

    def pauses(self, randomness: random.Random) -> Iterator[float]:
        """Yield pauses in seconds; ends when it is time to give up."""
        pause_s = self.first_s
        spent_s = 0.0
        while True:
            drawn_s = pause_s * randomness.uniform(0.5, 1.0)
            spent_s += drawn_s
            if spent_s > self.total_s:
                return
            yield drawn_s
            pause_s = min(2 * pause_s, self.longest_s)
