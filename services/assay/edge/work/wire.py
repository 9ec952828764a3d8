"""Work in the messages of `WorkService`, in both directions: the API's side and the worker's.

Names and enumerations are checked where they arrive from a worker; what arrives from the API is
trusted.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from assay.core.errors import InvalidRequest
from assay.core.ids import (
    BatchId,
    GroupId,
    JobId,
    PipelineName,
    RequestId,
    StageName,
    TaskId,
    TenantId,
    WorkerId,
)
from assay.core.outcome import Outcome
from assay.core.records import (
    Artifact,
    Claim,
    EndRequest,
    FailAttempt,
    Finish,
    FinishGroup,
    GiveBack,
    HandOver,
    Lease,
    Member,
    Report,
    StageReport,
    TaskRecord,
)
from assay.edge.wire import OUTCOME
from assay.v1 import worker_pb2

ERROR_CHARS_MAX: Final = 4_000
GROUP_JOB: Final = "g"
"""First letter of a group's own job, as in `store/scripts/gathering.lua`."""
MEMBERS_MAX: Final = 1_024
SERVICE_NS_MAX: Final = 7 * 86_400 * 10**9
_OUTCOMES: Final = {number: outcome for outcome, number in OUTCOME.items()}


# -- claims, to the worker -------------------------------------------------------------------------
def task_message(task: TaskRecord) -> worker_pb2.WorkTask:
    """What a worker needs of a task."""
    return worker_pb2.WorkTask(
        tenant=task.tenant,
        task_id=task.task_id,
        pipeline=task.pipeline,
        stages=task.stages,
        settings_json=task.settings_json,
        group_stage=task.group_stage or "",
    )


def task_of(message: worker_pb2.WorkTask) -> TaskRecord:
    """Without batch size, budget and cost, which no worker needs."""
    return TaskRecord(
        tenant=TenantId(message.tenant),
        task_id=TaskId(message.task_id),
        pipeline=PipelineName(message.pipeline),
        stages=tuple(StageName(stage) for stage in message.stages),
        settings_json=message.settings_json,
        group_stage=StageName(message.group_stage) if message.group_stage else None,
    )


def _content_message(of: Claim | Member) -> worker_pb2.WorkContent:
    return worker_pb2.WorkContent(
        response=of.response,
        reference=of.reference,
        handover=of.handover,
        messages=of.messages,
        artifacts=[
            worker_pb2.WorkArtifact(name=one.name, content=one.content) for one in of.artifacts
        ],
    )


def _artifacts(content: worker_pb2.WorkContent) -> tuple[Artifact, ...]:
    return tuple(Artifact(one.name, one.content) for one in content.artifacts)


def claim_message(claim: Claim, *, lease: str, task: int) -> worker_pb2.WorkClaim:
    """A claim; `lease` is what the worker shows for it, `task` the index of its task."""
    return worker_pb2.WorkClaim(
        lease=lease,
        fence=claim.lease.fence,
        task=task,
        batch_id=claim.batch_id,
        request_id=claim.request_id,
        group_id=claim.group_id,
        attempt=claim.attempt,
        enqueued_ns=claim.enqueued_ns,
        claimed_ns=claim.claimed_ns,
        deadline_ns=claim.deadline_ns,
        content=None if claim.members else _content_message(claim),
        members=[
            worker_pb2.WorkMember(
                job_id=one.job_id, request_id=one.request_id, content=_content_message(one)
            )
            for one in claim.members
        ],
        submitted=claim.submitted,
    )


def claims_of(message: worker_pb2.ClaimResponse) -> list[Claim]:
    """The claims; the `job_id` of a lease is what has to be shown for it."""
    stage = StageName(message.stage)
    tasks = [task_of(task) for task in message.tasks]
    return [_claim(one, stage, tasks) for one in message.claims]


def _claim(one: worker_pb2.WorkClaim, stage: StageName, tasks: Sequence[TaskRecord]) -> Claim:
    return Claim(
        lease=Lease(job_id=JobId(one.lease), fence=one.fence),
        stage=stage,
        task=tasks[one.task],
        batch_id=BatchId(one.batch_id),
        request_id=RequestId(one.request_id),
        group_id=GroupId(one.group_id),
        attempt=one.attempt,
        response=one.content.response,
        reference=one.content.reference,
        handover=one.content.handover,
        enqueued_ns=one.enqueued_ns,
        claimed_ns=one.claimed_ns,
        deadline_ns=one.deadline_ns,
        messages=one.content.messages,
        artifacts=_artifacts(one.content),
        members=tuple(
            Member(
                job_id=JobId(member.job_id),
                request_id=RequestId(member.request_id),
                response=member.content.response,
                reference=member.content.reference,
                handover=member.content.handover,
                messages=member.content.messages,
                artifacts=_artifacts(member.content),
            )
            for member in one.members
        ),
        submitted=one.submitted,
    )


# -- reports, from the worker ----------------------------------------------------------------------
def report_message(report: Report) -> worker_pb2.WorkReport:
    """The end of a claim."""
    return worker_pb2.WorkReport(
        lease=worker_pb2.WorkLease(lease=report.lease.job_id, fence=report.lease.fence),
        slot=report.report.worker.rpartition("/")[2],
        started_after_ns=report.report.started_after_ns,
        finished_after_ns=report.report.finished_after_ns,
        finish=finish_message(report.finish),
    )


