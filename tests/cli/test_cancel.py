"""`assay batch cancel` and `assay score --deadline`, as processes, on a real API."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING

import pytest
from tests.e2e.commands import assay

from assay.client import Client, Request

if TYPE_CHECKING:
    from pathlib import Path

    from tests.running import Running, RunWorker


async def test_a_batch_is_cancelled_by_request_by_group_and_whole(
    api: Running, tmp_path: Path
) -> None:
    async def cancelled(*named: str) -> object:
        done = await asyncio.to_thread(
            assay, "batch", "cancel", "b", "--json", "--url", api.addresses.grpc, *named,
            data_dir=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["cancelled"]

    async with Client(api.addresses.grpc) as client:
        task = await client.register_task("t", pipeline="noop")
        batch = await client.open_batch(task, batch_id="b", size=8)
        await batch.submit(
            Request(request_id=f"r{at}", group_id=f"g{at // 2}", response="x", reference={})
            for at in range(6)
        )
        assert await cancelled("--request", "r0", "--request", "nothing") == 1
        assert await cancelled("--group", "g1", "--request", "r0") == 2
        assert await cancelled() == 3
        assert await cancelled() == 0
        assert (await batch.status()).outcomes == {"CANCELLED": 6}


async def test_what_is_not_there_cannot_be_cancelled(api: Running, tmp_path: Path) -> None:
    for arguments, said in (
        (("nothing", "--url", api.addresses.grpc), "no batch nothing"),
        (("nothing", "--url", "127.0.0.1:1"), "127.0.0.1:1"),
        (("nothing",), ""),
    ):
        done = await asyncio.to_thread(assay, "batch", "cancel", *arguments, data_dir=tmp_path)
        assert done.returncode != 0
        assert said in done.stderr
        assert "Traceback" not in done.stderr


async def test_a_file_is_scored_for_an_instant(
    api: Running, run_worker: RunWorker, tmp_path: Path
) -> None:
    rows, out = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    rows.write_text(json.dumps({"request_id": "a", "response": "x", "reference": {}}) + "\n")
    instant = int(time.time()) + 3_600
    text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(instant))
    command = ("score", rows, "--pipeline", "noop", "--out", out, "--deadline", text)
    scoring = asyncio.create_task(
        asyncio.to_thread(assay, *command, "--url", api.addresses.grpc, data_dir=tmp_path)
    )
    while not (batches := await api.store.batches(batches_max=9)):
        assert not scoring.done(), scoring.result().stderr
        await asyncio.sleep(0.05)
    assert [one.deadline_ns for one in batches] == [instant * 10**9]
    await run_worker()
    assert (await scoring).returncode == 0


@pytest.mark.parametrize("text", ["tomorrow", "2026-12-01T08:00:00", "12"])
def test_an_instant_has_an_offset(tmp_path: Path, text: str) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("{}\n")
    done = assay(
        "score", rows, "--pipeline", "noop", "--out", tmp_path / "out.jsonl", "--deadline", text,
        data_dir=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2
    assert "--deadline" in done.stderr
