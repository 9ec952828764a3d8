"""Time that belongs to the program: what it does itself counts, what the machine takes does not.

The arithmetic is tried on every interval; how a tree is watched, on real ones.
"""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sandbox.ways import QUICK, Way

from assay.sandbox.accounting.blocked import LATE_NS, Interval, counted
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import HeldUp, Limits, PythonRun, RunStatus

nanoseconds = st.integers(min_value=0, max_value=10**11)
intervals = st.builds(
    Interval,
    wall_ns=nanoseconds,
    late_ns=st.integers(min_value=-(10**9), max_value=10**11),
    ran_ns=nanoseconds,
    delayed_ns=nanoseconds,
    was_ready=st.booleans(),
    is_ready=st.booleans(),
    is_held=st.booleans(),
    is_unclear=st.booleans(),
    stolen_ns=nanoseconds,
)


@given(intervals, nanoseconds)
def test_an_interval_counts_once_and_never_more_than_it_lasted(
    interval: Interval, carried_ns: int
) -> None:
    count = counted(interval, carried_ns)
    assert min(count) >= 0
    assert sorted(count)[:2] == [0, 0]
    assert sum(count) <= carried_ns + interval.wall_ns


@given(intervals, nanoseconds, nanoseconds)
def test_waiting_for_a_core_never_adds_to_blocked_time(
    interval: Interval, carried_ns: int, more_ns: int
) -> None:
    slowed = interval._replace(
        wall_ns=interval.wall_ns + more_ns, delayed_ns=interval.delayed_ns + more_ns
    )
    assert sum(counted(slowed, carried_ns)) <= sum(counted(interval, carried_ns))


@given(intervals, nanoseconds)
def test_a_machine_that_stands_still_never_adds_to_blocked_time(
    interval: Interval, more_ns: int
) -> None:
    late_ns = max(LATE_NS, interval.late_ns)
    begun = interval._replace(late_ns=late_ns)
    stalled = begun._replace(wall_ns=begun.wall_ns + more_ns, late_ns=late_ns + more_ns)
    assert counted(stalled) == counted(begun)


@given(intervals)
def test_a_tree_that_is_ready_to_run_is_not_blocked_yet(interval: Interval) -> None:
    count = counted(interval._replace(is_ready=True))
    assert (count.blocked_ns, count.excused_ns) == (0, 0)


@given(intervals, nanoseconds)
def test_a_tree_held_up_in_the_kernel_is_not_blocked(interval: Interval, carried_ns: int) -> None:
    assert sum(counted(interval._replace(is_held=True), carried_ns)) == 0


class Deed(NamedTuple):
    """What a program with one task does for a time."""

    kind: Literal["asleep", "ready", "running"]
    lasts_ns: int


class Kernel:
    """What the kernel has booked for such a program at an instant: a wait when it ends."""

    def __init__(self, deeds: list[Deed]) -> None:
        self._deeds = deeds

    def at(self, now_ns: int) -> tuple[int, int, bool]:
        """Time run, time waited for a core, and whether the program is ready to run."""
        ran_ns = delayed_ns = at_ns = 0
        for kind, lasts_ns in self._deeds:
            spent_ns = min(lasts_ns, now_ns - at_ns)
            if kind == "running":
                ran_ns += spent_ns
            elif kind == "ready" and spent_ns == lasts_ns:
                delayed_ns += lasts_ns
            if at_ns <= now_ns < at_ns + lasts_ns:
                return ran_ns, delayed_ns, kind != "asleep"
            at_ns += lasts_ns
        return ran_ns, delayed_ns, False


def _counted_at(kernel: Kernel, looks: list[int], stolen_ns: int) -> int:
    """Blocked time by looks at these instants, on a machine from which this was taken each time."""
    blocked_ns = carried_ns = before_ns = 0
    ran_ns, delayed_ns, was_ready = 0, 0, False
    for now_ns in looks:
        ran, delayed, is_ready = kernel.at(now_ns)
        interval = Interval(
            wall_ns=now_ns - before_ns,
            late_ns=0,
            ran_ns=ran - ran_ns,
            delayed_ns=delayed - delayed_ns,
            was_ready=was_ready,
            is_ready=is_ready,
            is_held=False,
            is_unclear=False,
            stolen_ns=stolen_ns,
        )
        count = counted(interval, carried_ns)
        blocked_ns, carried_ns = blocked_ns + count.blocked_ns, count.carried_ns
        before_ns, ran_ns, delayed_ns, was_ready = now_ns, ran, delayed, is_ready
    return blocked_ns


