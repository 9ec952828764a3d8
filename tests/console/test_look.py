"""What a viewer is shown of a reading: pure, so over generated readings."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.console.look import (
    OPERATOR_BATCHES_MAX,
    TENANT_BATCHES_MAX,
    Look,
    Outlook,
    PlannerLook,
    missing_by_task,
    shown,
)
from assay.console.viewer import Viewer
from assay.core.ids import BatchId, StageName, TaskId, TenantId
from assay.core.outcome import Outcome
from assay.core.records import BatchRecord, BatchState, StageDepth

RED, BLUE = TenantId("red"), TenantId("blue")


@st.composite
def batches(draw: st.DrawFn) -> BatchRecord:
    """A batch whose every name begins with its tenant's."""
    tenant = draw(st.sampled_from([RED, BLUE]))
    outcomes = draw(st.dictionaries(st.sampled_from(Outcome), st.integers(1, 9)))
    ended = sum(outcomes.values())
    queued, running = draw(st.integers(0, 9)), draw(st.integers(0, 9))
    over = draw(st.booleans())
    return BatchRecord(
        tenant=tenant,
        batch_id=BatchId(f"{tenant}-{draw(st.integers(0, 999))}"),
        task_id=TaskId(f"{tenant}-task-{draw(st.integers(0, 3))}"),
        state=BatchState.COMPLETE if over else BatchState.OPEN,
        size=0,
        group_size=0,
        opened_ns=1,
        deadline_ns=draw(st.integers(0, 10**10)),
        completed_ns=draw(st.integers(1, 10**10)) if over else 0,
        submitted=ended + queued + running,
        ended=ended,
        queued=queued,
        running=running,
        outcomes=outcomes,
        grouped=draw(st.integers(0, 9)),
        shift_micro=draw(st.integers(0, 10**6)),
    )


def look_at(found: list[BatchRecord]) -> Look:
    """A reading with these batches, and queues and a plan of both tenants."""
    stage = StageName("noop")
    return Look(
        at_ns=5,
        batches=[one for one in found if not one.over],
        completed=[one for one in found if one.over],
        open_counts={RED: 3, BLUE: 432_101_234_567_891},
        depths=[
            StageDepth(
                stage=stage,
                queued=876_501_234_567_891,
                running=543_201_234_567_891,
                oldest_age_s=77.123456789,
                dead_letters=9,
            )
        ],
        queues={stage: [(BLUE, 876_401_234_567_891), (RED, 1)]},
        planner=PlannerLook(
            state="leading",
            plan={"made_ns": 1, "blue-plan": 1},
            pools=[{"stage": "noop", "busy": 543_201_234_567_891}],
            conditions=[{"stage": "blue", "condition": "x", "details": "blue"}],
            hosts=[{"host": "blue-host", "state": "Counted"}],
            hosts_all=876_501_234_567_891,
            outlooks=[
                Outlook(
                    tenant=one.tenant,
                    batch_id=one.batch_id,
                    delay_s=1.0,
                    delay_budget_s=2.0,
                    late_share=0.0,
                )
                for one in found
            ],
        ),
    )


@given(st.lists(batches(), max_size=12))
def test_a_tenant_is_shown_nothing_of_another(found: list[BatchRecord]) -> None:
    part = shown(look_at(found), Viewer(RED))
    text = json.dumps(part, allow_nan=False)
    for secret in ("blue", "01234567891", "77.123456789"):
        assert secret not in text
    assert part["batches_open"] == 3
    assert part["planner"] is None
    assert part["stages"] == [{"stage": "noop", "queued": 1}]
    own = [one.batch_id for one in found if one.tenant == RED]
    told = [one["batch_id"] for one in (*part["batches"], *part["completed"])]
    assert sorted(told) == sorted(own)


@given(st.lists(batches(), max_size=12))
def test_a_tenants_part_is_the_same_whatever_others_do(found: list[BatchRecord]) -> None:
    own = [one for one in found if one.tenant == RED]
    assert shown(look_at(found), Viewer(RED)) == shown(look_at(own), Viewer(RED))


@given(st.lists(batches(), max_size=12))
def test_the_operator_is_shown_all(found: list[BatchRecord]) -> None:
    part = shown(look_at(found), Viewer(None))
    assert len(part["batches"]) + len(part["completed"]) == len(found)
    assert part["stages"][0]["tenants"][0] == {"tenant": "blue", "queued": 876_401_234_567_891}
    assert part["stages"][0]["pool"]["busy"] == 543_201_234_567_891
    assert part["batches_open"] == 432_101_234_567_894


@given(st.lists(batches(), max_size=12))
def test_missing_rewards_are_counted_once_and_their_bias_weighs_by_requests(
    found: list[BatchRecord],
) -> None:
    rows = missing_by_task(found)
    assert sum(row["ended"] for row in rows) == sum(one.ended for one in found)
    lost = sum(n for one in found for o, n in one.outcomes.items() if not o.carries_reward)
    assert sum(sum(row["unjudged"].values()) for row in rows) == lost
    for row in rows:
        some = [one for one in found if one.task_id == row["task_id"]]
        grouped = sum(one.grouped for one in some)
        shift = sum(one.shift_micro for one in some) / 1e6
        assert row["bias_avoided"] * grouped == pytest.approx(shift if grouped else 0.0)


def test_however_many_there_are_the_part_is_bounded() -> None:
    many = [
        BatchRecord(
            tenant=RED,
            batch_id=BatchId(f"b{n}"),
            task_id=TaskId("t"),
            state=BatchState.OPEN,
            size=1,
            group_size=0,
            opened_ns=1,
            deadline_ns=n,
            completed_ns=0,
            submitted=0,
            ended=0,
            queued=0,
            running=0,
            outcomes={},
        )
        for n in range(5_000)
    ]
    look = Look(at_ns=0, batches=many, open_counts={RED: 5_000})
    assert len(shown(look, Viewer(None))["batches"]) == OPERATOR_BATCHES_MAX
    assert len(shown(look, Viewer(RED))["batches"]) == TENANT_BATCHES_MAX
    assert len(json.dumps(shown(look, Viewer(None)))) < 100_000
