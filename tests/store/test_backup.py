"""A backup made while the store is written starts as a store of its own, with what was
acknowledged before the backup began."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from assay.config.settings import StoreSettings
from assay.core.errors import DependencyDown, FailedPrecondition
from assay.core.ids import BatchId, RequestId, StageName, TenantId, WorkerId
from assay.core.outcome import Outcome
from assay.core.records import (
    BatchSpec,
    BatchState,
    EndRequest,
    NewRequest,
    Quota,
    Report,
    StageReport,
    TaskRecord,
)
from assay.store.backup import back_up
from assay.store.embedded import EmbeddedValkey
from assay.store.valkey import ValkeyStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

RED, STAGE = TenantId("red"), StageName("noop")
REQUESTS = 40


@asynccontextmanager
async def serving(data_dir: Path) -> AsyncIterator[ValkeyStore]:
    """The embedded store of a data directory."""
    server = EmbeddedValkey(data_dir)
    await server.start()
    store = ValkeyStore(StoreSettings(timeout_s=30), url=server.url, embedded=True)
    try:
        yield store
    finally:
        await store.close()
        await server.stop()


async def put_batch(store: ValkeyStore, number: int) -> None:
    """A batch of which half of the requests have ended."""
    task: Any = TaskRecord(
        tenant=RED,
        task_id="t",  # type: ignore[arg-type]
        pipeline="noop",  # type: ignore[arg-type]
        stages=(STAGE,),
        settings_json=b"{}",
    )
    await store.put_task(task)
    batch = BatchId(f"b{number}")
    spec: Any = BatchSpec(
        tenant=RED,
        batch_id=batch,
        task_id="t",  # type: ignore[arg-type]
        size=REQUESTS,
        group_size=0,
        deadline_after_ms=3_600_000,
    )
    await store.open_batch(spec, Quota())
    new: Any = [
        NewRequest(
            request_id=RequestId(f"r{n}"),
            group_id="",  # type: ignore[arg-type]
            response=bytes(1_000),
            reference=b"{}",
        )
        for n in range(REQUESTS)
    ]
    await store.submit(RED, batch, new, Quota())
    await judge(store, REQUESTS // 2)


async def judge(store: ValkeyStore, claims: int) -> int:
    """End so many requests; returns how many there were."""
    worker = WorkerId("w")
    held = await store.claim(STAGE, claims_max=claims, lease_s=2, worker=worker)
    report = StageReport(worker=worker, started_after_ns=1, finished_after_ns=2)
    finish = EndRequest(outcome=Outcome.SCORED, reward=0.1, body=b"")
    reports = [Report(lease=one.lease, report=report, finish=finish) for one in held]
    await store.finish(STAGE, reports, attempts_max=3)
    return len(held)


async def test_a_backup_under_load_is_a_store_with_all_that_was_acknowledged(
    tmp_path: Path,
) -> None:
    target = tmp_path / "copy"
    async with serving(tmp_path / "data") as store:
        for number in range(5):
            await put_batch(store, number)
        before = [await store.get_batch(RED, BatchId(f"b{n}")) for n in range(5)]
        over = asyncio.Event()

        async def keep_writing() -> None:
            number = 5
            while not over.is_set():
                await put_batch(store, number)
                number += 1

        writing = asyncio.create_task(keep_writing())
        try:
            copied = await back_up(tmp_path / "data", target)
        finally:
            over.set()
            await writing
    assert copied > 5 * REQUESTS * 1_000
    shutil.rmtree(tmp_path / "data")  # the machine is gone
    async with serving(target) as store:
        await store.check()
        for record in before:
            found = await store.get_batch(RED, record.batch_id)
            assert found.submitted == REQUESTS
            assert found.ended >= record.ended
            results = await store.results(RED, record.batch_id, cursor=0, entries_max=100)
            assert len(results) == found.ended
        async with asyncio.timeout(60):
            for record in before:
                while (await store.get_batch(RED, record.batch_id)).ended < REQUESTS:
                    await judge(store, 64)
                    await store.reap(STAGE, attempts_max=3, jobs_max=100)  # of workers gone
        for record in before:
            state = await store.get_batch(RED, record.batch_id)
            assert (state.state, state.ended) == (BatchState.COMPLETE, REQUESTS)


async def test_the_log_is_rewritten_as_before_afterwards(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as store:
        percentage = ("CONFIG", "GET", "auto-aof-rewrite-percentage")
        before = await store._link.call(*percentage)
        await store._link.call("BGREWRITEAOF")
        await back_up(tmp_path / "data", tmp_path / "copy")
        assert await store._link.call(*percentage) == before != [b"", b"0"]
        with pytest.raises(FailedPrecondition, match="exists"):
            await back_up(tmp_path / "data", tmp_path / "copy")
        with pytest.raises(FailedPrecondition):
            await back_up(tmp_path / "data", tmp_path / "data" / "run" / "no" / ("x" * 300))
        assert await store._link.call(*percentage) == before
    with pytest.raises(DependencyDown):
        await back_up(tmp_path / "data", tmp_path / "late")
    assert not (tmp_path / "late").exists()
    assert not (tmp_path / "late.partial").exists()


def test_the_command_says_what_it_needs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "assay.cli", "store", "backup", str(tmp_path / "copy")]
    ended = subprocess.run(
        [*command, "--data-dir", str(tmp_path / "none"), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert "no platform runs" in ended.stderr
