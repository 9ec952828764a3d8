"""What is left of a box when its run returns: at most a pid 1 that has nothing more to do.

A box in which a second task ever existed is dead by then. What is left of the others is removed
beside a later run, or by `settle`.
"""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.sandbox.ways import (
    QUICK,
    ROOMY,
    Way,
    cgroups_of_this_process,
    populated_cgroups,
    until,
)

from assay.config.settings import SandboxSettings
from assay.edge.clock import Clock
from assay.sandbox.accounting.groups import FREE_MAX
from assay.sandbox.accounting.proc import Proc
from assay.sandbox.launchers import base, ended
from assay.sandbox.launchers.ended import EndedBoxes
from assay.sandbox.launchers.order import Inside
from assay.sandbox.launchers.watch import Started, Watch
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import CommandRun, HarnessRun, PythonRun, RunStatus, SandboxError

FORKED = "import os, signal, time\nif not os.fork():\n    os.closerange(0, 3)\n    "
STARTS_TASKS = {
    "a busy daemon": FORKED + "os.setsid()\n    while True: pass",
    "a sleeping daemon": FORKED + "time.sleep(1000)",
    "an orphan of an orphan": FORKED + "if not os.fork(): time.sleep(1000)",
    "a child that has ended": FORKED + "os._exit(0)\nos.wait()",
    "a child that is not waited for": FORKED + "os._exit(0)",
    "a child and a signal": FORKED + "time.sleep(1000)\nos.kill(os.getpid(), signal.SIGKILL)",
    "another program": "import subprocess\nsubprocess.run(['true'])",
    "a thread that has ended": (
        "import threading\none = threading.Thread(target=int)\none.start()\none.join()"
    ),
    "a sleeping thread": (
        "import os, threading, time\n"
        "threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\nos._exit(0)"
    ),
    "more children than it may have": (
        "import os, time\nfor _ in range(60):\n    try:\n        if not os.fork():\n"
        "            os.closerange(0, 3)\n            time.sleep(1000)\n    except OSError: pass"
    ),
}
STARTS_NONE = {
    "no output": "",
    "an exit code": "raise SystemExit(3)",
    "a signal": "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)",
    "refused calls": (
        "import ctypes\nlibc = ctypes.CDLL(None)\n"
        "print(libc.unshare(0x10000000), libc.syscall(435, None, 0))"
    ),
}


@pytest.fixture
def launcher() -> Iterator[ZygoteLauncher]:
    with ZygoteLauncher(SandboxSettings(), Clock()) as opened:
        if opened.cgroup == "none":
            pytest.skip("a cgroup shows what is left of a box")
        yield opened


@pytest.mark.parametrize("source", STARTS_TASKS.values(), ids=STARTS_TASKS.keys())
def test_nothing_is_left_of_a_box_in_which_a_task_was_started(way: Way, source: str) -> None:
    way.launcher.settle()
    known = set(populated_cgroups())
    for _ in range(2):
        way.python(source, limits=ROOMY)
        assert set(populated_cgroups()) <= known


def test_what_is_left_of_other_boxes_is_removed_beside_later_runs(
    launcher: ZygoteLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ended, "KEPT_MAX", 2)
    known = set(cgroups_of_this_process())
    for source in [*STARTS_NONE.values()] * 3:
        launcher.run_python(PythonRun(source=source.encode()))
        left = {path.name for path in set(cgroups_of_this_process()) - known}
        assert len(left) <= 3 + FREE_MAX
        assert len({path.name for path in populated_cgroups()}) <= 3
    launcher.settle()
    assert set(cgroups_of_this_process()) <= known


@pytest.mark.parametrize(
    ("trusts_pid_1", "says_alone", "is_waited_for"),
    [(True, True, False), (True, False, True), (False, True, True)],
)
def test_a_run_waits_for_pid_1_unless_it_can_be_believed_that_all_else_is_dead(
    *, trusts_pid_1: bool, says_alone: bool, is_waited_for: bool
) -> None:
    """With another process in place of pid 1, which ends only when nothing else is left to hear."""
    with contextlib.ExitStack() as held:
        process = held.enter_context(subprocess.Popen(["cat"], stdin=subprocess.PIPE))
        assert process.stdin is not None
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        held.enter_context(theirs)
        pidfd = os.pidfd_open(process.pid)
        held.callback(os.close, pidfd)
        output, writer = os.pipe()
        held.callback(os.close, output)
        began = f"{time.monotonic_ns()} 0 0 0 1"
        theirs.send(f"started {began}".encode())
        theirs.send(f"ended 0 0 0 {time.monotonic_ns()} 0 0 0 {int(says_alone)}".encode())
        os.write(writer, b"said")
        os.close(writer)
        started = Started(
            pid=process.pid,
            pidfd=pidfd,
            box=ours,
            streams={output: bytearray()},
            account=Proc().create(),
            limits=QUICK,
            began_ns=time.monotonic_ns(),
        )
        watch = Ending(started, Clock(), trusts_pid_1=trusts_pid_1)
        watch.end_of_pid_1 = process.stdin.close if is_waited_for else None
        assert watch.until_ended().exit_code == 0
        assert bytes(started.streams[output]) == b"said"
        assert watch.is_dead is is_waited_for
        ours.close()


