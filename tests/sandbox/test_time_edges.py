"""Instants and counters that belong together: a wait for a core between them counts for no one.

The waits are injected.
"""

import json
import os
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from assay.edge.clock import Clock
from assay.sandbox.accounting import blocked
from assay.sandbox.accounting.blocked import BlockedTime, Edge, Reading, words_of
from assay.sandbox.launchers import watch
from assay.sandbox.launchers.watch import Priority, Started, Watch
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import Limits, PythonRun

MS = 1_000_000
HELD_UP_MS = 300

START = """
import json, os, sys, time
from assay.sandbox.box.channel import RunRequest
from assay.sandbox.box.program import start_program
fork, forked = os.fork, []
def late():
    time.sleep({held_up_s})  # pid 1 waits for a core just before the fork
    forked.append(time.monotonic_ns())
    return fork()
os.fork = late
limits = dict(cpu_s=9, file_bytes=9, open_files=64, stack_bytes=1 << 20, address_bytes=0,
              processes=0)
header = dict(kind="command", argv=[], env={{}}, files=[], source=b"", limits=limits,
              directory="/", special=0)
request = RunRequest(header, [os.open("/dev/null", os.O_RDWR) for _ in range(3)])
program, began = start_program(request, "/", lambda: None, lambda: os._exit(0))
os.waitpid(program.pid, 0)
print(json.dumps([began.at_ns - forked[0], began.is_head]))
"""


def test_a_program_begins_after_its_fork_however_late_that_was() -> None:
    source = START.format(held_up_s=HELD_UP_MS / 1_000)
    told = subprocess.run(
        [sys.executable, "-c", source], check=True, capture_output=True, text=True
    )
    after_ns, is_head = json.loads(told.stdout)
    assert after_ns > 0
    assert is_head is False


def test_a_wait_of_the_observer_between_clock_and_counters_is_not_blocked_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The program is busy all the time; the observer loses its core while it reads the counters."""
    clock = {"now": 0, "waited": 0}
    held_up = iter([HELD_UP_MS * MS])

    def look(_self: BlockedTime) -> dict[tuple[int, int], object]:
        lost_ns = next(held_up, 0)
        clock["now"] += lost_ns
        clock["waited"] += lost_ns
        return {(7, 7): blocked._Task(clock["now"], 0, b"S")}

    monkeypatch.setattr(BlockedTime, "_look", look)
    monkeypatch.setattr(blocked, "_now_ns", lambda: clock["now"])
    monkeypatch.setattr(blocked, "_own_wait_ns", lambda: clock["waited"])
    meter = BlockedTime(lambda: (7,))
    meter.begin_new(0)
    for _ in range(2):
        clock["now"] += 50 * MS
        meter.look(clock["now"], due_ns=clock["now"])
    assert meter.blocked_ns == 0


def test_what_the_observer_was_late_before_the_start_excuses_nothing(tmp_path: Path) -> None:
    """It slept through the start of the box; the program then slept over its limit."""
    ours, theirs = socket.socketpair()
    with open(tmp_path / "pid", "wb") as file, theirs:
        run = Started(
            pid=1,
            pidfd=file.fileno(),
            box=ours,
            streams={},
            account=None,  # type: ignore[arg-type]  # not asked for a program that has ended
            limits=Limits(),
            began_ns=0,
        )
        run_account = type("Account", (), {"pids": lambda _: (), "cpu_s": lambda _: 0.0})
        run.account = run_account()
        observer = Watch(run, Clock(), trusts_pid_1=True)
        observer._late_ns = 60_000 * MS
        now_ns = time.monotonic_ns()
        began = Edge(now_ns - 400 * MS, Reading(3 * MS, 90 * MS), is_head=False, is_alone=True)
        ended = Edge(now_ns - 100 * MS, Reading(5 * MS, 91 * MS), is_head=False, is_alone=True)
        observer._note("started", words_of(began))
        assert observer._late_ns <= time.monotonic_ns() - began.at_ns
        observer._late_ns = 0
        observer._note("ended", f"0 5000 0 {words_of(ended)}")
        assert observer._blocked.blocked_ns == 297 * MS
        ours.close()


@pytest.mark.parametrize(
    ("source", "is_alone"),
    [
        ("pass", True),
        ("import _thread, time; _thread.start_new_thread(time.sleep, (9,))", False),
        ("import os\nif os.fork() == 0: os._exit(0)\nos.wait()", False),
    ],
)
def test_a_task_that_did_next_to_nothing_is_known_to_have_been_there(
    zygote: ZygoteLauncher, monkeypatch: pytest.MonkeyPatch, source: str, *, is_alone: bool
) -> None:
    """Its waits for a core are unknown once it has ended, so its interval must not count."""
    edges: list[Edge] = []
    end_at = BlockedTime.end_at

    def note(self: BlockedTime, edge: Edge, *, late_ns: int) -> None:
        edges.append(edge)
        end_at(self, edge, late_ns=late_ns)

    monkeypatch.setattr(BlockedTime, "end_at", note)
    zygote.run_python(PythonRun(source=source.encode()))
    assert [edge.is_alone for edge in edges] == [is_alone]


def test_the_watcher_of_a_run_is_ahead_of_programs_for_a_bounded_time(
    zygote: ZygoteLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The later it looks, the more of a sleep is excused that ended with its thread."""
    if not _may_be_raised():
        pytest.skip("this host gives real-time priority to no one")
    seen: list[int] = []
    handle = Watch._handle

    def noted(self: Watch, descriptor: int) -> None:
        seen.append(os.sched_getscheduler(0))
        handle(self, descriptor)

    monkeypatch.setattr(Watch, "_handle", noted)
    zygote.run_python(PythonRun(source=b"print(1)"))
    assert set(seen) == {os.SCHED_RR | os.SCHED_RESET_ON_FORK}
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
    seen.clear()
    monkeypatch.setattr(watch, "PRIORITY_NS_MAX", 0)
    zygote.run_python(PythonRun(source=b"for _ in range(9): print(1, flush=True)"))
    assert seen[-1] == os.SCHED_OTHER
    seen.clear()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(zygote.run_python, PythonRun(source=b"print(1)")).result()
    assert set(seen) == {os.SCHED_OTHER}, "it would wait for the interpreter's lock"


