"""Claims as a worker host gets and holds them."""

from collections.abc import Sequence

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
from assay.core.records import Claim, Lease, TaskRecord
from assay.worker.assignment import (
    HeldClaim,
)


def claim(name: str = "r", *, settings: bytes = b"{}", stages: Sequence[str] = ("s",)) -> Claim:
    """A claim of the first of `stages`."""
    task = TaskRecord(
        tenant=TenantId("t"),
        task_id=TaskId("task"),
        pipeline=PipelineName("p"),
        stages=tuple(map(StageName, stages)),
        settings_json=settings,
    )
    return Claim(
        lease=Lease(job_id=JobId(name), fence=1),
        stage=task.stages[0],
        task=task,
        batch_id=BatchId("b"),
        request_id=RequestId(name),
        group_id=GroupId(""),
        attempt=1,
        response=b"",
        reference=b"",
        handover=b"",
        enqueued_ns=0,
        claimed_ns=0,
        deadline_ns=0,
    )


def held(name: str = "r", *, payload_bytes: int = 10, alone: bool = False) -> HeldClaim:
    """A claim in this host's hands."""
    return HeldClaim(claim=claim(name), claimed_ns=0, payload_bytes=payload_bytes, alone=alone)
