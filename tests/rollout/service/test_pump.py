"""The threads that poll an engine: those who wait for one learn what ended it."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import pytest

from assay.core.errors import AssayError, DependencyDown
from assay.rollout.interface.rollouts import Completed, ScoreRequest
from assay.rollout.server.hub import Hub, StreamingEngine
from assay.rollout.service.pump import Pump

if TYPE_CHECKING:
    from assay.rollout.interface.rollout_engine import RolloutEngine

PATIENCE_S = 60.0


class Broken:
    """An engine whose `wait` ends with an error that no one foresaw."""

    def wait(self, _timeout_s: float) -> bool:
        raise OSError(24, "Too many open files")


class Heard:
    """What reached the event loop."""

    def __init__(self) -> None:
        self.failed: asyncio.Future[AssayError] = asyncio.get_running_loop().create_future()

    def on_ready(self, responses: Sequence[ScoreRequest], ended: Sequence[Completed]) -> None:
        raise AssertionError((responses, ended))

    def on_engine_failed(self, error: AssayError) -> None:
        self.failed.set_result(error)


async def test_an_unforeseen_error_of_the_engine_reaches_the_service() -> None:
    heard = Heard()
    pump = Pump(cast("RolloutEngine", Broken()), heard, asyncio.get_running_loop())
    pump.start()
    async with asyncio.timeout(PATIENCE_S):
        error = await heard.failed
    pump.stop()
    assert isinstance(error, DependencyDown)
    assert "Too many open files" in str(error)


async def test_an_unforeseen_error_of_the_engine_reaches_its_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(Hub, "down", lambda _hub, why: told.set_result(why))
    hub = Hub(cast("StreamingEngine", Broken()))
    async with asyncio.timeout(PATIENCE_S):
        assert "Too many open files" in await told
    hub.close()
