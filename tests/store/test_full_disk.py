"""A disk that fills up: nothing is acknowledged that is not kept, and work goes on by itself.

A real server on a real file system of a few megabytes, which root mounts.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.store.driver import PATIENCE_S, Driver, eventually, request

from assay.config.settings import StoreSettings
from assay.core.errors import DependencyDown
from assay.store.embedded import EmbeddedValkey
from assay.store.link import Argument, Link, Reply
from assay.store.valkey import open_store

DISK_BYTES = 16 * 1024**2
LARGE = 64 * 1024


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own."""
    options = ["-t", "tmpfs", "-o", f"size={DISK_BYTES}", "assay-test"]
    if subprocess.run(["mount", *options, str(tmp_path)], check=False).returncode != 0:
        pytest.skip("only who may mount file systems can fill one")
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


@pytest.fixture
async def server(disk: Path) -> AsyncIterator[EmbeddedValkey]:
    one = EmbeddedValkey(disk)
    await one.start()
    keeper = asyncio.create_task(one.keep_alive())
    yield one
    keeper.cancel()
    await asyncio.wait((keeper,))
    await one.stop()


@pytest.fixture
async def full(server: EmbeddedValkey, disk: Path) -> AsyncIterator[Driver]:
    store = open_store(StoreSettings(), data_dir=disk)
    yield Driver(store)
    await store.close()


def _fill(disk: Path) -> Path:
    """Leave no byte."""
    filling = disk / "others"
    descriptor = os.open(filling, os.O_CREAT | os.O_WRONLY)
    for size in (LARGE, 1):
        with suppress(OSError):
            while True:
                os.write(descriptor, b"x" * size)
    os.close(descriptor)
    return filling


@pytest.mark.parametrize("there_is_room_again", [True, False])
async def test_what_is_acknowledged_around_a_full_disk_survives_a_kill(
    full: Driver, server: EmbeddedValkey, disk: Path, *, there_is_room_again: bool
) -> None:
    await full.open()
    acknowledged: list[str] = []
    refusals: list[str] = []

    async def accepted() -> bool:
        name = f"r{len(acknowledged) + len(refusals)}"
        try:
            await full.submit([request(name, response=os.urandom(LARGE))])
        except DependencyDown as error:
            refusals.append(error.message)
            return False
        acknowledged.append(name)
        return True

    async def refused() -> bool:
        return not await accepted()

    assert await accepted()
    others = _fill(disk)
    await eventually(refused)
    assert "No space left" in refusals[0]
    if there_is_room_again:
        others.unlink()
        await eventually(accepted)

    pid = server.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    others.unlink(missing_ok=True)
    await eventually(accepted)  # by another server, which has read the log
    claims = await full.claim(1_000)
    assert set(acknowledged) <= {claim.request_id for claim in claims}


class _Asked(Link):
    """Notes what it is asked for; answers when the test says so."""

    def __init__(self) -> None:
        super().__init__("redis://127.0.0.1:1", prefix="", timeout_s=1.0)
        self.answers: list[asyncio.Future[Reply]] = []

    async def call(self, *command: Argument) -> Reply:
        """Every call is a `PING`."""
        assert command == ("PING",)
        self.answers.append(asyncio.get_running_loop().create_future())
        return await self.answers[-1]


async def test_acknowledgements_that_meet_share_a_question_that_began_after_all_of_them() -> None:
    link = _Asked()
    first = asyncio.create_task(link.log_has_taken())
    await asyncio.sleep(0)
    others = [asyncio.create_task(link.log_has_taken()) for _ in range(50)]
    await asyncio.sleep(0)
    link.answers[0].set_result(b"PONG")
    await first
    await asyncio.sleep(0)
    assert not any(one.done() for one in others), "their writes came after the question"
    link.answers[1].set_exception(DependencyDown("the disk is full"))
    await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
    link.answers[2].set_result(b"PONG")
    async with asyncio.timeout(PATIENCE_S):
        ends = await asyncio.gather(*others, return_exceptions=True)
    assert [type(end) for end in ends if end is not None] == [DependencyDown], "others ask again"
    assert len(link.answers) == 3
