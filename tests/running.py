"""A reward API and its workers that run in this process or in one of their own."""

import asyncio
import json
import os
import secrets
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from assay.config.access import OperatorSettings
from assay.config.settings import RewardSettings, Settings, StoreSettings
from assay.core.codec import pack_body
from assay.core.errors import DependencyDown
from assay.core.ids import StageName, WorkerId
from assay.core.outcome import Outcome
from assay.core.records import Claim, EndRequest, Finish, StageReport
from assay.core.verdict import Component, Evidence, ResourceUse
from assay.edge.clock import Clock
from assay.edge.metrics import Metrics
from assay.reward.build import RewardApi, build
from assay.reward.server import Addresses
from assay.store.embedded import EmbeddedValkey
from assay.store.port import Report, Store
from assay.store.valkey import ValkeyStore

Judge = Callable[[Claim], Finish]

PROCESS_S_MAX = 120.0
PAUSE_S = 0.05
"""Of a stand-in for a worker, before it asks a store again that did not answer."""


def own_shard(valkey: EmbeddedValkey) -> StoreSettings:
    """A part of the server where nothing is yet."""
    return StoreSettings(url=valkey.url, shard=secrets.token_hex(6), timeout_s=5.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A reward API that listens in this process."""

    api: RewardApi
    addresses: Addresses
    store: Store


RunApi = Callable[..., Awaitable[Running]]


@asynccontextmanager
async def running_api(
    store_settings: StoreSettings,
    data_dir: Path,
    store: Store | None = None,
    *,
    operator: OperatorSettings | None = None,
    clock: Clock | None = None,
    **reward: object,
) -> AsyncIterator[Running]:
    """A reward API, by default on free ports, that does not wait when it stops."""
    settings = Settings(
        data_dir=data_dir,
        store=store_settings,
        operator=operator or OperatorSettings(),
        reward=RewardSettings.model_validate(
            {"grpc_port": 0, "http_port": 0, "drain_s": 0.0, **reward}
        ),
    )
    opened = store or ValkeyStore(store_settings, url=store_settings.url)
    api = build(settings, store=opened, metrics=Metrics(), clock=clock)
    addresses = await api.start()
    try:
        yield Running(api=api, addresses=addresses, store=opened)
    finally:
        await api.stop()


def passed(_claim: Claim) -> Finish:
    """Every response is right."""
    body = pack_body(
        Evidence(verdict="pass"),
        ResourceUse(cpu_s=0.25, memory_bytes_peak=1_024),
        components=(Component(name="style", value=0.5, weight=2.0),),
        pipeline_version="v1",
        rescorable=True,
    )
    return EndRequest(outcome=Outcome.SCORED, reward=1.0, body=body)


RunWorker = Callable[..., Awaitable[None]]


@asynccontextmanager
async def working(
    settings: StoreSettings, judge: Judge = passed, *, stage: str = "noop"
) -> AsyncIterator[None]:
    """A stand-in for a worker host."""
    store = ValkeyStore(settings, url=settings.url)
    work = asyncio.create_task(_work(store, judge, StageName(stage)))
    try:
        yield
    finally:
        work.cancel()
        await asyncio.wait([work])
        await store.close()
        if not work.cancelled():
            work.result()


async def _work(store: Store, judge: Judge, stage: StageName) -> None:
    """Goes on after a store that did not answer, as a worker host does."""
    while True:
        with suppress(DependencyDown):
            await _work_once(store, judge, stage)
            continue
        await asyncio.sleep(PAUSE_S)


async def _work_once(store: Store, judge: Judge, stage: StageName) -> None:
    worker = WorkerId("stand-in")
    report = StageReport(worker=worker, started_after_ns=1_000, finished_after_ns=2_000)
    claims = await store.claim(stage, claims_max=64, lease_s=30.0, worker=worker)
    if claims:
        reports = [Report(lease=c.lease, report=report, finish=judge(c)) for c in claims]
        await store.finish(stage, reports, attempts_max=3)
    else:
        await store.wait_for_work([stage], timeout_s=1.0)


@asynccontextmanager
async def worker_process(
    settings: StoreSettings, data_dir: Path, *stages: str, **more: str
) -> AsyncIterator[None]:
    """`python -m assay.worker` for these stages, beside an API of the same store."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "assay.worker"),
        env={
            **{k: v for k, v in os.environ.items() if not k.startswith("ASSAY_")},
            "ASSAY_DATA_DIR": str(data_dir),
            "ASSAY_STORE__URL": settings.url,
            "ASSAY_STORE__SHARD": settings.shard,
            "ASSAY_WORKER__STAGES": json.dumps(stages),
            "ASSAY_WORKER__CONTROL_PORT": "0",
            **more,
        },
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


@dataclass(slots=True, kw_only=True)
class ApiProcess:
    """`python -m assay.reward`, running."""

    process: asyncio.subprocess.Process
    sign: Path
    grpc: str = ""
    http: str = ""

    async def up(self) -> "ApiProcess":
        """Wait until it says where it listens."""
        async with asyncio.timeout(PROCESS_S_MAX):
            while not self.sign.exists():
                assert self.process.returncode is None
                await asyncio.sleep(0.02)
        where = json.loads(self.sign.read_text())
        self.grpc, self.http = where["grpc"], where["http"]
        return self

    async def wait(self) -> int:
        """Wait for its end; return its exit code."""
        async with asyncio.timeout(PROCESS_S_MAX):
            return await self.process.wait()


StartProcess = Callable[..., Awaitable[ApiProcess]]