def finish_message(finish: Finish, *, job_id: str = "") -> worker_pb2.WorkFinish:
    """How it ended; with `job_id`: a member of a group."""
    message = worker_pb2.WorkFinish(job_id=job_id)
    match finish:
        case EndRequest():
            message.end.outcome = OUTCOME[finish.outcome]
            message.end.body = finish.body
            if finish.reward is not None:
                message.end.reward = finish.reward
        case HandOver():
            message.hand_over.handover = finish.handover
        case FailAttempt():
            message.fail.error = finish.error
        case GiveBack():
            message.give_back.SetInParent()
        case FinishGroup():
            members = [finish_message(one, job_id=job) for job, one in finish.members]
            message.group.members.extend(members)
            message.group.SetInParent()
    return message


Next = tuple[StageName, bool] | None
"""The stage after the claim's own, and whether it judges whole groups; `None`: it is the last."""


def report_of(
    message: worker_pb2.WorkReport, *, job_id: JobId, worker: WorkerId, following: Next, field: str
) -> Report:
    """A worker's report on what was leased to it.

    Args:
        message: the report.
        job_id: of its lease, which was verified.
        worker: who reports.
        following: where a hand-over goes: the worker does not choose.
        field: name of the message, for errors.

    Raises:
        InvalidRequest: it is malformed.
    """
    _refuse_other_kind(message.finish, job_id, f"{field}.finish")
    finished_ns = min(max(message.finished_after_ns, 0), SERVICE_NS_MAX)
    slot = message.slot[:200] if message.slot.isprintable() else ""
    return Report(
        lease=Lease(job_id=job_id, fence=message.lease.fence),
        report=StageReport(
            worker=WorkerId(f"{worker}/{slot}"),
            started_after_ns=min(max(message.started_after_ns, 0), finished_ns),
            finished_after_ns=finished_ns,
        ),
        finish=_finish_of(message.finish, following, f"{field}.finish"),
    )


def _refuse_other_kind(message: worker_pb2.WorkFinish, job_id: JobId, field: str) -> None:
    """Refuse the verdict on one request for a group and the other way round: what is left over
    would never end."""
    kind, is_group = message.WhichOneof("kind"), job_id.startswith(GROUP_JOB)
    if kind == "group" and not is_group:
        problem = f"{field}.group: what was leased is one request"
        raise InvalidRequest(problem, field=f"{field}.group")
    if kind in {"end", "hand_over"} and is_group:
        raise InvalidRequest(f"{field}: what was leased is a group", field=field)


def _finish_of(message: worker_pb2.WorkFinish, following: Next, field: str) -> Finish:
    match message.WhichOneof("kind"):
        case "give_back":
            return GiveBack()
        case "group":
            return _group_of(message.group, following, field)
        case _:
            return _request_of(message, following, field)


def _group_of(message: worker_pb2.WorkFinishGroup, following: Next, field: str) -> FinishGroup:
    if len(message.members) > MEMBERS_MAX:
        problem = f"{field}.group.members: at most {MEMBERS_MAX}"
        raise InvalidRequest(problem, field=f"{field}.group.members")
    named = enumerate(message.members)
    return FinishGroup(
        members=tuple(
            (JobId(one.job_id), _request_of(one, following, f"{field}.group.members[{index}]"))
            for index, one in named
        )
    )


def _request_of(
    message: worker_pb2.WorkFinish, following: Next, field: str
) -> EndRequest | HandOver | FailAttempt:
    match message.WhichOneof("kind"):
        case "end":
            return _end_of(message.end, f"{field}.end")
        case "fail":
            return FailAttempt(error=message.fail.error[-ERROR_CHARS_MAX:])
        case "hand_over" if following is not None:
            stage, gathers = following
            return HandOver(next_stage=stage, handover=message.hand_over.handover, gathers=gathers)
        case "hand_over":
            problem = f"{field}.hand_over: the stage is the last one"
            raise InvalidRequest(problem, field=f"{field}.hand_over")
        case _:
            raise InvalidRequest(f"{field}.kind: missing", field=f"{field}.kind")


def _end_of(message: worker_pb2.WorkEnd, field: str) -> EndRequest | FailAttempt:
    outcome = _OUTCOMES.get(message.outcome)
    if message.outcome and outcome is None:  # of a later release: the others' reports still count
        return FailAttempt(error=f"{field}.outcome: {message.outcome} is not known to this release")
    reward = message.reward if message.HasField("reward") else None
    if outcome is None or outcome not in _OF_WORKERS:
        raise InvalidRequest(
            f"{field}.outcome: a worker may not report this outcome", field=f"{field}.outcome"
        )
    if outcome.carries_reward != (reward is not None):
        problem = f"{field}.reward: goes with the outcomes that carry one"
        raise InvalidRequest(problem, field=f"{field}.reward")
    if reward is not None and not math.isfinite(reward):
        raise InvalidRequest(f"{field}.reward: not a finite number", field=f"{field}.reward")
    return EndRequest(outcome=outcome, reward=reward, body=message.body)


_OF_WORKERS: Final = frozenset(
    outcome
    for outcome in Outcome
    if outcome.carries_reward or outcome in {Outcome.INFRA_FAILED, Outcome.REJECTED_INVALID}
)


def leases_message(leases: Sequence[Lease]) -> list[worker_pb2.WorkLease]:
    """Leases as the worker shows them."""
    return [worker_pb2.WorkLease(lease=one.job_id, fence=one.fence) for one in leases]


def limits_message(
    limits: Mapping[str, tuple[int, int]],
) -> dict[str, worker_pb2.PermitCost]:
    """Cost and allowance per kind."""
    return {
        kind: worker_pb2.PermitCost(cost=cost, allowance_per_minute=most)
        for kind, (cost, most) in limits.items()
    }
