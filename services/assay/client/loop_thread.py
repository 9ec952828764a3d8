"""An event loop in a thread, for programs without one.

The synchronous client runs the asynchronous one on it, so the two behave alike. Ctrl-C ends the
waiting call, on the server too. In a forked process it begins again, without what was in progress.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from assay.client import forks

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
    from concurrent.futures import Future

T = TypeVar("T")

END_S_MAX: Final = 0.5
"""How long tasks may take to end after the loop was stopped."""


class LoopThread:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self._closed = False
        self._lock = threading.Lock()
        self._begin()
        forks.renew_in_child(self)

    def _begin(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread: threading.Thread | None = threading.Thread(
            target=_run, args=(self._loop,), name="assay-client", daemon=True
        )
        self._thread.start()

    def renew(self) -> None:
        """The thread is gone; the next work begins another, with a loop of its own."""
        forks.keep(self._loop)
        self._lock = threading.Lock()
        self._thread = None

    @property
    def running(self) -> bool:
        """False once closed."""
        return not self._closed

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the loop and wait for it; an interrupt here cancels it there."""
        doing = self.start(work)
        try:
            return doing.result()
        except BaseException:
            doing.cancel()
            raise

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin `work` on the loop; its future may be waited for from any thread or loop.

        Raises:
            RuntimeError: the loop is closed.
        """
        with self._lock:
            if self._closed:
                work.close()
                raise RuntimeError("the client is closed")
            if self._thread is None:
                self._begin()
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def iterate(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        """Yield items one by one."""
        steps = _Steps(items)
        try:
            with contextlib.suppress(StopAsyncIteration):
                while True:
                    yield self.run(steps.next())
        finally:
            if self.running:
                self.run(steps.close())

    def stop(self) -> None:
        """End the thread, without waiting for it; for work that runs on it."""
        with self._lock:
            self._closed, self._thread = True, None
        self._loop.stop()

    def close(self) -> None:
        """Stop the loop and its thread."""
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
        if thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped."""
    try:
        loop.run_forever()
        _end_tasks(loop)
    finally:
        loop.close()


def _end_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Let the last tasks end, as gRPC's own of a call that is over; cancel those that do not.

    One that is pending when its loop closes is reported on the user's terminal.
    """
    if left := asyncio.all_tasks(loop):
        loop.run_until_complete(asyncio.wait(left, timeout=END_S_MAX))
    if left := asyncio.all_tasks(loop):
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.wait(left, timeout=END_S_MAX))


class _Steps(Generic[T]):
    """One step of an asynchronous generator at a time.

    An interrupted step may still be ending when the items are closed, or, if the interrupt came
    before anyone waited for it, still be going on.
    """

    def __init__(self, items: AsyncGenerator[T, None]) -> None:
        self._items = items
        self._turn = asyncio.Lock()
        self._step: asyncio.Task[Any] | None = None

    async def next(self) -> T:
        """The next item."""
        async with self._turn:
            self._step = asyncio.current_task()
            try:
                return await anext(self._items)
            finally:
                self._step = None

    async def close(self) -> None:
        """End the step that is going on, then the generator."""
        if self._step is not None and not self._step.cancelling():  # once: it may clean up
            self._step.cancel()
        async with self._turn:
            await self._items.aclose()


def documented_as(model: type) -> Callable[[type[T]], type[T]]:
    """Give a class the docstrings of the methods of `model` that it has without an event loop."""

    def documented(kind: type[T]) -> type[T]:
        for name, own in vars(kind).items():
            if isinstance(own, FunctionType) and own.__doc__ is None and hasattr(model, name):
                own.__doc__ = getattr(model, name).__doc__
        return kind

    return documented
