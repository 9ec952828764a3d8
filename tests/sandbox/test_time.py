"""Time that belongs to the program: what it does itself counts, what the machine takes does not.

The arithmetic is tried on every interval; how a tree is watched, on real ones.
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sandbox.conftest import QUICK, Way

from assay.sandbox.accounting.blocked import LATE_NS, Interval, blocked_and_excused_ns
from assay.sandbox.port import HeldUp, Limits, RunStatus

nanoseconds = st.integers(min_value=0, max_value=10**11)
intervals = st.builds(
    Interval,
    wall_ns=nanoseconds,
    late_ns=st.integers(min_value=-(10**9), max_value=10**11),
    ran_ns=nanoseconds,
    delayed_ns=nanoseconds,
    is_active=st.booleans(),
    is_unclear=st.booleans(),
)


@given(intervals)
def test_an_interval_counts_once_and_never_more_than_it_lasted(interval: Interval) -> None:
    blocked_ns, excused_ns = blocked_and_excused_ns(interval)
    assert blocked_ns >= 0
    assert excused_ns >= 0
    assert 0 in {blocked_ns, excused_ns}
    assert blocked_ns + excused_ns <= interval.wall_ns


@given(intervals, nanoseconds)
def test_waiting_for_a_core_never_adds_to_blocked_time(interval: Interval, more_ns: int) -> None:
    slowed = interval._replace(
        wall_ns=interval.wall_ns + more_ns, delayed_ns=interval.delayed_ns + more_ns
    )
    assert sum(blocked_and_excused_ns(slowed)) <= sum(blocked_and_excused_ns(interval))


@given(intervals, nanoseconds)
def test_a_machine_that_stands_still_never_adds_to_blocked_time(
    interval: Interval, more_ns: int
) -> None:
    late_ns = max(LATE_NS, interval.late_ns)
    begun = interval._replace(late_ns=late_ns)
    stalled = begun._replace(wall_ns=begun.wall_ns + more_ns, late_ns=late_ns + more_ns)
    assert sum(blocked_and_excused_ns(stalled)) == sum(blocked_and_excused_ns(begun))


@given(intervals)
def test_a_tree_that_is_ready_to_run_is_not_blocked(interval: Interval) -> None:
    assert blocked_and_excused_ns(interval._replace(is_active=True)) == (0, 0)


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
    "reads what nobody writes": "import os; os.read(os.pipe()[0], 1)",
    "waits for its own lock": (
        "import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()"
    ),
}


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
    with pytest.raises(HeldUp, match="held up by the machine"):
        way.python("while True: pass", limits=limits)


def test_a_run_out_of_time_that_was_blocked_is_the_programs_fault(way: Way) -> None:
    limits = Limits(cpu_s=60.0, blocked_s=0.2, wall_s=0.2)
    result = way.python("import time; time.sleep(100)", limits=replace(limits, wall_s=3.0))
    assert result.status is RunStatus.BLOCKED_LIMIT
