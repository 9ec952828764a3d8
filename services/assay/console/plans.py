"""The planner, asked over its gRPC port: the present plan, and why a batch was planned so."""

from collections.abc import Callable
from typing import Any, Final

import grpc

from assay.console.look import Outlook, PlannerLook
from assay.core.errors import DependencyDown
from assay.core.ids import BatchId, TenantId
from assay.core.store_limits import no_batch
from assay.edge.access.channels import LeftChannels, OperatorChannels
from assay.edge.auth import Operator
from assay.v1 import planner_pb2, planner_pb2_grpc

TIMEOUT_S: Final = 2.0
NO_PLANNER: Final = "no planner answers"


class PlannerClient:
    """Calls a planner whose address may change."""

    def __init__(self, address: Callable[[], str], operator: Operator) -> None:
        """Prepare without connecting; `address` returns `HOST:PORT`, or nothing: there is none."""
        self._address = address
        self._operator = operator
        self._connect = OperatorChannels(operator.tls)
        self._channel: grpc.aio.Channel | None = None
        self._called = ""
        self._left = LeftChannels()

    async def look(self) -> PlannerLook | None:
        """The planner's state, plan and pools; `None`: none answers."""
        stub = self._stub()
        if stub is None:
            return None
        try:
            answer = await stub.GetPlan(
                planner_pb2.GetPlanRequest(),
                timeout=TIMEOUT_S,
                metadata=self._operator.metadata,
            )
        except grpc.aio.AioRpcError:
            return None
        if not answer.leading:  # of several behind one address, the next connection may find it
            self._leave()
            return look_of(answer)
        stub = self._stub()  # another call may have found that its address has changed
        if stub is None:
            return look_of(answer)
        try:
            everywhere = await stub.GetPools(
                planner_pb2.GetPoolsRequest(),
                timeout=TIMEOUT_S,
                metadata=self._operator.metadata,
            )
        except grpc.aio.AioRpcError:  # no host answers it, or it is of an earlier release
            return look_of(answer)
        return look_of(answer, everywhere)

    async def explain(self, tenant: TenantId, batch_id: BatchId) -> dict[str, Any]:
        """The plans of a batch in words, and its pools over time.

        Raises:
            DependencyDown: no planner answers.
            NotFound: the batch is no longer kept.
        """
        stub = self._stub()
        if stub is None:
            raise DependencyDown(NO_PLANNER)
        request = planner_pb2.ExplainPlanRequest(batch_id=batch_id, tenant=tenant)
        try:
            answer = await stub.ExplainPlan(
                request, timeout=TIMEOUT_S, metadata=self._operator.metadata
            )
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                raise no_batch(batch_id) from error
            raise DependencyDown(NO_PLANNER) from error
        return {
            "explanation": list(answer.explanation),
            "samples": [_sample(sample) for sample in answer.samples],
            "plans": [
                {"made_ns": plan.made_ns, "reason": plan.reason, "cost": plan.cost}
                for plan in answer.plans
            ],
        }

    async def close(self) -> None:
        """Close the connection."""
        channel, self._channel = self._channel, None
        await self._left.close(channel)

    def _leave(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            self._left.leave(channel)

    def _stub(self) -> "planner_pb2_grpc.PlannerServiceAsyncStub | None":
        address = self._address()
        if address != self._called:
            self._leave()
            self._called = address
        if not address:
            return None
        if self._channel is None:
            self._channel = self._connect.to(address)
        return planner_pb2_grpc.PlannerServiceStub(self._channel)


def look_of(
    answer: planner_pb2.GetPlanResponse, everywhere: planner_pb2.GetPoolsResponse | None = None
) -> PlannerLook:
    """What a planner answered, as plain data.

    Args:
        answer: its plan; the pools in it are those of its last step.
        everywhere: the pools now, over all worker hosts, and the hosts, if it told.
    """
    now = {} if everywhere is None else {pool.stage: pool for pool in everywhere.pools}
    hosts = () if everywhere is None else everywhere.hosts
    return PlannerLook(
        state=answer.why,
        plan=_plan(answer.plan),
        pools=[{**_sample(pool), **_now(now.get(pool.stage))} for pool in answer.pools],
        hosts=[_host(host) for host in hosts],
        hosts_all=0 if everywhere is None else everywhere.hosts_all,
        conditions=[
            {"stage": one.stage, "condition": one.condition, "details": one.details}
            for one in answer.conditions
        ],
        outlooks=[
            Outlook(
                tenant=TenantId(one.tenant),
                batch_id=one.batch_id,
                delay_s=one.delay_s,
                delay_budget_s=one.delay_budget_s,
                late_share=one.late_share,
            )
            for one in answer.plan.batches
        ],
    )


def _plan(plan: planner_pb2.Plan) -> dict[str, Any]:
    if not plan.made_ns:
        return {}
    return {
        "made_ns": plan.made_ns,
        "bin_ms": plan.bin_ms,
        "reason": plan.reason,
        "futures": plan.futures,
        "simulations": plan.simulations,
        "planning_s": plan.planning_s,
        "gap": plan.gap,
        "cost": plan.cost,
        "delay_cost": plan.delay_cost,
        "stages": [
            {
                "stage": one.stage,
                "slots": one.slots,
                "slots_min": one.slots_min,
                "slots_max": one.slots_max,
                "slots_peak": one.slots_peak,
                "slots_wanted": one.slots_wanted,
                "slots_by_bin": list(one.slots_by_bin),
                "slots_bound": one.slots_bound,
                "why": one.why,
            }
            for one in plan.stages
        ],
    }


def _now(pool: planner_pb2.PoolOfStage | None) -> dict[str, Any]:
    if pool is None:
        return {}
    return {
        "desired": pool.slots_desired,
        "ready": pool.slots_ready,
        "busy": pool.slots_busy,
        "startup_p90_s": pool.startup.p90_s if pool.startup.measured else None,
    }


def _host(host: planner_pb2.WorkerHost) -> dict[str, Any]:
    return {
        "host": host.host,
        "state": host.state,
        "cores": host.cores,
        "sandbox_mode": host.sandbox_mode,
        "pools": [{"stage": pool.stage, **_now(pool)} for pool in host.pools],
    }


def _sample(sample: planner_pb2.PoolSample) -> dict[str, Any]:
    return {
        "at_ns": sample.at_ns,
        "stage": sample.stage,
        "planned": sample.slots_planned,
        "desired": sample.slots_desired,
        "ready": sample.slots_ready,
        "busy": sample.slots_busy,
        "queued": sample.queued,
    }