class Ending(Watch):
    """Pid 1 ends once its last message has been heard."""

    end_of_pid_1: Callable[[], None] | None = None

    def _note(self, what: str, details: str) -> None:
        super()._note(what, details)
        if what == "ended" and self.end_of_pid_1 is not None:
            self.end_of_pid_1()


def test_the_result_is_the_same_as_of_a_box_that_is_waited_for(
    launcher: ZygoteLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Output, code, files and memory are all there when the program has ended."""
    source = (
        b"import sys\nopen('out', 'w').write('x' * 100_000)\nkept = bytearray(30_000_000)\n"
        b"print('y' * 200_000)\nprint('z', file=sys.stderr)\nraise SystemExit(7)"
    )
    run = PythonRun(source=source, collect=("out",))
    early = [launcher.run_python(run) for _ in range(3)]
    monkeypatch.setattr(ZygoteLauncher, "_trusts_pid_1", lambda *_: False)
    for one, other in zip(early, [launcher.run_python(run) for _ in range(3)], strict=True):
        assert (one.status, one.exit_code) == (other.status, other.exit_code)
        assert (one.stdout, one.stderr, one.files) == (other.stdout, other.stderr, other.files)
        assert one.memory_bytes_peak >= 30_000_000 <= other.memory_bytes_peak


def test_broken_limits_are_told_from_each_other_as_before(launcher: ZygoteLauncher) -> None:
    fills = PythonRun(
        source=b"kept = []\nwhile True: kept.append(bytearray(10_000_000))", limits=QUICK
    )
    assert launcher.run_python(fills).status is RunStatus.MEMORY_LIMIT
    spins = CommandRun(argv=("sh", "-c", "while :; do :; done"), limits=QUICK)
    assert launcher.run(spins).status is RunStatus.CPU_LIMIT


def test_a_harness_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pid 1 runs the code of tests."""
    believed: list[bool] = []

    class Noted(Watch):
        def __init__(self, run: Started, clock: Clock, *, trusts_pid_1: bool) -> None:
            believed.append(trusts_pid_1)
            super().__init__(run, clock, trusts_pid_1=trusts_pid_1)

    monkeypatch.setattr(base, "Watch", Noted)
    module = Path(__file__).with_name("harness_under_test.py")
    inside = Inside(harnesses={"under_test": module})
    with ZygoteLauncher(SandboxSettings(), Clock(), inside=inside) as launcher:
        launcher.run_python(PythonRun(source=b""))
        with contextlib.suppress(SandboxError):
            launcher.run_harness(HarnessRun(module="under_test", payload=b"", sealed=b"{}"))
    assert believed == [True, False]


# -- the list by itself, with other processes in place of pid 1 ------------------------------------


class Waiter:
    """A process that lives until it reads no more, and whether its box was closed."""

    def __init__(self, boxes: EndedBoxes) -> None:
        self.process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
        self.pidfd = os.pidfd_open(self.process.pid)
        self.is_closed = self.is_known_dead = False
        stack = contextlib.ExitStack()
        stack.callback(self._close)
        boxes.add(self.pidfd, stack, died=self._died)

    def _died(self) -> None:
        assert not self.is_closed
        self.is_known_dead = True

    def _close(self) -> None:
        self.is_closed = True
        os.close(self.pidfd)

    def end(self) -> None:
        self.process.communicate()


def test_a_box_is_closed_once_it_is_dead_and_not_before() -> None:
    boxes = EndedBoxes()
    one, other = Waiter(boxes), Waiter(boxes)
    boxes.remove()
    assert not one.is_closed
    assert not other.is_closed
    other.end()
    boxes.remove()
    assert (one.is_closed, other.is_closed) == (False, True)
    assert (one.is_known_dead, other.is_known_dead) == (False, True)
    one.end()
    boxes.close()
    assert one.is_closed


def test_one_too_many_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended, "KEPT_MAX", 1)
    boxes = EndedBoxes()
    first, second = Waiter(boxes), Waiter(boxes)
    os.kill(first.process.pid, signal.SIGKILL)
    boxes.remove()
    assert (first.is_closed, second.is_closed) == (True, False)
    for one in (first, second):
        one.end()
    boxes.close()


def test_a_box_that_does_not_end_is_killed_and_an_error_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ended, "_DIE_S", 0.01)
    boxes = EndedBoxes()
    stuck, other = Waiter(boxes), Waiter(boxes)
    other.end()
    with pytest.raises(SandboxError, match="does not end"):
        boxes.close()
    assert stuck.is_closed
    assert not stuck.is_known_dead
    assert other.is_closed
    assert stuck.process.wait(60) == -signal.SIGKILL
    assert stuck.process.stdin is not None
    stuck.process.stdin.close()


def test_a_box_that_dies_with_its_zygote_is_removed_too(launcher: ZygoteLauncher) -> None:
    known = set(cgroups_of_this_process())
    launcher.run_python(PythonRun(source=b""))
    os.kill(launcher.zygote_pid, signal.SIGKILL)
    launcher.settle()
    until(lambda: set(cgroups_of_this_process()) <= known, "a cgroup is left", within_s=60)
