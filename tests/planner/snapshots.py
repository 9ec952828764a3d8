"""Looks at a platform, as values, to plan from."""

from collections.abc import Sequence

from assay.config.planning import PlanSettings
from assay.core.ids import BatchId, PipelineName, StageName, TaskId, TenantId
from assay.core.outcome import Outcome
from assay.core.records import (
    BatchHistory,
    BatchRecord,
    BatchState,
    HintRecord,
    InFlight,
    OpenWork,
    RequestHistory,
    TaskRecord,
)
from assay.planner.session.messages import PoolState, Snapshot, StageLimits, TaskHistory
from assay.planner.session.session import Session

S = 10**9
NOW = 1_800_000_000 * S
"""2027: further from 1970 than the simulations snapshot."""
TENANT = TenantId("team")
COMPILE, RUN, JUDGE = StageName("compile"), StageName("run"), StageName("judge")


def session(**changes: object) -> Session:
    return Session(
        PlanSettings.model_validate(
            {"futures": 8, "shape_futures": 4, "spare_slots": 5, "history_batches": 4, **changes}
        )
    )


def task(
    name: str = "t", stages: Sequence[StageName] = (COMPILE, RUN), **more: object
) -> TaskRecord:
    fields = {"batch_size": 20, "trainer_cost_rate": 8.0, **more}
    return TaskRecord(
        tenant=TENANT, task_id=TaskId(name), pipeline=PipelineName("p"), stages=tuple(stages),
        settings_json=b"{}", **fields,  # type: ignore[arg-type] # test data
    )  # fmt: skip


def limits(
    stages: Sequence[StageName] = (COMPILE, RUN), *, least: int = 0, most: int = 50
) -> tuple[StageLimits, ...]:
    return tuple(
        StageLimits(
            stage=stage, timeout_ns=60 * S, slots_min=least, slots_max=most, cost=0.025,
            startup_ns=S,
        )
        for stage in stages
    )  # fmt: skip


def pools(stages: Sequence[StageName] = (COMPILE, RUN), *, slots: int = 0) -> tuple[PoolState, ...]:
    return tuple(PoolState(stage=stage, desired=slots, ready=slots, busy=0) for stage in stages)


def past(
    name: str = "past",
    requests: int = 20,
    *,
    took_ns: Sequence[int] = (5 * S, S),
    every_ns: int = S,
) -> BatchHistory:
    return BatchHistory(
        batch_id=BatchId(name), opened_ns=NOW - 100 * S, completed_ns=NOW - 50 * S,
        deadline_ns=NOW - 40 * S,
        requests=tuple(
            RequestHistory(
                arrived_after_ns=k * every_ns, service_ns=tuple(took_ns), outcome=Outcome.SCORED
            )
            for k in range(requests)
        ),
    )  # fmt: skip


def in_flight(
    stage: StageName = COMPILE, *, arrived_ns: int = 0, claimed_ns: int = 0, stages: int = 2
) -> InFlight:
    return InFlight(
        arrived_after_ns=arrived_ns, stage=stage, service_ns=(0,) * stages,
        enqueued_ns=NOW, claimed_ns=claimed_ns,
    )  # fmt: skip


def work(
    one: TaskRecord | None = None,
    requests: Sequence[InFlight] = (),
    *,
    batch: str = "b",
    size: int = 20,
    ended: int = 0,
    submitted: int | None = None,
    opened_ns: int = NOW,
    state: BatchState = BatchState.OPEN,
    **more: object,
) -> OpenWork:
    one = one or task()
    arrived = len(requests) + ended if submitted is None else submitted
    running = sum(r.claimed_ns > 0 for r in requests)
    fields = {"number": 0, "order_deadline_ns": opened_ns + 60 * S, "ended_natural_ns": 0, **more}
    return OpenWork(
        batch=BatchRecord(
            tenant=TENANT, batch_id=BatchId(batch), task_id=one.task_id, state=state, size=size,
            group_size=0, opened_ns=opened_ns, deadline_ns=opened_ns + 60 * S, completed_ns=0,
            submitted=arrived, ended=ended, queued=len(requests) - running, running=running,
            outcomes={},
        ),
        task=one,
        requests=tuple(requests),
        **fields,  # type: ignore[arg-type] # test data
    )  # fmt: skip


def snapshot(*works: OpenWork, now_ns: int = NOW, **more: object) -> Snapshot:
    fields = {
        "leader": True, "stages": limits(), "pools": pools(), "hints": (), "histories": (),
        "origin_ns": NOW - 1000 * S, **more,
    }  # fmt: skip
    return Snapshot(now_ns=now_ns, work=works, **fields)  # type: ignore[arg-type] # test data


def hint(one: TaskRecord, *, size: int = 20, hinted_ns: int = NOW) -> tuple[HintRecord, TaskRecord]:
    record = HintRecord(tenant=TENANT, task_id=one.task_id, size=size, hinted_ns=hinted_ns)
    return record, one


def sent(one: TaskRecord, *batches: BatchHistory) -> TaskHistory:
    return TaskHistory(task=one, batches=batches)
