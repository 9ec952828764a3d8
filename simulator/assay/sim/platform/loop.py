"""An event loop in virtual time: one thread, no input or output, time passes only when all wait.

Two runs that create the same work in the same order execute it in the same order. Timers due at the
same instant run in an order that the seed draws, which asyncio leaves open; ready callbacks run in
the order in which they were made ready, which asyncio promises.
"""

import asyncio
import random
from collections.abc import Callable
from contextvars import Context
from typing import Any, Final, TypeVar

TURNS_PER_INSTANT_MAX: Final = 20_000
"""More turns of the loop than this without time passing: something runs in a circle."""
TIE_S: Final = 1e-7
"""Timers move by up to this, so that the seed orders those of one instant."""
THREAD_S_MAX: Final = 0.002
"""What production code does in a thread takes up to so long here, and runs in no thread."""

T = TypeVar("T")


class Deadlock(Exception):
    """Everything waits, and no timer is set."""


class Livelock(Exception):
    """Work goes on for ever without time passing."""


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs coroutines; `time()` is virtual seconds since the start."""

    def __init__(self, seed: str, *, on_instant: Callable[[], None] = lambda: None) -> None:
        """`on_instant` is called when all work of an instant is done; what it raises ends the
        run."""
        super().__init__()
        self._selector = self
        self._now_s = 0.0
        self._on_instant = on_instant
        self._turns = 0
        self._random = random.Random(f"{seed}/loop")  # noqa: S311 - to be repeated, not secret
        self.instants = 0
        self._clock_resolution = 1e-9

    def time(self) -> float:
        """Virtual seconds."""
        return self._now_s

    def call_at(  # type: ignore[override]  # asyncio's stub binds the arguments' types
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,  # noqa: ANN401 - asyncio's own
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """See asyncio; ties are the seed's."""
        when += self._random.random() * TIE_S
        return super().call_at(when, callback, *args, context=context)

    def select(self, timeout: float | None) -> list[object]:
        """Stand in for the selector: nothing ever comes from outside, so let the time pass.

        Raises:
            Deadlock: no timer is set.
            Livelock: time does not pass.
        """
        if timeout == 0:
            self._turns += 1
            if self._turns > TURNS_PER_INSTANT_MAX:
                message = f"{self._turns} turns at {self._now_s:.6f} s"
                raise Livelock(message)
            return []
        self._turns = 0
        self.instants += 1
        self._on_instant()
        if timeout is None:
            raise Deadlock("everything waits and no timer is set")
        self._now_s += timeout
        return []

    def _process_events(self, event_list: list[object]) -> None:
        """Nothing comes from outside."""

    def _write_to_self(self) -> None:
        """There is no other thread to be woken from."""

    def run_in_executor(  # type: ignore[override]  # asyncio's stub is looser
        self,
        executor: object,
        func: Callable[..., T],
        *args: Any,  # noqa: ANN401 - asyncio's own
    ) -> asyncio.Future[T]:
        """Run it a little later, in this thread."""
        future: asyncio.Future[T] = self.create_future()

        def call() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except Exception as error:  # noqa: BLE001 - as a thread would hand it over
                future.set_exception(error)

        self.call_later(self._random.random() * THREAD_S_MAX, call)
        return future
