"""The bound on CPU time holds wherever the interpreter is when it is reached."""

import gc
import signal
import sys
import time
from collections.abc import Callable

import pytest

from assay.verifiers.text.bounds import OutOfTime, cpu_time, on_deep_stack

BOUND_S = 0.02
BUSY_S = 3 * BOUND_S


def burn(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


class BusyToTheEnd:
    def __del__(self) -> None:
        burn(BUSY_S)


def in_a_finalizer() -> None:
    BusyToTheEnd()
    burn(10)


def in_a_callback_of_the_collector() -> None:
    def busy(_phase: str, _info: dict[str, int]) -> None:
        burn(BUSY_S)

    gc.callbacks.insert(1, busy)  # among those that were there before the bound
    try:
        gc.collect()
    finally:
        gc.callbacks.remove(busy)
    burn(10)


def in_a_collected_finalizer() -> None:
    knot = [BusyToTheEnd()]
    knot.append(knot)  # type: ignore[arg-type]
    del knot
    gc.collect()
    burn(10)


def in_plain_code() -> None:
    burn(10)


@pytest.mark.parametrize(
    "body",
    [in_plain_code, in_a_finalizer, in_a_callback_of_the_collector, in_a_collected_finalizer],
)
def test_the_bound_is_not_lost(body: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    swallowed: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", swallowed.append)
    handler, callbacks = signal.getsignal(signal.SIGPROF), list(gc.callbacks)
    before = time.process_time()
    with pytest.raises(OutOfTime), cpu_time(BOUND_S):
        body()
    assert time.process_time() - before < 5, "the bound was lost"
    assert signal.getsignal(signal.SIGPROF) == handler
    assert gc.callbacks == callbacks
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
    if body is not in_a_finalizer:  # of which the collector knows nothing
        assert swallowed == []


def test_what_ends_in_time_is_not_disturbed() -> None:
    with cpu_time(5):
        burn(BOUND_S)
    burn(BUSY_S)


class Panic(BaseException):
    """What a compiled library raises when it cannot go on."""


def test_the_panic_of_a_library_is_an_exception() -> None:
    def panics() -> None:
        raise Panic("index out of range")

    with pytest.raises(RuntimeError, match="Panic: index out of range"):
        on_deep_stack(panics)
