"""A clock that a test moves, and leader leases by it."""

import asyncio

from tests.planner.snapshots import NOW

from assay.edge.clock import Clock
from assay.planner.service.leader import LeaderLease


class HandClock(Clock):
    """Moves when the test advances it."""

    def __init__(self) -> None:
        self.at_ns = NOW

    def now_ns(self) -> int:
        return self.at_ns

    def monotonic_ns(self) -> int:
        return self.at_ns

    async def sleep(self, seconds: float) -> None:
        self.at_ns += int(seconds * 1e9)
        await asyncio.sleep(0)


def lead(store, clock, name):
    return LeaderLease(store, planner=name, lease_s=10.0, clock=clock)
