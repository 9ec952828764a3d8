"""Turns in the engine, which the rollout service shares with its groups.

A turn waits for room in the order of arrival, for a bounded time; a turn that no one waits for any
more leaves the queue, or is cancelled in the engine.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from assay.core.errors import AssayError, DependencyDown, Saturated
from assay.rollout.errors import EngineSaturated
from assay.rollout.server.hub import Tickets
from assay.rollout.service.flights import Guest, Start

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.rollout.interface.rollouts import Completed, GroupOptions
    from assay.rollout.server.hub import StreamingEngine, Ticket

RETRY_AFTER_S: Final = 1.0


class EngineOwner(Protocol):
    """The rollout service, as the owner of the engine."""

    def add_guest(self, guest: Guest) -> None: ...

    def start_waiting(self) -> None: ...

    def check(self) -> None:
        """Raise `DependencyDown` when the engine has failed."""
        ...


@dataclass(slots=True, eq=False)
class _Waiting:
    prompt: Sequence[int]
    options: GroupOptions
    started: asyncio.Future[list[Ticket]]


class AgentTurns:
    """A `Guest` of the rollout service; every call comes from the event loop."""

    def __init__(
        self, engine: StreamingEngine, room: EngineOwner, *, waiting_max: int, wait_s: float
    ) -> None:
        """Share the engine.

        Args:
            engine: of the service.
            room: the service.
            waiting_max: turns that wait for room.
            wait_s: how long one waits.
        """
        self.tickets = Tickets(engine)
        self._room = room
        self._waiting_max = waiting_max
        self._wait_s = wait_s
        self._queue: deque[_Waiting] = deque()
        room.add_guest(self)

    @property
    def waiting(self) -> int:
        """Turns that wait for room."""
        return len(self._queue)

    async def begin(self, prompt: Sequence[int], options: GroupOptions) -> list[Ticket]:
        """Submit the turn when there is room; a ticket per seed.

        Raises:
            InvalidRollout: names the field.
            Saturated: too many wait already, or there was no room in time.
            DependencyDown: the engine failed.
        """
        self._room.check()
        if len(self._queue) >= self._waiting_max:
            message = f"{self._waiting_max} turns wait for the engine already"
            raise Saturated(message, retry_after_s=RETRY_AFTER_S)
        waiting = _Waiting(prompt, options, asyncio.get_running_loop().create_future())
        self._queue.append(waiting)
        self._room.start_waiting()
        if waiting.started.done():  # there was room: no timer is needed
            return waiting.started.result()
        try:
            async with asyncio.timeout(self._wait_s):
                return await waiting.started
        except TimeoutError:
            self._give_up(waiting)
            message = f"the engine had no room for the turn within {self._wait_s:g} s"
            raise Saturated(message, retry_after_s=RETRY_AFTER_S) from None
        except asyncio.CancelledError:
            self._give_up(waiting)
            raise
        finally:
            if waiting in self._queue:
                self._queue.remove(waiting)

    def _give_up(self, waiting: _Waiting) -> None:
        """No one waits any more; if it was started at that moment, no one reads its rollouts."""
        started = waiting.started
        if started.done() and not started.cancelled() and started.exception() is None:
            for ticket in started.result():
                self.tickets.give_up(ticket)

    # -- Guest ---------------------------------------------------------------------------------
    def start_next(self) -> Start:
        """See `Guest`."""
        while self._queue and self._queue[0].started.done():
            self._queue.popleft()
        if not self._queue:
            return Start.NONE_WAITS
        head = self._queue[0]
        try:
            # The service's own rollouts are numbered from 1.
            numbers = [0] * len(head.options["seeds"])
            head.options["user_ids"] = head.options["reward_ids"] = numbers
            tickets = self.tickets.submit(head.prompt, **head.options)
        except EngineSaturated:
            return Start.NO_ROOM
        except AssayError as error:
            head.started.set_exception(error)
        else:
            head.started.set_result(tickets)
        self._queue.popleft()
        return Start.STARTED

    def on_ended(self, completed: Completed) -> None:
        """See `Guest`."""
        self.tickets.ended(completed)

    def on_engine_failed(self, error: AssayError) -> None:
        """See `Guest`."""
        self.tickets.down(error.message)
        while self._queue:
            head = self._queue.popleft()
            if not head.started.done():
                head.started.set_exception(DependencyDown(f"the engine failed: {error.message}"))
