"""Runs a judgement under bounds of its own: a deep stack, or little CPU time.

Both are for the main thread of a worker process, as everything in a handler is.
"""

import contextlib
import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

T = TypeVar("T")

STACK_BYTES: Final = 64 * 1024**2
FRAMES_MAX: Final = 40_000
"""Python frames; measured to need less than half of `STACK_BYTES`."""


REPEAT_S: Final = 0.05
"""CPU time from one signal to the next, while the body has not ended."""


class OutOfTime(BaseException):
    """The CPU time is used up. Not an `Exception`: libraries that judge catch those."""


def on_deep_stack(call: Callable[[], T]) -> T:
    """Return what `call` returns, run where recursion may go to `FRAMES_MAX` frames.

    Raises:
        RecursionError: even that is not enough.
    """
    ended: list[tuple[T] | BaseException] = []

    def run() -> None:
        try:
            ended.append((call(),))
        except BaseException as error:  # noqa: BLE001 - raised again, in the caller's thread
            ended.append(error)

    frames_before, stack_before = sys.getrecursionlimit(), threading.stack_size(STACK_BYTES)
    sys.setrecursionlimit(FRAMES_MAX)
    try:
        thread = threading.Thread(target=run, name="deep", daemon=True)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(stack_before)
        sys.setrecursionlimit(frames_before)
    [end] = ended
    if isinstance(end, BaseException):
        raise end
    return end[0]


@contextlib.contextmanager
def cpu_time(seconds: float) -> Iterator[None]:
    """Bound the CPU time of the body; outside the main thread, where no signal comes, unbounded.

    The interpreter swallows what is raised in a finalizer or a callback of the garbage collector:
    nothing is raised while it collects, and the signal repeats until the body has ended.

    Raises:
        OutOfTime: it took longer.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    armed = True

    def stop(_signal: int, _frame: object) -> None:
        if armed and not collecting():
            raise OutOfTime

    before = signal.signal(signal.SIGPROF, stop)
    try:
        with _collections_watched() as collecting:
            signal.setitimer(signal.ITIMER_PROF, seconds, REPEAT_S)
            try:
                yield
            finally:
                armed = False
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextlib.contextmanager
def _collections_watched() -> Iterator[Callable[[], bool]]:
    """Yield a function that says whether the garbage collector is at work right now."""
    at_work = False

    def on_start(phase: str, _info: dict[str, int]) -> None:
        nonlocal at_work
        at_work = at_work or phase == "start"

    def on_stop(phase: str, _info: dict[str, int]) -> None:
        nonlocal at_work
        at_work = at_work and phase != "stop"

    # First of all callbacks at the start and last of all at the stop, so that theirs are covered.
    gc.callbacks.insert(0, on_start)
    gc.callbacks.append(on_stop)
    try:
        yield lambda: at_work
    finally:
        gc.callbacks.remove(on_start)
        gc.callbacks.remove(on_stop)
