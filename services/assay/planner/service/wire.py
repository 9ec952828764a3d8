"""Conversion between protobuf messages and plans; the only planner module that knows both."""

from collections.abc import Mapping, Sequence
from typing import Final, TypedDict

from assay.core.errors import InvalidRequest
from assay.core.ids import StageName
from assay.planner.session.messages import Change, HostState, PoolState
from assay.planner.session.plan_view import BatchView, PlanView, PoolSample, StageView
from assay.v1 import planner_pb2

NS_PER_MS = 1_000_000
SECONDS_MAX = 1e9
HOSTS_LISTED_MAX: Final = 1_024
CONDITION_CHARS_MAX: Final = 120
"""Of one pool: the API server's messages can be long."""
HOST_POOLS_LISTED_MAX: Final = 10_000
"""Of all listed hosts: the answer stays below what gRPC carries."""


def plan_message(plan: PlanView | None) -> planner_pb2.Plan:
    """Empty if there is no plan."""
    if plan is None:
        return planner_pb2.Plan()
    return planner_pb2.Plan(
        made_ns=plan.made_ns,
        bin_ms=plan.bin_ns // NS_PER_MS,
        stages=[stage_message(stage) for stage in plan.stages],
        batches=[batch_message(batch) for batch in plan.batches],
        order=plan.order,
        futures=plan.futures,
        simulations=plan.simulations,
        planning_s=plan.planning_s,
        reason=plan.reason,
        gap=plan.gap,
        cost=plan.cost,
        delay_cost=plan.delay_cost,
    )


def stage_message(stage: StageView) -> planner_pb2.StagePlan:
    """A stage of the plan as its message."""
    return planner_pb2.StagePlan(
        stage=stage.stage,
        slots=stage.slots,
        slots_min=stage.slots_min,
        slots_max=stage.slots_max,
        slots_peak=stage.slots_peak,
        slots_wanted=stage.slots_wanted,
        slots_by_bin=stage.slots_by_bin,
        busy_low=stage.busy_low,
        busy_high=stage.busy_high,
        bound_s=stage.bound_s,
        slots_bound=stage.slots_bound,
        planned_s=stage.planned_s,
        cost=stage.cost,
        startup_s=stage.startup_s,
        why=stage.why,
    )


def batch_message(batch: BatchView) -> planner_pb2.BatchOutlook:
    """A batch's delay and risk as their message."""
    return planner_pb2.BatchOutlook(
        tenant=batch.tenant,
        task_id=batch.task_id,
        batch_id=batch.batch_id,
        delay_budget_s=batch.delay_budget_s,
        delay_s=batch.delay_s,
        late_share=batch.late_share,
        size=batch.size,
        arrived=batch.arrived,
        ended=batch.ended,
        deadline_ns=batch.deadline_ns,
        deadline_at_risk=batch.at_risk,
        history=batch.history,
        source=batch.source,
    )


def sample_message(sample: PoolSample) -> planner_pb2.PoolSample:
    """One pool at one instant."""
    return planner_pb2.PoolSample(
        at_ns=sample.at_ns,
        stage=sample.stage,
        slots_planned=sample.planned,
        slots_desired=sample.desired,
        slots_ready=sample.ready,
        slots_busy=sample.busy,
        queued=sample.queued,
    )


def change_of(request: planner_pb2.WhatIfRequest) -> Change:
    """The conditions to plan with instead.

    Raises:
        InvalidRequest: a number is not valid.
    """
    budget_s = request.delay_budget_s if request.HasField("delay_budget_s") else None
    return Change(
        delay_budget_ns=None if budget_s is None else nanoseconds(budget_s, "delay_budget_s"),
        epsilon=request.epsilon if request.HasField("epsilon") else None,
        slots_max=dict(request.slots_max),
        cost=dict(request.cost),
        startup_ns={
            stage: nanoseconds(seconds, f"startup_s[{stage}]")
            for stage, seconds in request.startup_s.items()
        },
    )


def nanoseconds(seconds: float, field: str) -> int:
    """Whole nanoseconds.

    Raises:
        InvalidRequest: negative, not a number, or out of range.
    """
    if not 0 <= seconds <= SECONDS_MAX:
        raise InvalidRequest(f"{field}: {seconds} is not a valid time", field=field)
    return round(seconds * 1e9)


def pool_messages(
    pools: Sequence[PoolState], plan: PlanView | None
) -> list[planner_pb2.PoolSample]:
    """The pools as observed, beside what the plan wants of them now."""
    wanted = {} if plan is None else {stage.stage: stage.slots for stage in plan.stages}
    return [
        planner_pb2.PoolSample(
            stage=pool.stage,
            slots_planned=wanted.get(pool.stage, pool.desired),
            slots_desired=pool.desired,
            slots_ready=pool.ready,
            slots_busy=pool.busy,
        )
        for pool in pools
    ]


def condition_messages(
    pools: Sequence[PoolState], unserved: Mapping[StageName, int]
) -> list[planner_pb2.PoolCondition]:
    """What is wrong with which pool, and which stages' requests have none."""
    messages = [
        planner_pb2.PoolCondition(
            stage=stage, condition="NoPool", details=f"{count} requests wait for it"
        )
        for stage, count in sorted(unserved.items())
    ]
    for pool in pools:
        name, _, details = pool.condition.partition(":")
        if name:
            messages.append(
                planner_pb2.PoolCondition(stage=pool.stage, condition=name, details=details.strip())
            )
    return messages


def pool_message(pool: PoolState, core_cost: float | None = None) -> planner_pb2.PoolOfStage:
    """A stage's slots, with what is known of their start."""
    cost = pool.core_cost if core_cost is None else core_cost
    return planner_pb2.PoolOfStage(
        stage=pool.stage,
        slots_desired=pool.desired,
        slots_ready=pool.ready,
        slots_busy=pool.busy,
        slots_max=pool.slots_max or 0,
        startup=planner_pb2.StartupTimes(
            measured=pool.startup.measured,
            p50_s=pool.startup.p50_ns / 1e9,
            p90_s=pool.startup.p90_ns / 1e9,
        ),
        core_cost=cost or 0.0,
        condition=pool.condition[:CONDITION_CHARS_MAX],
    )


class ListedHosts(TypedDict):
    """Fields of `GetPoolsResponse`."""

    hosts: list[planner_pb2.WorkerHost]
    hosts_all: int


def host_messages(hosts: Sequence[HostState], stage: str) -> ListedHosts:
    """The hosts that serve a stage (empty: any), as many as are listed, and their number."""
    serving = [one for one in hosts if not stage or any(pool.stage == stage for pool in one.pools)]
    listed: list[planner_pb2.WorkerHost] = []
    pools_left = HOST_POOLS_LISTED_MAX
    for one in serving[:HOSTS_LISTED_MAX]:
        pools = [pool for pool in one.pools if stage in ("", pool.stage)]
        if len(pools) > pools_left:
            break
        pools_left -= len(pools)
        machine = one.machine
        listed.append(
            planner_pb2.WorkerHost(
                host=one.host,
                address=one.address,
                state=one.state,
                sandbox_mode=one.sandbox_mode,
                cores=machine.cores if machine else 0,
                memory_bytes=machine.memory_bytes if machine else 0,
                pools=[pool_message(pool, one.core_cost) for pool in pools],
            )
        )
    return ListedHosts(hosts=listed, hosts_all=len(serving))
