"""A slot's verdicts on a group, as a report to the store."""

import dataclasses

import pytest

from assay.core.ids import (
    BatchId,
    GroupId,
    JobId,
    PipelineName,
    RequestId,
    StageName,
    TaskId,
    TenantId,
)
from assay.core.outcome import Outcome
from assay.core.records import (
    Claim,
    EndRequest,
    FailAttempt,
    FinishGroup,
    HandOver,
    Lease,
    Member,
    TaskRecord,
)
from assay.worker.assignment import bytes_of, wire_work
from assay.worker.finish import finish_of
from assay.worker.slots.messages import (
    Said,
    SaidEnded,
    SaidFailed,
    SaidGroup,
    SaidHandedOver,
    read_verdicts,
)

MEASURE, COMPARE, AFTER = StageName("measure"), StageName("compare"), StageName("after")
TASK = TaskRecord(
    tenant=TenantId("acme"),
    task_id=TaskId("task"),
    pipeline=PipelineName("ranked"),
    stages=(MEASURE, COMPARE, AFTER),
    settings_json=b"{}",
    group_stage=COMPARE,
)
MEMBERS = tuple(
    Member(
        job_id=JobId(f"{number:016d}"),
        request_id=RequestId(f"r{number}"),
        response=b"12",
        reference=b"{}",
        handover=b"measured",
    )
    for number in (1, 2)
)
GROUP = Claim(
    lease=Lease(job_id=JobId("g000000000000003"), fence=1),
    stage=COMPARE,
    task=TASK,
    batch_id=BatchId("batch"),
    request_id=RequestId(""),
    group_id=GroupId("g"),
    attempt=1,
    response=b"",
    reference=b"",
    handover=b"",
    enqueued_ns=0,
    claimed_ns=0,
    deadline_ns=0,
    members=MEMBERS,
    submitted=3,
)
SCORED = SaidEnded(outcome=Outcome.SCORED, reward=1.0, body=b"")
RIGHT = EndRequest(outcome=Outcome.SCORED, reward=1.0, body=b"")
FAILED = SaidFailed(error="no judge")


def test_each_member_gets_its_own_verdict() -> None:
    said = SaidGroup(members=(SCORED, SaidHandedOver(handover=b"on")))
    assert finish_of(GROUP, said) == FinishGroup(
        members=(
            (MEMBERS[0].job_id, RIGHT),
            (MEMBERS[1].job_id, HandOver(next_stage=AFTER, handover=b"on")),
        )
    )


def test_a_member_that_could_not_be_judged_fails_alone_unless_none_could() -> None:
    some = finish_of(GROUP, SaidGroup(members=(SCORED, FAILED)))
    assert isinstance(some, FinishGroup)
    assert some.members[1][1] == FailAttempt(error="no judge")
    assert finish_of(GROUP, SaidGroup(members=(FAILED, FAILED))) == FailAttempt(error="no judge")


@pytest.mark.parametrize(
    "said",
    [
        SCORED,
        SaidHandedOver(handover=b""),
        SaidGroup(members=(SCORED,)),
        SaidGroup(members=(SCORED, SCORED, SCORED)),
        SaidGroup(members=(SCORED, dataclasses.replace(SCORED, unaudited=True))),
    ],
)
def test_verdicts_that_do_not_fit_the_group_are_a_failed_attempt(said: Said) -> None:
    assert isinstance(finish_of(GROUP, said), FailAttempt)


def test_verdicts_of_a_group_about_one_request_are_a_failed_attempt() -> None:
    single = dataclasses.replace(GROUP, stage=AFTER, members=())
    assert isinstance(finish_of(single, SaidGroup(members=(SCORED,))), FailAttempt)


def test_the_stage_before_says_that_the_next_gathers() -> None:
    single = dataclasses.replace(GROUP, stage=MEASURE, members=())
    finish = finish_of(single, SaidHandedOver(handover=b"m"))
    assert finish == HandOver(next_stage=COMPARE, handover=b"m", gathers=True)


def test_a_slot_gets_all_members_and_their_size_counts() -> None:
    work = wire_work(GROUP, 0)
    assert [member[1] for member in work.members] == [b"12", b"12"]
    assert work.submitted == 3
    assert bytes_of(GROUP) == 2 * (2 + 2 + len(b"measured"))


def test_verdicts_of_a_group_are_read_from_a_frame() -> None:
    frame = ["verdicts", [[0, 1, 2, ["group", [["failed", "no judge"]]]]], False]
    [verdict], _ = read_verdicts(frame, 1)
    assert verdict.said == SaidGroup(members=(FAILED,))
