"""The embedded server: one owner a data directory, nothing acknowledged is lost, no one left over.

Servers are real processes; crashes are kill -9.
"""

import asyncio
import errno
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest
from tests.store.driver import TASK, TENANT, eventually

from assay.config.settings import StoreSettings
from assay.core.errors import DependencyDown, FailedPrecondition
from assay.core.ids import BatchId
from assay.core.records import BatchSpec, Quota
from assay.core.tools.restarts import RestartPolicy
from assay.store.embedded import ASK_AGAIN_S, ASK_EVERY_S, EmbeddedValkey
from assay.store.link import Link, Reply
from assay.store.log_sync import LogSync
from assay.store.server import embedded_url
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
    """A server that is started again when it dies, until the test has ended, by whatever cause."""
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


def log_dir(data_dir: Path) -> Path:
    return data_dir / "store" / "appendonlydir"


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


@pytest.mark.parametrize(("setting", "own"), [("everysec", "no"), ("always", "always")])
async def test_it_never_postpones_a_write_under_either_setting(
    tmp_path: Path, setting: str, own: str
) -> None:
    server = EmbeddedValkey(tmp_path, appendfsync=setting)
    await server.start()
    try:
        assert await option(server, "appendfsync") == own
    finally:
        await server.stop()


async def test_what_is_answered_is_with_the_kernel_whether_a_sync_is_under_way_or_not(
    server: EmbeddedValkey, tmp_path: Path
) -> None:
    log = LogSync(log_dir(tmp_path))
    link = Link(server.url, prefix="", timeout_s=5.0)
    try:
        for number in range(50):
            syncing = asyncio.create_task(asyncio.to_thread(log.sync))
            await link.call("SET", f"key-{number}", "v" * 10_000)
            written = b"".join(path.read_bytes() for path in log_dir(tmp_path).glob("*.aof"))
            assert b"key-%d\r\n" % number in written
            await syncing
    finally:
        await link.close()


async def test_the_log_is_synced_when_it_changed_and_through_a_rewrite(
    server: EmbeddedValkey, tmp_path: Path
) -> None:
    log = LogSync(log_dir(tmp_path))
    await value(server, "SET", "a", "1")
    assert log.sync() > 0
    assert log.is_synced()
    assert log.sync() == 0, "nothing changed"
    await value(server, "SET", "b", "2")
    assert not log.is_synced()
    assert log.sync() == 1
    before = {path.name for path in log_dir(tmp_path).glob("*.incr.aof")}
    await value(server, "BGREWRITEAOF")

    async def rewritten() -> bool:
        return before.isdisjoint(path.name for path in log_dir(tmp_path).glob("*.incr.aof"))

    await eventually(rewritten)
    await value(server, "SET", "c", "3")
    assert log.sync() > 0
    assert log.sync() == 0


def test_a_log_that_is_not_there_yet_needs_no_sync(tmp_path: Path) -> None:
    assert LogSync(log_dir(tmp_path)).sync() == 0


async def test_a_kill_in_the_middle_of_a_rewrite_loses_nothing(tmp_path: Path) -> None:
    server = EmbeddedValkey(tmp_path)
    for _ in range(3):
        await server.start()
        link = Link(server.url, prefix="", timeout_s=5.0)
        try:
            told = 0
            for round_ in range(200):
                told = await link.call("INCR", "told")
                await link.call("SET", f"ballast-{round_}", "x" * 5_000)
                if round_ == 150:
                    await link.call("BGREWRITEAOF")
            assert server.pid is not None
            os.kill(server.pid, signal.SIGKILL)
        finally:
            await link.close()
            await server.stop()
        await server.start()
        assert int(await value(server, "GET", "told")) == told
        await server.stop()


async def test_a_disk_that_does_not_take_the_log_is_told_and_ends_the_keeper(
    server: EmbeddedValkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: LogSync) -> int:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(LogSync, "sync", refuse)
    with pytest.raises(DependencyDown, match="cannot be written to the disk"):
        async with asyncio.timeout(120):
            await server.keep_alive()


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


async def test_a_server_in_a_crash_loop_is_given_up(server: EmbeddedValkey) -> None:
    policy = RestartPolicy(healthy_s=3_600.0, short_lives_max=2, pause_first_s=0.01)
    keeper = asyncio.create_task(server.keep_alive(policy))

    async def kill() -> bool:
        if server.pid is not None:
            os.kill(server.pid, signal.SIGKILL)
        return keeper.done()

    await eventually(kill)
    with pytest.raises(DependencyDown, match="ends repeatedly"):
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


async def test_a_server_that_missed_a_question_is_asked_again_sooner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = EmbeddedValkey(tmp_path, answers_missed_max=9)
    monkeypatch.setattr(EmbeddedValkey, "pid", 7)
    answers: Iterator[bytes | OSError] = iter([b"+PONG", OSError(), OSError(), b"+PONG"])
    pauses: list[float] = []

    async def ask(_server: EmbeddedValkey, _command: bytes) -> bytes:
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) > 4:
            raise asyncio.CancelledError

    monkeypatch.setattr(EmbeddedValkey, "_ask", ask)
    monkeypatch.setattr("assay.store.embedded.asyncio.sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await server._keep_answering()
    assert pauses == [ASK_EVERY_S, ASK_EVERY_S, ASK_AGAIN_S, ASK_AGAIN_S, ASK_EVERY_S]
