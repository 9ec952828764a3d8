"""One snapshot, as JSON for programs and as tables for people, under the same names."""

import io
import json
from dataclasses import replace

from rich.console import Console

from assay.cli.operate.snapshot import Pool, Snapshot
from assay.cli.operate.tables import render
from assay.core.ids import BatchId, StageName, TaskId, TenantId
from assay.core.outcome import Outcome
from assay.core.records import BatchRecord, BatchState, StageDepth

NOW_NS = 1_000 * 10**9

SNAPSHOT = Snapshot(
    at_ns=NOW_NS,
    store_round_trip_s=0.0004,
    sandbox_mode="namespaces+cgroup-v2",
    depths=[
        StageDepth(
            stage=StageName("python.run"), queued=1234, running=2, oldest_age_s=5.25, dead_letters=1
        )
    ],
    pools={"python.run": Pool(stage="python.run", slots_desired=4, slots_ready=3, slots_busy=2)},
    batches=[
        BatchRecord(
            tenant=TenantId("team-a"),
            batch_id=BatchId("b7"),
            task_id=TaskId("math"),
            state=BatchState.OPEN,
            size=512,
            group_size=8,
            opened_ns=NOW_NS - 10**9,
            deadline_ns=NOW_NS - 30 * 10**9,
            completed_ns=0,
            submitted=256,
            ended=128,
            queued=126,
            running=2,
            outcomes={Outcome.SCORED: 120, Outcome.INFRA_FAILED: 8},
            grouped=128,
            shift_micro=16_000_000,
            deadline_at_risk=True,
        )
    ],
)


def test_the_json_says_what_the_tables_say() -> None:
    plain = json.loads(json.dumps(SNAPSHOT.as_json()))
    assert plain["stages"][0]["slots_ready"] == 3
    assert plain["stages"][0]["queued"] == 1234
    assert plain["batches"][0]["outcomes"] == {"SCORED": 120, "INFRA_FAILED": 8}
    assert plain["batches"][0]["unjudged"] == {"INFRA_FAILED": 0.0625}
    assert plain["batches"][0]["bias_avoided"] == 0.125
    assert plain["batches"][0]["deadline_at_risk"] is True


def test_it_is_calm_without_work_and_with_every_slot_that_is_wanted() -> None:
    empty = replace(SNAPSHOT.depths[0], queued=0, running=0)
    ready = replace(SNAPSHOT.pools["python.run"], slots_ready=4)
    calm = replace(SNAPSHOT, depths=[empty], pools={"python.run": ready}, batches=[])
    assert calm.is_calm
    assert not replace(calm, batches=SNAPSHOT.batches).is_calm
    assert not replace(calm, depths=[replace(empty, queued=1)]).is_calm
    assert not replace(calm, depths=[replace(empty, running=1)]).is_calm
    assert not replace(calm, pools=SNAPSHOT.pools).is_calm
    assert not replace(calm, pools={}).is_calm  # no worker host answers


def test_it_looks_like_another_unless_something_has_changed() -> None:
    calm = replace(SNAPSHOT, batches=[])
    assert calm.looks_like(replace(calm, at_ns=NOW_NS + 1, store_round_trip_s=1.0))
    assert not calm.looks_like(replace(calm, planner="leading"))
    assert not SNAPSHOT.looks_like(SNAPSHOT)  # the time that batches have left passes


def test_the_planner_is_on_the_first_line() -> None:
    console = Console(file=io.StringIO(), width=200)
    console.print(render(replace(SNAPSHOT, planner="leading, plans 2 batches")))
    shown = console.file.getvalue()  # type: ignore[attr-defined]  # a StringIO
    assert "planner leading, plans 2 batches" in shown.splitlines()[0]


def test_a_person_sees_queue_slots_progress_and_a_late_batch() -> None:
    console = Console(file=io.StringIO(), width=200)
    console.print(render(SNAPSHOT))
    shown = console.file.getvalue()  # type: ignore[attr-defined]  # a StringIO
    for text in (
        "python.run",
        "1,234",
        "3/4",
        "namespaces+cgroup-v2",
        "128/512",
        "INFRA_FAILED 6.2%",
        "0.125",
        "-30 s at risk",
        "0.4 ms",
    ):
        assert text in shown
