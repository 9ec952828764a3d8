"""Measures how long a process tree was blocked by itself: asleep, or waiting for itself.

A tree is blocked while none of its tasks runs or is ready to run. Wall time shows that only on an
idle machine, so blocked time is wall time minus all delays that others cause:

* time on a CPU, and time ready to run without a CPU (run-queue delay, `/proc/.../schedstat`), of
  every task of the tree;
* an interval at whose end a task is delayed in the kernel (page faults, reclaim);
* time by which the observer was late without having waited for a core itself: the machine stalled.

The kernel accounts for a wait for a core when it ends. So an interval with a task ready to run at
its end is carried over, and counted minus the wait that the next sample finds.

Counting begins and ends when the tree's parent, pid 1 of its box, saw the program begin and end
(`Edge`), so neither end is lost if the observer is late. All errors are in the tree's favour: the
times of parallel tasks are summed, and if tasks started or ended while the machine was busy, their
share of the waiting is unknown and the interval is excused. Excused time is counted separately, for
a tree that only forks.

Loaded by the zygote: standard library only, and little of it. All times are nanoseconds.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

LATE_NS: Final = 5_000_000
"""How late a sample may be before the lateness counts as the machine's."""
EXPLAINED_NS_MAX: Final = 1_000_000_000
"""How much lateness of one sample the observer's own wait for a core explains."""
BUSY_SHARE: Final = 0.1
"""The machine was busy if some task waited for a CPU for this share of an interval."""
TASKS_MAX: Final = 4_096
"""Limit of one sample."""
_PRESSURE: Final = "/proc/pressure/cpu"
_TOTAL: Final = b"total="
_UNSEEN: Final = (-1, -1)
"""Represents the program if no sample has seen it."""
_MORE: Final = (-2, -2)
"""Represents tasks that started and ended between two samples."""
_VFORK_CALLS: Final = frozenset(
    {b"220", b"435"} if os.uname().machine == "aarch64" else {b"56", b"58", b"435"}
)
"""clone, vfork, clone3: a task asleep in these calls waits for its own child."""


class Interval(NamedTuple):
    """The interval between two samples."""

    wall_ns: int
    late_ns: int
    """The part by which the second sample was late for no reason known to the observer."""
    ran_ns: int
    """On a CPU, all tasks together."""
    delayed_ns: int
    """Ready to run without a CPU, all tasks together, as far as accounted for."""
    was_ready: bool
    """At its beginning a task was ready to run."""
    is_ready: bool
    """At its end a task was ready to run."""
    is_held: bool
    """At its end a task was delayed in the kernel."""
    is_unclear: bool
    """Tasks started or ended while the machine was busy."""


class Count(NamedTuple):
    """The contribution of one interval."""

    blocked_ns: int = 0
    excused_ns: int = 0
    carried_ns: int = 0
    """Blocked, unless the next sample shows that it was a wait for a core."""


def counted(interval: Interval, carried_ns: int = 0) -> Count:
    """Split the time that no one else caused into blocked time and undecided time."""
    late_ns = max(0, interval.late_ns - LATE_NS)
    idle_ns = interval.wall_ns - late_ns - interval.ran_ns - interval.delayed_ns
    if interval.is_held:
        return Count()
    if interval.is_ready:
        if interval.is_unclear:
            return Count()
        # Ready at both ends: unaccounted time may be steal time of the host.
        more_ns = min(0, idle_ns) if interval.was_ready else idle_ns
        return Count(carried_ns=max(0, carried_ns + more_ns))
    idle_ns = max(0, carried_ns + idle_ns)
    return Count(excused_ns=idle_ns) if interval.is_unclear else Count(blocked_ns=idle_ns)


class Reading(NamedTuple):
    """The kernel's counters of one task so far."""

    ran_ns: int
    delayed_ns: int


class Edge(NamedTuple):
    """The beginning or the end of a tree's first task, as pid 1 of its box saw it."""

    at_ns: int
    booked: Reading
    is_head: bool
    """Pid 1 is that task itself (a harness); otherwise it is not part of the tree."""
    is_alone: bool
    """No other task did any work; set at the end only."""


def words_of(edge: Edge) -> str:
    """Return the words that `edge_of` reads."""
    return " ".join(map(str, (edge.at_ns, *edge.booked, int(edge.is_head), int(edge.is_alone))))


def edge_of(words: Sequence[str]) -> Edge:
    """Decode the result of `words_of`, split."""
    at_ns, ran_ns, delayed_ns, is_head, is_alone = map(int, words)
    return Edge(at_ns, Reading(ran_ns, delayed_ns), bool(is_head), bool(is_alone))


class _Task(NamedTuple):
    ran_ns: int
    delayed_ns: int
    state: bytes

    @property
    def is_ready(self) -> bool:
        return self.state == b"R"

    @property
    def is_held(self) -> bool:
        return self.state == b"D"


_Tasks = dict[tuple[int, int], _Task]
_NOTHING: Final = _Task(0, 0, b"S")


def _booked_between(before: _Tasks, after: _Tasks) -> tuple[int, int]:
    """Time on a CPU and time waiting for one, over all tasks that exist afterwards."""
    pairs = [(before.get(key, _NOTHING), task) for key, task in after.items()]
    ran_ns = sum(task.ran_ns - was.ran_ns for was, task in pairs)
    return ran_ns, sum(task.delayed_ns - was.delayed_ns for was, task in pairs)


