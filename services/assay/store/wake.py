"""Wakes the watchers of an event stream, with one blocking read per stream and process.

Events are hints. A watcher is woken by the event of its topic (a batch, or planning), when events
may have been missed (the connection broke), and every `recheck_s` in any case; the state is in the
store.

The recheck is needed: the stream is trimmed, so a reader that is overtaken by `EVENTS_MAX` events
misses some without noticing it, and a server that failed over or lost its last second has lost
events with it. It costs one small read per watcher and `recheck_s`, only while nothing happens, and
the watcher reads pages only if the batch has moved.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncGenerator
from typing import Final

from assay.core.errors import DependencyDown
from assay.store.link import Link, Reply

RECHECK_S: Final = 3.0
PLANNING: Final = "planning"
"""The only topic of the planners' stream."""
READ_S: Final = 5.0
EVENTS_A_READ_MAX: Final = 1_000
GATHER_S: Final = 0.002
"""After a read, how long the next events may accumulate: a read per event costs more than the
event. The first event after a quiet time wakes at once."""
GATHER_PLANNING_S: Final = 0.05
"""The same for planners, which look at most five times per second."""
PAUSE_S: Final = 0.25
"""Pause between attempts to reach a store that is down."""


class Watchers:
    """The watchers of one stream in this process; reads events while there are any."""

    def __init__(
        self, link: Link, stream: str, *, recheck_s: float | None, gather_s: float = GATHER_S
    ) -> None:
        self._link = link
        self._gather_s = gather_s
        self._stream = link.prefix + stream
        self._recheck_s = recheck_s
        self._by_topic: dict[str, set[asyncio.Event]] = defaultdict(set)
        self._reader: asyncio.Task[None] | None = None
        self._reading = asyncio.Event()
        self._closed = False

    async def watch(self, topic: str) -> AsyncGenerator[None, None]:
        """Yield at once, and then when the topic may have changed."""
        changed = asyncio.Event()
        self._by_topic[topic].add(changed)
        try:
            await self._start_reading()
            while not self._closed:
                changed.clear()
                yield
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._recheck_s):
                        await changed.wait()
        finally:
            self._leave(topic, changed)

    def _leave(self, topic: str, changed: asyncio.Event) -> None:
        self._by_topic[topic].discard(changed)
        if not self._by_topic[topic]:
            del self._by_topic[topic]

    async def _start_reading(self) -> None:
        """Return when later events will be seen, or the store is down (then none is missed)."""
        if self._reader is None or self._reader.done():
            self._reading.clear()
            self._reader = asyncio.create_task(self._read(), name="store-events")
        if self._reading.is_set():
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RECHECK_S):
                await self._reading.wait()

    async def _read(self) -> None:
        position: bytes | None = None
        while self._by_topic:
            try:
                if position is None:
                    newest = await self._link.call("XREVRANGE", self._stream, "+", "-", "COUNT", 1)
                    position = newest[0][0] if newest else b"0-0"
                    self._reading.set()
                    self._wake_all()
                position = await self._read_once(position)
            except DependencyDown:
                position = None
                await asyncio.sleep(PAUSE_S)

    async def _read_once(self, position: bytes) -> bytes:
        reply: Reply = await self._link.wait(
            *("XREAD", "COUNT", EVENTS_A_READ_MAX, "BLOCK", int(READ_S * 1000)),
            *("STREAMS", self._stream, position),
            timeout_s=READ_S,
        )
        if not reply:
            return position
        events = reply[0][1]
        for _, fields in events:
            for changed in self._by_topic.get(fields[1].decode(), ()):
                changed.set()
        await asyncio.sleep(self._gather_s)
        newest: bytes = events[-1][0]
        return newest

    def _wake_all(self) -> None:
        for watchers in self._by_topic.values():
            for changed in watchers:
                changed.set()

    async def close(self) -> None:
        """Stop reading; watchers end."""
        self._closed = True
        self._wake_all()
        if self._reader is not None:
            self._reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reader
