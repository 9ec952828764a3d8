"""Children of the platform: started, revived, given up in a crash loop, drained in order."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from assay.cli.platform.children import Child, Liveness, Platform
from assay.core.errors import DependencyDown, FailedPrecondition
from assay.core.tools.restarts import RestartPolicy
from assay.edge.clock import Clock
from assay.edge.lifecycle import EXIT_CONFIGURATION

QUICK = RestartPolicy(healthy_s=0.0, short_lives_max=3, pause_first_s=0.01)

WRITES_AND_WAITS = """
import pathlib, signal, sys, time
ready, order, name = sys.argv[1:]
def end(*_):
    with open(order, 'a') as file:
        file.write(name)
    sys.exit()
signal.signal(signal.SIGTERM, end)
pathlib.Path(ready).write_text('ready')
while True: time.sleep(60)
"""


@pytest.fixture
async def platform(tmp_path: Path) -> AsyncIterator[Platform]:
    platform = Platform(clock=Clock(), log_dir=tmp_path / "logs", restarts=QUICK)
    yield platform
    await platform.stop()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def another_than(pid: int, child: Child) -> bool:
    return child.process is not None and child.process.pid != pid


async def start(platform: Platform, tmp_path: Path, name: str) -> Child:
    ready = tmp_path / f"{name}.ready"
    argv = ["-c", WRITES_AND_WAITS, str(ready), str(tmp_path / "order"), name]
    child = await platform.start(name, argv, ready_file=ready, drain_s=10)
    assert await platform.wait_for(child, timeout_s=60) == "ready"
    return child


async def test_children_drain_in_reverse_order_of_starting(
    platform: Platform, tmp_path: Path
) -> None:
    await start(platform, tmp_path, "a")
    await start(platform, tmp_path, "b")
    await platform.stop()
    assert (tmp_path / "order").read_text() == "ba"


async def test_a_child_that_was_ready_is_started_again_however_often_it_is_killed(
    platform: Platform, tmp_path: Path
) -> None:
    child = await start(platform, tmp_path, "a")
    watching = asyncio.create_task(platform.watch())
    for _ in range(2 * QUICK.short_lives_max):
        await until(lambda: child.was_ready)
        assert child.process is not None
        victim = child.process.pid
        child.process.send_signal(signal.SIGKILL)
        await until(partial(another_than, victim, child))
    assert child.short_lives == 0
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching


async def test_the_ready_file_of_a_killed_child_is_not_taken_for_that_of_its_successor(
    platform: Platform, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    ready.write_text("left by a killed one")
    child = await platform.start(
        "late", ["-c", "import time; time.sleep(60)"], ready_file=ready, drain_s=0
    )
    with pytest.raises(DependencyDown, match="did not start"):
        await platform.wait_for(child, timeout_s=0.3)


async def test_a_child_in_a_crash_loop_ends_the_platform_and_says_why(
    platform: Platform, tmp_path: Path
) -> None:
    sick = ["-c", "raise SystemExit('no memory')"]
    child = await platform.start("sick", sick, ready_file=tmp_path / "never", drain_s=1)
    with pytest.raises(DependencyDown, match="no memory"):
        await platform.watch()
    assert child.short_lives == QUICK.short_lives_max
    assert child.log.read_text().count("no memory") == QUICK.short_lives_max


async def test_while_one_child_waits_to_be_started_again_the_others_are_looked_after(
    tmp_path: Path,
) -> None:
    patient = RestartPolicy(healthy_s=0.0, pause_first_s=600.0, pause_longest_s=600.0)
    platform = Platform(clock=Clock(), log_dir=tmp_path / "logs", restarts=patient)
    sick = await platform.start("sick", ["-c", ""], ready_file=tmp_path / "never", drain_s=1)
    child = await start(platform, tmp_path, "a")
    watching = asyncio.create_task(platform.watch())
    try:
        await until(lambda: sick.restart_ns is not None and child.was_ready)
        assert child.process is not None
        first = child.process.pid
        child.process.send_signal(signal.SIGKILL)
        await until(partial(another_than, first, child))
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await platform.stop()


async def test_the_platform_outlives_a_child_that_it_can_do_without(
    platform: Platform, tmp_path: Path
) -> None:
    sick = ["-c", "raise SystemExit('no port')"]
    never = tmp_path / "never"
    child = await platform.start("sick", sick, ready_file=never, drain_s=1, needed=False)
    watching = asyncio.create_task(platform.watch())
    await until(lambda: child.given_up or watching.done())
    assert not watching.done()
    assert child.short_lives == QUICK.short_lives_max
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching


async def test_a_child_that_does_not_come_up_says_why(platform: Platform, tmp_path: Path) -> None:
    sick = ["-c", "raise SystemExit('bad port')"]
    child = await platform.start("sick", sick, ready_file=tmp_path / "never", drain_s=1)
    with pytest.raises(DependencyDown, match="bad port"):
        await platform.wait_for(child, timeout_s=60)


SERVES = """
import http.server, json, os, pathlib, sys, threading
ready, mode = sys.argv[1:]
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("127.0.0.1", int(os.environ.get("PORT", "0"))), Handler)
fresh = pathlib.Path(ready + ".new")
fresh.write_text(json.dumps({"http": "127.0.0.1:%d" % server.server_port, "pid": os.getpid()}))
fresh.replace(ready)
server.serve_forever()
"""
EAGER = Liveness(every_s=0.01, answer_s_max=0.5, missed_max=3)
RARE = Liveness(every_s=3_600, again_s=0.01, answer_s_max=0.5, missed_max=3)
"""Once it has missed an answer it is asked often."""


@pytest.mark.parametrize("liveness", [EAGER, RARE])
async def test_a_child_that_hangs_is_killed_and_another_answers_on_the_same_port(
    tmp_path: Path, liveness: Liveness
) -> None:
    platform = Platform(clock=Clock(), log_dir=tmp_path / "logs", restarts=QUICK, liveness=liveness)
    ready = tmp_path / "a.json"
    child = await platform.start("a", ["-c", SERVES, str(ready), ""], ready_file=ready, drain_s=1)
    watching: asyncio.Task[None] | None = None
    try:
        where = json.loads(await platform.wait_for(child, timeout_s=60))
        child.environment["PORT"] = where["http"].rsplit(":", 1)[1]
        os.kill(where["pid"], signal.SIGSTOP)
        child.asked_ns = 0  # it may have answered before, and then is asked long after
        watching = asyncio.create_task(platform.watch())
        await until(lambda: ready.exists() and content_of(ready)["pid"] != where["pid"])
        assert content_of(ready)["http"] == where["http"]
        assert not Path(f"/proc/{where['pid']}").exists() or child.pid != where["pid"]
        assert "did not answer" in child.log.read_text()
        assert not watching.done()
    finally:
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        await platform.stop()


class CountedClock(Clock):
    """Counts how often it is looked at."""

    looks = 0

    def monotonic_ns(self) -> int:
        self.looks += 1
        return super().monotonic_ns()


async def test_children_that_are_well_are_left_alone_until_one_ends(tmp_path: Path) -> None:
    clock = CountedClock()
    platform = Platform(clock=clock, log_dir=tmp_path / "logs", restarts=QUICK, liveness=RARE)
    child = await start(platform, tmp_path, "a")
    watching = asyncio.create_task(platform.watch())
    try:
        await asyncio.sleep(0.1)
        looks = clock.looks
        await asyncio.sleep(1.5)
        assert clock.looks == looks
        assert child.process is not None
        before = child.process.pid
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        await until(partial(another_than, before, child))
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await platform.stop()


REFUSES = """
import json, os, pathlib, socket, struct, sys
ready, asked, linger = sys.argv[1:]
server = socket.create_server(('127.0.0.1', 0))
address = f'http://127.0.0.1:{server.getsockname()[1]}'
pathlib.Path(ready).write_text(json.dumps({'http': address, 'pid': os.getpid()}))
while True:
    connection, _ = server.accept()
    if linger == 'reset':
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    connection.close()
    with open(asked, 'a') as file:
        file.write('.')
