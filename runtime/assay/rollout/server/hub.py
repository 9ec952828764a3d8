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
from typing import TYPE_CHECKING, Any, Protocol, Unpack

import structlog

from assay.core.errors import DependencyDown
from assay.rollout.errors import RolloutError, RolloutGone, RuntimeClosed
from assay.rollout.interface.rollout_engine import RolloutEngine
from assay.rollout.interface.rollouts import Progress

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from assay.core.errors import AssayError
    from assay.rollout.interface.rollouts import Completed, GroupOptions, RolloutRef

FLUSH_S = 0.01
FLUSH_S_MAX = 0.04
"""How often a stream looks for new tokens; less often while there are none: with hundreds of
streams on a slow engine, looking would cost more than sending."""
WAIT_S = 0.1
PEEK_TOKENS = 256

log = structlog.get_logger(__name__)


class StreamingEngine(RolloutEngine, Protocol):
    """An engine whose rollouts can be read while they decode."""

    def peek(self, ref: RolloutRef, start: int = 0, n: int = ...) -> Progress: ...


@dataclass(frozen=True, slots=True)
class Ticket:
    """One rollout of one request."""

    ref: RolloutRef
    done: asyncio.Future[Completed]


class Tickets:
    """The rollouts of open requests; every call comes from the event loop."""

    def __init__(self, engine: StreamingEngine) -> None:
        self.engine = engine
        self._tickets: dict[RolloutRef, Ticket] = {}
        self._loop = asyncio.get_running_loop()

    def __len__(self) -> int:
        return len(self._tickets)

    def submit(self, prompt: Sequence[int], **options: Unpack[GroupOptions]) -> list[Ticket]:
        """Submit one group, a ticket per rollout; raises as `RolloutEngine.submit`."""
        refs = self.engine.submit(prompt, **options)
        tickets = [Ticket(ref, self._loop.create_future()) for ref in refs]
        self._tickets.update((ticket.ref, ticket) for ticket in tickets)
        return tickets  # `ended` runs on this loop, so no completion overtakes its ticket

    async def parts(self, *tickets: Ticket) -> AsyncIterator[tuple[int, Progress]]:
        """New tokens of the rollouts, each with its index; ends when all have ended.

        Raises:
            DependencyDown: the engine failed.
        """
        known = [0] * len(tickets)
        open_ = dict(enumerate(tickets))
        pause_s = FLUSH_S
        try:
            while open_:
                await asyncio.wait(
                    {ticket.done for ticket in open_.values()},
                    timeout=pause_s,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                pause_s = min(2 * pause_s, FLUSH_S_MAX)
                for index, ticket in list(open_.items()):
                    part = self._news(ticket, known[index])
                    if part.tokens:
                        known[index] += len(part.tokens)
                        pause_s = FLUSH_S
                        yield index, part
                    elif ticket.done.done():
                        del open_[index]
        finally:
            for ticket in tickets:
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

    def give_up(self, ticket: Ticket, why: AssayError | None = None) -> None:
        """No one reads it any more, or it has to end because of `why`: cancel it unless it ended.

        Its reader, if there is one, gets `why`.
        """
        if self._tickets.pop(ticket.ref, None) is None:
            return
        if why is None:
            ticket.done.cancel()
        else:
            _fail(ticket, why)
        try:
            self.engine.cancel(ticket.ref)
        except RolloutError:
            return

    def ended(self, completed: Completed) -> None:
        """A rollout ended."""
        ticket = self._tickets.pop(completed.ref, None)
        if ticket is not None and not ticket.done.done():
            ticket.done.set_result(completed)

    def down(self, why: str) -> None:
        """The engine failed: so do all rollouts."""
        for ticket in self._tickets.values():
            _fail(ticket, DependencyDown(f"the engine went down: {why}"))
        self._tickets.clear()


async def disconnected(receive: Callable[[], Awaitable[Any]]) -> None:
    """Return when an HTTP caller whose request was read has gone; `receive` is ASGI's."""
    while (await receive())["type"] != "http.disconnect":
        continue


def _fail(ticket: Ticket, why: AssayError) -> None:
    if not ticket.done.done():
        ticket.done.set_exception(why)
        ticket.done.exception()  # read here: its reader may have gone


class Hub(Tickets):
    """Tickets of an engine that no one else polls: runs a thread for that."""

    def __init__(self, engine: StreamingEngine) -> None:
        super().__init__(engine)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="rollout-poll", daemon=True)
        self._thread.start()

    def submit(self, prompt: Sequence[int], **options: Unpack[GroupOptions]) -> list[Ticket]:
        """Submit one group; raises as `RolloutEngine.submit`."""
        if not self._thread.is_alive():
            raise DependencyDown("the engine is down")
        return super().submit(prompt, **options)

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
                    self._loop.call_soon_threadsafe(self._all_ended, ended)
        except RuntimeClosed:
            self._tell_down("the engine was closed")
        except Exception as error:
            log.exception("engine_failed")
            self._tell_down(str(error) or type(error).__name__)

    def _tell_down(self, why: str) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.down, why)

    def _all_ended(self, ended: list[Completed]) -> None:
        for completed in ended:
            self.ended(completed)
