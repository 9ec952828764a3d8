"""Plan a synthetic batch once, so that compilation and imports are paid before real work."""

from typing import Final

from assay.core.ids import BatchId, PipelineName, StageName, TaskId, TenantId
from assay.core.outcome import Outcome
from assay.core.records import (
    BatchHistory,
    BatchRecord,
    BatchState,
    InFlight,
    OpenWork,
    RequestHistory,
    TaskRecord,
)
from assay.planner.session.messages import PoolState, Snapshot, StageLimits, TaskHistory
from assay.planner.session.session import Session

SECOND_NS: Final = 10**9
STAGES: Final = (StageName("first"), StageName("second"))
TENANT, TASK, BATCH = TenantId("warm-up"), TaskId("warm-up"), BatchId("warm-up")


def warm_up(session: Session, replan_s: float) -> None:
    """Search for a plan, and plan again once with known peaks."""
    session.step(warm_up_look(0))
    session.step(warm_up_look(int(2 * replan_s * SECOND_NS)))


def warm_up_look(now_ns: int) -> Snapshot:
    """One task, one past batch, one open batch."""
    task = TaskRecord(
        tenant=TENANT,
        task_id=TASK,
        pipeline=PipelineName("warm-up"),
        stages=STAGES,
        settings_json=b"{}",
        trainer_cost_rate=1.0,
    )
    past = BatchHistory(
        batch_id=BATCH,
        opened_ns=0,
        completed_ns=0,
        deadline_ns=0,
        requests=tuple(
            RequestHistory(
                arrived_after_ns=k * SECOND_NS,
                service_ns=((k + 1) * SECOND_NS, 5 * SECOND_NS),
                outcome=Outcome.SCORED,
            )
            for k in range(8)
        ),
    )
    return Snapshot(
        now_ns=now_ns,
        origin_ns=0,
        leader=True,
        stages=tuple(
            StageLimits(
                stage=stage, timeout_ns=60 * SECOND_NS, slots_min=0, slots_max=4, cost=1.0,
                startup_ns=SECOND_NS,
            )
            for stage in STAGES
        ),
        pools=tuple(PoolState(stage=stage, desired=1, ready=1, busy=1) for stage in STAGES),
        work=(warm_up_work(task, now_ns),),
        hints=(),
        histories=(TaskHistory(task=task, batches=(past,)),),
    )  # fmt: skip


def warm_up_work(task: TaskRecord, now_ns: int) -> OpenWork:
    """One request runs, one waits, the others are to come."""
    return OpenWork(
        batch=BatchRecord(
            tenant=TENANT, batch_id=BatchId("now"), task_id=TASK, state=BatchState.OPEN, size=8,
            group_size=0, opened_ns=now_ns, deadline_ns=now_ns + 60 * SECOND_NS, completed_ns=0,
            submitted=2, ended=0, queued=1, running=1, outcomes={},
        ),
        task=task,
        number=0,
        order_deadline_ns=now_ns + 60 * SECOND_NS,
        ended_natural_ns=0,
        requests=tuple(
            InFlight(
                arrived_after_ns=0, stage=STAGES[0], service_ns=(0, 0), enqueued_ns=now_ns,
                claimed_ns=claimed_ns,
            )
            for claimed_ns in (now_ns, 0)
        ),
    )  # fmt: skip