"""
"""Accepts and closes, as the API does with one connection too many of an address."""


@pytest.mark.parametrize("how", ["reset", "closed"])
async def test_a_child_that_refuses_a_connection_is_alive(tmp_path: Path, how: str) -> None:
    platform = Platform(clock=Clock(), log_dir=tmp_path / "logs", restarts=QUICK, liveness=EAGER)
    ready, asked = tmp_path / "a.json", tmp_path / "asked"
    asked.touch()
    argv = ["-c", REFUSES, str(ready), str(asked), how]
    child = await platform.start("a", argv, ready_file=ready, drain_s=0)
    where = json.loads(await platform.wait_for(child, timeout_s=60))
    watching = asyncio.create_task(platform.watch())
    try:
        await until(lambda: asked.stat().st_size > 3 * EAGER.missed_max)
        assert child.pid == where["pid"]
        assert "did not answer" not in child.log.read_text()
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await platform.stop()


def content_of(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text()))
    except FileNotFoundError:
        return {"pid": 0}


async def test_a_child_that_is_killed_while_it_starts_is_started_again(
    platform: Platform, tmp_path: Path
) -> None:
    ready, mark = tmp_path / "ready", tmp_path / "mark"
    code = f"""
import os, pathlib, time
mark = pathlib.Path({str(mark)!r})
if not mark.exists():
    mark.touch()
    os.kill(os.getpid(), 9)
