"""The slots of one stage: kept at the desired number, replaced when they end.

Invariants: the number of starting and serving slots is `desired`, except while slots start or
surplus busy ones finish their work. A slot that ends before it served is replaced after a growing
pause, so a broken handler costs only an occasional start.
"""

import asyncio
import contextlib
import shutil
from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import structlog

from assay.core.ids import StageName
from assay.core.tools.backoff import pause_s
from assay.edge.clock import Clock
from assay.edge.lifecycle import wait_at_most
from assay.edge.metrics import Metrics
from assay.worker.forking.client import ForkFailed, SlotForks
from assay.worker.slots import messages
from assay.worker.slots.frames import ProtocolError
from assay.worker.slots.process import SlotProcess, SlotState

START_S_MAX: Final = 120.0
"""How long the creation of a handler may take."""
END_S_MAX: Final = 10.0
"""How long a handler may take to close."""
STARTS_KEPT_MAX: Final = 64
PAUSE_S_FIRST: Final = 0.1
PAUSE_S_MAX: Final = 10.0

NOT_WANTED: Final = "no longer needed"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTimes:
    """How long the latest slots took from being asked for until they were ready."""

    measured: int = 0
    """At most `STARTS_KEPT_MAX`."""
    p50_s: float = 0.0
    p90_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotCounts:
    """A stage's slots as of one instant."""

    stage: StageName
    desired: int
    ready: int
    """Slots that are idle or busy."""
    busy: int
    starting: int
    startup: StartTimes = StartTimes()


class PoolUser(Protocol):
    """Gives work to the slots."""

    def on_idle(self) -> None:
        """A slot became idle."""

    def on_said(self, slot: SlotProcess, frame: list[object]) -> None:
        """A slot sent a frame that is not about its own life cycle."""

    def on_ended(self, slot: SlotProcess, why: str) -> None:
        """A slot has ended; its assignment is still attached."""


class Spawn(Protocol):
    """Starts a task; its failure is a bug and ends the host."""

    def __call__(self, work: Coroutine[object, object, None], *, name: str) -> asyncio.Task[None]:
        """Start `work` under this name."""