class _Around(NamedTuple):
    """Other measurements at one sample."""

    at_ns: int = 0
    cpu_ns: int = 0
    """CPU time of all the tree's tasks so far, including those that have ended."""
    waited_ns: int = 0
    """Total time so far in which some task of the machine waited for a CPU."""
    own_ns: int = 0
    """Total time so far in which the observer ran or waited for a core."""

    @classmethod
    def read(cls, now_ns: int, cpu_ns: int) -> "_Around":
        return cls(now_ns, cpu_ns, _machine_waited_ns(), _observer_ns())

    def explained_since(self, before: "_Around") -> int:
        return min(EXPLAINED_NS_MAX, self.own_ns - before.own_ns)

    def is_busy_since(self, before: "_Around") -> bool:
        return self.waited_ns - before.waited_ns > BUSY_SHARE * (self.at_ns - before.at_ns)


class BlockedTime:
    """Counts one tree, sample by sample."""

    def __init__(
        self, pids: Callable[[], Iterable[int]], cpu_ns: Callable[[], int] = lambda: 0
    ) -> None:
        """Count for the processes that `pids` lists at each sample.

        Args:
            pids: called at each sample.
            cpu_ns: CPU time of all tasks that were ever in the tree, if an account has it.
        """
        self._pids = pids
        self._cpu_ns = cpu_ns
        self._tasks: _Tasks = {}
        self._looked_ns = 0
        self._around = _Around()
        self._left_out: int | None = None
        """Pid 1 of the box if it is not part of the tree."""
        self._carried_ns = 0
        self.blocked_ns = 0
        """Time blocked by itself."""
        self.excused_ns = 0
        """Time that may be blocked; see the module docstring."""
        self.has_changed = False
        """Tasks started or ended between the last two samples."""

    def begin(self, now_ns: int) -> None:
        """Count from now on."""
        self._tasks, self._looked_ns = self._look(), now_ns
        self._around = _Around.read(now_ns, self._cpu_ns())

    def begin_at(self, edge: Edge, head: int, now_ns: int) -> None:
        """Count from `edge` on if the tree is still one task, otherwise from now.

        Args:
            edge: the beginning.
            head: pid 1 of the box.
            now_ns: the time.
        """
        self._left_out = None if edge.is_head else head
        self.begin(now_ns)
        if len(self._tasks) <= 1:
            first = next(iter(self._tasks), _UNSEEN)
            self._tasks = {first: _Task(*edge.booked, b"S")}
            self._looked_ns = edge.at_ns

    def look(self, now_ns: int, *, due_ns: int) -> None:
        """Add the interval since the last sample.

        Args:
            now_ns: the time.
            due_ns: when this sample was due.
        """
        tasks = self._look()
        # A program that is gone has ended; its end message will give the time.
        if tasks or self._left_out is None:
            self._add(tasks, now_ns, now_ns - due_ns)

    def end_at(self, edge: Edge, *, late_ns: int) -> None:
        """Add the interval from the last sample to `edge`, the end of the tree.

        Args:
            edge: the end.
            late_ns: time by which the observer woke late since the last sample.
        """
        last: _Tasks = {}
        if edge.is_head or len(self._tasks) == 1:
            last[next(iter(self._tasks))] = _Task(*edge.booked, b"X")
        if not edge.is_alone:
            last[_MORE] = _Task(0, 0, b"X")
        self._add(last, edge.at_ns, late_ns)

    def _add(self, after: _Tasks, now_ns: int, late_ns: int) -> None:
        before, around = self._tasks, _Around.read(now_ns, self._cpu_ns())
        self.has_changed = before.keys() != after.keys()
        ran_ns, delayed_ns = _booked_between(before, after)
        if self.has_changed:
            ran_ns = max(ran_ns, around.cpu_ns - self._around.cpu_ns)
        interval = Interval(
            wall_ns=now_ns - self._looked_ns,
            late_ns=late_ns - around.explained_since(self._around),
            ran_ns=ran_ns,
            delayed_ns=delayed_ns,
            was_ready=any(task.is_ready for task in before.values()),
            is_ready=any(task.is_ready for task in after.values()),
            is_held=any(task.is_held for task in after.values()),
            is_unclear=self.has_changed and around.is_busy_since(self._around),
        )
        count = counted(interval, self._carried_ns)
        self.blocked_ns += count.blocked_ns
        self.excused_ns += count.excused_ns
        self._carried_ns = count.carried_ns
        self._tasks, self._looked_ns, self._around = after, now_ns, around

    def _look(self) -> _Tasks:
        found: _Tasks = {}
        for pid in self._pids():
            if pid == self._left_out:
                continue
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


def reading(pid: int) -> Reading:
    """Return the counters of the main thread of `pid`; zeros if the kernel does not report them."""
    try:
        ran_ns, delayed_ns = _read(f"/proc/{pid}/schedstat").split()[:2]
        return Reading(int(ran_ns), int(delayed_ns))
    except (OSError, ValueError):
        return Reading(0, 0)


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
        if state == b"D" and _waits_for_child(at):
            state = b"S"
        return _Task(int(ran_ns), int(waited_ns), state)
    except (OSError, IndexError, ValueError):
        return None


def _observer_ns() -> int:
    """Total time so far in which the threads of this process ran or waited for a core."""
    pid = os.getpid()
    tasks = [_task(pid, tid) for tid in _threads(pid)]
    return sum(task.ran_ns + task.delayed_ns for task in tasks if task is not None)


def _waits_for_child(at: str) -> bool:
    """Whether the task waits for its child; assumed if it hides its system call."""
    try:
        return _read(f"{at}/syscall").split()[0] in _VFORK_CALLS
    except (OSError, IndexError):
        return True


def _machine_waited_ns() -> int:
    """Total time so far in which some task of the machine waited for a CPU; 0 if unknown."""
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
