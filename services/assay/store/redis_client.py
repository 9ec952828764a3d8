"""The client library of the server, loaded without its metrics.

`redis` imports the metrics of OpenTelemetry where they are installed: 90 modules, a tenth of a
second of CPU time in every process and command. Assay has its own metrics and never turns those of
the library on. Every module imports the library from here.
"""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_METRICS: Final = "opentelemetry"


@contextmanager
def _not_installed(name: str) -> Iterator[None]:
    """Let imports of a module fail during the block, unless it is imported already."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # how the import system marks it
    try:
        yield
    finally:
        del sys.modules[name]


with _not_installed(_METRICS):
    from redis._parsers import BaseParser
    from redis.asyncio import BlockingConnectionPool as BlockingConnectionPool
    from redis.asyncio import Connection as Connection
    from redis.asyncio import Redis as Redis
    from redis.asyncio.retry import Retry as Retry
    from redis.backoff import NoBackoff as NoBackoff
    from redis.exceptions import AskError as AskError
    from redis.exceptions import AuthenticationError as AuthenticationError
    from redis.exceptions import AuthorizationError as AuthorizationError
    from redis.exceptions import ClusterCrossSlotError as ClusterCrossSlotError
    from redis.exceptions import ClusterError as ClusterError
    from redis.exceptions import ConnectionError as ConnectionError
    from redis.exceptions import NoPermissionError as NoPermissionError
    from redis.exceptions import NoScriptError as NoScriptError
    from redis.exceptions import OutOfMemoryError as OutOfMemoryError
    from redis.exceptions import ReadOnlyError as ReadOnlyError
    from redis.exceptions import RedisError as RedisError
    from redis.exceptions import ResponseError as ResponseError
    from redis.exceptions import TimeoutError as TimeoutError


def reply_error(text: str) -> Exception:
    """The library's exception for an error reply."""
    parser: Any = BaseParser
    error: Exception = parser.parse_error(text)
    return error


def take_stream(connection: Connection) -> asyncio.StreamWriter:
    """The stream of a connection that was just made; the library uses it no more.

    It has no public name for this. Keep the stream: it closes its transport when it is collected.
    """
    held: Any = connection
    writer: asyncio.StreamWriter = held._writer  # noqa: SLF001
    held._reader = held._writer = None  # noqa: SLF001
    return writer
