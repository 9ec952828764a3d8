"""`assay top`, `assay watch` and `assay batch describe` on a real store, as processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.e2e.commands import HANGS_S

from assay.cli.operate.batch import percentile
from assay.core.ids import BatchId, RequestId, StageName, TenantId, WorkerId
from assay.core.outcome import Outcome
from assay.core.records import (
    BatchSpec,
    EndRequest,
    FailAttempt,
    NewRequest,
    Quota,
    Report,
    StageReport,
    TaskRecord,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from assay.config.settings import StoreSettings
    from assay.store.port import Store

RED, STAGE, BATCH = TenantId("red"), StageName("noop"), BatchId("step-7")


@pytest.fixture
def started(store_settings: StoreSettings, tmp_path: Path) -> Callable[..., Any]:
    """Start `assay` on the test's store."""

    def start(*arguments: str) -> subprocess.Popen[str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("ASSAY_")}
        return subprocess.Popen(
            [sys.executable, "-m", "assay.cli", *arguments],
            env={
                **inherited,
                "ASSAY_DATA_DIR": str(tmp_path),
                "ASSAY_STORE__URL": store_settings.url,
                "ASSAY_STORE__SHARD": store_settings.shard,
                "COLUMNS": "200",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


def ended(process: subprocess.Popen[str], code: int = 0) -> str:
    """Its output, when it has ended with that code."""
    told, errors = process.communicate(timeout=HANGS_S)
    assert process.returncode == code, errors
    return told


async def open_batch(store: Store, requests: int) -> None:
    """A batch of `r0`, `r1` ..."""
    task: Any = TaskRecord(
        tenant=RED,
        task_id="t",  # type: ignore[arg-type]
        pipeline="noop",  # type: ignore[arg-type]
        stages=(STAGE,),
        settings_json=b"{}",
    )
    await store.put_task(task)
    spec: Any = BatchSpec(
        tenant=RED,
        batch_id=BATCH,
        task_id="t",  # type: ignore[arg-type]
        size=requests,
        group_size=0,
        deadline_after_ms=3_600_000,
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
    await store.submit(RED, BATCH, new, Quota())


async def judge(store: Store, claims: int, *, fail: bool = False) -> None:
    """End so many requests."""
    worker = WorkerId("w")
    held = await store.claim(STAGE, claims_max=claims, lease_s=60, worker=worker)
    report = StageReport(worker=worker, started_after_ns=10**8, finished_after_ns=2 * 10**8)
    finish: Any = EndRequest(outcome=Outcome.SCORED, reward=1.0, body=b"")
    if fail:
        finish = FailAttempt(error="[red]no[/red] compiler")
    reports = [Report(lease=one.lease, report=report, finish=finish) for one in held]
    await store.finish(STAGE, reports, attempts_max=1)


async def test_a_batch_is_followed_to_its_end_and_described(
    store: Store, started: Callable[..., Any]
) -> None:
    await open_batch(store, 3)
    watching = started("watch", BATCH, "--tenant", RED, "--json")
    first = json.loads(watching.stdout.readline())
    assert (first["state"], first["ended"], first["queued"]) == ("SEALED", 0, 3)
    await judge(store, 2)
    await judge(store, 1, fail=True)
    states = [first, *map(json.loads, ended(watching, 3).splitlines())]
    assert states[-1]["state"] == "COMPLETE"
    assert states[-1]["unjudged"] == {"INFRA_FAILED": pytest.approx(1 / 3)}
    assert all(one != other for one, other in pairwise(states)), "each once"

    found = json.loads(ended(started("batch", "describe", BATCH, "--tenant", RED, "--json")))
    assert found["batch"]["outcomes"] == {"SCORED": 2, "INFRA_FAILED": 1}
    [stage] = found["stages"]
    assert (stage["stage"], stage["requests"]) == ("noop", found["results_examined"])
    assert stage["wait_s_p50"] >= 0
    [failure] = found["failures"]
    assert (failure["request_id"], failure["error"]) == ("r2", "[red]no[/red] compiler")
    assert "No plan was made" in found["explanation"][0]

    for_people = ended(started("batch", "describe", BATCH, "--tenant", RED))
    assert "step-7 complete: 3/3 ended" in for_people
    assert "r2: INFRA_FAILED: [red]no[/red] compiler" in for_people, "an error is no markup"
    assert "step-7 complete" in ended(started("watch", BATCH, "--tenant", RED), 3)


async def test_what_is_not_there_is_told_in_a_line(started: Callable[..., Any]) -> None:
    for command in (("watch", "none"), ("batch", "describe", "none")):
        process = started(*command)
        _, errors = process.communicate(timeout=HANGS_S)
        assert process.returncode == 2
        assert "no batch none" in errors
        assert len(errors.splitlines()) == 1


async def test_top_shows_one_reading_after_the_other(
    store: Store, started: Callable[..., Any]
) -> None:
    await open_batch(store, 3)
    command = ("top", "--every-s", "0.1", "--readings", "3")
    lines = ended(started(*command, "--json")).splitlines()
    assert len(lines) == 3
    for line in map(json.loads, lines):
        assert [one["batch_id"] for one in line["batches"]] == [BATCH]
    assert ended(started(*command)).count("step-7") == 3


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.sampled_from([50, 95]))
def test_a_percentile_lies_between_the_values(values: list[float], part: int) -> None:
    found, rounding = percentile(values, part), 1e-9 * max(values)
    assert min(values) - rounding <= found <= max(values) + rounding
    below = sum(value <= found + rounding for value in values)
    assert below >= part / 100 * len(values) - 1
    assert percentile([values[0]], part) == values[0]
