"""The slots of a stage: as many as are desired, and each of them idle again after its work.

The slots' processes are stand-ins, so a pool that never stops forking fails instead of filling the
machine.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import pytest

from assay.core.ids import StageName
from assay.edge.clock import Clock
from assay.edge.metrics import Metrics
from assay.worker.slots import pool as pool_module
from assay.worker.slots.pool import SlotPool
from assay.worker.slots.process import SlotState

FORKS_MAX = 40


class Slot:
    """A slot that starts, ends and fails when the test says so."""

    def __init__(self, _: object, **options: Any) -> None:
        self.number: int = options["number"]
        self.scratch: Path = options["scratch"]
        self.asked_ns: int = options["asked_ns"]
        self._on_frame, self._on_gone = options["on_frame"], options["on_gone"]
        self.state = SlotState.STARTING
        self.assignment: object = None
        self.is_retiring = False
        self.served = 0
        self.last_words = ""
        self._is_gone = False

    async def connect(self) -> None:
        """It is connected."""

    def ready(self) -> None:
        """Its handler is made."""
        self._on_frame(self, ["ready", []])

    def finish(self) -> None:
        """End as a slot that is asked to."""
        self.state = SlotState.ENDING
        asyncio.get_running_loop().call_soon(self.kill, "finished")

    def kill(self, why: str) -> None:
        """End at once, and report it once."""
        if not self._is_gone:
            self._is_gone = True
            self._on_gone(self, why)


class Forks:
    """Counts the slots that were started."""

    def __init__(self) -> None:
        self.count = 0

    async def fork_slot(self, _stage: StageName, _number: int) -> object:
        """Start one, up to a bound."""
        await asyncio.sleep(0)
        self.count += 1
        assert self.count <= FORKS_MAX, "the pool does not stop starting slots"
        return object()


class User:
    """Notes which slots ended, and why."""

    def __init__(self) -> None:
        self.ended: list[tuple[object, str]] = []

    def on_idle(self) -> None: ...

    def on_said(self, *_: object) -> None: ...

    def on_ended(self, slot: object, why: str) -> None:
        """Keep the slot and the reason."""
        self.ended.append((slot, why))


class Pool(SlotPool):
    """A pool with its stand-ins."""

    def __init__(self, scratch: Path) -> None:
        self.tasks: set[asyncio.Task[None]] = set()
        self.forks, self.user = Forks(), User()
        everything: Any = {
            "stage": StageName("s"), "forks": self.forks, "scratch": scratch, "clock": Clock(),
            "metrics": Metrics(), "spawn": self._start, "user": self.user,
        }  # fmt: skip
        super().__init__(**everything)

    def _start(self, work: Coroutine[object, object, None], *, name: str) -> asyncio.Task[None]:
        task: asyncio.Task[Any] = asyncio.create_task(work, name=name)
        self.tasks.add(task)
        return task

    async def settled(self) -> None:
        """All that the pool has begun is done; raises what a task of it raised."""
        while self.tasks:
            task = self.tasks.pop()
            await task

    def slots(self) -> list[Any]:
        """All that count."""
        return list(self._slots)


@pytest.fixture
async def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pool]:
    monkeypatch.setattr(pool_module, "SlotProcess", Slot)
    made = Pool(tmp_path)
    yield made
    await asyncio.gather(made.close(), return_exceptions=True)
    await asyncio.gather(*made.tasks, return_exceptions=True)


async def grown(pool: Pool, size: int) -> None:
    """Resize, and have all slots ready."""
    pool.resize(size)
    await pool.settled()
    for slot in pool.slots():
        if slot.state is SlotState.STARTING:
            slot.ready()


async def test_a_pool_starts_as_many_slots_as_are_desired_and_no_more(pool: Pool) -> None:
    for size in (3, 5):
        await grown(pool, size)
        counts = pool.state()
        assert (counts.desired, counts.ready, counts.starting) == (size, size, 0)
        assert pool.forks.count == size
        assert pool.idle == size


async def test_a_smaller_pool_ends_slots_and_starts_none(pool: Pool) -> None:
    await grown(pool, 4)
    pool.resize(1)
    await asyncio.sleep(0)
    await pool.settled()
    assert (pool.state().ready, pool.idle, pool.forks.count) == (1, 1, 4)


async def test_a_slot_whose_work_is_done_is_idle_again(pool: Pool) -> None:
    await grown(pool, 2)
    taken = [pool.take_idle(fresh=False) for _ in range(2)]
    assert pool.take_idle(fresh=False) is None
    for slot in taken:
        assert slot is not None
        pool.release(slot)
    assert (pool.idle, pool.state().busy) == (2, 0)
    assert pool.take_idle(fresh=False) in taken
    assert pool.forks.count == 2


async def test_a_slot_that_died_is_replaced_by_one(pool: Pool) -> None:
    await grown(pool, 2)
    dying = pool.slots()[0]
    dying.kill("died")
    await pool.settled()
    assert (len(pool.slots()), pool.forks.count) == (2, 3)
    assert pool.user.ended == [(dying, "died")], "its work has to go elsewhere"


async def test_a_slot_that_is_ready_to_start_when_it_is_no_longer_desired_ends(pool: Pool) -> None:
    pool.resize(1)
    await asyncio.sleep(0)  # its process is being made
    pool.resize(0)
    await pool.settled()
    assert (pool.slots(), pool.forks.count) == ([], 1)
    assert [why for _, why in pool.user.ended] == [pool_module.NOT_WANTED]
