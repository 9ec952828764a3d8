"""Children of the platform: started, revived a bounded number of times, drained in order."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from assay.cli.platform import RESTARTS_MAX, Child, Platform
from assay.core.errors import DependencyDown
from assay.edge.clock import Clock

WRITES_AND_WAITS = """
import pathlib, signal, sys, time
sign, order, name = sys.argv[1:]
def end(*_):
    with open(order, 'a') as file:
        file.write(name)
    sys.exit()
signal.signal(signal.SIGTERM, end)
pathlib.Path(sign).write_text('ready')
while True: time.sleep(60)
"""


@pytest.fixture
async def platform(tmp_path: Path) -> AsyncIterator[Platform]:
    platform = Platform(clock=Clock(), log_dir=tmp_path / "logs")
    yield platform
    await platform.stop()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


async def start(platform: Platform, tmp_path: Path, name: str) -> Child:
    sign = tmp_path / f"{name}.sign"
    argv = ["-c", WRITES_AND_WAITS, str(sign), str(tmp_path / "order"), name]
    child = await platform.start(name, argv, drain_s=10)
    assert await platform.wait_for(child, sign, timeout_s=20) == "ready"
    return child


async def test_children_drain_in_reverse_order_of_starting(
    platform: Platform, tmp_path: Path
) -> None:
    await start(platform, tmp_path, "a")
    await start(platform, tmp_path, "b")
    await platform.stop()
    assert (tmp_path / "order").read_text() == "ba"


async def test_a_killed_child_is_started_again(platform: Platform, tmp_path: Path) -> None:
    child = await start(platform, tmp_path, "a")
    assert child.process is not None
    first = child.process.pid
    watching = asyncio.create_task(platform.watch())
    child.process.send_signal(signal.SIGKILL)
    await until(lambda: child.process is not None and child.process.pid != first)
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching


async def test_a_child_that_keeps_dying_ends_the_platform_and_says_why(platform: Platform) -> None:
    child = await platform.start("sick", ["-c", "raise SystemExit('no memory')"], drain_s=1)
    with pytest.raises(DependencyDown, match="no memory"):
        await platform.watch()
    assert len(child.deaths) == RESTARTS_MAX


async def test_the_platform_outlives_a_child_that_it_can_do_without(platform: Platform) -> None:
    sick = ["-c", "raise SystemExit('no port')"]
    child = await platform.start("sick", sick, drain_s=1, needed=False)
    watching = asyncio.create_task(platform.watch())
    await until(lambda: child.given_up or watching.done())
    assert not watching.done()
    assert len(child.deaths) == RESTARTS_MAX
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching


async def test_a_child_that_does_not_come_up_says_why(platform: Platform, tmp_path: Path) -> None:
    child = await platform.start("sick", ["-c", "raise SystemExit('bad port')"], drain_s=1)
    with pytest.raises(DependencyDown, match="bad port"):
        await platform.wait_for(child, tmp_path / "never", timeout_s=20)


def test_deaths_far_apart_do_not_count_as_dying_again_and_again(tmp_path: Path) -> None:
    child = Child(name="a", argv=[], log=tmp_path / "a.log", drain_s=1, environment={})
    assert all(child.may_restart(now_s) for now_s in range(0, 10_000, 100))
    assert not all(child.may_restart(20_000.0 + now_s) for now_s in range(RESTARTS_MAX))
