"""Take a snapshot of a platform: from its store, and from its worker host."""

import asyncio
from collections.abc import Sequence

import grpc

from assay.cli.operate.snapshot import Pool, Snapshot
from assay.config.settings import load_settings
from assay.core.ids import StageName
from assay.edge.auth import Operator
from assay.edge.clock import Clock
from assay.edge.grpc_edge import operator_channel
from assay.store.port import Store
from assay.v1 import planner_pb2, planner_pb2_grpc, worker_pb2, worker_pb2_grpc
from assay.verifiers.registry import load_pipelines

BATCHES_MAX = 100
POOLS_TIMEOUT_S = 2.0


def all_stages() -> Sequence[StageName]:
    """Stages of all pipelines, in the order of the pipelines."""
    pipelines = load_pipelines().values()
    return list(dict.fromkeys(stage for pipeline in pipelines for stage in pipeline.spec.stages))


def operator_port(address: str) -> grpc.aio.Channel:
    """A channel to the pool service or the planner, with the operator's token of the settings."""
    return operator_channel(address, Operator(load_settings().operator))


async def list_pools(control: str) -> worker_pb2.ListPoolsResponse | None:
    """Ask a worker host; `None` when it does not answer."""
    async with operator_port(control) as channel:
        stub = worker_pb2_grpc.PoolServiceStub(channel)
        try:
            return await stub.ListPools(worker_pb2.ListPoolsRequest(), timeout=POOLS_TIMEOUT_S)
        except grpc.aio.AioRpcError:
            return None


async def resize_pool(control: str, *, stage: str, slots: int) -> Pool:
    """Set the size of a stage's pool.

    Raises:
        grpc.aio.AioRpcError: the worker host refuses or does not answer.
    """
    async with operator_port(control) as channel:
        stub = worker_pb2_grpc.PoolServiceStub(channel)
        request = worker_pb2.ResizePoolRequest(stage=stage, slots=slots)
        answer = await stub.ResizePool(request, timeout=POOLS_TIMEOUT_S)
    return _pool(answer.pool)


async def ask_planner(address: str) -> str:
    """What the planner says of itself, in a few words."""
    if not address:
        return "none: pools keep their size"
    async with operator_port(address) as channel:
        stub = planner_pb2_grpc.PlannerServiceStub(channel)
        try:
            answer = await stub.GetPlan(planner_pb2.GetPlanRequest(), timeout=POOLS_TIMEOUT_S)
        except grpc.aio.AioRpcError:
            return "does not answer"
    if not answer.ready:
        return f"not ready: {answer.why}"
    if answer.plan.batches:
        return f"{answer.why}, plans {len(answer.plan.batches)} batches"
    return answer.why


async def observe(store: Store, control: str, *, clock: Clock, planner: str = "") -> Snapshot:
    """Look once. `planner` is where one listens.

    Raises:
        DependencyDown: the store cannot be reached.
    """
    round_trip_s = await store.ping()
    depths, batches, pools, planning = await asyncio.gather(
        store.depths(all_stages()),
        store.batches(batches_max=BATCHES_MAX),
        list_pools(control),
        ask_planner(planner),
    )
    return Snapshot(
        at_ns=clock.now_ns(),
        store_round_trip_s=round_trip_s,
        sandbox_mode=pools.sandbox_mode if pools else "",
        depths=depths,
        pools={pool.stage: _pool(pool) for pool in pools.pools} if pools else {},
        batches=batches,
        planner=planning,
    )


def _pool(pool: worker_pb2.StagePool) -> Pool:
    return Pool(
        stage=pool.stage,
        slots_desired=pool.slots_desired,
        slots_ready=pool.slots_ready,
        slots_busy=pool.slots_busy,
    )
