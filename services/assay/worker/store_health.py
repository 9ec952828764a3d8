"""Whether the store answers, and how long to wait before it is asked again.

While it does not, running work goes on, reports wait, and nothing is claimed. Once it answers
again, leases are renewed before expired ones are looked for: ours expired only because we could not
renew them.
"""

from typing import Final

import structlog

from assay.core.errors import AssayError
from assay.core.tools.backoff import pause_s
from assay.edge.clock import Clock

PAUSE_S_FIRST: Final = 0.02
PAUSE_S_MAX: Final = 1.0

log = structlog.get_logger(__name__)


class StoreHealth:
    """Kept by all parts that call the store."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.is_up = True
        self.regained_ns = 0

    def worked(self) -> None:
        """A call was answered."""
        if not self.is_up:
            self.is_up = True
            self.regained_ns = self._clock.monotonic_ns()
            log.info("store_regained")

    def failed(self, error: AssayError) -> None:
        """A call was not answered."""
        if self.is_up:
            self.is_up = False
            log.warning("store_lost", error=error.message)

    async def pause(self, failures: int) -> None:
        """Wait, longer after each of so many failures in a row."""
        await self._clock.sleep(pause_s(failures, first_s=PAUSE_S_FIRST, longest_s=PAUSE_S_MAX))