@given(
    st.lists(
        st.builds(
            Deed,
            st.sampled_from(["asleep", "ready", "running"]),
            st.integers(min_value=1, max_value=1_000),
        ),
        min_size=1,
        max_size=20,
    ),
    st.lists(st.integers(min_value=1, max_value=20_000), max_size=20),
    st.integers(min_value=0, max_value=1_000),
)
def test_what_a_program_slept_counts_whole_wherever_the_looks_fall(
    deeds: list[Deed], wanted: list[int], stolen_ns: int
) -> None:
    end_ns = sum(deed.lasts_ns for deed in deeds)
    looks = sorted({at for at in wanted if at < end_ns} | {end_ns})
    slept_ns = sum(deed.lasts_ns for deed in deeds if deed.kind == "asleep")
    kernel = Kernel(deeds)
    assert _counted_at(kernel, looks, 0) == slept_ns
    found_ns = _counted_at(kernel, looks, stolen_ns)
    assert slept_ns - stolen_ns * len(looks) <= found_ns <= slept_ns


BRIEFLY = replace(QUICK, blocked_s=0.4)

BLOCKED = {
    "asleep": "import time; time.sleep(100)",
    "stopped by its own signal": "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
    "waits for a child that sleeps": (
        "import os, time\nif os.fork() == 0: time.sleep(100)\nos.wait()"
    ),
    "waits in vfork": "import ctypes\nc = ctypes.CDLL(None)\nif c.vfork() == 0: c.sleep(100)",
    "twenty threads asleep": (
        "import threading, time\n"
        "for _ in range(20): threading.Thread(target=time.sleep, args=(100,)).start()"
    ),
    "wakes now and then": "import time\nwhile True: time.sleep(0.01)",
    "forks now and then": (
        "import os, time\nwhile True:\n  if os.fork() == 0: os._exit(0)\n"
        "  os.wait(); time.sleep(0.03)"
    ),
    "reads what no one writes": "import os; os.read(os.pipe()[0], 1)",
    "waits for its own lock": (
        "import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()"
    ),
}


@contextmanager
def a_busy_machine(count: int) -> Iterator[None]:
    """So many processes that never sleep, beside what the test itself does."""
    argv = [sys.executable, "-S", "-c", "while True: pass"]
    running = [subprocess.Popen(argv) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


@pytest.mark.parametrize("neighbours", [0, 8])
@pytest.mark.parametrize(("sleep_s", "is_too_long"), [(0.15, False), (0.26, True)])
def test_a_sleeper_is_judged_the_same_idle_and_loaded(
    zygote: ZygoteLauncher, neighbours: int, sleep_s: float, *, is_too_long: bool
) -> None:
    """It ends by itself before or after its limit, wherever the looks fell."""
    program = PythonRun(
        source=f"import time; time.sleep({sleep_s})".encode(), limits=replace(QUICK, blocked_s=0.2)
    )
    with a_busy_machine(neighbours), ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: zygote.run_python(program), range(12)))
    expected = RunStatus.BLOCKED_LIMIT if is_too_long else RunStatus.EXITED
    assert {result.status for result in results} == {expected}, [r.blocked_s for r in results]


@pytest.mark.parametrize("name", BLOCKED)
def test_a_program_that_waits_for_itself_ends_at_its_blocked_limit(way: Way, name: str) -> None:
    result = way.python(BLOCKED[name], limits=BRIEFLY)
    # On a busy machine one that goes on waking may come to its CPU limit first.
    assert result.status in {RunStatus.BLOCKED_LIMIT, RunStatus.CPU_LIMIT}, result
    assert result.status is RunStatus.BLOCKED_LIMIT or "now and then" in name


def test_sleeping_within_the_limit_is_allowed_and_told(way: Way) -> None:
    result = way.python(
        "import time; time.sleep(0.5); print('awake')", limits=replace(QUICK, blocked_s=5.0)
    )
    assert result.stdout == b"awake\n"
    assert result.blocked_s <= 0.6


def test_a_run_that_the_machine_holds_up_is_nobodys_fault(way: Way) -> None:
    """Busy all the time, far from its limits, and out of the time that anybody waits."""
    limits = Limits(cpu_s=60.0, blocked_s=60.0, wall_s=0.3)
    with pytest.raises(HeldUp, match="delayed by the machine"):
        way.python("while True: pass", limits=limits)


def test_a_run_out_of_time_that_was_blocked_is_the_programs_fault(way: Way) -> None:
    limits = Limits(cpu_s=60.0, blocked_s=0.2, wall_s=0.2)
    result = way.python("import time; time.sleep(100)", limits=replace(limits, wall_s=3.0))
    assert result.status is RunStatus.BLOCKED_LIMIT
