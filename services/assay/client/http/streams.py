"""Calls over HTTP from an event loop, and when one is repeated: as `transport` does for threads."""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
from contextlib import aclosing, asynccontextmanager
from http import HTTPStatus
from http.client import HTTPException
from typing import TYPE_CHECKING, Final

from assay.client import forks
from assay.client.http.address import is_not_tls, not_tls, reason, target
from assay.client.http.bodies import error_of
from assay.client.http.exchange import HttpAnswer, HttpConnection, connected, head_of
from assay.client.http.transport import (
    ANSWER_BYTES_MAX,
    ERROR_BYTES_MAX,
    LINE_BYTES_MAX,
    WORTH_REPEATING,
    Silent,
)
from assay.core.errors import AssayError, DeadlinePassed, DependencyDown, TooLarge

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator

    from assay.client.backoff import Backoff
    from assay.client.http.calls import Call

IDLE_MAX: Final = 64
"""Connections that are kept for later calls."""
_FAILURES: Final = (OSError, EOFError, HTTPException)


class AsyncTransport:
    """Connections to one service, for the tasks of one event loop at a time.

    Those that another loop left idle are not used; they end with it.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str,
        tls: ssl.SSLContext | None,
        backoff: Backoff,
        timeout_s: float,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """Prepare without connecting.

        Raises:
            InvalidRequest: `url` is not that of a service.
        """
        self._host, self._port, is_tls = target(url)
        self._tls = tls if tls is not None or not is_tls else ssl.create_default_context()
        host = f"[{self._host}]" if ":" in self._host else self._host
        self._name = f"{host}:{self._port}"
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._backoff = backoff
        self.timeout_s = timeout_s
        self._sleep = sleep
        self._loop: asyncio.AbstractEventLoop | None = None
        self._idle: list[HttpConnection] = []
        self.renew()
        forks.renew_in_child(self)

    def renew(self) -> None:
        """Begin without connections; those of the parent are left to it."""
        forks.keep(*self._idle)
        self._randomness = random.Random()  # noqa: S311 spreads pauses only
        self._idle = []

    async def close(self) -> None:
        """Close the idle connections; those of calls are closed with these."""
        self._enter_loop()
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        for connection in idle:
            with contextlib.suppress(*_FAILURES):
                await connection.writer.wait_closed()

    async def call(
        self, call: Call, *, deadline_s: float | None = None, waits: bool = False
    ) -> bytes:
        """Send until it is answered, refused permanently, or the time of the backoff has passed.

        Args:
            call: what to send.
            deadline_s: instant of the event loop until which the caller waits.
            waits: the answer comes when work is done; without `deadline_s`, whenever that is.

        Raises:
            DeadlinePassed: the caller's time is over.
            AssayError: the last error.
        """
        pauses = self.pauses()
        while True:
            timeout_s = None if waits else self.timeout_s
            if deadline_s is not None:
                timeout_s = max(0.001, deadline_s - asyncio.get_running_loop().time())
            try:
                async with self.answer(call, timeout_s=timeout_s) as answer:
                    return await _whole(answer, ANSWER_BYTES_MAX)
            except WORTH_REPEATING as error:
                _check_time(deadline_s, error)
                await self.pause(pauses, error, deadline_s)

    @asynccontextmanager
    async def answer(self, call: Call, *, timeout_s: float | None) -> AsyncIterator[HttpAnswer]:
        """One attempt: an answer that is one, to be read within the block.

        Raises:
            DependencyDown: the connection failed, now or while the answer was read.
            AssayError: the service refused.
        """
        answer = None
        connection = None
        try:
            connection = await self._take()
            answer = HttpAnswer(connection, timeout_s)
            await answer.send(head_of(call, self._name, self._headers) + (call.body or b""))
            if answer.status >= HTTPStatus.BAD_REQUEST:
                content = await _first(answer, ERROR_BYTES_MAX)
                raise error_of(answer.status, content, answer.headers.get("Retry-After", ""))
            yield answer
        except TimeoutError as error:
            raise Silent(f"{self._name}: no answer within {timeout_s} s") from error
        except _FAILURES as error:
            if is_not_tls(error):
                raise not_tls() from error
            message = f"{self._name}: {reason(error, tls=self._tls is not None)}"
            raise DependencyDown(message) from error
        finally:
            if connection is not None:
                self._give_back(connection, reusable=answer is not None and answer.reusable)

    def pauses(self) -> Iterator[float]:
        """The pauses of one call."""
        return self._backoff.pauses(self._randomness)

    async def pause(
        self, pauses: Iterator[float], error: AssayError, deadline_s: float | None = None
    ) -> None:
        """Wait before a call is sent again.

        Raises:
            AssayError: `error`, when it is time to give up.
        """
        pause_s = next(pauses, None)
        if pause_s is None:
            raise error
        wait_s = max(pause_s, error.retry_after_s * self._randomness.uniform(1.0, 1.25))
        if deadline_s is not None:
            wait_s = min(wait_s, max(0.0, deadline_s - asyncio.get_running_loop().time()))
        await self._sleep(wait_s)
        _check_time(deadline_s, error)

    def _enter_loop(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._idle = loop, []

    async def _take(self) -> HttpConnection:
        self._enter_loop()
        while self._idle:
            connection = self._idle.pop()
            if await connection.wake():
                return connection
            connection.close()
        async with asyncio.timeout(self.timeout_s):
            return await connected(self._host, self._port, self._tls)

    def _give_back(self, connection: HttpConnection, *, reusable: bool) -> None:
        here = self._loop is asyncio.get_running_loop()
        if not reusable or not here or len(self._idle) >= IDLE_MAX:
            connection.close()
            return
        connection.rest()
        self._idle.append(connection)


async def lines(answer: HttpAnswer) -> AsyncGenerator[bytes, None]:
    """The lines of an answer as they come, without their ends.

    Raises:
        TooLarge: one has more than `LINE_BYTES_MAX` bytes.
    """
    begun: list[bytes] = []
    size = 0
    async with aclosing(answer.pieces()) as pieces:
        async for piece in pieces:
            *ended, rest = piece.split(b"\n")
            for part in ended:
                yield b"".join([*begun, part])
                begun, size = [], 0
            begun.append(rest)
            size += len(rest)
            if size > LINE_BYTES_MAX:
                raise TooLarge(f"a line of more than {LINE_BYTES_MAX} bytes")
    if size:
        raise EOFError("the last line has no end")


async def _whole(answer: HttpAnswer, bytes_max: int) -> bytes:
    content = await _first(answer, bytes_max)
    if len(content) > bytes_max:
        raise TooLarge(f"an answer of more than {bytes_max} bytes")
    return content


async def _first(answer: HttpAnswer, bytes_max: int) -> bytes:
    """The body, or a little more than so many bytes of it."""
    found: list[bytes] = []
    size = 0
    async with aclosing(answer.pieces()) as pieces:
        async for piece in pieces:
            found.append(piece)
            size += len(piece)
            if size > bytes_max:
                break
    return b"".join(found)


def _check_time(deadline_s: float | None, error: AssayError) -> None:
    if deadline_s is not None and asyncio.get_running_loop().time() >= deadline_s:
        raise DeadlinePassed(f"no answer in time: {error.message}") from error
