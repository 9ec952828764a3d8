"""A platform for planners: a real Valkey, a real worker host, planners as processes or in here."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.planner.live import (
    STAGE,
    Host,
    Own,
    PlannerProcess,
    RunHost,
    RunPlanner,
    StartPlanner,
    Trainer,
    until,
)

from assay.config.access import OperatorSettings
from assay.config.settings import (
    PlannerSettings,
    Settings,
    StoreSettings,
    WorkerSettings,
)
from assay.edge.metrics import Metrics
from assay.planner.build import build as build_planner
from assay.store.port import Store
from assay.worker.build import build as build_host

PLUGIN = Path(__file__).parents[1] / "worker" / "plugin"
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


@pytest.fixture
def trainer(store: Store, tmp_path: Path) -> Iterator[Trainer]:
    """On the test's own store; nothing waits when the test is over."""
    one = Trainer(store=store, folder=tmp_path)
    yield one
    one.go()


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
