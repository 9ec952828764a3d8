"""One call over a connection of asyncio, in HTTP/1.1: what is sent, and the answer as it comes.

Everything that is read has a bound, and what is not an answer of HTTP is an error, never a result.
"""

from __future__ import annotations

import asyncio
import http.client
import io
import select
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from assay.client.http.address import check_protocol

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator, Awaitable, Iterable, Mapping
    from typing import SupportsIndex, TypeVar

    from assay.client.http.calls import Call

    T = TypeVar("T")

PIECE_BYTES: Final = 64 * 1024
HEAD_BYTES_MAX: Final = 64 * 1024
LINES_MAX: Final = 128
"""Trailers of an answer."""
_EMPTY: Final = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)


class Malformed(http.client.HTTPException):
    """What came is not an answer of HTTP."""


class AnswerReader(asyncio.StreamReader):
    """Keeps what came before a connection was reset.

    A service, or a proxy before it, may refuse a call and close while the body is still being sent.
    The kernel then reports a reset, but what it refused with has come.
    """

    _has_come = False
    was_reset = False
    """Its end is no end of an answer."""

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        """Take in what came."""
        self._has_come = True
        super().feed_data(data)

    def set_exception(self, exc: Exception) -> None:
        """End; what is there is read first."""
        if self._has_come and isinstance(exc, ConnectionError):
            self.was_reset = True
            self.feed_eof()
        else:
            super().set_exception(exc)


