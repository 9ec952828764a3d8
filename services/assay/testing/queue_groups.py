"""Groups of the store's model that one stage judges as a whole.

Invariants: a request at such a stage is a member of its group and in no queue; the group's own job
exists from the moment when all its requests that have not ended are members and no more can be
submitted, until it is judged or its last member is gone; a group is judged once.
"""

from collections.abc import Callable, Iterable

from assay.core.ids import GroupId, JobId, RequestId
from assay.core.outcome import Outcome
from assay.core.records import EndRequest, Member, NewRequest
from assay.testing.queue_records import Job, ModelBatch, ModelGroup

JUDGED_WITHOUT = "the group was judged without this request"
FAILED = EndRequest(outcome=Outcome.INFRA_FAILED, reward=None, body=b"")


def gather(job: Job) -> bool:
    """The request becomes a member; False if its group was, or is being, judged without it."""
    group = group_of(job)
    if group.judged or (group.own is not None and group.own.state != "queued"):
        return False
    job.state = "gathered"
    group.members[job.job_id] = job
    return True


def group_of(job: Job) -> ModelGroup:
    """The request's group."""
    return job.batch.groups[job.request.group_id]


def complete(batch: ModelBatch, group: ModelGroup) -> bool:
    """Whether its own job is to be queued."""
    if batch.closing is not None or group.own is not None or group.judged:
        return False
    whole = not batch.open or group.submitted == batch.spec.group_size
    return whole and 0 < len(group.members) == group.live


def open_groups(
    batch: ModelBatch, names: Iterable[GroupId], next_number: Callable[[], int], now_ns: int
) -> list[Job]:
    """The own jobs of those of the groups that are complete, to be queued."""
    opened: list[Job] = []
    for name in sorted(names):
        group = batch.groups[name]
        if batch.task.group_stage is not None and complete(batch, group):
            group.own = Job(
                job_id=JobId(f"g{next_number():015d}"),
                batch=batch,
                request=NewRequest(
                    request_id=RequestId(""), group_id=name, response=b"", reference=b""
                ),
                stage=batch.task.group_stage,
                arrived_ns=now_ns,
                enqueued_ns=now_ns,
                group=group,
            )
            opened.append(group.own)
    return opened


def members_of(group: ModelGroup) -> tuple[Member, ...]:
    """Its members as a worker gets them."""
    return tuple(
        Member(
            job_id=job.job_id,
            request_id=job.request.request_id,
            response=job.request.response,
            reference=job.request.reference,
            handover=job.handover,
            messages=job.request.messages,
            artifacts=job.request.artifacts,
        )
        for _, job in sorted(group.members.items())
    )
