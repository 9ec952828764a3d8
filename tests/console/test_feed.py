"""One reader for all who look; nothing is read while no one does; streams end with the service."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from assay.console import feed as feeds
from assay.console.feed import Feed
from assay.console.viewer import Viewer
from assay.core.errors import DependencyDown
from assay.core.ids import StageName, TenantId
from assay.core.records import BatchSpec, Quota, TaskRecord
from assay.edge.clock import Clock
from assay.store.link import Link
from assay.store.operations.viewing import Viewing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from assay.config.settings import StoreSettings
    from assay.console.look import PlannerLook
    from assay.store.port import Store

OPERATOR, RED = Viewer(None), Viewer(TenantId("red"))


class Planner:
    """Counts its calls; no planner runs."""

    def __init__(self) -> None:
        self.calls = 0
        self.error: BaseException | None = None

    async def look(self) -> PlannerLook | None:
        self.calls += 1
        if self.error is not None:
            raise self.error
        return None


class Scene:
    """A feed over a real store, and its planner's calls: one per reading."""

    def __init__(self, store: Store, settings: StoreSettings) -> None:
        self.planner = Planner()
        link = Link(settings.url, prefix=f"assay:{{{settings.shard}}}:", timeout_s=5.0)
        self.viewing = Viewing(link)
        self.feed = Feed(
            viewing=self.viewing,
            store=store,
            planner=self.planner,  # type: ignore[arg-type]  # of the same form
            stages=[StageName("noop")],
            clock=Clock(),
        )


@pytest.fixture
async def scene(
    store: Store, store_settings: StoreSettings, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Scene]:
    monkeypatch.setattr(feeds, "EVERY_S", 0.05)
    scene = Scene(store, store_settings)
    yield scene
    await scene.feed.stop()
    await scene.viewing.close()


async def first(scene: Scene, viewer: Viewer) -> tuple[str, Any]:
    async with asyncio.timeout(30):
        async for one in scene.feed.watch(viewer):
            kind, data = one.decode().strip().split("\n")
            return kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))
    raise AssertionError("the stream ended")


async def test_fifty_viewers_cost_one_reading(scene: Scene) -> None:
    async with asyncio.timeout(30):
        watching = [scene.feed.watch(OPERATOR) for _ in range(50)]
        await asyncio.gather(*(anext(one) for one in watching))
        await asyncio.gather(*(anext(one) for one in watching))
    assert scene.feed.viewers == 50
    assert scene.planner.calls <= 4
    for one in watching:
        await one.aclose()
    assert scene.feed.viewers == 0


async def test_nothing_is_read_while_no_one_looks(scene: Scene) -> None:
    await first(scene, OPERATOR)
    await asyncio.sleep(0)
    calls = scene.planner.calls
    await asyncio.sleep(0.3)
    assert scene.planner.calls == calls
    assert (await first(scene, OPERATOR))[0] == "look", "and again when someone does"


async def test_a_new_viewer_need_not_wait_for_the_next_reading(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "EVERY_S", 3_600.0)
    looking = scene.feed.watch(OPERATOR)
    await anext(looking)
    assert (await first(scene, RED))[1]["tenant"] == "red"
    await looking.aclose()


async def test_a_failed_reading_is_told_and_the_next_one_succeeds(scene: Scene) -> None:
    for error in (DependencyDown("the store is away"), RuntimeError("a bug")):
        scene.planner.error = error
        kind, data = await first(scene, OPERATOR)
        assert kind == "failed"
        assert ("away" in data["error"]["message"]) == isinstance(error, DependencyDown)
        assert "a bug" not in str(data)
    scene.planner.error = None
    assert (await first(scene, OPERATOR))[0] == "look"


async def test_a_reading_whose_call_is_cancelled_under_it_has_failed_and_the_next_succeeds(
    scene: Scene,
) -> None:
    """It would end as if the reader had been told to, and all who look would wait forever."""
    looking = scene.feed.watch(OPERATOR)
    async with asyncio.timeout(30):
        assert b"event: look" in await anext(looking)
        scene.planner.error = asyncio.CancelledError()
        while b"event: failed" not in await anext(looking):
            pass
        scene.planner.error = None
        while b"event: look" not in await anext(looking):
            pass
    await looking.aclose()


async def test_streams_end_when_the_service_stops(scene: Scene) -> None:
    looking = scene.feed.watch(OPERATOR)
    await anext(looking)
    ended = asyncio.ensure_future(anext(looking, None))
    await scene.feed.stop()
    async with asyncio.timeout(30):
        while (await ended) is not None:
            ended = asyncio.ensure_future(anext(looking, None))
    assert [one async for one in scene.feed.watch(RED)] == []


async def test_batches_are_counted_and_the_earliest_deadlines_shown(
    scene: Scene, store: Store
) -> None:
    tenants = [TenantId("red"), TenantId("blue")]
    for tenant in tenants:
        task: Any = TaskRecord(
            tenant=tenant,
            task_id="t",  # type: ignore[arg-type]
            pipeline="noop",  # type: ignore[arg-type]
            stages=(StageName("noop"),),
            settings_json=b"{}",
        )
        await store.put_task(task)
        for n in range(60):
            spec: Any = BatchSpec(
                tenant=tenant,
                batch_id=f"{tenant}-{n}",  # type: ignore[arg-type]
                task_id="t",  # type: ignore[arg-type]
                size=1,
                group_size=0,
                deadline_after_ms=1_000_000 - 1_000 * n,
            )
            await store.open_batch(spec, Quota())
    _, look = await first(scene, RED)
    assert look["batches_open"] == 60
    assert [one["batch_id"] for one in look["batches"]] == [f"red-{59 - n}" for n in range(50)]
    _, look = await first(scene, OPERATOR)
    assert look["batches_open"] == 120
    assert len(look["batches"]) == 100
