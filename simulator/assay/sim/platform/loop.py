"""An event loop in virtual time: one thread, no I/O; time advances only when all tasks wait.

Two runs that create the same work in the same order execute it in the same order. Timers due at the
same instant run in an order drawn from the seed (asyncio leaves it open); ready callbacks run in
the order in which they became ready, which asyncio guarantees.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from contextvars import Context
from heapq import heappop, heappush
from typing import Any, Final, TypeVar

TURNS_PER_INSTANT_MAX: Final = 20_000
"""More turns of the loop than this without time advancing indicate an endless loop."""
TIE_S: Final = 1e-7
"""Timers are shifted by up to this, so that the seed orders those of one instant."""
THREAD_S_MAX: Final = 0.002
"""Work that production runs in a thread takes up to this long here, and runs in no thread."""
STEP_S_MAX: Final = 24 * 3_600.0
"""Time advances by at most this at once, as in asyncio."""

T = TypeVar("T")


class Deadlock(Exception):
    """Everything waits, and no timer is set."""


class Livelock(Exception):
    """Work continues forever without time advancing."""


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs coroutines; `time()` is virtual seconds since the start.

    `call_soon`, `call_at` and `_run_once` do what asyncio's do, without what only real time,
    threads and debugging need: a simulated second consists of thousands of them.
    """

    _ready: deque[asyncio.Handle]
    _stopping: bool

    def __init__(
        self,
        seed: str,
        *,
        on_instant: Callable[[], None] = lambda: None,
        tie_s: float = TIE_S,
        thread_s_max: float = THREAD_S_MAX,
    ) -> None:
        """`on_instant` is called when all work of an instant is done; an exception from it ends the
        run. With `tie_s` and `thread_s_max` 0, time advances by the work's own timers alone."""
        super().__init__()
        self._now_s = 0.0
        self._on_instant = on_instant
        self._turns = 0
        self._random = random.Random(f"{seed}/loop")  # noqa: S311 - to be repeated, not secret
        self._tie_s = tie_s
        self._thread_s_max = thread_s_max
        self.instants = 0
        self._clock_resolution = 1e-9
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timers_set = 0

    def time(self) -> float:
        """Virtual time in seconds."""
        return self._now_s

    def call_soon(  # type: ignore[override]  # asyncio's stub binds the arguments' types
        self,
        callback: Callable[..., object],
        *args: Any,  # noqa: ANN401 - asyncio's own
        context: Context | None = None,
    ) -> asyncio.Handle:
        if self.is_closed():
            raise RuntimeError("the loop is closed")
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(  # type: ignore[override]  # asyncio's stub binds the arguments' types
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,  # noqa: ANN401 - asyncio's own
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """See asyncio; ties are ordered by the seed."""
        if self.is_closed():
            raise RuntimeError("the loop is closed")
        when += self._random.random() * self._tie_s
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._timers_set += 1
        heappush(self._timers, (when, self._timers_set, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Cancelled timers are dropped when they are due first."""

    def _run_once(self) -> None:
        """One turn: advance the time if nothing is ready, then run what is ready now."""
        ready, timers = self._ready, self._timers
        while timers and timers[0][2].cancelled():
            heappop(timers)
        if ready or self._stopping:
            self._turn()
        elif timers:
            self._advance(min(max(0.0, timers[0][0] - self._now_s), STEP_S_MAX))
        else:
            self._advance(None)
        now_s = self._now_s + self._clock_resolution
        while timers and timers[0][0] < now_s:
            ready.append(heappop(timers)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()  # noqa: SLF001 - asyncio's own way

    def _turn(self) -> None:
        """Count a turn in which time stands still.

        Raises:
            Livelock: there are too many.
        """
        self._turns += 1
        if self._turns > TURNS_PER_INSTANT_MAX:
            message = f"{self._turns} turns at {self._now_s:.6f} s"
            raise Livelock(message)

    def _advance(self, by_s: float | None) -> None:
        """All work of the instant is done: check it, and go to the next.

        Raises:
            Deadlock: no timer is set.
        """
        if by_s == 0:
            self._turn()
            return
        self._turns = 0
        self.instants += 1
        self._on_instant()
        if by_s is None:
            raise Deadlock("everything waits and no timer is set")
        self._now_s += by_s

    def _write_to_self(self) -> None:
        """No other thread exists that could wake the loop."""

    def run_in_executor(  # type: ignore[override]  # asyncio's stub is looser
        self,
        executor: object,
        func: Callable[..., T],
        *args: Any,  # noqa: ANN401 - asyncio's own
    ) -> asyncio.Future[T]:
        """Run it a little later, in the same thread."""
        future: asyncio.Future[T] = self.create_future()

        def call() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except Exception as error:  # noqa: BLE001 - as an executor would return it
                future.set_exception(error)

        self.call_later(self._random.random() * self._thread_s_max, call)
        return future