async def connected(host: str, port: int, tls: ssl.SSLContext | None) -> HttpConnection:
    """As `asyncio.open_connection`, with such a reader."""
    loop = asyncio.get_running_loop()
    reader = AnswerReader(limit=PIECE_BYTES, loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport, _ = await loop.create_connection(lambda: protocol, host, port, ssl=tls)
    return HttpConnection(reader, asyncio.StreamWriter(transport, protocol, reader, loop))


@dataclass(slots=True, eq=False)
class HttpConnection:
    """An open connection; between calls it watches for its end."""

    reader: AnswerReader
    writer: asyncio.StreamWriter
    watch: asyncio.Task[bytes] | None = None

    def rest(self) -> None:
        """No call uses the connection: bytes that arrive now are its end, or belong to no call."""
        self.watch = asyncio.ensure_future(self.reader.read(1))
        self.watch.add_done_callback(_hear)

    async def wake(self) -> bool:
        """Whether it may be used again."""
        watch, self.watch = self.watch, None
        if watch is None or watch.done():
            return False
        watch.cancel()
        try:
            await asyncio.wait([watch])
        except asyncio.CancelledError:
            self.close()
            raise
        return watch.cancelled() and not self.writer.is_closing() and not self._has_more()

    def _has_more(self) -> bool:
        """Whether something has come that the event loop has not read yet."""
        waiting = select.poll()
        waiting.register(self.writer.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(waiting.poll(0))

    def close(self) -> None:
        """End it at once; nothing that is still to be sent is of use."""
        if self.watch is not None:
            self.watch.cancel()
        self.writer.transport.abort()


def _hear(watch: asyncio.Future[bytes]) -> None:
    """Of a connection that was reset, the loop would write the error to the user's terminal."""
    if not watch.cancelled():
        watch.exception()


def head_of(call: Call, host: str, headers: Mapping[str, str]) -> bytes:
    """The first bytes of a call."""
    told = {"Host": host, "Accept-Encoding": "identity", **headers, **call.headers}
    if call.body is not None:
        told["Content-Length"] = str(len(call.body))
    lines = [f"{call.method} {call.path} HTTP/1.1", *(f"{k}: {v}" for k, v in told.items())]
    return "\r\n".join([*lines, "", ""]).encode("ascii")


@dataclass(slots=True)
class HttpAnswer:
    """An answer whose head has come."""

    connection: HttpConnection
    timeout_s: float | None
    """Silence that is waited for."""
    status: int = 0
    headers: http.client.HTTPMessage = field(default_factory=http.client.HTTPMessage)
    reusable: bool = False
    """Read to its end on a connection that stays, after all of the call was sent."""
    _sent: bool = False
    _version: str = ""

    async def send(self, data: bytes) -> None:
        """Send the call and read status and headers; an early refusal is not waited past.

        Raises:
            TimeoutError, OSError, EOFError, Malformed: none came, or not one of HTTP.
            InvalidRequest: it is the gRPC port.
        """
        silence_s, self.timeout_s = self.timeout_s, None
        reading = asyncio.ensure_future(self._begin())
        sending = asyncio.ensure_future(self._write(data, silence_s))
        try:
            await asyncio.wait({reading, sending}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                await sending
            async with asyncio.timeout(silence_s):
                await reading
        finally:
            for work in (reading, sending):
                work.cancel()
            await asyncio.gather(reading, sending, return_exceptions=True)
            self.timeout_s = silence_s

    async def _write(self, data: bytes, silence_s: float | None) -> None:
        writer = self.connection.writer
        for at in range(0, len(data), PIECE_BYTES):
            writer.write(data[at : at + PIECE_BYTES])
            async with asyncio.timeout(silence_s):
                await writer.drain()
        self._sent = True

    async def _begin(self) -> None:
        try:
            line = await self._line()
        except asyncio.IncompleteReadError as error:
            check_protocol(error.partial)
            raise
        check_protocol(line)
        version, _, rest = line.decode("latin-1").strip().partition(" ")
        number = rest.partition(" ")[0]
        if version not in {"HTTP/1.1", "HTTP/1.0"} or not (number.isdecimal() and len(number) == 3):
            raise Malformed(f"not a status line of HTTP/1.1: {line[:80]!r}")
        self.status, self._version = int(number), version
        block = bytearray()
        while (line := await self._line()) not in {b"\r\n", b"\n"}:
            block += line
            if len(block) > HEAD_BYTES_MAX:
                raise Malformed(f"headers of more than {HEAD_BYTES_MAX} bytes")
        self.headers = http.client.parse_headers(io.BytesIO(bytes(block) + b"\r\n"))
        if self.status < HTTPStatus.OK:
            raise Malformed(f"an unexpected status, HTTP {self.status}")

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes, in pieces of any size.

        Raises:
            TimeoutError, OSError, EOFError, Malformed: it broke off.
        """
        stays = self._version == "HTTP/1.1" and "close" not in self._told("connection")
        coding, length = self._told("transfer-encoding"), self._told("content-length")
        if self.status in _EMPTY:
            pass
        elif coding == "chunked":
            async for piece in self._chunks():
                yield piece
        elif coding or (length and not length.isdecimal()):
            raise Malformed(f"a body of unknown form: {coding or length!r}")
        elif length:
            async for piece in self._of_length(int(length)):
                yield piece
        else:
            stays = False
            while piece := await self._in_time(self.connection.reader.read(PIECE_BYTES)):
                yield piece
            if self.connection.reader.was_reset:
                raise EOFError("the connection was reset within an answer")
        self.reusable = stays and self._sent

    async def _chunks(self) -> AsyncGenerator[bytes, None]:
        while True:
            size = (await self._line()).partition(b";")[0].strip()
            if not size or size.strip(b"0123456789abcdefABCDEF") or len(size) > 16:
                raise Malformed(f"not the size of a chunk: {size[:80]!r}")
            if int(size, 16) == 0:
                break
            async for piece in self._of_length(int(size, 16)):
                yield piece
            if (await self._line()).strip():
                raise Malformed("a chunk is longer than its size")
        for _ in range(LINES_MAX):  # trailers
            if not (await self._line()).strip():
                return
        raise Malformed(f"more than {LINES_MAX} trailers")

    async def _of_length(self, left: int) -> AsyncGenerator[bytes, None]:
        while left:
            piece = await self._in_time(self.connection.reader.read(min(left, PIECE_BYTES)))
            if not piece:
                raise EOFError("the connection was closed within an answer")
            left -= len(piece)
            yield piece

    async def _line(self) -> bytes:
        try:
            return await self._in_time(self.connection.reader.readuntil(b"\n"))
        except asyncio.LimitOverrunError as error:
            raise Malformed(f"a line of more than {PIECE_BYTES} bytes") from error

    async def _in_time(self, work: Awaitable[T]) -> T:
        async with asyncio.timeout(self.timeout_s):
            return await work

    def _told(self, name: str) -> str:
        return ",".join(self.headers.get_all(name, [])).strip().lower()
