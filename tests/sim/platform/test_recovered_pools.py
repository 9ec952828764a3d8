"""A pool whose forks failed starts slots again as soon as one starts after all."""

import asyncio
from pathlib import Path
from typing import cast

from assay.core.ids import StageName
from assay.edge.metrics import Metrics
from assay.sim.platform.loop import VirtualLoop
from assay.sim.platform.nodes import NodeClock
from assay.worker.forking.client import ForkFailed
from assay.worker.slots import messages
from assay.worker.slots.frames import encode
from assay.worker.slots.pool import PAUSE_S_MAX, SlotPool
from assay.worker.slots.process import ForkedSlot, SlotProcess

READY_S = 8.0
"""When the first slot is ready: while the pool pauses after its sixth failure."""


class Forked:
    """A slot that is ready at this time."""

    def __init__(self, ready_s: float) -> None:
        self._ready_s = ready_s

    def watch(self, on_end: object) -> None:
        """It does not end."""

    async def connect(self, slot: SlotProcess) -> None:
        """Its first word comes later."""
        ready = encode(messages.READY, [])
        asyncio.get_running_loop().call_at(self._ready_s, slot.data_received, ready)


class Forks:
    """The first fork is slow, and the next ones fail until it is ready."""

    def __init__(self) -> None:
        self.asked_s: list[float] = []

    async def fork_slot(self, stage: StageName, number: int) -> ForkedSlot:
        """See `SlotForks`."""
        now_s = asyncio.get_running_loop().time()
        self.asked_s.append(now_s)
        if number > 1 and now_s < READY_S:
            raise ForkFailed("no memory")
        return cast("ForkedSlot", Forked(READY_S if number == 1 else now_s))

    async def close(self) -> None:
        """See `SlotForks`."""


class User:
    """Has no work."""

    def on_idle(self) -> None:
        """See `PoolUser`."""

    def on_said(self, slot: SlotProcess, frame: list[object]) -> None:
        """See `PoolUser`."""

    def on_ended(self, slot: SlotProcess, why: str) -> None:
        """See `PoolUser`."""


async def forks_of(pool_size: int) -> list[float]:
    """When slots are asked for, until the pool has all."""
    loop, forks = asyncio.get_running_loop(), Forks()
    pool = SlotPool(
        stage=StageName("run"),
        forks=forks,
        scratch=Path(),
        clock=NodeClock(loop),
        metrics=Metrics(),
        spawn=lambda work, name: loop.create_task(work, name=name),
        user=User(),
    )
    pool.resize(pool_size)
    async with asyncio.timeout(60):
        while pool.state().ready < pool_size:
            await asyncio.sleep(0.01)
    return forks.asked_s


def test_a_slot_that_starts_ends_the_pause_after_failures() -> None:
    loop = VirtualLoop("1")
    asked_s = loop.run_until_complete(forks_of(3))
    loop.close()
    before = [at for at in asked_s if at < READY_S]
    assert len(before) > 3
    assert asked_s[len(before)] - READY_S < 0.1 < before[-1] + PAUSE_S_MAX / 2 - READY_S
