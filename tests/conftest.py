"""What tests of several packages need: a real Valkey, a store of one's own, a running API."""

import asyncio
import contextlib
import json
import os
import secrets
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings as hypothesis_settings

from assay.config.settings import RewardSettings, Settings, StoreSettings
from assay.core.codec import pack_body
from assay.core.ids import StageName, WorkerId
from assay.core.outcome import Outcome
from assay.core.records import Claim, EndRequest, Finish, StageReport
from assay.core.verdict import Evidence, ResourceUse
from assay.edge.metrics import Metrics
from assay.reward.build import RewardApi, build
from assay.reward.server import Addresses
from assay.store.embedded import EmbeddedValkey
from assay.store.port import Report, Store
from assay.store.valkey import ValkeyStore

Judge = Callable[[Claim], Finish]

pytest_plugins = ("tests.lanes",)

PROCESS_S_MAX = 30.0

# A test never judges time: the machine is shared.
hypothesis_settings.register_profile("assay", deadline=None)
hypothesis_settings.load_profile("assay")


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedValkey]:
    """A real server for the whole run; tests keep apart by shards."""
    server = EmbeddedValkey(tmp_path_factory.mktemp("valkey"))
    asyncio.run(server.start())
    yield server
    asyncio.run(server.stop())


def own_shard(valkey: EmbeddedValkey) -> StoreSettings:
    """A part of the server where nothing is yet."""
    return StoreSettings(url=valkey.url, shard=secrets.token_hex(6), timeout_s=5.0)


@pytest.fixture
def store_settings(valkey: EmbeddedValkey) -> StoreSettings:
    """A shard of the test's own."""
    return own_shard(valkey)


@pytest.fixture
async def store(store_settings: StoreSettings) -> AsyncIterator[Store]:
    """A store with nothing in it."""
    opened = ValkeyStore(store_settings, url=store_settings.url)
    yield opened
    await opened.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A reward API that listens in this process."""

    api: RewardApi
    addresses: Addresses
    store: Store


RunApi = Callable[..., Awaitable[Running]]


@asynccontextmanager
async def running_api(
    store_settings: StoreSettings, data_dir: Path, store: Store | None = None, **reward: object
) -> AsyncIterator[Running]:
    """A reward API, by default on free ports, that does not wait when it stops."""
    settings = Settings(
        data_dir=data_dir,
        store=store_settings,
        reward=RewardSettings.model_validate(
            {"grpc_port": 0, "http_port": 0, "drain_s": 0.0, **reward}
        ),
    )
    opened = store or ValkeyStore(store_settings, url=store_settings.url)
    api = build(settings, store=opened, metrics=Metrics())
    addresses = await api.start()
    try:
        yield Running(api=api, addresses=addresses, store=opened)
    finally:
        await api.stop()


@pytest.fixture
async def run_api(store_settings: StoreSettings, tmp_path: Path) -> AsyncIterator[RunApi]:
    """Start reward APIs; they stop with the test."""
    async with AsyncExitStack() as stack:

        async def run(store: Store | None = None, **reward: object) -> Running:
            running = running_api(store_settings, tmp_path, store, **reward)
            return await stack.enter_async_context(running)

        yield run


@pytest.fixture
async def api(run_api: RunApi) -> Running:
    """A reward API with default settings."""
    return await run_api()


def passed(_claim: Claim) -> Finish:
    """Every response is right."""
    body = pack_body(Evidence(verdict="pass"), ResourceUse(cpu_s=0.25, memory_bytes_peak=1_024))
    return EndRequest(outcome=Outcome.SCORED, reward=1.0, body=body)


RunWorker = Callable[..., Awaitable[None]]


@pytest.fixture
async def run_worker(store_settings: StoreSettings) -> AsyncIterator[RunWorker]:
    """Start stand-ins for a worker host: the store's real protocol, a verdict from a function."""
    async with AsyncExitStack() as stack:

        async def run(judge: Judge = passed, *, stage: str = "noop") -> None:
            await stack.enter_async_context(working(store_settings, judge, stage=stage))

        yield run


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


async def _work(store: Store, judge: Judge, stage: StageName) -> None:
    worker = WorkerId("stand-in")
    report = StageReport(worker=worker, started_after_ns=1_000, finished_after_ns=2_000)
    while True:
        claims = await store.claim(stage, claims_max=64, lease_s=30.0, worker=worker)
        if claims:
            reports = [Report(lease=c.lease, report=report, finish=judge(c)) for c in claims]
            await store.finish(stage, reports, attempts_max=3)
        else:
            await store.wait_for_work([stage], timeout_s=1.0)


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


@pytest.fixture
async def start(tmp_path: Path, store_settings: StoreSettings) -> AsyncIterator[StartProcess]:
    """Start reward APIs as processes; what still runs is killed with the test."""
    started: list[asyncio.subprocess.Process] = []
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("ASSAY_")}

    async def start(**environment: str) -> ApiProcess:
        with (tmp_path / "log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "assay.reward"),
                env={
                    **inherited,
                    "ASSAY_DATA_DIR": str(tmp_path),
                    "ASSAY_STORE__URL": store_settings.url,
                    "ASSAY_STORE__SHARD": store_settings.shard,
                    "ASSAY_REWARD__GRPC_PORT": "0",
                    "ASSAY_REWARD__HTTP_PORT": "0",
                    **environment,
                },
                stdout=log,
                stderr=log,
            )
        started.append(process)
        return ApiProcess(process=process, sign=tmp_path / "run" / "reward.json")

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
