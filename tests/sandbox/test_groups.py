"""A cgroup that serves again counts and limits as a new one does."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from tests.sandbox.ways import QUICK, ROOMY, cgroups_of_this_process

from assay.config.settings import SandboxSettings
from assay.edge.clock import Clock
from assay.sandbox.accounting.account import Account, Backend
from assay.sandbox.accounting.backends import open_backend
from assay.sandbox.accounting.groups import FREE_MAX, LEFT_BYTES_MAX
from assay.sandbox.launchers.watch import Ending, Watch
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import MIB, Limits, PythonRun, RunResult, RunStatus, SandboxError

Start = Callable[..., subprocess.Popen[bytes]]
JOIN = "import os, sys\nfor one in sys.argv[1:]: os.write(int(one), b'0')\n"
HOLD = "{join}kept = bytearray({bytes})\nprint('held', flush=True)\nsys.stdin.read()"
SPIN = "import time\nwhile time.process_time() < {cpu_s}: pass"
FILL = "kept = bytearray({bytes})"
LEAVE = """
import array, os, socket
file = os.memfd_create("left")
os.write(file, bytes({bytes}))
left, right = socket.socketpair()
for end, held in ((left, right), (right, left)):
    fds = array.array("i", [held.fileno(), file])
    end.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
os.close(file)
"""
"""In flight in a cycle: alive after the process, until the kernel collects it."""


@pytest.fixture
def backend() -> Iterator[Backend]:
    opened = open_backend("auto")
    if not opened.limits >= {"memory", "processes"}:
        opened.close()
        pytest.skip("no cgroup here limits memory and processes")
    opened.trim()
    yield opened
    opened.close()


@pytest.fixture
def launcher(backend: Backend) -> Iterator[ZygoteLauncher]:
    del backend  # it says whether there are cgroups
    with ZygoteLauncher(SandboxSettings(), Clock()) as opened:
        yield opened


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a process in an account, which holds memory until its input ends."""
    with ExitStack() as held:

        def started(account: Account, *, memory_bytes: int = 1) -> subprocess.Popen[bytes]:
            source = HOLD.format(join=JOIN, bytes=memory_bytes)
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", source, *map(str, account.joins)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=account.joins,
            )
            held.enter_context(process)
            held.callback(process.kill)
            assert process.stdout is not None
            process.stdout.readline()
            return process

        yield started


def which(account: Account) -> Path:
    """Identifies the cgroup of an account."""
    return Path(os.readlink(f"/proc/self/fd/{account.joins[0]}")).parent


def end_run(account: Account) -> Path:
    """As when its box is dead; returns its cgroup."""
    used = which(account)
    account.box_is_dead()
    account.close()
    return used


def next_cgroup(backend: Backend) -> Path:
    return end_run(backend.create())


def end(process: subprocess.Popen[bytes]) -> None:
    process.communicate()


def leave_charged(account: Account, file: int, size: int) -> None:
    """Have a process of this account write so much to a file that outlives it."""
    source = JOIN.replace("[1:]", "[1:-1]") + f"os.write(int(sys.argv[-1]), bytes({size}))"
    words = [*map(str, account.joins), str(file)]
    subprocess.run(
        [sys.executable, "-I", "-S", "-c", source, *words],
        pass_fds=[*account.joins, file],
        check=True,
    )


def limit_bytes(account: Account) -> int:
    places = [Path(os.readlink(f"/proc/self/fd/{one}")).parent for one in account.joins]
    files = [at / name for at in places for name in ("memory.limit_in_bytes", "memory.max")]
    return int(next(file for file in files if file.exists()).read_text())


def python(launcher: ZygoteLauncher, source: str, **changes: object) -> RunResult:
    limits = replace(ROOMY, **changes)  # type: ignore[arg-type]  # of any field
    return launcher.run_python(PythonRun(source=source.encode(), limits=limits))


# -- when one serves again ------------------------------------------------------------------------
def test_an_empty_one_serves_again(backend: Backend, start: Start) -> None:
    if not _peaks_begin_again(backend):
        pytest.skip("this kernel cannot set the peak of memory back")
    account = backend.create()
    account.set_limits(Limits(), own_processes=1)
    end(start(account))
    used = end_run(account)
    assert next_cgroup(backend) == used


def _peaks_begin_again(backend: Backend) -> bool:
    if backend.kind == "v1":
        return True
    with ZygoteLauncher(SandboxSettings(), Clock()):
        peaks = Path("/sys/fs/cgroup").glob("**/memory.peak")
        return any(path.stat().st_mode & 0o222 for path in peaks)


def test_one_whose_box_may_still_join_it_does_not(backend: Backend) -> None:
    account = backend.create()
    used = which(account)
    account.close()
    assert not used.exists()
    assert next_cgroup(backend) != used


