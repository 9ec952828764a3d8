"""Pauses of the engine that callers hold by name. One that its caller left ends by itself.

Invariants:
  - a name is one pause: asking again for a pause that is held, or is about to be, adds none, so a
  call whose answer was lost may be sent again;
  - no call waits for what cannot come: while a pause holds rollouts in place, none of them ends or
  is retracted, so FINISH and RETRACT are refused unless nothing runs;
  - a pause whose caller vanished before it held the engine is let go as soon as it does: no one has
  its name;
  - a pause is held as long as a stream of `keep` is open, which ends with its caller, not because
  the caller is too busy to say anything. Without one it is held for its `hold_s`.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

import structlog

from assay.core.errors import Conflict, FailedPrecondition, InvalidRequest, Saturated
from assay.edge.lifecycle import to_its_end
from assay.rollout.errors import WorkerStalled
from assay.rollout.layout import PauseMode

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from assay.rollout.interface.rollout_engine import RolloutEngine

PAUSES_MAX: Final = 64
HOLD_S: Final = 30.0
"""Of a pause whose caller says nothing else: long enough to connect again."""
HOLD_MS_MAX: Final = 24 * 3_600 * 1_000
ENGINE_S_MAX: Final = 60.0
"""Time-out for holding the engine."""
BESIDE_S_MAX: Final = 0.5
"""Time-out beside a pause in place: the native engine, which is at rest, answers at once; a server
needs a moment to retract."""

Done = TypeVar("Done")
log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Held:
    """A pause that holds the engine."""

    mode: PauseMode
    stack: ExitStack
    hold_s: float
    keepers: int = 0
    """Streams that hold it."""
    timer: asyncio.TimerHandle | None = None
    """Ends it; `None`: a stream holds it."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """It has ended, or its streams have to."""


@dataclass(slots=True)
class _Asked:
    """A pause that will hold the engine; `settled` once it does, or was refused."""

    mode: PauseMode
    settled: asyncio.Event
    abandoned: bool = False
    """Its caller vanished, or the service stops."""


class Pauses:
    """See the module."""

    def __init__(self, engine: RolloutEngine, new_id: Callable[[], str]) -> None:
        self._engine = engine
        self._new_id = new_id
        self._held: dict[str, _Held] = {}
        self._asked: dict[str, _Asked] = {}
        self._streams_end = False

    async def hold(self, mode: PauseMode, pause_id: str = "", *, hold_s: float = HOLD_S) -> str:
        """Make no more tokens until `resume`; return the pause's id.

        Args:
            mode: what happens to running rollouts.
            pause_id: the caller's name of the pause; empty: it gets one.
            hold_s: how long it is held from now, and after the last `keep`; asked for again, the
                new time counts.

        Raises:
            Saturated: there are `PAUSES_MAX` pauses already.
            Conflict: the pause of this name has another mode.
            FailedPrecondition: as `reached`.
            WorkerStalled: the engine was not held in time.
        """
        pause_id = pause_id or self._new_id()
        while (other := self._asked.get(pause_id)) is not None:
            await other.settled.wait()
        if (held := self._held.get(pause_id)) is not None:
            if held.mode is not mode:
                raise Conflict(f"pause {pause_id} has mode {held.mode.name}", field="mode")
            held.hold_s = hold_s
            self._count_down(pause_id, held)
            return pause_id
        if len(self._held) + len(self._asked) >= PAUSES_MAX:
            message = f"at most {PAUSES_MAX} pauses"
            raise Saturated(message, field="pause_id", retry_after_s=1.0)
        asked = self._asked[pause_id] = _Asked(mode, asyncio.Event())
        try:
            await to_its_end(self._hold(pause_id, asked, hold_s))
        except asyncio.CancelledError:
            asked.abandoned = True
            raise
        return pause_id

    async def keep(self, pause_id: str) -> AsyncGenerator[None, None]:
        """Hold a pause until the caller leaves; yields once, and returns when the pause has ended.

        Raises:
            FailedPrecondition: it has ended.
        """
        while (asked := self._asked.get(pause_id)) is not None:
            await asked.settled.wait()
        held = self._held.get(pause_id)
        if held is None:
            raise _ended()
        if self._streams_end:
            return
        held.keepers += 1
        self._count_down(pause_id, held)
        try:
            yield
            await held.ended.wait()
        finally:
            held.keepers -= 1
            if self._held.get(pause_id) is held:
                self._count_down(pause_id, held)

    def end_streams(self) -> None:
        """Let every `keep` return; what they held is held for its `hold_s`."""
        self._streams_end = True
        for held in self._held.values():
            held.ended.set()

    async def _hold(self, pause_id: str, asked: _Asked, hold_s: float) -> None:
        """Hold the engine. A thread cannot be stopped, so this outlives its caller."""
        stack = ExitStack()
        try:
            await self.reached(asked.mode, lambda wait_s: self._enter(stack, asked.mode, wait_s))
            if asked.abandoned:
                stack.close()
                return
            held = self._held[pause_id] = _Held(asked.mode, stack, hold_s)
            self._count_down(pause_id, held)
        finally:
            self._asked.pop(pause_id).settled.set()

    async def reached(self, mode: PauseMode, act: Callable[[float], Done]) -> Done:
        """Call `act` in a thread, with the time-out for holding the engine in this mode.

        Raises:
            FailedPrecondition: a pause in place holds running rollouts, which neither end nor are
                retracted before it is continued.
            WorkerStalled: the engine was not held in time.
        """
        if mode is PauseMode.IN_PLACE:
            return await asyncio.to_thread(act, ENGINE_S_MAX)
        for other in list(self._asked.values()):
            if other.mode is PauseMode.IN_PLACE:  # until the next token
                await other.settled.wait()
        if not any(held.mode is PauseMode.IN_PLACE for held in self._held.values()):
            return await asyncio.to_thread(act, ENGINE_S_MAX)
        try:
            return await asyncio.to_thread(act, BESIDE_S_MAX)
        except WorkerStalled:
            message = "a pause in_place holds running rollouts; continue it first, or use in_place"
            raise FailedPrecondition(message, field="mode") from None

    def resume(self, pause_id: str) -> None:
        """End a pause.

        Raises:
            FailedPrecondition: it has ended.
        """
        if not self._let_go(pause_id):
            raise _ended()

    def close(self) -> None:
        """End all pauses, and those that are still to come."""
        for asked in self._asked.values():
            asked.abandoned = True
        for pause_id in list(self._held):
            self._let_go(pause_id)

    def _enter(self, stack: ExitStack, mode: PauseMode, wait_s: float) -> None:
        stack.enter_context(self._engine.pause(wait_s, mode=mode))

    def _count_down(self, pause_id: str, held: _Held) -> None:
        """From now, unless a stream holds it."""
        if held.timer is not None:
            held.timer.cancel()
        held.timer = None
        if held.keepers == 0:
            loop = asyncio.get_running_loop()
            held.timer = loop.call_later(held.hold_s, self._left, pause_id, held.hold_s)

    def _left(self, pause_id: str, after_s: float) -> None:
        log.warning("pause_left", after_s=after_s)
        self._let_go(pause_id)

    def _let_go(self, pause_id: str) -> bool:
        held = self._held.pop(pause_id, None)
        if held is None:
            return False
        if held.timer is not None:
            held.timer.cancel()
        held.ended.set()
        held.stack.close()
        return True


def held_for(hold_ms: int) -> float:
    """Seconds for which a caller's pause is held without a stream; 0 = `HOLD_S`.

    Raises:
        InvalidRequest: out of range.
    """
    if not 0 <= hold_ms <= HOLD_MS_MAX:
        raise InvalidRequest(f"hold_ms: 0 to {HOLD_MS_MAX}", field="hold_ms")
    return hold_ms / 1000 or HOLD_S


def _ended() -> FailedPrecondition:
    return FailedPrecondition("no such pause, or it has ended", field="pause_id")
