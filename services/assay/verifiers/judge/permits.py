"""Rate limits of one process; where no host shares them."""

import threading
from collections.abc import Callable

from assay.core.tools.rate import next_free_s
from assay.verifiers.port import RateLimits


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
