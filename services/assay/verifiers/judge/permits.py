"""A rate limit as a schedule of arrivals (GCRA), which one number per limit remembers. Pure.

The number is the time at which the limit would be free of all that was taken: each call moves it on
by the share of a minute that it costs. A call may come up to a minute early in all, so that a
whole minute may be used at once after a pause. The store computes the same in `scripts/permit.lua`.
"""

import threading
from collections.abc import Callable
from typing import Final

from assay.verifiers.port import RateLimits

MINUTE_S: Final = 60.0


def next_free_s(free_s: float, now_s: float, cost: float, per_minute: int) -> tuple[float, float]:
    """When the limit would be free after taking `cost`, and how long to wait before taking it.

    Args:
        free_s: when it would be free now.
        now_s: the time.
        cost: what is taken; more than a minute's allowance counts as all of it.
        per_minute: the allowance.
    """
    share_s = min(cost, per_minute) / per_minute * MINUTE_S
    begin_s = max(free_s, now_s)
    wait_s = begin_s + share_s - (now_s + MINUTE_S)
    return begin_s + share_s, max(0.0, wait_s)


class LocalPermits:
    """The limits of one process; where no host shares them."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        """`now_s`: a monotonic clock, in seconds."""
        self._now_s = now_s
        self._lock = threading.Lock()
        self._free_s: dict[tuple[str, str, str], float] = {}

    def take(self, tenant: str, provider: str, limits: RateLimits, tokens: int) -> float:
        """See `Permits.take`."""
        wanted = {
            "requests": (1, limits.requests_per_minute),
            "tokens": (tokens, limits.tokens_per_minute),
        }
        with self._lock:
            now_s, found = self._now_s(), dict[tuple[str, str, str], float]()
            for kind, (cost, per_minute) in wanted.items():
                if not per_minute:
                    continue
                key = (tenant, provider, kind)
                free_s, wait_s = next_free_s(self._free_s.get(key, 0.0), now_s, cost, per_minute)
                if wait_s:
                    return wait_s
                found[key] = free_s
            self._free_s |= found
            return 0.0
