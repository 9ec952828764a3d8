"""The synchronous side of the client: an interrupt in the middle of a stream."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
from typing import TYPE_CHECKING

import pytest

from assay.client import Batch, Client, SyncBatch, SyncClient
from assay.client.loop_thread import LoopThread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable


def test_an_interrupt_in_the_middle_of_a_stream_ends_it_and_the_loop_goes_on() -> None:
    """Ctrl-C comes while the next item is awaited, and the generator needs a while to end."""
    ended, main = threading.Event(), threading.main_thread().ident
    assert main is not None

    async def items() -> AsyncGenerator[int, None]:
        try:
            yield 1
            signal.pthread_kill(main, signal.SIGINT)  # wakes it wherever it waits
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            ended.set()

    loop = LoopThread()
    stream = loop.iterate(items())
    assert next(stream) == 1
    with pytest.raises(KeyboardInterrupt):
        next(stream)
    assert ended.is_set()
    assert loop.run(asyncio.sleep(0, "next call")) == "next call"
    loop.close()


def test_a_step_that_no_one_waits_for_is_ended_when_the_stream_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ctrl-C comes after the step was started and before anyone waited for it."""
    loop = LoopThread()
    begun = threading.Event()

    async def items() -> AsyncGenerator[int, None]:
        yield 1
        begun.set()
        await asyncio.Event().wait()

    stream = loop.iterate(items())
    assert next(stream) == 1
    start = loop.start

    def interrupted(work):  # type: ignore[no-untyped-def]
        start(work)
        begun.wait()
        monkeypatch.setattr(loop, "start", start)
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(stream)
    loop.close()


def test_the_client_without_an_event_loop_has_the_docstrings_of_the_other() -> None:
    for without_loop, model in ((SyncClient, Client), (SyncBatch, Batch)):
        shared = {name for name in vars(model) if callable(getattr(model, name)) and name[0] != "_"}
        for name in shared & vars(without_loop).keys():
            assert getattr(without_loop, name).__doc__, name
    assert SyncBatch.submit.__doc__ == Batch.submit.__doc__


@pytest.mark.parametrize("end", [LoopThread.close, LoopThread.stop])
def test_no_task_is_pending_when_its_loop_closes(
    end: Callable[[LoopThread], None], caplog: pytest.LogCaptureFixture
) -> None:
    """One that ends by itself has a little time to, and one that does not is cancelled."""
    ended: list[str] = []
    kept: list[asyncio.Task[None]] = []

    async def last(name: str, seconds: float) -> None:
        try:
            await asyncio.sleep(seconds)
            ended.append(f"{name} ended")
        except asyncio.CancelledError:
            ended.append(f"{name} cancelled")
            raise

    async def begin() -> None:
        kept.extend(asyncio.create_task(last(*one)) for one in (("soon", 0.05), ("never", 1e6)))

    loop = LoopThread()
    thread = loop._thread
    loop.run(begin())
    if end is LoopThread.stop:
        loop._loop.call_soon_threadsafe(loop.stop)
    else:
        end(loop)
    assert thread is not None
    thread.join(10)
    assert sorted(ended) == ["never cancelled", "soon ended"]
    kept.clear()
    gc.collect()
    assert "destroyed" not in caplog.text
