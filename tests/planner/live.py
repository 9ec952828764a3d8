"""Trainers, worker hosts and planners that run against a real Valkey."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from assay.core.ids import BatchId, GroupId, PipelineName, RequestId, TaskId, TenantId
from assay.core.records import BatchSpec, NewRequest, Quota, TaskRecord
from assay.planner.build import PlannerService
from assay.store.port import Store
from assay.v1 import planner_pb2, planner_pb2_grpc
from assay.verifiers.registry import load_pipelines
from assay.worker.build import WorkerService

TENANT = TenantId("default")
WAIT_S = 240.0  # longer than the planning process may take to start on a loaded machine
STAGE = "patient"


async def until(holds: Callable[[], object], what: str = "") -> None:
    """Wait for a condition of the outer world, with a generous bound."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(WAIT_S):
            while not holds():
                await asyncio.sleep(0.02)
            return
    raise AssertionError(f"not within {WAIT_S} s: {what}")


@dataclass(slots=True, kw_only=True)
class Trainer:
    """Registers tasks, opens batches, submits requests that wait for a file."""

    store: Store
    folder: Path
    batches: int = 0

    async def task(
        self, name: str = "t", *, batch_size: int = 0, pipeline: str = STAGE
    ) -> TaskRecord:
        """A registered task."""
        definition = load_pipelines()[PipelineName(pipeline)]
        record = TaskRecord(
            tenant=TENANT,
            task_id=TaskId(name),
            pipeline=definition.spec.name,
            stages=definition.spec.stages,
            settings_json=definition.settings().model_dump_json().encode(),
            batch_size=batch_size,
            trainer_cost_rate=8.0,
        )
        await self.store.put_task(record)
        return record

    async def open(self, task: TaskRecord, size: int) -> BatchId:
        """A batch that takes `size` requests."""
        self.batches += 1
        batch = BatchId(f"b{self.batches}")
        spec = BatchSpec(
            tenant=TENANT, batch_id=batch, task_id=task.task_id, size=size, group_size=0,
            deadline_after_ms=60_000,
        )  # fmt: skip
        await self.store.open_batch(spec, Quota())
        return batch

    async def submit(self, batch: BatchId, responses: Sequence[str]) -> None:
        """Requests that say what to do."""
        requests = [
            NewRequest(
                request_id=RequestId(f"r{n}"), group_id=GroupId(""), response=response.encode(),
                reference=b"{}",
            )
            for n, response in enumerate(responses)
        ]  # fmt: skip
        await self.store.submit(TENANT, batch, requests, Quota())

    async def waiting(self, task: TaskRecord, count: int) -> BatchId:
        """A batch of requests that hold their slots until `go`."""
        batch = await self.open(task, count)
        await self.submit(
            batch, [f"wait_for {self.folder / f'begun{n}'} {self.gate}" for n in range(count)]
        )
        return batch

    @property
    def gate(self) -> Path:
        """What waiting requests wait for."""
        return self.folder / "go"

    def go(self) -> None:
        """Let them end."""
        self.gate.touch()

    async def over(self, batch: BatchId) -> None:
        """Wait for the batch's end."""
        async with asyncio.timeout(WAIT_S):
            async for _ in self.store.watch(batch):
                if (await self.store.get_batch(TENANT, batch)).over:
                    return


@dataclass(slots=True, kw_only=True)
class Host:
    """A worker host in this process."""

    service: WorkerService
    data_dir: Path

    def slots(self, stage: str = STAGE) -> int:
        """Slots that are wanted, per stage."""
        return next(p.desired for p in self.service.host.pools() if p.stage == stage)

    def ready(self, stage: str = STAGE) -> int:
        """Slots that are ready, per stage."""
        return next(p.ready for p in self.service.host.pools() if p.stage == stage)


RunHost = Callable[..., Awaitable[Host]]


@dataclass(slots=True, kw_only=True)
class Own:
    """A planner in this process."""

    service: PlannerService
    addresses: dict[str, str]
    stop: asyncio.Event
    running: asyncio.Task[None]

    @property
    def why(self) -> str:
        """Why it is not ready."""
        return self.service.controller.why_not_ready


RunPlanner = Callable[..., Awaitable[Own]]


@dataclass(slots=True, kw_only=True)
class PlannerProcess:
    """`python -m assay.planner`, running."""

    process: asyncio.subprocess.Process
    log: Path
    addresses: dict[str, str] = field(default_factory=dict)


StartPlanner = Callable[..., Awaitable[PlannerProcess]]


@dataclass(slots=True, kw_only=True)
class Asker:
    """A client of `PlannerService`."""

    address: str

    async def ask(self, method: str, request: object) -> object:
        """One call on a connection of its own."""
        async with grpc.aio.insecure_channel(self.address) as channel:
            return await getattr(planner_pb2_grpc.PlannerServiceStub(channel), method)(
                request, timeout=WAIT_S
            )

    async def get_plan(self) -> planner_pb2.GetPlanResponse:
        found = await self.ask("GetPlan", planner_pb2.GetPlanRequest())
        assert isinstance(found, planner_pb2.GetPlanResponse)
        return found

    async def get_pools(self, stage: str = "") -> planner_pb2.GetPoolsResponse:
        found = await self.ask("GetPools", planner_pb2.GetPoolsRequest(stage=stage))
        assert isinstance(found, planner_pb2.GetPoolsResponse)
        return found

    async def explain(self, batch_id: str) -> planner_pb2.ExplainPlanResponse:
        request = planner_pb2.ExplainPlanRequest(batch_id=batch_id)
        found = await self.ask("ExplainPlan", request)
        assert isinstance(found, planner_pb2.ExplainPlanResponse)
        return found

    async def what_if(self, **change: object) -> planner_pb2.WhatIfResponse:
        found = await self.ask("WhatIf", planner_pb2.WhatIfRequest(**change))  # type: ignore[arg-type] # by the caller
        assert isinstance(found, planner_pb2.WhatIfResponse)
        return found
