"""No matter which process dies: the ward ends with its owner, and the owner learns of the end."""

import asyncio
import fcntl
import itertools
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from assay.store import warden

PATIENCE_S = 60.0

OWNER = """
import fcntl, os, pathlib, subprocess, sys
from assay.store import warden
lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(lock, fcntl.LOCK_EX)
words = warden.command(sys.argv[3:], owner_pid=os.getpid(), lock=lock, drain_s=float(sys.argv[2]))
process = subprocess.Popen(words, pass_fds=(lock,), start_new_session=True)
os.close(lock)
print(process.pid, flush=True)
sys.exit(process.wait() % 256)
"""
OBEYS = ("/bin/sleep", "infinity")
"""A ward that ends by any signal at any moment; Python at its start may swallow an interrupt."""
DRAINS = """
import pathlib, signal, sys, time
def end(*_):
    pathlib.Path(sys.argv[1]).write_text('drained')
    sys.exit()
signal.signal(signal.SIGTERM, end)
pathlib.Path(sys.argv[2]).touch()
while True: time.sleep(60)
"""
DEAF = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(sys.argv[1]).touch()
while True: time.sleep(60)
"""


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


@dataclass(slots=True, kw_only=True)
class Trio:
    """An owner, its warden, and the ward."""

    owner: asyncio.subprocess.Process
    warden_pid: int
    lock: Path

    async def ward_pid(self) -> int:
        await until(lambda: len(warden.pids_in(self.lock)) == 2)
        return warden.pids_in(self.lock)[1]

    def described(self) -> str:
        """State and signal masks of all three."""
        pids = {self.owner.pid, self.warden_pid, *warden.pids_in(self.lock)}
        return "; ".join(f"{pid}: {state_of(pid)}" for pid in sorted(pids))

    async def all_gone(self) -> None:
        """Within the bound; the lock says it."""
        await until(lambda: is_free(self.lock))
        for pid in warden.pids_in(self.lock):
            await until(lambda pid=pid: not lives(pid))  # type: ignore[misc]


def lives(pid: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def state_of(pid: int) -> str:
    """What the kernel says of a process: its state, where it waits, its signals."""
    kept = ("Name", "State", "PPid", "TracerPid", "SigQ", "SigPnd", "ShdPnd", "SigBlk", "SigIgn")
    try:
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
        where = Path(f"/proc/{pid}/wchan").read_text()
    except OSError:
        return "gone"
    told = [" ".join(line.split()) for line in status if line.startswith((*kept, "SigCgt"))]
    return ", ".join([*told, f"wchan: {where}"])


def is_free(path: Path) -> bool:
    with path.open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.01)


@pytest.fixture
async def trios(tmp_path: Path) -> "AsyncIterator[Callable[..., object]]":
    """Start trios; what is left is killed with the test."""
    started: list[Trio] = []
    numbers = itertools.count()

    async def start(*ward: str, drain_s: float = 30.0) -> Trio:
        lock = tmp_path / f"{next(numbers)}.lock"
        owner = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", OWNER, str(lock), str(drain_s)),
            *ward,
            stdout=asyncio.subprocess.PIPE,
        )
        assert owner.stdout is not None
        trio = Trio(owner=owner, warden_pid=int(await owner.stdout.readline()), lock=lock)
        started.append(trio)
        return trio

    yield start
    for trio in started:
        with suppress(ProcessLookupError):
            trio.owner.kill()
        await trio.owner.wait()
        await trio.all_gone()


@pytest.mark.parametrize("victim", ["owner", "warden", "ward"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_nobody_is_left_whoever_gets_which_signal_at_whatever_moment(
    trios: Callable[..., object], victim: str, number: signal.Signals
) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    moments = random.Random(seed)

    async def one() -> None:
        trio: Trio = await trios(*OBEYS)  # type: ignore[misc]
        await asyncio.sleep(moments.uniform(0.0, 0.15))
        pid = {"owner": trio.owner.pid, "warden": trio.warden_pid}.get(victim)
        if pid is None:
            pid = await trio.ward_pid()
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        if victim == "warden" and number in {signal.SIGINT, signal.SIGHUP}:
            trio.owner.kill()  # a warden is deaf to what a terminal sends
        try:
            async with asyncio.timeout(PATIENCE_S):
                await trio.owner.wait()
        except TimeoutError:
            pytest.fail(f"the owner did not end; {trio.described()}")
        await trio.all_gone()

    await asyncio.gather(*(one() for _ in range(3)))


async def test_a_ward_drains_when_its_owner_is_killed(
    trios: Callable[..., object], tmp_path: Path
) -> None:
    # The ward itself says that it is ready: before it executes its program, it has the warden's
    # handlers.
    mark, ready = tmp_path / "mark", tmp_path / "ready"
    trio: Trio = await trios(*python(DRAINS), str(mark), str(ready))  # type: ignore[misc]
    await until(ready.exists)
    trio.owner.kill()
    await trio.all_gone()
    assert mark.read_text() == "drained"


@pytest.mark.parametrize("stopped", [False, True])
async def test_a_ward_that_does_not_go_is_killed_after_its_time(
    trios: Callable[..., object], tmp_path: Path, stopped: bool
) -> None:
    ready = tmp_path / "ready"
    trio: Trio = await trios(*python(DEAF), str(ready), drain_s=0.1)  # type: ignore[misc]
    await until(ready.exists)
    if stopped:
        os.kill(await trio.ward_pid(), signal.SIGSTOP)
    trio.owner.kill()
    await trio.all_gone()


@pytest.mark.parametrize(
    ("ward", "expected"), [(python("raise SystemExit(78)"), 78), (OBEYS, -9)], ids=["78", "-9"]
)
async def test_a_warden_ends_as_its_ward_did(
    tmp_path: Path, ward: Sequence[str], expected: int
) -> None:
    path = tmp_path / "lock"
    lock = os.open(path, os.O_RDWR | os.O_CREAT)
    words = warden.command([*ward], owner_pid=os.getpid(), lock=lock, drain_s=1.0)
    process = await asyncio.create_subprocess_exec(*words, pass_fds=(lock,))
    os.close(lock)
    if expected < 0:
        await until(lambda: warden.wards_pid(process.pid) is not None)
        os.kill(warden.wards_pid(process.pid) or 0, -expected)
    async with asyncio.timeout(PATIENCE_S):
        assert await process.wait() == expected


async def test_a_warden_whose_owner_was_gone_before_it_came_starts_nothing(tmp_path: Path) -> None:
    gone = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    await gone.wait()
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    mark = tmp_path / "mark"
    code = f"open({str(mark)!r}, 'w')"
    words = warden.command([sys.executable, "-c", code], owner_pid=gone.pid, lock=lock, drain_s=1.0)
    process = await asyncio.create_subprocess_exec(*words, pass_fds=(lock,))
    os.close(lock)
    async with asyncio.timeout(PATIENCE_S):
        await process.wait()
    assert not mark.exists()
