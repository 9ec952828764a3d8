"""How long a process tree was blocked by its own doing: asleep, waiting for itself or for nobody.

A tree is blocked while no task of it runs and none is ready to run. Wall time tells that only on a
machine with nothing else to do, so what is counted is wall time less all that others cause:

* time on a CPU, and time ready to run and not let (run-queue delay, `/proc/.../schedstat`), of
  every task of the tree;
* an interval at whose end a task is ready to run or held up in the kernel (page faults, reclaim);
* time by which the observer was late without having waited for a core itself: the machine stood
  still.

All errors are in the tree's favour: tasks that run side by side are summed, and where tasks came or
went while the machine was busy, their share of the waiting is unknown and the interval is excused.
Excused time is counted apart, for a tree that does nothing but fork.

Loaded by the zygote: standard library only, and little of it. All times are nanoseconds.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

LATE_NS: Final = 5_000_000
"""How late a look may be before the lateness is the machine's."""
EXPLAINED_NS_MAX: Final = 1_000_000_000
"""How much lateness of one look the observer's own waiting for a core explains."""
BUSY_SHARE: Final = 0.1
"""Some task of the machine waited for a CPU for this share of an interval: it was busy."""
TASKS_MAX: Final = 4_096
"""Of one look."""
_PRESSURE: Final = "/proc/pressure/cpu"
_TOTAL: Final = b"total="
_VFORK_CALLS: Final = frozenset(
    {b"220", b"435"} if os.uname().machine == "aarch64" else {b"56", b"58", b"435"}
)
"""clone, vfork, clone3: who sleeps in the kernel there waits for a child of its own."""


class Interval(NamedTuple):
    """What happened between two looks."""

    wall_ns: int
    late_ns: int
    """Of it, by which the second look was late for no reason that the observer knows."""
    ran_ns: int
    """On a CPU, all tasks together."""
    delayed_ns: int
    """Ready to run and not let, all tasks together."""
    is_active: bool
    """At its end a task was ready to run, or held up in the kernel."""
    is_unclear: bool
    """Tasks came or went while the machine was busy."""


def blocked_and_excused_ns(interval: Interval) -> tuple[int, int]:
    """Split what nobody else caused into blocked time and time that cannot be told."""
    late_ns = max(0, interval.late_ns - LATE_NS)
    idle_ns = max(0, interval.wall_ns - late_ns - interval.ran_ns - interval.delayed_ns)
    if interval.is_active:
        return 0, 0
    return (0, idle_ns) if interval.is_unclear else (idle_ns, 0)


class _Task(NamedTuple):
    ran_ns: int
    delayed_ns: int
    is_active: bool


class BlockedTime:
    """Counts one tree, look by look."""

    def __init__(self, pids: Callable[[], Iterable[int]]) -> None:
        """Count for the processes that `pids` lists at each look."""
        self._pids = pids
        self._tasks: dict[tuple[int, int], _Task] = {}
        self._looked_ns = 0
        self._waited_ns = 0
        self._own_ns = 0
        self.blocked_ns = 0
        """Blocked by its own doing."""
        self.excused_ns = 0
        """Perhaps blocked; see above."""
        self.has_changed = False
        """Tasks came or went between the last two looks."""

    def begin(self, now_ns: int) -> None:
        """Count from now on."""
        self._tasks = self._look()
        self._waited_ns = _machine_waited_ns()
        self._own_ns = _observer_ns()
        self._looked_ns = now_ns

    def look(self, now_ns: int, *, due_ns: int) -> None:
        """Add the interval since the last look.

        Args:
            now_ns: the time.
            due_ns: when this look was to happen.
        """
        before, after = self._tasks, self._look()
        waited_ns, own_ns = _machine_waited_ns(), _observer_ns()
        explained_ns = min(EXPLAINED_NS_MAX, own_ns - self._own_ns)
        self.has_changed = before.keys() != after.keys()
        nothing = _Task(0, 0, is_active=False)
        wall_ns = now_ns - self._looked_ns
        is_busy = waited_ns - self._waited_ns > BUSY_SHARE * wall_ns
        told = Interval(
            wall_ns=wall_ns,
            late_ns=now_ns - due_ns - explained_ns,
            ran_ns=sum(t.ran_ns - before.get(key, nothing).ran_ns for key, t in after.items()),
            delayed_ns=sum(
                t.delayed_ns - before.get(key, nothing).delayed_ns for key, t in after.items()
            ),
            is_active=any(task.is_active for task in after.values()),
            is_unclear=self.has_changed and is_busy,
        )
        blocked_ns, excused_ns = blocked_and_excused_ns(told)
        self.blocked_ns += blocked_ns
        self.excused_ns += excused_ns
        self._tasks, self._looked_ns = after, now_ns
        self._waited_ns, self._own_ns = waited_ns, own_ns

    def _look(self) -> dict[tuple[int, int], _Task]:
        found: dict[tuple[int, int], _Task] = {}
        for pid in self._pids():
            for tid in _threads(pid):
                if len(found) >= TASKS_MAX:
                    return found
                task = _task(pid, tid)
                if task is not None:
                    found[pid, tid] = task
        return found


def tree(root: int) -> Iterator[int]:
    """Yield `root` and all processes below it."""
    pids = [root]
    for seen, pid in enumerate(pids):
        if seen >= TASKS_MAX:
            return
        for tid in _threads(pid):
            try:
                pids.extend(map(int, _read(f"/proc/{pid}/task/{tid}/children").split()))
            except OSError:
                continue
        yield pid


def delayed_ns(pid: int) -> int:
    """How long the main thread of `pid` was ready to run and not let; 0 where nobody tells."""
    try:
        return int(_read(f"/proc/{pid}/schedstat").split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def _threads(pid: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def _task(pid: int, tid: int) -> _Task | None:
    at = f"/proc/{pid}/task/{tid}"
    try:
        state = _read(f"{at}/stat").rpartition(b")")[2].split()[0]
        ran_ns, waited_ns = _read(f"{at}/schedstat").split()[:2]
        active = state == b"R" or (state == b"D" and not _waits_for_child(at))
        return _Task(int(ran_ns), int(waited_ns), active)
    except (OSError, IndexError, ValueError):
        return None


def _observer_ns() -> int:
    """For how long so far the threads of this process ran or waited for a core."""
    pid = os.getpid()
    tasks = [_task(pid, tid) for tid in _threads(pid)]
    return sum(task.ran_ns + task.delayed_ns for task in tasks if task is not None)


def _waits_for_child(at: str) -> bool:
    """A task that hides its system call is taken for one that does."""
    try:
        return _read(f"{at}/syscall").split()[0] in _VFORK_CALLS
    except (OSError, IndexError):
        return True


def _machine_waited_ns() -> int:
    """For how long so far some task of the machine waited for a CPU; 0 where nobody tells."""
    try:
        first = _read(_PRESSURE).split(b"\n", 1)[0]
    except OSError:
        return 0
    return int(first.rpartition(_TOTAL)[2]) * 1_000


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 4_096)
    finally:
        os.close(descriptor)
