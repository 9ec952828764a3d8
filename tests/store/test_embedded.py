"""The embedded server: one owner a data directory, nothing acknowledged is lost, nobody left over.

Servers are real processes; crashes are kill -9.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
from tests.store.conftest import TASK, TENANT, eventually

from assay.config.settings import StoreSettings
from assay.core.errors import DependencyDown, FailedPrecondition
from assay.core.ids import BatchId
from assay.core.records import BatchSpec, Quota
from assay.store import embedded
from assay.store.embedded import EmbeddedValkey, embedded_url
from assay.store.link import Link, Reply
from assay.store.valkey import open_store

OWNER = """
import asyncio, sys
from pathlib import Path
from assay.store.embedded import EmbeddedValkey

async def main():
    server = EmbeddedValkey(Path(sys.argv[1]))
    await server.start()
    print(server.pid, flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""

SPEC = BatchSpec(
    tenant=TENANT,
    batch_id=BatchId("step-1"),
    task_id=TASK.task_id,
    size=1,
    group_size=1,
    deadline_after_ms=1_000,
)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[EmbeddedValkey]:
    one = EmbeddedValkey(tmp_path)
    await one.start()
    yield one
    await one.stop()


@pytest.fixture
async def kept(server: EmbeddedValkey) -> AsyncIterator[EmbeddedValkey]:
    """A server that is started again when it dies, until the test is over, however it ends."""
    keeper = asyncio.create_task(server.keep_alive())
    yield server
    keeper.cancel()
    await asyncio.gather(keeper, return_exceptions=True)


async def value(server: EmbeddedValkey, *command: str) -> Reply:
    link = Link(server.url, prefix="", timeout_s=5.0)
    try:
        return await link.call(*command)
    finally:
        await link.close()


async def option(server: EmbeddedValkey, name: str) -> str:
    _, found = await value(server, "CONFIG", "GET", name)
    return str(found.decode())


async def test_it_listens_on_a_private_socket_and_on_nothing_else(server: EmbeddedValkey) -> None:
    assert server.pid is not None
    process = psutil.Process(server.pid)
    assert [c.laddr for c in process.net_connections("inet")] == []
    path = Path(server.url.removeprefix("unix://"))
    assert path.stat().st_mode & 0o077 == 0


async def test_it_never_evicts_and_logs_every_write(server: EmbeddedValkey) -> None:
    assert await option(server, "maxmemory-policy") == "noeviction"
    assert await option(server, "appendonly") == "yes"
    assert await option(server, "appendfsync") == "everysec"


async def test_how_often_it_syncs_is_a_setting(tmp_path: Path) -> None:
    server = EmbeddedValkey(tmp_path, appendfsync="always")
    await server.start()
    assert await option(server, "appendfsync") == "always"
    await server.stop()


async def test_a_store_with_no_url_is_the_embedded_one(
    server: EmbeddedValkey, tmp_path: Path
) -> None:
    assert embedded_url(tmp_path) == server.url
    store = open_store(StoreSettings(), data_dir=tmp_path)
    assert await store.ping() < 5.0
    await store.close()


async def test_data_survives_stop_and_start(tmp_path: Path) -> None:
    server = EmbeddedValkey(tmp_path)
    for _ in range(2):
        await server.start()
        await value(server, "INCR", "starts")
        await server.stop()
    assert server.pid is None
    await server.start()
    assert await value(server, "GET", "starts") == b"2"
    await server.stop()


async def test_asking_whether_it_is_there_may_be_cancelled_at_any_moment(
    server: EmbeddedValkey, tmp_path: Path
) -> None:
    for moment in range(60):
        asking = asyncio.create_task(server._wait_until_ready(tmp_path / "log"))
        for _ in range(moment):
            await asyncio.sleep(0)
        under_way = asking.cancel()
        await asyncio.wait([asking])
        assert asking.cancelled() == under_way, f"lost after {moment} steps"


async def test_a_killed_server_is_started_again_with_its_data(
    kept: EmbeddedValkey, tmp_path: Path
) -> None:
    store = open_store(StoreSettings(), data_dir=tmp_path)
    try:
        await store.put_task(TASK)
        opened, _ = await store.open_batch(SPEC, Quota())
        first = kept.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)

        async def there() -> bool:
            try:
                return await store.get_batch(TENANT, SPEC.batch_id) == opened
            except DependencyDown:
                return False

        await eventually(there)
        assert kept.pid not in {None, first}
    finally:
        await store.close()


async def test_a_server_that_keeps_dying_is_given_up(
    server: EmbeddedValkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "RESTARTS_MAX", 2)
    keeper = asyncio.create_task(server.keep_alive())

    async def kill() -> bool:
        if server.pid is not None:
            os.kill(server.pid, signal.SIGKILL)
        return keeper.done()

    await eventually(kill)
    with pytest.raises(DependencyDown, match="keeps dying"):
        await keeper


async def test_a_data_directory_has_one_owner(server: EmbeddedValkey, tmp_path: Path) -> None:
    with pytest.raises(FailedPrecondition, match="another process uses") as caught:
        await EmbeddedValkey(tmp_path).start()
    assert caught.value.field == "data_dir"
    assert await value(server, "PING"), "the owner's server is unharmed"


async def test_the_server_of_a_killed_owner_is_ended_and_its_data_taken_over(
    tmp_path: Path,
) -> None:
    owner = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", OWNER, str(tmp_path)), stdout=asyncio.subprocess.PIPE
    )
    assert owner.stdout is not None
    orphan = psutil.Process(int(await owner.stdout.readline()))
    heir = EmbeddedValkey(tmp_path)
    await value(heir, "SET", "left", "behind")
    owner.kill()
    await owner.wait()
    assert orphan.is_running()
    await heir.start()
    assert heir.pid != orphan.pid
    assert not orphan.is_running() or orphan.status() == psutil.STATUS_ZOMBIE
    assert await value(heir, "GET", "left") == b"behind"
    await heir.stop()


async def test_a_stale_socket_is_no_hindrance(tmp_path: Path) -> None:
    server = EmbeddedValkey(tmp_path)
    path = Path(server.url.removeprefix("unix://"))
    path.parent.mkdir(parents=True)
    path.parent.chmod(0o700)
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(str(path))
    await server.start()
    assert await value(server, "PING")
    await server.stop()
    assert not path.exists()


async def test_a_long_data_directory_gets_its_socket_elsewhere(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120)
    server = EmbeddedValkey(deep)
    await server.start()
    assert not server.url.startswith(f"unix://{deep}")
    assert server.url == embedded_url(deep) != embedded_url(tmp_path / ("e" * 120))
    await server.stop()


async def test_a_server_that_cannot_start_says_why_and_gives_the_directory_free(
    tmp_path: Path,
) -> None:
    manifest = tmp_path / "store" / "appendonlydir" / "appendonly.aof.manifest"
    manifest.parent.mkdir(parents=True, mode=0o700)
    (tmp_path / "store").chmod(0o700)
    manifest.write_text("nonsense\n")
    with pytest.raises(DependencyDown, match="MANIFEST"):
        await EmbeddedValkey(tmp_path).start()
    manifest.unlink()
    server = EmbeddedValkey(tmp_path)
    await server.start()
    await server.stop()
