"""A platform for planners: a real Valkey, a real worker host, planners as processes or in here."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest

from assay.config.settings import (
    OperatorSettings,
    PlannerSettings,
    Settings,
    StoreSettings,
    WorkerSettings,
)
from assay.core.ids import BatchId, GroupId, PipelineName, RequestId, TaskId, TenantId
from assay.core.records import BatchSpec, NewRequest, Quota, TaskRecord
from assay.edge.metrics import Metrics
from assay.planner.build import PlannerService
from assay.planner.build import build as build_planner
from assay.store.port import Store
from assay.v1 import planner_pb2, planner_pb2_grpc
from assay.verifiers.registry import load_pipelines
from assay.worker.build import WorkerService
from assay.worker.build import build as build_host

PLUGIN = Path(__file__).parents[1] / "worker" / "plugin"
TENANT = TenantId("default")
WAIT_S = 90.0
STAGE = "patient"
FAST = {"tick_s": 0.2, "replan_s": 1.0, "startup_s": 0.2, "hold_s": 0.2, "lease_s": 2.0}


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install the pipelines that do what the response says, here and in children."""
    monkeypatch.syspath_prepend(str(PLUGIN))
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(PLUGIN), os.environ.get("PYTHONPATH", "")])
    )
    yield
    sys.modules.pop("assay_trouble", None)


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


@pytest.fixture
def trainer(store: Store, tmp_path: Path) -> Iterator[Trainer]:
    """On the test's own store; nothing waits when the test is over."""
    one = Trainer(store=store, folder=tmp_path)
    yield one
    one.go()


@dataclass(slots=True, kw_only=True)
class Host:
    """A worker host in this process."""

    service: WorkerService
    data_dir: Path

    def slots(self, stage: str = STAGE) -> int:
        """Wanted."""
        return next(p.desired for p in self.service.host.pools() if p.stage == stage)

    def ready(self, stage: str = STAGE) -> int:
        """There."""
        return next(p.ready for p in self.service.host.pools() if p.stage == stage)


RunHost = Callable[..., Awaitable[Host]]


@pytest.fixture
async def run_host(
    plugin: None, store_settings: StoreSettings, tmp_path: Path
) -> AsyncIterator[RunHost]:
    """Start worker hosts; they sign where planners look for them."""
    async with AsyncExitStack() as stack:

        async def run(*stages: str, **worker: object) -> Host:
            data_dir = tmp_path / "data"
            settings = Settings(
                data_dir=data_dir,
                store=store_settings,
                worker=WorkerSettings.model_validate(
                    {
                        "stages": stages or (STAGE,), "control_port": 0, "drain_s": 0.2,
                        "slots": 0, "reap_every_s": 0.2, **worker,
                    }
                ),
            )  # fmt: skip
            service = build_host(settings, metrics=Metrics())
            addresses = await service.start()
            stack.push_async_callback(service.stop)
            sign = data_dir / "run" / "worker.json"
            sign.parent.mkdir(parents=True, exist_ok=True)
            sign.write_text(json.dumps({**addresses, "pid": os.getpid()}))
            return Host(service=service, data_dir=data_dir)

        yield run


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


@pytest.fixture
async def run_planner(
    plugin: None, store_settings: StoreSettings, tmp_path: Path
) -> AsyncIterator[RunPlanner]:
    """Start planners in this process (their planning processes are real); they stop with the
    test."""
    async with AsyncExitStack() as stack:

        async def run(
            store: Store | None = None, operator: OperatorSettings | None = None, **planner: object
        ) -> Own:
            settings = Settings(
                data_dir=tmp_path / "data",
                store=store_settings,
                operator=operator or OperatorSettings(),
                worker=WorkerSettings(slots=0, control_port=1),
                planner=PlannerSettings.model_validate(
                    {"grpc_port": 0, "slots_max": 4, **FAST, **planner}
                ),
            )
            service = build_planner(settings, store=store, metrics=Metrics())
            addresses = dict(await service.server.start())
            stop = asyncio.Event()
            own = Own(
                service=service, addresses=addresses, stop=stop,
                running=asyncio.create_task(service.work(stop)),
            )  # fmt: skip

            async def end() -> None:
                stop.set()
                try:
                    await own.running
                finally:
                    await service.stop()

            stack.push_async_callback(end)
            return own

        yield run


@dataclass(slots=True, kw_only=True)
class PlannerProcess:
    """`python -m assay.planner`, running."""

    process: asyncio.subprocess.Process
    log: Path
    addresses: dict[str, str] = field(default_factory=dict)


StartPlanner = Callable[..., Awaitable[PlannerProcess]]


@pytest.fixture
async def start_planner(
    plugin: None, store_settings: StoreSettings, tmp_path: Path
) -> AsyncIterator[StartPlanner]:
    """Start planners as processes of their own; they are killed with the test."""
    started: list[PlannerProcess] = []
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("ASSAY_")}

    async def start(**planner: object) -> PlannerProcess:
        log = tmp_path / f"planner{len(started)}.log"
        given = {"grpc_port": 0, "slots_max": 4, "slots_min": 0, **FAST, **planner}
        environment = {f"ASSAY_PLANNER__{k.upper()}": str(v) for k, v in given.items()}
        sign = tmp_path / "data" / "run" / "planner.json"
        sign.unlink(missing_ok=True)
        with log.open("wb") as stream:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "assay.planner"),
                env={
                    **inherited,
                    **environment,
                    "PYTHONPATH": os.environ["PYTHONPATH"],
                    "ASSAY_DATA_DIR": str(tmp_path / "data"),
                    "ASSAY_STORE__URL": store_settings.url,
                    "ASSAY_STORE__SHARD": store_settings.shard,
                },
                stdout=stream,
                stderr=stream,
            )
        one = PlannerProcess(process=process, log=log)
        started.append(one)
        await until(lambda: sign.exists() or process.returncode is not None, "the planner's sign")
        assert process.returncode is None, log.read_text()
        one.addresses = json.loads(sign.read_text())
        return one

    yield start
    for one in started:
        with contextlib.suppress(ProcessLookupError):
            one.process.kill()
        await one.process.wait()


@dataclass(slots=True, kw_only=True)
class Asker:
    """Calls `PlannerService`."""

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

    async def explain(self, batch_id: str) -> planner_pb2.ExplainPlanResponse:
        request = planner_pb2.ExplainPlanRequest(batch_id=batch_id)
        found = await self.ask("ExplainPlan", request)
        assert isinstance(found, planner_pb2.ExplainPlanResponse)
        return found

    async def what_if(self, **change: object) -> planner_pb2.WhatIfResponse:
        found = await self.ask("WhatIf", planner_pb2.WhatIfRequest(**change))  # type: ignore[arg-type] # by the caller
        assert isinstance(found, planner_pb2.WhatIfResponse)
        return found
