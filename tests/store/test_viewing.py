"""Reads for the console agree with the store's own, over real batches in a real server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from assay.core.ids import BatchId, JobId, RequestId, StageName, TenantId, WorkerId
from assay.core.outcome import Outcome
from assay.core.records import (
    BatchSpec,
    EndRequest,
    FailAttempt,
    NewRequest,
    Quota,
    Report,
    ResultRecord,
    StageReport,
    TaskRecord,
)
from assay.store.link import Link
from assay.store.operations import viewing as views
from assay.store.operations.viewing import Viewing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from assay.config.settings import StoreSettings
    from assay.store.port import Store

STAGE, RED, BATCH = StageName("noop"), TenantId("red"), BatchId("b")
WORKER = WorkerId("w")
ATTEMPTS_MAX = 2


@pytest.fixture
async def viewing(store_settings: StoreSettings) -> AsyncIterator[Viewing]:
    link = Link(store_settings.url, prefix=f"assay:{{{store_settings.shard}}}:", timeout_s=5.0)
    opened = Viewing(link)
    yield opened
    await opened.close()


async def fill(store: Store, tenant: TenantId, requests: int, size: int = 0) -> None:
    """A batch of `r0`, `r1` ..."""
    task: Any = TaskRecord(
        tenant=tenant,
        task_id="t",  # type: ignore[arg-type]
        pipeline="noop",  # type: ignore[arg-type]
        stages=(STAGE,),
        settings_json=b"{}",
    )
    await store.put_task(task)
    spec: Any = BatchSpec(
        tenant=tenant,
        batch_id=BATCH,
        task_id="t",  # type: ignore[arg-type]
        size=size,
        group_size=0,
        deadline_after_ms=60_000,
    )
    await store.open_batch(spec, Quota())
    new: Any = [
        NewRequest(
            request_id=RequestId(f"r{n}"),
            group_id="",  # type: ignore[arg-type]
            response=b"x",
            reference=b"{}",
        )
        for n in range(requests)
    ]
    await store.submit(tenant, BATCH, new, Quota())


async def judge(store: Store, claims: int, *, reward: float | None = None) -> None:
    """Give so many claims this reward, or fail them."""
    report = StageReport(worker=WORKER, started_after_ns=1, finished_after_ns=2)
    held = await store.claim(STAGE, claims_max=claims, lease_s=30, worker=WORKER)
    finish: Any = FailAttempt(error="the tool broke")
    if reward is not None:
        finish = EndRequest(outcome=Outcome.SCORED, reward=reward, body=b"")
    reports = [Report(lease=one.lease, report=report, finish=finish) for one in held]
    await store.finish(STAGE, reports, ATTEMPTS_MAX)


async def test_a_request_is_found_wherever_it_is(
    store: Store, viewing: Viewing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "ENTRIES_A_CALL", 2)
    await fill(store, RED, 9)
    await judge(store, 3, reward=1.0)
    await store.claim(STAGE, claims_max=1, lease_s=30, worker=WORKER)
    states = []
    for n in range(9):
        name = RequestId(f"r{n}")
        ended = await viewing.ended(RED, BATCH, name)
        waiting = await viewing.open_request(RED, BATCH, name)
        assert (ended is None) != (waiting is None)
        states.append("ENDED" if waiting is None else waiting.state)
        if waiting is not None:
            assert waiting.stage == STAGE
            assert (waiting.claimed_ns > 0) == (waiting.state == "RUNNING")
            assert waiting.worker == ("w" if waiting.state == "RUNNING" else "")
        else:
            assert ended is not None
            assert ended.request_id == name
    assert states == ["ENDED"] * 3 + ["RUNNING"] + ["QUEUED"] * 5
    for unknown in ("r", "r10", "x"):
        assert await viewing.ended(RED, BATCH, RequestId(unknown)) is None
        assert await viewing.open_request(RED, BATCH, RequestId(unknown)) is None


async def test_a_failed_attempt_shows_its_error_and_a_replay_the_last_end(
    store: Store, viewing: Viewing
) -> None:
    await fill(store, RED, 1, size=1)
    await judge(store, 1)
    waiting = await viewing.open_request(RED, BATCH, RequestId("r0"))
    assert waiting is not None
    assert (waiting.attempts, waiting.error) == (1, "the tool broke")
    await judge(store, 1)
    ended = await viewing.ended(RED, BATCH, RequestId("r0"))
    assert ended is not None
    assert ended.outcome is Outcome.INFRA_FAILED
    [letter] = await viewing.dead_letters(RED, letters_max=9)
    assert await viewing.replay(letter.job_id, RED)
    await judge(store, 1, reward=0.5)
    ended = await viewing.ended(RED, BATCH, RequestId("r0"))
    assert ended is not None
    assert ended.reward == 0.5


async def test_dead_letters_are_those_of_the_tenant(store: Store, viewing: Viewing) -> None:
    blue = TenantId("blue")
    for tenant in (RED, blue):
        await fill(store, tenant, 2, size=2)
    for _ in range(ATTEMPTS_MAX):
        await judge(store, 4)
    everyones = await viewing.dead_letters(None, letters_max=9)
    assert sorted(one.job_id for one in everyones) == sorted(
        one.job_id for one in await store.dead_letters(letters_max=9)
    )
    own = await viewing.dead_letters(RED, letters_max=9)
    assert [one.tenant for one in own] == [RED, RED]
    assert not await viewing.replay(own[0].job_id, blue), "not his"
    assert not await viewing.replay(JobId("0" * 16), RED), "no one's"
    assert len(await viewing.dead_letters(None, letters_max=9)) == 4
    assert await viewing.replay(own[0].job_id, None), "the operator may"


async def test_names_queues_and_tenants(store: Store, viewing: Viewing) -> None:
    blue = TenantId("blue")
    await fill(store, RED, 3)
    await fill(store, blue, 2, size=2)
    assert set(await viewing.open_names(10)) == {(RED, BATCH), (blue, BATCH)}
    assert len(await viewing.open_names(1)) == 1
    assert sorted((await viewing.queues([STAGE]))[STAGE]) == [(blue, 2), (RED, 3)]
    assert await viewing.queues([]) == {}
    assert set(await viewing.tenants(9)) == {RED, blue}
    assert await viewing.completed_names(blue, 5) == []
    await judge(store, 5, reward=1.0)
    assert await viewing.completed_names(blue, 5) == [(blue, BATCH)]
    gone = BatchId("gone")
    [found] = await viewing.batches([(blue, BATCH), (blue, gone)])
    assert found == await store.get_batch(blue, BATCH)


@pytest.mark.parametrize("at_once", [1, 2, 3, 7, 100])
async def test_pages_of_results_have_each_wanted_one_once(
    store: Store, viewing: Viewing, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(views, "ENTRIES_A_CALL", at_once)
    await fill(store, RED, 20)
    for n in range(20):
        await judge(store, 1, reward=float(n % 3))

    def is_wanted(result: ResultRecord) -> bool:
        return result.reward == 1.0

    before, names = await viewing.log_length(RED, BATCH), []
    while before:
        found, left = await viewing.results_before(
            RED, BATCH, before, wanted=is_wanted, results_max=2, entries_max=5
        )
        assert len(found) <= 2
        assert before - left <= 5
        assert left < before
        names += [one.request_id for one in found]
        before = left
    assert names == [f"r{n}" for n in reversed(range(20)) if n % 3 == 1]
