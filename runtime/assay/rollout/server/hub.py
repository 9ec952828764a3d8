"""Between the HTTP handlers of one event loop and an engine whose calls block.

Invariants:
  - each rollout belongs to one `Ticket`; an abandoned ticket is cancelled in the engine;
  - nothing is buffered per token: a stream reads new tokens from the engine's memory when its
  reader is ready for more.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Unpack

from assay.core.errors import DependencyDown
from assay.rollout.errors import RolloutError, RolloutGone, RuntimeClosed
from assay.rollout.rollout_engine import RolloutEngine
from assay.rollout.rollouts import Progress

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from assay.rollout.rollouts import Completed, GroupOptions, RolloutRef

FLUSH_S = 0.01
"""How often a stream looks for new tokens."""
WAIT_S = 0.1
PEEK_TOKENS = 256


class StreamingEngine(RolloutEngine, Protocol):
    """An engine whose rollouts can be read while they decode."""

    def peek(self, ref: RolloutRef, start: int = 0, n: int = ...) -> Progress:
        """See `Runtime.peek`."""
        ...


@dataclass(frozen=True, slots=True)
class Ticket:
    """One rollout of one request."""

    ref: RolloutRef
    done: asyncio.Future[Completed]


class Hub:
    """Runs a thread that polls the engine; all other calls come from the event loop."""

    def __init__(self, engine: StreamingEngine) -> None:
        self.engine = engine
        self._tickets: dict[RolloutRef, Ticket] = {}
        self._loop = asyncio.get_running_loop()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="rollout-poll", daemon=True)
        self._thread.start()

    async def submit(self, prompt: Sequence[int], **options: Unpack[GroupOptions]) -> Ticket:
        """Submit one rollout; raises as `RolloutEngine.submit`."""
        if not self._thread.is_alive():
            raise DependencyDown("the engine is down")
        (ref,) = self.engine.submit(prompt, **options)
        ticket = Ticket(ref, self._loop.create_future())
        self._tickets[ref] = ticket
        return ticket  # `_ended` runs on this loop, so no completion overtakes its ticket

    async def parts(self, ticket: Ticket) -> AsyncIterator[Progress]:
        """The rollout's tokens as they are generated; ends when the rollout has ended.

        Raises:
            DependencyDown: the engine failed.
        """
        known = 0
        try:
            while True:
                await asyncio.wait({ticket.done}, timeout=FLUSH_S)
                part = self._news(ticket, known)
                if part.tokens:
                    known += len(part.tokens)
                    yield part
                elif ticket.done.done():
                    return
        finally:
            self.give_up(ticket)

    def _news(self, ticket: Ticket, known: int) -> Progress:
        if ticket.done.done():
            whole = ticket.done.result()
            return Progress(
                tokens=whole.tokens[known:],
                logps=whole.logps[known:],
                policy_versions=whole.policy_versions[known:],
            )
        try:
            return self.engine.peek(ticket.ref, known, PEEK_TOKENS)
        except RolloutGone:  # polled by the other thread; `done` is about to be set
            return Progress.none()

    def give_up(self, ticket: Ticket) -> None:
        """No one reads it any more: cancel it unless it ended."""
        if self._tickets.pop(ticket.ref, None) is None:
            return
        ticket.done.cancel()
        try:
            self.engine.cancel(ticket.ref)
        except RolloutError:
            return

    def close(self) -> None:
        """Stop polling; the engine stays open."""
        self._stopping.set()
        self._thread.join(timeout=10 * WAIT_S)

    # ---- the polling thread

    def _poll(self) -> None:
        try:
            while not self._stopping.is_set():
                self.engine.wait(WAIT_S)
                ended = self.engine.poll()
                if ended:
                    self._loop.call_soon_threadsafe(self._ended, ended)
        except RuntimeClosed:
            self._tell_down("the engine was closed")
        except RolloutError as error:
            self._tell_down(str(error))

    def _tell_down(self, why: str) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._down, why)

    # ---- back on the event loop

    def _ended(self, ended: list[Completed]) -> None:
        for one in ended:
            ticket = self._tickets.pop(one.ref, None)
            if ticket is not None and not ticket.done.done():
                ticket.done.set_result(one)

    def _down(self, why: str) -> None:
        for ticket in self._tickets.values():
            if not ticket.done.done():
                ticket.done.set_exception(DependencyDown(f"the engine went down: {why}"))
        self._tickets.clear()
