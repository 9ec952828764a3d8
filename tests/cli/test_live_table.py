"""The live table of `assay up` waits for news of work, and asks for nothing meanwhile."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator
from types import SimpleNamespace

import pytest
from rich.text import Text

from assay.cli.platform import up
from assay.cli.platform.addresses import Addresses
from assay.cli.platform.up import _note_news
from assay.config.settings import Settings
from assay.core.errors import DependencyDown
from assay.core.ids import PipelineName, StageName, TaskId, TenantId
from assay.core.records import TaskRecord
from assay.edge.clock import Clock
from assay.testing.memory_store import MemoryStore

PATIENCE_S = 10.0
TASK = TaskRecord(
    tenant=TenantId("t"),
    task_id=TaskId("math"),
    pipeline=PipelineName("noop"),
    stages=(StageName("noop"),),
    settings_json=b"{}",
)


class Cut(MemoryStore):
    """Its first watch breaks."""

    watches = 0

    async def watch_planning(self) -> AsyncGenerator[None, None]:
        self.watches += 1
        if self.watches == 1:
            raise DependencyDown("the store is down")
        async for each in super().watch_planning():
            yield each


async def _told(news: asyncio.Event) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await news.wait()
    news.clear()


@pytest.mark.parametrize("kind", [MemoryStore, Cut])
async def test_work_is_news_and_quiet_is_none(kind: type[MemoryStore]) -> None:
    store, news = kind(Clock()), asyncio.Event()
    watching = asyncio.create_task(_note_news(store, news, Clock()))
    try:
        await _told(news)
        await asyncio.sleep(0.05)
        assert not news.is_set()
        await store.put_task(TASK)
        await store.hint(TASK.tenant, TASK.task_id, 1)
        await _told(news)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


class Quiet:
    """In place of `Asking`: counts its rests."""

    rests = 0

    async def __aenter__(self) -> "Quiet":
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def rest(self) -> None:
        Quiet.rests += 1


async def test_without_work_it_keeps_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = SimpleNamespace(is_calm=False, looks_like=lambda _: True)

    async def observe(*_: object, **__: object) -> SimpleNamespace:
        return seen

    monkeypatch.setattr(up, "Asking", Quiet)
    monkeypatch.setattr(up, "observe", observe)
    monkeypatch.setattr(up, "render", lambda _: Text(""))
    monkeypatch.setattr(up, "REFRESH_S", 0.01)
    addresses = Addresses(grpc="", http="", control="", store="")
    showing = asyncio.create_task(up._show(MemoryStore(Clock()), addresses, Settings(), Clock()))
    try:
        await asyncio.sleep(0.2)
        assert Quiet.rests == 0
        seen.is_calm = True
        async with asyncio.timeout(PATIENCE_S):
            while not Quiet.rests:
                await asyncio.sleep(0.01)
        assert not showing.done()
    finally:
        showing.cancel()
        await asyncio.gather(showing, return_exceptions=True)


RESTS = """
import asyncio, time
from pathlib import Path
from assay.cli.operate.status_client import Asking

def threads():
    return [one.read_text().strip() for one in Path("/proc/self/task").glob("*/comm")]

async def main():
    async with Asking() as asking:
        for _ in range(2):
            await asking.asked("127.0.0.1:1", "127.0.0.1:1")
            assert "event_engine" in threads()
            await asking.rest()
            deadline_s = time.monotonic() + 20
            while "event_engine" in threads():
                assert time.monotonic() < deadline_s, threads()
                await asyncio.sleep(0.05)

asyncio.run(main())
"""


def test_who_asks_has_no_threads_of_grpc_while_it_rests() -> None:
    done = subprocess.run([sys.executable, "-c", RESTS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