def _may_be_raised() -> bool:
    with Priority() as priority:
        return priority._is_raised


def test_a_sleep_that_ends_with_its_thread_is_lost_for_one_interval_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A watcher that is in time: 115 % of a limit stay more than the limit on a busy machine."""
    limit_ns, spacing = 250 * MS, blocked.spacing_ns(0.25)
    slept_ns = limit_ns * 115 // 100
    meter = BlockedTime(lambda: (7,))
    tasks: dict[tuple[int, int], object] = {}
    around = blocked._Around
    now = [0]
    monkeypatch.setattr(BlockedTime, "_look", lambda _: dict(tasks))
    monkeypatch.setattr(blocked, "_own_wait_ns", lambda: 0)
    monkeypatch.setattr(blocked, "_now_ns", lambda: now[0])
    monkeypatch.setattr(around, "read", lambda at_ns, _: around(at_ns, 0, at_ns))  # all busy
    meter.begin_new(0)
    while now[0] < slept_ns:
        now[0] += spacing
        tasks = {(7, 7): blocked._Task(0, 0, b"S"), (7, 8): blocked._Task(0, 0, b"S")}
        if now[0] >= slept_ns:
            del tasks[7, 8]
        meter.look(now[0], due_ns=now[0])
    assert limit_ns < meter.blocked_ns <= slept_ns
    assert meter.excused_ns == spacing


def test_where_the_kernel_accounts_for_no_waits_all_blocked_time_is_excused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A program that waits for a core looks like one that sleeps."""
    monkeypatch.setattr(blocked, "own_reading", lambda: Reading(0, 0))
    blocked.waits_known.cache_clear()
    try:
        meter = BlockedTime(lambda: ())
        meter.begin_new(0)
        meter.look(300 * MS, due_ns=300 * MS, has_answered=1)
    finally:
        monkeypatch.undo()
        blocked.waits_known.cache_clear()
    assert (meter.blocked_ns, meter.excused_ns) == (0, 300 * MS)
    assert blocked.waits_known(), "this kernel does"