def test_a_run_that_breaks_off_leaves_its_cgroup_to_no_other(
    launcher: ZygoteLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its box may be at any step then, before it joins the cgroup too."""
    python(launcher, "print(1)")
    launcher.settle()
    used: list[Path] = []

    def breaks_off(watch: Watch) -> Ending:
        used.append(which(watch._run.account))
        raise SandboxError("the thread was stopped")

    with monkeypatch.context() as patched:
        patched.setattr(Watch, "until_ended", breaks_off)
        with pytest.raises(SandboxError, match="was stopped"):
            python(launcher, SPIN.format(cpu_s=60))
    assert not used[0].exists()
    assert python(launcher, "print(1)").status is RunStatus.EXITED


def test_one_with_a_task_that_no_one_has_waited_for_does_not(
    backend: Backend, start: Start
) -> None:
    account = backend.create()
    process = start(account)
    assert process.stdin is not None
    process.stdin.close()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    used = end_run(account)
    assert next_cgroup(backend) != used
    assert process.wait(60) == 0


def test_what_lives_in_one_that_is_closed_is_killed(backend: Backend, start: Start) -> None:
    account = backend.create()
    process = start(account)
    account.close()
    assert process.wait(60) == -9


def test_one_that_stays_charged_does_not(backend: Backend) -> None:
    """Memory that lives longer than its process: a file in memory, which another holds."""
    account = backend.create()
    account.set_limits(Limits(), own_processes=1)
    file = os.memfd_create("left")
    leave_charged(account, file, 4 * LEFT_BYTES_MAX)
    used = end_run(account)
    following = next_cgroup(backend)
    os.close(file)
    assert following != used


def test_what_stays_charged_is_added_to_the_next_limit(backend: Backend) -> None:
    account = backend.create()
    file = os.memfd_create("left")
    leave_charged(account, file, LEFT_BYTES_MAX // 2)
    used = end_run(account)
    following = backend.create()
    if which(following) == used:  # it counts what the kernel has not freed yet too
        following.set_limits(QUICK, own_processes=1)
        assert limit_bytes(following) >= QUICK.memory_bytes + LEFT_BYTES_MAX // 2
    os.close(file)
    following.close()


def test_one_in_which_memory_ran_out_does_not(backend: Backend, start: Start) -> None:
    account = backend.create()
    account.set_limits(replace(QUICK, memory_bytes=16 * MIB), own_processes=1)
    start(account, memory_bytes=64 * MIB).wait(60)
    assert account.usage().oom_kills
    used = end_run(account)
    assert next_cgroup(backend) != used


def test_at_most_so_many_wait_for_a_run_and_none_is_left(backend: Backend) -> None:
    known = {path.name for path in cgroups_of_this_process()}
    accounts = [backend.create() for _ in range(3 * FREE_MAX)]
    for account in accounts:
        end_run(account)
    left = {path.name for path in cgroups_of_this_process()} - known
    assert len(left) <= FREE_MAX
    backend.trim()
    assert not {path.name for path in cgroups_of_this_process()} - known


# -- what the next run sees of the one before -----------------------------------------------------
def test_cpu_time_and_peak_are_those_of_one_run(launcher: ZygoteLauncher) -> None:
    large = python(launcher, FILL.format(bytes=100 * MIB) + "\n" + SPIN.format(cpu_s=0.3))
    assert large.memory_bytes_peak > 90 * MIB
    assert large.cpu_s > 0.3
    for _ in range(4):
        small = python(launcher, "print(1)")
        assert small.memory_bytes_peak < 40 * MIB
        assert small.cpu_s < 0.25


def test_no_run_is_stopped_for_what_another_did(launcher: ZygoteLauncher) -> None:
    """Each limit is passed, and each run behind it may use all that it is given."""
    forks = "import os\ntry:\n    while os.fork(): pass\nexcept OSError: print('no more')"
    breaks: dict[RunStatus, tuple[str, dict[str, float]]] = {
        RunStatus.MEMORY_LIMIT: (FILL.format(bytes=512 * MIB), {}),
        RunStatus.CPU_LIMIT: (SPIN.format(cpu_s=60), {"cpu_s": 0.2}),
        RunStatus.EXITED: (forks, {"processes": 8}),
    }
    full = FILL.format(bytes=ROOMY.memory_bytes // 2) + "\n" + SPIN.format(cpu_s=0.1)
    children = "import os\nfor _ in range(20):\n    if not os.fork(): os._exit(0)\nprint('all')"
    for status, (source, changes) in breaks.items():
        for _ in range(2):
            assert python(launcher, source, **changes).status is status
            after = [python(launcher, full), python(launcher, children)]
            assert [run.status for run in after] == [RunStatus.EXITED] * 2
            assert after[1].stdout == b"all\n"


def test_what_a_program_leaves_charged_limits_no_other(launcher: ZygoteLauncher) -> None:
    limit = ROOMY.memory_bytes
    fills = FILL.format(bytes=limit - 40 * MIB)
    for left in (LEFT_BYTES_MAX // 4, 2 * LEFT_BYTES_MAX, 24 * MIB):
        for _ in range(3):
            python(launcher, LEAVE.format(bytes=left))
            assert python(launcher, fills).status is RunStatus.EXITED


def test_a_program_sees_no_name_of_its_cgroup(launcher: ZygoteLauncher) -> None:
    told = {python(launcher, "print(open('/proc/self/cgroup').read())").stdout for _ in range(3)}
    assert len(told) == 1
    assert b"assay" not in told.pop()


def test_of_many_runs_one_after_another_few_make_a_cgroup(launcher: ZygoteLauncher) -> None:
    def newest() -> int:
        return max((int(path.name) for path in cgroups_of_this_process()), default=0)

    for _ in range(4):
        python(launcher, "print(1)")
    first = newest()
    for _ in range(30):
        python(launcher, "print(1)")
    made = newest() - first
    if launcher.cgroup == "v1":
        assert made <= 10
