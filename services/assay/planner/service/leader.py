"""Whether this planner leads: a lease in the store, renewed well before it expires.

Invariant: `leads` is true only while the lease certainly has not expired, counted from before the
store was asked; so two planners never lead at once, even if a process or a call hangs.
"""

import asyncio
from typing import Final

import structlog

from assay.core.errors import AssayError
from assay.edge.clock import Clock
from assay.store.port import Store

RENEWALS_PER_LEASE: Final = 4
MARGIN_SHARE: Final = 0.1
"""Share of the lease by which we stop before it ends: clocks differ in speed."""
RESIGN_S_MAX: Final = 2.0

log = structlog.get_logger(__name__)


class LeaderLease:
    """Renewed while `keep` runs."""

    def __init__(self, store: Store, *, planner: str, lease_s: float, clock: Clock) -> None:
        self._store = store
        self._planner = planner
        self._lease_s = lease_s
        self._clock = clock
        self._until_ns = 0
        self._led = False
        self._offset_ns = 0
        self.leader = ""
        """Who led when the store was last asked; empty: not known."""
        self.changed = asyncio.Event()
        """Set when the lease was won or lost, or the store became reachable or unreachable."""
        self.lost_store = "the store was not asked yet"
        """Why the store cannot be reached; empty = it answers."""

    @property
    def leads(self) -> bool:
        """Whether the lease certainly holds now."""
        return self._clock.monotonic_ns() < self._until_ns

    @property
    def store_now_ns(self) -> int:
        """Time by the store's clock at the last renewal."""
        return self._clock.now_ns() + self._offset_ns

    async def keep(self) -> None:
        """Renew until cancelled."""
        while True:
            await self.renew()
            await self._clock.sleep(self._lease_s / RENEWALS_PER_LEASE)

    async def renew(self) -> None:
        """Ask for the lease once."""
        asked_ns, asked_at_ns = self._clock.monotonic_ns(), self._clock.now_ns()
        lost_store, self.lost_store = self.lost_store, ""
        try:
            async with asyncio.timeout(self._lease_s / 2):
                found = await self._store.lead(self._planner, lease_s=self._lease_s)
        except (AssayError, TimeoutError) as error:
            self.lost_store = f"the store does not answer: {error}" if str(error) else "time-out"
        else:
            self.leader = found.planner
            if found.leads:
                good_ns = int(self._lease_s * (1 - MARGIN_SHARE) * 1e9)
                self._until_ns = asked_ns + good_ns
                self._offset_ns = found.expires_ns - int(self._lease_s * 1e9) - asked_at_ns
            else:
                self._until_ns = 0
        if self.leads != self._led or bool(lost_store) != bool(self.lost_store):
            self._led = self.leads
            log.info("lead_changed", leads=self._led, why=self.lost_store)
            self.changed.set()

    async def resign(self) -> None:
        """Let a standby take over at once."""
        self._until_ns = 0
        try:
            async with asyncio.timeout(RESIGN_S_MAX):
                await self._store.resign(self._planner)
        except (AssayError, TimeoutError):
            log.warning("not_resigned", lease_s=self._lease_s)
