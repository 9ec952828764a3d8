"""Sizes that were refused, and when each pool is tried again. Pure.

The first retry is soon, since most refusals pass (a webhook that restarts, a permission that is
being granted); each later pause is twice as long. A pool that waits delays no other pool.
"""

import math
from typing import Final

from assay.core.ids import StageName
from assay.core.tools.backoff import pause_s

AGAIN_S: Final = 0.5
AGAIN_S_MAX: Final = 15.0


class Refusals:
    """Which sizes were refused, by stage, and when each is asked for again."""

    def __init__(self) -> None:
        self._times: dict[StageName, int] = {}
        """Refusals in a row."""
        self._due_s: dict[StageName, float] = {}

    def refused(self, stage: StageName, now_s: float) -> float:
        """Its size was refused; returns the seconds until it is tried again."""
        self._times[stage] = self._times.get(stage, 0) + 1
        again_s = pause_s(self._times[stage], first_s=AGAIN_S, longest_s=AGAIN_S_MAX)
        self._due_s[stage] = now_s + again_s
        return again_s

    def taken(self, stage: StageName) -> None:
        """Its size was set."""
        self._times.pop(stage, None)
        self._due_s.pop(stage, None)

    def forget(self) -> None:
        """Something has changed: try all again."""
        self._times.clear()
        self._due_s.clear()

    def is_due(self, stage: StageName, now_s: float) -> bool:
        """Whether it may be tried."""
        return now_s >= self._due_s.get(stage, -math.inf)

    def next_s(self, now_s: float) -> float:
        """Seconds until the next one is tried again; infinite: none waits. One that was due and not
        tried is not wanted now."""
        return min((due - now_s for due in self._due_s.values() if due > now_s), default=math.inf)
