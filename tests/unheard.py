"""A pytest plugin: nothing goes wrong unheard while a test runs.

asyncio, uvicorn and gRPC write an error that no one waits for to the log, with its traceback: a
task or future whose error is not retrieved, a callback or an application that raises. A caller
that can cause one fills the log of a service, and what was to be done is not.
"""

import asyncio
import gc
import logging
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from assay.edge.logs import is_no_lost_client

LOGGERS = ("asyncio", "uvicorn.error", "grpc")
POLLER = "PollerCompletionQueue"
"""gRPC's own callback, which fails now and then where tests have had several event loops."""


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.said: list[str] = []
        self.addFilter(is_no_lost_client)

    def emit(self, record: logging.LogRecord) -> None:
        if POLLER not in record.getMessage():
            self.said.append(self.format(record))


@pytest.fixture(autouse=True)
def heard_errors(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the test in which one is logged; `logs_errors` is for those that are about that."""
    kept = _Kept()
    loggers = [logging.getLogger(name) for name in LOGGERS]
    for logger in loggers:
        logger.addHandler(kept)
    yield
    for logger in loggers:
        logger.removeHandler(kept)
    if request.node.get_closest_marker("logs_errors") is None:
        assert kept.said == [], "an error that no one has waited for"


async def leave(call: Coroutine[Any, Any, Any]) -> None:
    """Begin a call, and go away before it ends; what goes on then comes to its end."""
    caller = asyncio.create_task(call)
    await _turns(2)
    caller.cancel()
    await asyncio.wait((caller,))
    assert caller.cancelled()
    await _turns(20)
    gc.collect()


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def failing(error: Exception) -> Any:
    """Work that fails in a few turns of the loop."""
    await _turns(5)
    raise error
