"""The live table of `assay up` waits for news of work, and asks for nothing meanwhile."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from assay.cli.platform.up import _note_news
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
