"""One connection to the reward service, and when a call on it is repeated.

Invariants: only calls that are idempotent and may succeed unchanged are repeated (`DependencyDown`,
`Saturated`), never sooner than the server asked for, and for a bounded time. A stream continues
from the cursor of the last page that was yielded, or from the one that `again` returns, which is
called before each new stream call: after a failure, and every `LISTEN_S` in any case.
"""

import asyncio
import atexit
import ctypes
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar, cast
from urllib.parse import urlsplit
from weakref import WeakSet

import grpc

from assay.client import forks, variables
from assay.client.backoff import Backoff
from assay.client.channels import LoopChannel
from assay.client.failures import WORTH_REPEATING, error_of
from assay.core.errors import AssayError, DeadlinePassed, DependencyDown, InvalidRequest

AnswerT = TypeVar("AnswerT")
Sleep = Callable[[float], Awaitable[object]]

PORT_DEFAULT: Final = 8470
RECEIVE_BYTES_MAX: Final = 256 * 1024**2
KEEPALIVE_MS: Final = 20_000
LISTEN_S: Final = 10.0
"""Duration of one call of a stream."""
_OPTIONS: Final = [
    ("grpc.max_receive_message_length", RECEIVE_BYTES_MAX),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_MS),
    ("grpc.http2.ping_timeout_ms", KEEPALIVE_MS),
    ("grpc.initial_reconnect_backoff_ms", 100),
    # Despite its name this is how long one connection attempt, including TLS, may take.
    ("grpc.min_reconnect_backoff_ms", 10_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # One connection per client: a failure of one does not slow another.
    ("grpc.use_local_subchannel_pool", 1),
    # We retry ourselves, depending on the server's error.
    ("grpc.enable_retries", 0),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The client's certificate and key, for services that ask for one over TLS."""

    certificate_chain: bytes | None
    """PEM."""
    private_key: bytes | None
    """PEM."""


class Connection:
    """A gRPC channel and a retry policy."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None,
        root_certificates: bytes | None,
        identity: Identity | None = None,
        backoff: Backoff,
        timeout_s: float,
        sleep: Sleep = asyncio.sleep,
        randomness: random.Random | None = None,
    ) -> None:
        forks.check_grpc()
        later: object = LoopChannel(_maker(url, root_certificates, identity))
        self.channel = cast("grpc.aio.Channel", later)  # as much of one as stubs need
        self.metadata = _metadata(variables.token_of(token))
        self._backoff = backoff
        self._timeout_s = timeout_s
        self._sleep = sleep
        self._randomness = randomness or random.Random()  # noqa: S311 spreads pauses only

    async def call(self, method: Callable[..., Awaitable[AnswerT]], request: object) -> AnswerT:
        """Send until it is answered, refused permanently, or the time of the backoff has passed.

        Raises:
            AssayError: the last error of the server.
        """
        try:
            return await self._repeat(method, request, self._timeout_s, (DeadlinePassed,))
        except DeadlinePassed as error:
            # Our limit, not the caller's: a peer that does not answer counts as unreachable.
            raise DependencyDown(f"no answer: {error.message}") from error

    async def call_waiting(
        self,
        method: Callable[..., Awaitable[AnswerT]],
        request: object,
        *,
        timeout_s: float | None,
    ) -> AnswerT:
        """As `call`, for one that waits for work; `timeout_s` is the caller's, over all attempts.

        Raises:
            DeadlinePassed: `timeout_s` passed.
            AssayError: the last error of the server.
        """
        try:
            async with asyncio.timeout(timeout_s):
                return await self._repeat(method, request, timeout_s, ())
        except TimeoutError:
            raise DeadlinePassed(f"no answer within {timeout_s} s") from None

    async def _repeat(
        self,
        method: Callable[..., Awaitable[AnswerT]],
        request: object,
        timeout_s: float | None,
        also: tuple[type[AssayError], ...],
    ) -> AnswerT:
        pauses = self._backoff.pauses(self._randomness)
        while True:
            try:
                return await method(request, timeout=timeout_s, metadata=self.metadata)
            except grpc.aio.AioRpcError as failed:
                error = error_of(failed)
                if not isinstance(error, WORTH_REPEATING + also):
                    raise error from failed
            await self._pause(pauses, error)

    async def stream(
        self,
        method: Callable[..., Any],
        request_from: Callable[[int], object],
        cursor: int,
        *,
        again: Callable[[int], Awaitable[int]],
    ) -> AsyncGenerator[Any, None]:
        """Yield a stream's messages; after a lost connection, continue from the last one's cursor.

        Raises:
            AssayError: refused permanently, or the connection was not restored in time.
        """
        pauses = self._backoff.pauses(self._randomness)
        while True:
            call = method(request_from(cursor), timeout=LISTEN_S, metadata=self.metadata)
            try:
                async for message in call:
                    pauses = self._backoff.pauses(self._randomness)
                    cursor = message.cursor
                    yield message
            except grpc.aio.AioRpcError as failed:
                error = error_of(failed)
                if isinstance(error, WORTH_REPEATING):
                    await self._pause(pauses, error)
                elif not isinstance(error, DeadlinePassed):
                    raise error from failed
            else:
                return
            finally:
                call.cancel()
            cursor = await again(cursor)

    async def hold_open(
        self, method: Callable[..., Any], request: object, opened: asyncio.Event
    ) -> None:
        """Keep a stream open until the server ends it; after a lost connection, open it again.

        The stream needs nothing of this event loop while it is open: gRPC's own threads answer for
        the connection.

        Args:
            method: the stream; its messages are dropped.
            request: what opens it.
            opened: set by the first message.

        Raises:
            AssayError: refused permanently, or the connection was not restored in time.
        """
        pauses = self._backoff.pauses(self._randomness)
        while True:
            call = method(request, metadata=self.metadata)
            try:
                async for _ in call:
                    pauses = self._backoff.pauses(self._randomness)
                    opened.set()
            except grpc.aio.AioRpcError as failed:
                error = error_of(failed)
                if not isinstance(error, WORTH_REPEATING):
                    raise error from failed
                await self._pause(pauses, error)
            else:
                return
            finally:
                call.cancel()

    async def close(self) -> None:
        """Close the channel of this event loop; calls in progress are cancelled."""
        await self.channel.close()

    async def _pause(self, pauses: Iterator[float], error: AssayError) -> None:
        pause_s = next(pauses, None)
        if pause_s is None:
            raise error
        # Plus up to a quarter at random, so that clients with the same delay do not return
        # together.
        asked_s = error.retry_after_s * self._randomness.uniform(1.0, 1.25)
        await self._sleep(max(pause_s, asked_s))


def _maker(
    url: str, root_certificates: bytes | None, identity: Identity | None
) -> Callable[[], grpc.aio.Channel]:
    """What makes a channel; the files that variables name are read now.

    Raises:
        InvalidRequest: `url` is malformed, or a file cannot be read.
    """
    target, tls = _target(url)
    if tls:
        root_certificates = (
            variables.authorities() if root_certificates is None else root_certificates
        )
        identity = identity or _of_variables()
    if tls or root_certificates is not None or identity is not None:
        shown = identity or Identity(certificate_chain=None, private_key=None)
        return partial(_channel, target, root_certificates, shown)
    return partial(_channel, target, None, None)


def _channel(
    target: str, root_certificates: bytes | None, shown: Identity | None
) -> grpc.aio.Channel:
    """A channel of the running loop, over TLS if there is something to show."""
    if shown is None:
        made = grpc.aio.insecure_channel(target, options=_OPTIONS)
    else:
        credentials = grpc.ssl_channel_credentials(
            root_certificates, shown.private_key, shown.certificate_chain
        )
        made = grpc.aio.secure_channel(target, credentials, options=_OPTIONS)
    _channels.add(made)
    return made


def _of_variables() -> Identity | None:
    """The certificate and key that the environment variables name."""
    files = variables.identity()
    if files is None:
        return None
    chain, key = files
    return Identity(
        certificate_chain=variables.read(variables.CERTIFICATE, chain),
        private_key=variables.read(variables.KEY, key),
    )


_channels: Final[WeakSet[grpc.aio.Channel]] = WeakSet()


def _leave_the_poller() -> None:
    """Let the process end while a channel is open.

    With its last object gRPC ends its poller and waits for it. In an interpreter that shuts down
    the poller may never say that it ended, and the wait keeps a core busy forever
    (grpc/grpc#22365; seen with 1.66). So that no channel is the last object, each gets a reference
    that is not given back; the poller's thread dies with the process.
    """
    for channel in _channels:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(channel))


atexit.register(_leave_the_poller)


def _target(url: str) -> tuple[str, bool]:
    """`host:port`, `grpc://host:port` or `grpcs://host:port` (TLS) -> target, whether TLS.

    Raises:
        InvalidRequest: it is in no such form.
    """
    message = f"url: {url!r} is not host:port, grpc://host:port or grpcs://host:port"
    try:
        parts = urlsplit(url if "://" in url else f"grpc://{url}")
        port = parts.port or PORT_DEFAULT
    except ValueError as error:
        raise InvalidRequest(f"{message}: {error}", field="url") from None
    if parts.scheme not in {"grpc", "grpcs"} or not parts.hostname or parts.path.strip("/"):
        raise InvalidRequest(message, field="url")
    variables.check_no_user(parts)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{host}:{port}", parts.scheme == "grpcs"


def _metadata(token: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {token}"),) if token else ()
