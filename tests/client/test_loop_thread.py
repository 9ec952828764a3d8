"""The event loop under the synchronous client."""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import TYPE_CHECKING

import pytest

from assay.client.loop_thread import LoopThread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    loop = LoopThread()
    yield loop
    loop.close()


@pytest.fixture
def _interruptible() -> Iterator[None]:
    """A shell starts programs in the background with this signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
def test_an_interrupt_ends_a_stream_that_takes_time_to_end(loop: LoopThread) -> None:
    ended = []

    async def items() -> AsyncGenerator[int, None]:
        try:
            yield 1
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)  # Ctrl-C
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            ended.append(True)

    stream = loop.iterate(items())
    assert next(stream) == 1
    with pytest.raises(KeyboardInterrupt):
        next(stream)
    assert ended
