"""Who is woken on every store, by what, and that no one waits for work that is already there.

Each test runs on the store in memory and on a real Valkey. Instants are each store's own, so
nothing here compares them with the test's clock; where time must pass, the test waits for what it
brings about.
"""

import asyncio

import pytest
from tests.store.driver import (
    FIRST,
    PATIENCE_S,
    SECOND,
    SHORT_S,
    Driver,
    reaped,
    requests,
)

from assay.config.settings import StoreSettings
from assay.core.ids import BatchId
from assay.store import wake
from assay.store.valkey import ValkeyStore


async def test_a_sleeping_worker_is_woken_by_work(drive: Driver) -> None:
    await drive.open()
    sleeper = asyncio.create_task(drive.store.wait_for_work([SECOND, FIRST], timeout_s=PATIENCE_S))
    await asyncio.sleep(0)
    await drive.submit(requests("a"))
    assert await sleeper == FIRST


async def test_work_that_is_there_wakes_at_once_and_none_times_out(drive: Driver) -> None:
    assert await drive.store.wait_for_work([FIRST], timeout_s=0.01) is None
    await drive.open()
    await drive.submit(requests("a"))
    assert await drive.store.wait_for_work([FIRST], timeout_s=PATIENCE_S) == FIRST


@pytest.mark.parametrize("how", ["hand_over", "fail", "give_back", "reap", "replay"])
async def test_whatever_puts_work_in_a_queue_wakes(drive: Driver, how: str) -> None:
    await drive.open()
    await drive.submit(requests("a"))
    stage = SECOND if how == "hand_over" else FIRST
    claims = await drive.claim(lease_s=SHORT_S if how == "reap" else 600.0)
    assert await drive.store.wait_for_work([FIRST, SECOND], timeout_s=0.01) is None
    sleeper = asyncio.create_task(drive.store.wait_for_work([stage], timeout_s=PATIENCE_S))
    await asyncio.sleep(0)
    match how:
        case "reap":
            await reaped(drive)
        case "replay":
            await drive.fail(claims, attempts_max=1)
            [letter] = await drive.store.dead_letters(letters_max=1)
            await drive.store.replay(letter.job_id)
        case _:
            await getattr(drive, how)(claims)
    assert await sleeper == stage


async def test_who_is_woken_in_vain_wakes_another(drive: Driver) -> None:
    await drive.open()
    await drive.submit(requests("a"))
    assert await drive.store.wait_for_work([FIRST], timeout_s=PATIENCE_S) == FIRST
    sleeper = asyncio.create_task(drive.store.wait_for_work([FIRST], timeout_s=PATIENCE_S))
    await asyncio.sleep(0)
    assert await drive.claim(0) == []
    assert await sleeper == FIRST
    assert len(await drive.claim(1)) == 1
    assert await drive.claim(0) == []
    assert await drive.store.wait_for_work([FIRST], timeout_s=0.01) is None


async def test_each_sleeper_that_finds_more_work_wakes_the_next(drive: Driver) -> None:
    await drive.open()

    async def work() -> str:
        assert await drive.store.wait_for_work([FIRST], timeout_s=PATIENCE_S) == FIRST
        [claim] = await drive.claim(1)
        return claim.request_id

    sleepers = [asyncio.create_task(work()) for _ in range(4)]
    await asyncio.sleep(0)
    await drive.submit(requests("a", "b", "c", "d"))
    assert sorted(await asyncio.gather(*sleepers)) == ["a", "b", "c", "d"]


async def test_a_watcher_sees_every_change_of_its_batch(drive: Driver) -> None:
    await drive.open(size=2)
    await drive.submit(requests("a", "b"))
    changes = drive.store.watch(BatchId("step-1"))
    await anext(changes)
    for number in (1, 2):
        await drive.score(await drive.claim(1))
        while len(await drive.results()) < number:
            await anext(changes)
    await changes.aclose()


async def test_many_watchers_are_woken_by_one_change(drive: Driver) -> None:
    await drive.open()
    await drive.submit(requests("a"))

    async def watch() -> None:
        changes = drive.store.watch(BatchId("step-1"))
        async for _ in changes:
            if await drive.results():
                break
        await changes.aclose()

    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(watch())
        await drive.score(await drive.claim())


class Stream:
    """A link whose stream has an event at each read, until there were this many."""

    prefix = "assay:"

    def __init__(self, events: int) -> None:
        self.left = events

    async def call(self, *_command: str | int) -> list[object]:
        return []

    async def wait(self, *_command: str | int, timeout_s: float) -> object:
        self.left -= 1
        if self.left < 0:
            await asyncio.Event().wait()
        return [[b"pev", [[b"1-0", [b"t", b"planning"]]]]]


async def test_events_may_gather_for_as_long_as_a_stream_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []
    done = asyncio.Event()
    turn = asyncio.sleep

    async def noted(seconds: float) -> None:
        slept.append(seconds)
        await turn(0)
        if len(slept) == 3:
            done.set()

    monkeypatch.setattr(asyncio, "sleep", noted)
    store = ValkeyStore(StoreSettings(), url="unix:///nowhere")
    watchers = store._planners
    monkeypatch.setattr(watchers, "_link", Stream(3))
    watching = watchers.watch("planning")
    await anext(watching)
    await done.wait()
    await watching.aclose()
    await watchers.close()
    assert slept == [wake.GATHER_PLANNING_S] * 3
