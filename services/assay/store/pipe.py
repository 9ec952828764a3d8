"""One connection to the server that many calls share: RESP over an asyncio transport.

Calls are written as they come and answered in that order, so a call costs one future, and calls of
one turn of the event loop share a write.

A call is never cancelled on the server: its reply is read and dropped. One that had no reply in
time fails, and its connection takes no further calls and is closed when those that it has are over.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import hiredis

from assay.store.server import LostConnection, reply_error

CALLS_IN_FLIGHT_MAX: Final = 1_024
"""Calls that wait for their reply on one connection; further calls wait before they are sent."""

SAID_CHARS_MAX: Final = 200

Reply = Any  # A RESP reply: bytes, int, None or lists of them; each caller knows its shape.
Argument = bytes | str | int | float
Command = tuple[Any, ...]  # of Arguments


class Pipe(asyncio.Protocol):
    """A connection to the server."""

    def __init__(
        self, stream: asyncio.StreamWriter, *, timeout_s: float, on_lost: Callable[[], None]
    ) -> None:
        """Take over a connection.

        Args:
            stream: of a connection that is ready for calls; no one else uses it.
            timeout_s: how long a call waits for its reply.
            on_lost: called when the connection was lost, or a call had no reply in time.
        """
        self._loop = asyncio.get_running_loop()
        self._stream = stream  # kept, or it would close the transport
        self._timeout_s = timeout_s
        self._on_lost = on_lost
        self._pending: deque[tuple[asyncio.Future[Reply], int, float]] = deque()
        """Future, replies of the call, and the instant at which it must have them."""
        self._replies: list[Reply] = []
        self._reader = hiredis.Reader(replyError=reply_error)
        self._timer: asyncio.TimerHandle | None = None
        self._is_paused = False
        self._room = asyncio.Event()
        self.is_open = True
        """Takes calls."""
        self.why_closed = "the connection was closed"
        self._transport = stream.transport
        self._transport.set_protocol(self)

    @property
    def is_over(self) -> bool:
        """Takes no calls and has none."""
        return not self.is_open and not self._pending

    @property
    def is_free(self) -> bool:
        """A call is sent at once."""
        return self.is_open and not self._is_paused and len(self._pending) < CALLS_IN_FLIGHT_MAX

    async def has_room(self) -> None:
        """Wait until a call can be sent, or the connection takes no more calls.

        Raises:
            TimeoutError: not in time.
        """
        async with asyncio.timeout(self._timeout_s):
            while self.is_open and not self.is_free:
                self._room.clear()
                await self._room.wait()

    def call(self, *commands: Command, timeout_s: float | None = None) -> asyncio.Future[Reply]:
        """Send commands; the future has the reply of the only one, or the list of all replies.

        The future fails with the first error reply, LostConnection or TimeoutError.
        """
        future = self._loop.create_future()
        if not self.is_open or self._transport.is_closing():  # it would raise if written to
            future.set_exception(LostConnection(self.why_closed))
            return future
        due_s = self._loop.time() + (timeout_s or self._timeout_s)
        for command in commands:
            self._transport.write(hiredis.pack_command(command))
        self._pending.append((future, len(commands), due_s))
        if self._timer is None:
            self._timer = self._loop.call_at(due_s, self._look)
        return future

    # -- for the transport ---------------------------------------------------------------------
    def data_received(self, data: bytes) -> None:
        """Hand the replies to their calls."""
        self._reader.feed(data)
        try:
            while (reply := self._reader.gets()) is not False:
                self._take(reply)
        except hiredis.ProtocolError as error:
            self._lose(LostConnection(f"not a reply of a server: {error}"))

    def _take(self, reply: Reply) -> None:
        if not self._pending:  # why it takes no calls: too many clients, or not from there
            self._lose(LostConnection(f"the server said: {str(reply)[:SAID_CHARS_MAX]}"))
            return
        future, count, _ = self._pending[0]
        if count == 1:
            self._pending.popleft()
            _answer(future, [reply], alone=True)
        else:
            self._replies.append(reply)
            if len(self._replies) < count:
                return
            self._pending.popleft()
            replies, self._replies = self._replies, []
            _answer(future, replies, alone=False)
        if not self._room.is_set():
            self._room.set()
        if not self.is_open and not self._pending:
            self.close()

    def pause_writing(self) -> None:
        """The server reads slowly."""
        self._is_paused = True

    def resume_writing(self) -> None:
        """It has caught up."""
        self._is_paused = False
        self._room.set()

    def connection_lost(self, error: Exception | None) -> None:
        """Fail what waits."""
        self._lose(LostConnection(str(error) if error else "the connection was closed"))

    # -- the end -------------------------------------------------------------------------------
    def _look(self) -> None:
        """Fail the calls that have waited too long; the connection takes no more of them."""
        now_s = self._loop.time()
        self._timer = None
        late = [future for future, _, due_s in self._pending if due_s <= now_s]
        for future in late:
            if not future.done():
                future.set_exception(TimeoutError())
        if late and self.is_open:
            self.is_open = False
            self._room.set()
            self._on_lost()
        left = [due_s for *_, due_s in self._pending if due_s > now_s]
        if left:
            self._timer = self._loop.call_at(min(left), self._look)
        elif late:
            self.close()

    def _lose(self, error: LostConnection) -> None:
        was_open, self.is_open = self.is_open, False
        if was_open:
            self.why_closed = str(error)
        self._fail(error)
        self.close()
        if was_open:
            self._on_lost()

    def close(self) -> None:
        """Close the connection; calls in progress fail."""
        self.is_open = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._transport.abort()
        self._fail(LostConnection("the connection was closed"))

    def _fail(self, error: LostConnection) -> None:
        pending, self._pending = self._pending, deque()
        for future, *_ in pending:
            if not future.done():
                future.set_exception(error)
        self._room.set()


def _answer(future: asyncio.Future[Reply], replies: list[Reply], *, alone: bool) -> None:
    if future.done():  # no one waits for it any more
        return
    errors = [reply for reply in replies if isinstance(reply, Exception)]
    if errors:
        future.set_exception(errors[0])
    else:
        future.set_result(replies[0] if alone else replies)
