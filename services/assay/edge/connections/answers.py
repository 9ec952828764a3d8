"""The transport of an HTTP connection: how answers are written, and whether it reads on."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

STATUS_BEGINS: Final = b"HTTP/1."
JOINED_BYTES_MAX: Final = 64 * 1024
"""Of a body that is copied behind its head."""


class HeadWithBody(asyncio.Transport):
    """Sends the head of an answer together with the first of its body, if that is there at once.

    What is written to a connection that is closed already is dropped: it may close while its call
    is answered, and the loop's own transport would raise, which fills the log with tracebacks.
    uvicorn writes them one after the other, and each write is a call of the system that wakes the
    reader. A head that no body follows is sent in the loop's next turn.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        *,
        goes_on: Callable[[], bool],
    ) -> None:
        """Send through `transport`; `goes_on` says whether what was read before comes first."""
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._goes_on = goes_on
        self._head = b""
        self._due: asyncio.Handle | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._transport.is_closing():
            return
        if self._due is not None:
            self._send(data)
        elif bytes(data[: len(STATUS_BEGINS)]) == STATUS_BEGINS:
            self._head, self._due = bytes(data), self._loop.call_soon(self._send)
        else:
            self._transport.write(data)

    def _send(self, data: bytes | bytearray | memoryview = b"") -> None:
        """Send the head that waits, and these bytes after it."""
        head = self._taken()
        if self._transport.is_closing():
            return
        if len(data) > JOINED_BYTES_MAX:  # copying it would take longer than another call
            self._transport.write(head)
            self._transport.write(data)
        else:
            self._transport.write(head + data)

    def _taken(self) -> bytes:
        """The head that waits; it does so no longer."""
        if self._due is not None:
            self._due.cancel()
        head, self._head, self._due = self._head, b"", None
        return head

    def close(self) -> None:
        """Close after what was written."""
        if self._due is not None:
            self._send()
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._taken()
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 as asyncio's
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self._goes_on():
            self._transport.resume_reading()
