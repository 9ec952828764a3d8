"""Connections to the server, timeouts, and the mapping of failures to errors.

No call is ever repeated here: a call whose reply was lost may have been executed, so only the
caller, which knows what is idempotent, repeats it. Blocking calls have their own connections.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from assay.core.errors import DependencyDown, FailedPrecondition, Saturated
from assay.store.redis_client import (
    AskError,
    BlockingConnectionPool,
    ClusterCrossSlotError,
    ClusterError,
    Connection,
    NoBackoff,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    Redis,
    ResponseError,
    Retry,
)
from assay.store.redis_client import (
    ConnectionError as LostConnection,
)
from assay.store.redis_client import (
    TimeoutError as ConnectTimeout,
)
from assay.store.script import Script

SLICE: Final = 64
"""Most requests that one script call moves: the server runs one call at a time, and every tenant's
next call waits that long (about 2 ms)."""
CALLS_CONCURRENT_MAX: Final = 32
"""Connections for calls that do not block; further calls wait for one."""
WAITS_CONCURRENT_MAX: Final = 1_024
"""Connections for calls that block."""
BLOCK_GRACE_S: Final = 5.0
"""How much longer than its own timeout a blocking call may take."""
CONNECT_TIMEOUT_S: Final = 3.0
_SERVER_UNFIT: Final = ("MISCONF", "MASTERDOWN", "CLUSTERDOWN", "NOREPLICAS", "BUSY", "LOADING")
"""Prefixes of errors that are about the server's state, not about the call."""
_SERVER_REFUSES: Final = (
    *(NoPermissionError, ReadOnlyError, ClusterError),
    *(AskError, ClusterCrossSlotError),  # MOVED is a kind of the former
)
"""Errors that only the operator can fix."""

Reply = Any  # A RESP reply: bytes, int, None or lists of them; each caller knows its shape.
Argument = bytes | str | int | float


class Link:
    """One server, identified by a URL; connects on first use and reconnects as needed."""

    def __init__(self, url: str, *, prefix: str, timeout_s: float) -> None:
        """Prepare without connecting.

        Raises:
            FailedPrecondition: `url` is not the URL of a store.
        """
        self.prefix = prefix
        self.changes = 0
        """Changes when the server was lost or connected to: it may be another server now."""
        self._url = url
        self._timeout_s = timeout_s
        self._calls = self._client(CALLS_CONCURRENT_MAX)
        self._waits = self._client(WAITS_CONCURRENT_MAX)

    def _client(self, connections_max: int) -> Redis:
        try:
            pool: BlockingConnectionPool = BlockingConnectionPool.from_url(
                self._url,
                max_connections=connections_max,
                timeout=self._timeout_s,
                socket_timeout=None,
                socket_connect_timeout=CONNECT_TIMEOUT_S,
                retry=Retry(NoBackoff(), 0),
                protocol=2,
                driver_info=None,
                redis_connect_func=self._connected,
            )
        except ValueError as error:
            message = f"store.url: {error}"
            raise FailedPrecondition(message, field="store.url") from error
        client = Redis.from_pool(pool)
        client.response_callbacks.clear()  # replies as the protocol has them
        return client

    async def _connected(self, connection: Connection) -> None:
        self.changes += 1
        await connection.on_connect()

    def key(self, kind: str, *names: str) -> str:
        """The key of a record, as the head of `scripts/requests.lua` lists them."""
        return f"{self.prefix}{kind}:{':'.join(names)}"

    @contextmanager
    def _named_failures(self) -> Iterator[None]:
        try:
            yield
        except (LostConnection, ConnectTimeout, TimeoutError, OSError, *_SERVER_REFUSES) as error:
            self.changes += 1
            message = f"store: {str(error) or type(error).__name__}"
            raise DependencyDown(message) from error
        except OutOfMemoryError as error:
            message = "the store's memory is full"
            raise Saturated(message, retry_after_s=5.0) from error
        except ResponseError as error:
            if str(error).startswith(_SERVER_UNFIT):
                message = f"store: {error}"
                raise DependencyDown(message) from error
            raise

    async def run(self, script: Script, *arguments: Argument) -> Reply:
        """Run a script with the prefix as its only key."""
        with self._named_failures():
            async with asyncio.timeout(self._timeout_s):
                try:
                    return await self._calls.execute_command(
                        "EVALSHA", script.sha, 1, self.prefix, *arguments
                    )
                except NoScriptError:  # nothing was executed
                    return await self._calls.execute_command(
                        "EVAL", script.text, 1, self.prefix, *arguments
                    )

    async def call(self, *command: Argument) -> Reply:
        """One command."""
        with self._named_failures():
            async with asyncio.timeout(self._timeout_s):
                return await self._calls.execute_command(*command)

    async def call_all(self, commands: Sequence[tuple[Argument, ...]]) -> Sequence[Reply]:
        """Commands in one round trip, not as a transaction."""
        with self._named_failures():
            async with asyncio.timeout(self._timeout_s):
                async with self._calls.pipeline(transaction=False) as pipeline:
                    for command in commands:
                        pipeline.execute_command(*command)
                    replies: Sequence[Reply] = await pipeline.execute()
                    return replies

    async def wait(self, *command: Argument, timeout_s: float) -> Reply:
        """One command that blocks for up to `timeout_s`, on a separate connection."""
        with self._named_failures():
            async with asyncio.timeout(timeout_s + BLOCK_GRACE_S):
                return await self._waits.execute_command(*command)

    async def close(self) -> None:
        """Close all connections; calls in progress fail."""
        await self._calls.aclose()
        await self._waits.aclose()
