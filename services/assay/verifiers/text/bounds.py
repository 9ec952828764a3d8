"""Runs a judgement with its own bounds: a deep stack, or a CPU time limit.

Both are for the main thread of a worker process, like everything in a handler.
"""

import contextlib
import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeVar

T = TypeVar("T")

STACK_BYTES: Final = 64 * 1024**2
FRAMES_MAX: Final = 40_000
"""Number of Python frames; measured to need less than half of `STACK_BYTES`."""


REPEAT_S: Final = 0.05
"""CPU time between two signals until the body has ended, in seconds."""


class Timer(NamedTuple):
    """A timer of the process; a body bounded by one may bound a part of itself by the other."""

    timer: int
    signal: signal.Signals


CPU_TIMER: Final = Timer(signal.ITIMER_PROF, signal.SIGPROF)
"""Counts all CPU time of the process; for handlers."""
USER_TIMER: Final = Timer(signal.ITIMER_VIRTUAL, signal.SIGVTALRM)
"""Counts its CPU time outside the kernel; for those who call handlers."""


class OutOfTime(BaseException):
    """The CPU time is used up. Not an `Exception`, because validator libraries catch those."""


def on_deep_stack(call: Callable[[], T]) -> T:
    """Return the result of `call`, run with a recursion limit of `FRAMES_MAX` frames.

    Raises:
        RecursionError: `FRAMES_MAX` frames are not enough.
        RuntimeError: a library panicked, with what is no `Exception`.
    """
    ended: list[tuple[T] | BaseException] = []

    def run() -> None:
        try:
            ended.append((call(),))
        except (Exception, OutOfTime) as error:  # noqa: BLE001 - raised again, in the caller's thread
            ended.append(error)
        except BaseException as panic:  # noqa: BLE001 - a library's own; likewise
            ended.append(RuntimeError(f"{type(panic).__name__}: {panic}"))

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
def cpu_time(seconds: float, by: Timer = CPU_TIMER) -> Iterator[None]:
    """Bound the CPU time of the body; no bound outside the main thread, which gets no signals.

    The interpreter discards exceptions in finalizers and callbacks of the garbage collector. So
    nothing is raised during a collection, and the signal repeats until the body has ended.

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

    before = signal.signal(by.signal, stop)
    try:
        with _collections_watched() as collecting:
            signal.setitimer(by.timer, seconds, REPEAT_S)
            try:
                yield
            finally:
                armed = False
    finally:
        armed = False
        signal.setitimer(by.timer, 0)
        signal.signal(by.signal, before)


@contextlib.contextmanager
def _collections_watched() -> Iterator[Callable[[], bool]]:
    """Yield a function that reports whether the garbage collector is running."""
    at_work = False

    def on_start(phase: str, _info: dict[str, int]) -> None:
        nonlocal at_work
        at_work = at_work or phase == "start"

    def on_stop(phase: str, _info: dict[str, int]) -> None:
        nonlocal at_work
        at_work = at_work and phase != "stop"

    # The first callback at the start and the last at the stop, so that all others are covered.
    gc.callbacks.insert(0, on_start)
    gc.callbacks.append(on_stop)
    try:
        yield lambda: at_work
    finally:
        gc.callbacks.remove(on_start)
        gc.callbacks.remove(on_stop)