pathlib.Path({str(ready)!r}).write_text("ready")
time.sleep(600)
"""
    child = await platform.start("a", ["-c", code], ready_file=ready, drain_s=0)
    assert await platform.wait_for(child, timeout_s=60) == "ready"
    assert child.short_lives == 1


async def test_a_child_that_is_stopped_while_it_starts_is_replaced(
    platform: Platform, tmp_path: Path
) -> None:
    ready, mark = tmp_path / "ready", tmp_path / "mark"
    code = f"""
import os, pathlib, signal, time
mark = pathlib.Path({str(mark)!r})
if not mark.exists():
    mark.touch()
    os.kill(os.getpid(), signal.SIGSTOP)
pathlib.Path({str(ready)!r}).write_text("ready")
time.sleep(600)
"""
    child = await platform.start("a", ["-c", code], ready_file=ready, drain_s=0)
    assert await platform.wait_for(child, timeout_s=3.0) == "ready"


async def test_a_wrong_configuration_ends_the_platform_at_once_with_the_childs_line(
    platform: Platform, tmp_path: Path
) -> None:
    code = f"print('sick: failed_precondition: port 7 is taken'); exit({EXIT_CONFIGURATION})"
    sick = ["-c", code]
    child = await platform.start(
        "sick", sick, ready_file=tmp_path / "never", drain_s=1, needed=False
    )
    with pytest.raises(FailedPrecondition, match=r"^sick: port 7 is taken$"):
        await platform.wait_for(child, timeout_s=60)
    assert child.log.read_text().count("port 7") == 1


async def test_a_child_waits_for_the_end_of_its_predecessor_on_another_platform(
    platform: Platform, tmp_path: Path
) -> None:
    before = await start(platform, tmp_path, "a")
    victim = before.pid
    assert victim is not None
    second = Platform(clock=Clock(), log_dir=tmp_path / "logs2", restarts=QUICK)
    ready = tmp_path / "a.ready"
    argv = ["-c", WRITES_AND_WAITS, str(ready), str(tmp_path / "order"), "a"]
    starting = asyncio.create_task(second.start("a", argv, ready_file=ready, drain_s=0))
    try:
        await asyncio.sleep(0.1)
        assert not starting.done()
        await platform.stop()
        child = await starting
        assert await second.wait_for(child, timeout_s=60) == "ready"
        assert child.pid != victim
    finally:
        starting.cancel()
        await second.stop()
