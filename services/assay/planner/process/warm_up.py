"""A plan of nothing real, so that what has to be compiled or loaded is before the first batch."""

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
from assay.planner.session.messages import Look, PoolFacts, StageFacts, TaskHistory
from assay.planner.session.session import Planning

SECOND_NS: Final = 10**9
STAGES: Final = (StageName("first"), StageName("second"))
TENANT, TASK, BATCH = TenantId("practice"), TaskId("practice"), BatchId("practice")


def practise(planning: Planning, replan_s: float) -> None:
    """Search a plan and follow it up once."""
    planning.step(practice_look(0))
    planning.step(practice_look(int(2 * replan_s * SECOND_NS)))


def practice_look(now_ns: int) -> Look:
    """One task, one past batch, one batch under way."""
    task = TaskRecord(
        tenant=TENANT,
        task_id=TASK,
        pipeline=PipelineName("practice"),
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
    return Look(
        now_ns=now_ns,
        origin_ns=0,
        leader=True,
        stages=tuple(
            StageFacts(
                stage=stage, timeout_ns=60 * SECOND_NS, slots_min=0, slots_max=4, cost=1.0,
                startup_ns=SECOND_NS,
            )
            for stage in STAGES
        ),
        pools=tuple(PoolFacts(stage=stage, desired=1, ready=1, busy=1) for stage in STAGES),
        work=(practice_work(task, now_ns),),
        hints=(),
        histories=(TaskHistory(task=task, batches=(past,)),),
    )  # fmt: skip


def practice_work(task: TaskRecord, now_ns: int) -> OpenWork:
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