class SlotPool:
    """The slots of one stage on this host."""

    def __init__(
        self,
        *,
        stage: StageName,
        forks: SlotForks,
        scratch: Path,
        clock: Clock,
        metrics: Metrics,
        spawn: Spawn,
        user: PoolUser,
        first_number: int = 1,
        is_shown: bool = True,
    ) -> None:
        """Start empty.

        Args:
            stage: whose slots.
            forks: forks them.
            scratch: a folder with one folder per slot.
            clock: for pauses.
            metrics: for the numbers of slots.
            spawn: starts tasks.
            user: gives them work.
            first_number: slots of two pools of a stage have different numbers.
            is_shown: the metrics count them.
        """
        self._stage = stage
        self._forks = forks
        self._scratch = scratch
        self._clock = clock
        self._metrics = metrics
        self._spawn = spawn
        self._user = user
        self._desired = 0
        self._slots: dict[SlotProcess, None] = {}  # oldest first: the order decides which slots end
        self._ending: dict[SlotProcess, None] = {}
        self._idle: list[SlotProcess] = []
        self._number = first_number - 1
        self._is_shown = is_shown
        self._failures = 0
        self._starts_s: deque[float] = deque(maxlen=STARTS_KEPT_MAX)
        self._startup = StartTimes()
        self._restocking: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._recovered = asyncio.Event()

    # -- size ----------------------------------------------------------------------------------
    def resize(self, desired: int) -> None:
        """Grow at once; shrink by the newest starting slots, then by idle ones, then as busy ones
        finish, whichever is first."""
        self._desired = desired
        starting = [slot for slot in self._slots if slot.state is SlotState.STARTING]
        spare = [*reversed(starting), *self._idle]
        for slot in spare[: max(0, len(self._slots) - desired)]:
            self._dismiss(slot)
        self._restock()
        self._note()

    def _dismiss(self, slot: SlotProcess) -> None:
        if slot.state is SlotState.IDLE:
            self._idle.remove(slot)
            self._finish(slot)
        else:
            slot.kill(NOT_WANTED)

    def _finish(self, slot: SlotProcess) -> None:
        self._slots.pop(slot, None)
        self._ending[slot] = None
        slot.finish()
        asyncio.get_running_loop().call_later(END_S_MAX, slot.kill, "it did not end")

    def state(self) -> SlotCounts:
        """Return the number of slots in each state."""
        states = [slot.state for slot in self._slots]
        busy = states.count(SlotState.BUSY)
        return SlotCounts(
            stage=self._stage,
            desired=self._desired,
            ready=busy + states.count(SlotState.IDLE),
            busy=busy,
            starting=states.count(SlotState.STARTING),
            startup=self._startup,
        )

    # -- work ----------------------------------------------------------------------------------
    @property
    def idle(self) -> int:
        """Number of slots that could take work now."""
        return len(self._idle)

    @property
    def desired(self) -> int:
        """Number of slots that there should be."""
        return self._desired

    @property
    def has_surplus(self) -> bool:
        """There are more than that, which end when their assignments are done."""
        return len(self._slots) > self._desired

    @property
    def busy(self) -> list[SlotProcess]:
        """The slots that are working."""
        return [slot for slot in self._slots if slot.state is SlotState.BUSY]

    def take_idle(self, *, fresh: bool) -> SlotProcess | None:
        """Mark an idle slot busy and return it: the last used, or one that has served nothing.

        If a fresh one is needed and all idle ones have served, one of them is replaced.
        """
        if not fresh:
            slot = self._idle.pop() if self._idle else None
        else:
            slot = next((one for one in self._idle if not one.served), None)
            if slot is not None:
                self._idle.remove(slot)
            elif self._idle and not self.state().starting:
                self._finish(self._idle.pop(0))
                self._restock()
        if slot is not None:
            slot.state = SlotState.BUSY
        return slot

    def release(self, slot: SlotProcess) -> None:
        """Its assignment is done."""
        slot.assignment = None
        if slot.is_retiring or len(self._slots) > self._desired:
            self._finish(slot)
            self._restock()
        else:
            slot.state = SlotState.IDLE
            self._idle.append(slot)

    # -- a slot's life -------------------------------------------------------------------------
    def _on_frame(self, slot: SlotProcess, frame: list[object]) -> None:
        match frame:
            case ["ready", list() as missing] if slot.state is SlotState.STARTING:
                self._failures = 0
                self._recovered.set()
                slot.state = SlotState.IDLE
                self._idle.append(slot)
                self._started(slot)
                if missing:
                    log.warning("slot_not_fully_confined", stage=self._stage, missing=missing)
                self._note()
                self._user.on_idle()
            case ["broken", str() as why]:
                slot.last_words = why
            case [messages.READY, *_]:
                raise ProtocolError("ready twice")
            case _:
                self._user.on_said(slot, frame)

    def _started(self, slot: SlotProcess) -> None:
        self._starts_s.append((self._clock.monotonic_ns() - slot.asked_ns) / 1e9)
        in_order = sorted(self._starts_s)
        last = len(in_order) - 1
        self._startup = StartTimes(
            measured=len(in_order),
            p50_s=in_order[round(0.5 * last)],
            p90_s=in_order[round(0.9 * last)],
        )

    def _on_gone(self, slot: SlotProcess, why: str) -> None:
        was, said = slot.state, slot.last_words or why
        self._ending.pop(slot, None)
        self._slots.pop(slot, None)
        with contextlib.suppress(ValueError):
            self._idle.remove(slot)
        has_failed = was is SlotState.STARTING and why != NOT_WANTED
        self._failures += has_failed
        if was is not SlotState.ENDING:
            tell = log.warning if has_failed or slot.assignment is not None else log.info
            tell("slot_ended", stage=self._stage, slot=slot.number, state=was.value, why=said)
        self._user.on_ended(slot, said)
        self._spawn(self._clean(slot.scratch), name="clean")
        self._restock()
        self._note()
        self._changed.set()

    async def _clean(self, scratch: Path) -> None:
        await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)

    def _note(self) -> None:
        if not self._is_shown:
            return
        state = self.state()
        self._metrics.slots_seen(
            stage=self._stage,
            states={
                "desired": state.desired,
                "starting": state.starting,
                "ready": state.ready,
                "busy": state.busy,
            },
        )

    # -- stock ---------------------------------------------------------------------------------
    def _restock(self) -> None:
        if self._restocking is None and len(self._slots) < self._desired:
            self._restocking = self._spawn(self._start_wanted(), name=f"stock {self._stage}")

    async def _start_wanted(self) -> None:
        try:
            while len(self._slots) < self._desired:
                if self._failures and not await self._paused():
                    continue
                try:
                    await self._start_one()
                except ForkFailed as error:
                    self._failures += 1
                    log.warning("slot_not_started", stage=self._stage, error=str(error))
        finally:
            self._restocking = None

    async def _paused(self) -> bool:
        """Whether the pause after failures is over; a slot that starts after all ends it before."""
        self._recovered.clear()
        pause = pause_s(self._failures, first_s=PAUSE_S_FIRST, longest_s=PAUSE_S_MAX)
        await wait_at_most(pause, self._recovered)
        return not self._recovered.is_set() and len(self._slots) < self._desired

    async def _start_one(self) -> None:
        self._number += 1
        number = self._number
        asked_ns = self._clock.monotonic_ns()
        forked = await self._forks.fork_slot(self._stage, number)
        slot = SlotProcess(
            forked,
            number=number,
            scratch=self._scratch / str(number),
            asked_ns=asked_ns,
            on_frame=self._on_frame,
            on_gone=self._on_gone,
        )
        self._slots[slot] = None
        await slot.connect()
        if len(self._slots) > self._desired:  # the pool was made smaller meanwhile
            slot.kill(NOT_WANTED)
            return

        def check() -> None:
            if slot.state is SlotState.STARTING:
                slot.kill("it did not become ready")

        asyncio.get_running_loop().call_later(START_S_MAX, check)

    async def close(self) -> None:
        """End all slots: idle ones gracefully, others immediately."""
        self._desired = 0
        if self._restocking is not None:
            self._restocking.cancel()
            await asyncio.wait([self._restocking])
        for slot in list(self._slots):
            if slot.state is SlotState.BUSY:
                slot.kill("the host stops")
            else:
                self._dismiss(slot)
        while self._slots or self._ending:
            self._changed.clear()
            await self._changed.wait()
