"""A worker host with real slots on a real Valkey, and pipelines that make trouble when asked to."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.worker.hosts import HostProcess, RunHost, StartHost, Trainer, until

from assay.config.settings import Settings, StoreSettings, WorkerSettings
from assay.edge.metrics import Metrics
from assay.edge.tracing import Tracer
from assay.store.port import Store
from assay.worker.build import WorkerService, build

PLUGIN = Path(__file__).with_name("plugin")


@pytest.fixture(autouse=True)
def plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install the pipelines that make trouble, here and for processes begun from here."""
    monkeypatch.syspath_prepend(str(PLUGIN))
    monkeypatch.setenv("PYTHONPATH", str(PLUGIN), prepend=os.pathsep)  # of a mutant, for example
    yield
    sys.modules.pop("assay_trouble", None)


@pytest.fixture
async def run_host(store_settings: StoreSettings, tmp_path: Path) -> AsyncIterator[RunHost]:
    """Start worker hosts in this process; they stop with the test."""
    async with contextlib.AsyncExitStack() as stack:

        async def run(
            *stages: str,
            store: Store | None = None,
            tracer: Tracer | None = None,
            **worker: object,
        ) -> WorkerService:
            settings = Settings(
                data_dir=tmp_path / "data",
                store=store_settings,
                worker=WorkerSettings.model_validate(
                    {
                        "stages": stages,
                        "control_port": 0,
                        "drain_s": 0.2,
                        "reap_every_s": 0.2,
                        **worker,
                    }
                ),
            )
            service = build(settings, store=store, tracer=tracer, metrics=Metrics())
            await service.start()
            stack.push_async_callback(service.stop)
            return service

        yield run


@pytest.fixture
def trainer(store: Store) -> Trainer:
    """On the test's own store."""
    return Trainer(store=store)


@pytest.fixture
async def start_host(store_settings: StoreSettings, tmp_path: Path) -> AsyncIterator[StartHost]:
    """Start worker hosts as processes; they are killed with the test."""
    started: list[HostProcess] = []

    async def start(*stages: str, **more: str) -> HostProcess:
        data_dir = tmp_path / f"host{len(started)}"
        data_dir.mkdir()
        environment = {
            **os.environ,
            "ASSAY_DATA_DIR": str(data_dir),
            "ASSAY_STORE__URL": store_settings.url,
            "ASSAY_STORE__SHARD": store_settings.shard,
            "ASSAY_WORKER__STAGES": json.dumps(stages),
            "ASSAY_WORKER__CONTROL_PORT": "0",
            "ASSAY_WORKER__REAP_EVERY_S": "0.2",
            **more,
        }
        log = data_dir / "log"
        with log.open("wb") as stream:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "assay.worker", env=environment, stdout=stream, stderr=stream
            )
        host = HostProcess(process=process, data_dir=data_dir, log=log)
        started.append(host)
        await until(lambda: host.addresses or process.returncode is not None)
        assert process.returncode is None, log.read_text()
        return host

    yield start
    for host in started:
        if host.process.returncode is None:
            host.process.kill()
        await host.process.wait()
