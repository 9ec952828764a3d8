"""What tests of several packages need: a real Valkey, a store of one's own, a running API."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings as hypothesis_settings
from tests import forking  # noqa: F401 before gRPC is imported
from tests.running import (
    ApiProcess,
    Judge,
    RunApi,
    Running,
    RunWorker,
    StartProcess,
    own_shard,
    passed,
    running_api,
    working,
)

from assay.config.settings import StoreSettings
from assay.planner.process import code_cache
from assay.store.embedded import EmbeddedValkey
from assay.store.port import Store
from assay.store.valkey import ValkeyStore

pytest_plugins = (
    "tests.garbage",
    "tests.lanes",
    "tests.parsing",
    "tests.parts",
    "tests.process_state",
    "tests.unheard",
)

# A background job of a script, or of nohup, ignores these; a test's processes would inherit that.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)

# One cache of machine code for this process and the planners that tests start: what the one has
# compiled, the other need not. numba reads the variable when it is imported.
os.environ.update(code_cache.environment(os.environ))

# A test never judges time: the machine is shared. `fewer` draws 40 cases, and not 100, where a test
# names no number of its own: `./run test` and `--all` have it, all other runs draw 100.
hypothesis_settings.register_profile("assay", deadline=None)
hypothesis_settings.register_profile("fewer", deadline=None, max_examples=40)
hypothesis_settings.load_profile("assay")


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedValkey]:
    """A real server for the whole run; tests keep apart by shards."""
    server = EmbeddedValkey(tmp_path_factory.mktemp("valkey"))
    asyncio.run(server.start())
    yield server
    asyncio.run(server.stop())


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


@pytest.fixture
async def run_api(store_settings: StoreSettings, tmp_path: Path) -> AsyncIterator[RunApi]:
    """Start reward APIs; they stop with the test."""
    async with AsyncExitStack() as stack:

        async def run(store: Store | None = None, **reward: Any) -> Running:
            running = running_api(store_settings, tmp_path, store, **reward)
            return await stack.enter_async_context(running)

        yield run


@pytest.fixture
async def api(run_api: RunApi) -> Running:
    """A reward API with default settings."""
    return await run_api()


@pytest.fixture
async def run_worker(store_settings: StoreSettings) -> AsyncIterator[RunWorker]:
    """Start stand-ins for a worker host: the store's real protocol, a verdict from a function."""
    async with AsyncExitStack() as stack:

        async def run(judge: Judge = passed, *, stage: str = "noop") -> None:
            await stack.enter_async_context(working(store_settings, judge, stage=stage))

        yield run


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
