"""Whether the store answers, and how long to wait before it is asked again.

While it does not, running work continues, reports wait, and nothing is claimed. Once it answers
again, leases are renewed before expired ones are reaped: this host's leases expired only because it
could not renew them.
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
    """Updated by all parts that call the store."""

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
        """Wait; the time grows with the number of consecutive failures."""
        await self._clock.sleep(pause_s(failures, first_s=PAUSE_S_FIRST, longest_s=PAUSE_S_MAX))
