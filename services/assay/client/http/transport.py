"""Calls over HTTP, and when one is repeated: as the gRPC client does.

Only what may succeed unchanged is repeated (`DependencyDown`, `Saturated`; every call is
idempotent), never sooner than the service asked for, and for a bounded time.
"""

import http.client
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from assay.client import forks
from assay.client.backoff import Backoff
from assay.client.http.address import check_protocol, is_not_tls, not_tls, reason, target
from assay.client.http.bodies import error_of
from assay.client.http.calls import Call
from assay.core.errors import (
    AssayError,
    DeadlinePassed,
    DependencyDown,
    Saturated,
    TooLarge,
)

WORTH_REPEATING: Final = (DependencyDown, Saturated)
ANSWER_BYTES_MAX: Final = 256 * 1024**2
ERROR_BYTES_MAX: Final = 64 * 1024
LINE_BYTES_MAX: Final = 256 * 1024**2
"""Of one page of a stream."""
_FAILURES: Final = (OSError, http.client.HTTPException)


class Silent(DependencyDown):
    """Nothing came within the timeout of one attempt."""


class Transport:
    """Connections to one service; safe to use from many threads, and in forked processes."""

    def __init__(
        self,
        url: str,
        *,
        token: str,
        tls: ssl.SSLContext | None,
        backoff: Backoff,
        timeout_s: float,
        sleep: Callable[[float], object] = time.sleep,
        now_s: Callable[[], float] = time.monotonic,  # noqa: TID251 the default of a parameter
    ) -> None:
        """Prepare without connecting.

        Raises:
            InvalidRequest: `url` is not that of a service.
        """
        self._host, self._port, is_tls = target(url)
        self._tls = tls if tls is not None or not is_tls else ssl.create_default_context()
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._backoff = backoff
        self.timeout_s = timeout_s
        self._sleep = sleep
        self.now_s = now_s
        self.renew()
        forks.renew_in_child(self)

    def renew(self) -> None:
        """Begin without connections; those of the parent end for this process alone."""
        self._randomness = random.Random()  # noqa: S311 spreads pauses only
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def call(self, call: Call, *, deadline_s: float | None = None, waits: bool = False) -> bytes:
        """Send until it is answered, refused permanently, or the time of the backoff has passed.

        Args:
            call: what to send.
            deadline_s: instant of `now_s` until which the caller waits.
            waits: the answer comes when work is done; without `deadline_s`, whenever that is.

        Raises:
            DeadlinePassed: the caller's time is over.
            AssayError: the last error.
        """
        pauses = self.pauses()
        while True:
            try:
                with self.answer(call, timeout_s=self._left_s(deadline_s, waits)) as answer:
                    content = answer.read(ANSWER_BYTES_MAX + 1)
                if len(content) > ANSWER_BYTES_MAX:
                    raise TooLarge(f"an answer of more than {ANSWER_BYTES_MAX} bytes")
            except WORTH_REPEATING as error:
                self._check_time(deadline_s, error)
                self.pause(pauses, error, deadline_s)
            else:
                return content

    def _left_s(self, deadline_s: float | None, waits: bool) -> float | None:  # noqa: FBT001
        """Time for one attempt."""
        if deadline_s is None:
            return None if waits else self.timeout_s
        return max(0.001, deadline_s - self.now_s())

    @contextmanager
    def answer(self, call: Call, *, timeout_s: float | None) -> Iterator[http.client.HTTPResponse]:
        """One attempt: an answer that is one, to be read within the block.

        Raises:
            DependencyDown: the connection failed, now or while the answer was read.
            AssayError: the service refused.
        """
        connection = self._take(timeout_s)
        response = None
        reusable = False
        try:
            self._send(connection, call)
            response = connection.getresponse()
            if response.status >= http.HTTPStatus.BAD_REQUEST:
                content = response.read(ERROR_BYTES_MAX)
                reusable = response.isclosed()
                retry_after = response.getheader("Retry-After", "")
                raise error_of(response.status, content, retry_after)
            yield response
            reusable = response.isclosed()
        except TimeoutError as error:
            message = f"{self._host}:{self._port}: no answer within {timeout_s} s"
            raise Silent(message) from error
        except _FAILURES as error:
            if isinstance(error, http.client.BadStatusLine):
                check_protocol(str(error).encode("latin-1", "replace"))
            why = reason(error, tls=self._tls is not None)
            message = f"{self._host}:{self._port}: {why}"
            raise DependencyDown(message) from error
        finally:
            if response is not None and not reusable:
                response.close()  # it may hold the socket that its connection has let go
            self._give_back(connection, reusable=reusable)

    def _send(self, connection: http.client.HTTPConnection, call: Call) -> None:
        """Send it, or as much as is taken: a service, or a proxy before it, may refuse a call and
        close while the body is still being sent. What it refused with has come then."""
        headers = {**self._headers, **call.headers}
        with suppress(ConnectionError):
            connection.request(call.method, call.path, body=call.body, headers=headers)

    def pauses(self) -> Iterator[float]:
        """The pauses of one call."""
        return self._backoff.pauses(self._randomness)

    def pause(
        self, pauses: Iterator[float], error: AssayError, deadline_s: float | None = None
    ) -> None:
        """Wait before a call is sent again.

        Raises:
            AssayError: `error`, when it is time to give up.
        """
        pause_s = next(pauses, None)
        if pause_s is None:
            raise error
        asked_s = error.retry_after_s * self._randomness.uniform(1.0, 1.25)
        wait_s = max(pause_s, asked_s)
        if deadline_s is not None:
            wait_s = min(wait_s, max(0.0, deadline_s - self.now_s()))
        self._sleep(wait_s)
        self._check_time(deadline_s, error)

    def _check_time(self, deadline_s: float | None, error: AssayError) -> None:
        if deadline_s is not None and self.now_s() >= deadline_s:
            raise DeadlinePassed(f"no answer in time: {error.message}") from error

    def _take(self, timeout_s: float | None) -> http.client.HTTPConnection:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is not None and _has_ended(connection):
            connection.close()
            connection = None
        if connection is None:
            connection = self._connection()
        connection.timeout = self.timeout_s
        if connection.sock is None:
            self._connect(connection)
        if connection.sock is not None:
            connection.sock.settimeout(timeout_s)
        return connection

    def _connect(self, connection: http.client.HTTPConnection) -> None:
        try:
            connection.connect()
            # A service whose machine is gone is noticed although the answer may take hours.
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except _FAILURES as error:
            connection.close()
            if is_not_tls(error):
                raise not_tls() from error
            message = f"{self._host}:{self._port}: {error or type(error).__name__}"
            raise DependencyDown(message) from error

    def _connection(self) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port)
        return http.client.HTTPSConnection(self._host, self._port, context=self._tls)

    def _give_back(self, connection: http.client.HTTPConnection, *, reusable: bool) -> None:
        if not reusable:
            connection.close()
            return
        with self._lock:
            self._idle.append(connection)


def _has_ended(connection: http.client.HTTPConnection) -> bool:
    """Whether the service has closed an idle connection: then it is readable."""
    if connection.sock is None:
        return True
    connection.sock.settimeout(0)
    try:
        connection.sock.recv(1)
    except (BlockingIOError, ssl.SSLWantReadError):
        return False
    except OSError:
        return True
    return True  # its end, or what no call has asked for
