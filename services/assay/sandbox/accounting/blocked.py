"""Measures how long a process tree was blocked by itself: asleep, or waiting for itself.

A tree is blocked while none of its tasks runs or is ready to run. Wall time shows that only on an
idle machine, so blocked time is wall time minus all delays that others cause:

* time on a CPU, and time ready to run without a CPU (run-queue delay, `/proc/.../schedstat`), of
  every task of the tree;
* an interval at whose end a task is delayed in the kernel (page faults, reclaim);
* time by which the observer was late without having waited for a core itself: the machine stalled;
* time that the hypervisor or interrupts took from the machine (`/proc/stat`), if a task was ready
  to run at both ends of an interval: it may have been taken from that task.

The kernel accounts for a wait for a core when it ends. So an interval with a task ready to run at
its end is carried over, and counted minus the wait that a later sample finds. Nothing is lost
between samples, however late they are.

Counting begins and ends when the tree's parent, pid 1 of its box, saw the program begin and end
(`Edge`), so neither end is lost if the observer is late. All errors are in the tree's favour: the
times of parallel tasks are summed, and if tasks ended while the machine was busy, their share of
the waiting is unknown and the interval is excused: `spacing_ns` for each such interval, plus the
delay of the sample. Excused time is counted separately, for a tree that only forks.

Loaded by the zygote: standard library only, and little of it. All times are nanoseconds.
"""

import contextlib
import functools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

LATE_NS: Final = 5_000_000
"""How late a sample may be before the lateness counts as the machine's."""
EXPLAINED_NS_MAX: Final = 1_000_000_000
"""How much lateness of one sample the other threads of the observer explain."""
BUSY_SHARE: Final = 0.1
"""The machine was busy if some task waited for a CPU for this share of an interval."""
TASKS_MAX: Final = 4_096
"""Limit of one sample."""
_LINKS_OF_ONE_TASK: Final = 3
"""Of the directory of a process's tasks: each is one beside the directory's own two."""
_READINGS_MAX: Final = 8
"""How often one sample is read again because the observer waited for a core."""
_SPACING_NS: Final = (5_000_000, 50_000_000)
_SPACING_SHARE: Final = 0.02
_PRESSURE: Final = "/proc/pressure/cpu"
_MACHINE: Final = "/proc/stat"
_TAKEN: Final = slice(6, 9)
"""Columns of its first line: interrupts, soft interrupts, steal; in ticks."""
_TICK_NS: Final = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_TOTAL: Final = b"total="
_UNSEEN: Final = (-1, -1)
"""Represents the program until a sample has seen it."""
_MORE: Final = (-2, -2)
"""Represents tasks that started and ended between two samples."""
_VFORK_CALLS: Final = frozenset(
    {b"220", b"435"} if os.uname().machine == "aarch64" else {b"56", b"58", b"435"}
)
"""clone, vfork, clone3: a task asleep in these calls waits for its own child."""


def spacing_ns(limit_s: float) -> int:
    """Time between two samples whose interval may be lost: 2 % of the limit, 5 to 50 ms."""
    least_ns, most_ns = _SPACING_NS
    return max(least_ns, min(most_ns, int(limit_s * 1e9 * _SPACING_SHARE)))


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
    """Tasks ended while the machine was busy, or the kernel accounts for no waits."""
    stolen_ns: int
    """Taken from the machine by the hypervisor and interrupts, if tasks were ready at both ends."""


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
        # Ready at both ends: unaccounted time may have been taken from the task while it ran.
        more_ns = idle_ns
        if interval.was_ready and idle_ns > 0:
            more_ns = max(0, idle_ns - interval.stolen_ns)
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


def edge_of(words: Sequence[str | bytes]) -> Edge:
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
    waited_ns: int | None = None
    """Total time so far in which some task of the machine waited for a CPU; `None` if not read."""
    own_ns: int = 0
    """Total time so far in which the threads of the observer ran or waited for a core."""
    own_thread_ns: int = 0
    """The same of the observing thread."""

    @classmethod
    def read(cls, now_ns: int, cpu_ns: int) -> "_Around":
        own_thread_ns = _own_thread_ns()
        own_ns = _observer_ns(own_thread_ns)
        return cls(now_ns, cpu_ns, _machine_waited_ns(), own_ns, own_thread_ns)

    def explained_since(self, before: "_Around") -> int:
        """Lateness that is no stall of the machine: all of the thread's own, some of the others'
        (it may have waited for the interpreter's lock)."""
        others_ns = min(EXPLAINED_NS_MAX, self.own_ns - before.own_ns)
        return max(others_ns, self.own_thread_ns - before.own_thread_ns)

    def is_busy_since(self, before: "_Around") -> bool:
        if self.waited_ns is None or before.waited_ns is None:
            return True
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
        self._before = _Around()
        self._carried_ns = 0
        self.blocked_ns = 0
        """Time blocked by itself."""
        self.excused_ns = 0
        """Time that may be blocked; see the module docstring."""
        self._stolen_ns: int | None = None
        """What was taken from the machine so far, if a task was ready at the last sample."""
        self.has_several = False
        """There were several tasks at the last sample, or tasks started or ended since."""

    def begin(self, now_ns: int) -> None:
        """Count a tree that is there already, from now on."""
        self._tasks, self._looked_ns = self._look(), now_ns
        self._around = _Around.read(now_ns, self._cpu_ns())

    def begin_new(self, now_ns: int) -> None:
        """Count a tree that begins now; what its tasks did so far counts as done since.

        Reads nothing, for a tree that mostly ends before its first sample.
        """
        self._looked_ns = now_ns
        self._around = _Around(at_ns=now_ns)

    def expect(self) -> None:
        """Prepare for `begin_at`: from now on the observer's own waits explain its lateness."""
        own_thread_ns = _own_thread_ns()
        self._before = _Around(own_ns=_observer_ns(own_thread_ns), own_thread_ns=own_thread_ns)

    def begin_at(self, edge: Edge, head: int, now_ns: int) -> None:
        """Count from `edge` on, where a program had done nothing yet; reads none of its tasks.

        Args:
            edge: the beginning.
            head: pid 1 of the box.
            now_ns: the time.
        """
        self._left_out = None if edge.is_head else head
        first = (head, head) if edge.is_head else _UNSEEN
        self._tasks = {first: _Task(*edge.booked, b"S")}
        self._looked_ns = edge.at_ns
        self._around = self._before._replace(at_ns=now_ns)

    def undecided_ns(self, now_ns: int) -> int:
        """Time since the last sample, and time that it could not decide."""
        return self._carried_ns + now_ns - self._looked_ns

    def look(self, now_ns: int, *, due_ns: int, has_answered: int | None = None) -> None:
        """Add the interval since the last sample.

        Args:
            now_ns: the time.
            due_ns: when this sample was due.
            has_answered: a process whose main thread was running at `now_ns`, so that it does not
                wait for a core since before.
        """
        if has_answered is None:
            tasks, later_ns = self._look_together()
            now_ns, due_ns = now_ns + later_ns, due_ns + later_ns
        else:
            tasks = self._look()
        answered = tasks.get((has_answered or 0, has_answered or 0))
        if has_answered is not None and answered is not None:
            tasks[has_answered, has_answered] = answered._replace(state=b"S")
        # A program that is gone has ended; its end message will give the time.
        if tasks or self._left_out is None:
            if _UNSEEN in self._tasks and tasks:  # which one it is does not matter to the sums
                self._tasks = {min(tasks): self._tasks[_UNSEEN]}
            self._add(tasks, now_ns, now_ns - due_ns)

    def end_at(self, edge: Edge, *, late_ns: int) -> None:
        """Add the interval from the last sample to `edge`, the end of the tree.

        Args:
            edge: the end.
            late_ns: time by which the observer woke late since the last sample.
        """
        last: _Tasks = {}
        if edge.is_head or len(self._tasks) <= 1:
            last[next(iter(self._tasks), _UNSEEN)] = _Task(*edge.booked, b"X")
        if not edge.is_alone:
            last[_MORE] = _Task(0, 0, b"X")
        self._add(last, edge.at_ns, late_ns, is_end=True)

    def _add(self, after: _Tasks, now_ns: int, late_ns: int, *, is_end: bool = False) -> None:
        before = self._tasks
        self.has_several = len(after) > 1 or before.keys() - after.keys() != set()
        has_ended = bool(before.keys() - after.keys()) or _MORE in after
        around = self._around
        if not is_end or self.has_several or late_ns > LATE_NS:
            around = _Around.read(now_ns, self._cpu_ns())
        ran_ns, delayed_ns = _booked_between(before, after)
        if self.has_several:
            ran_ns = max(ran_ns, around.cpu_ns - self._around.cpu_ns)
        is_ready = any(task.is_ready for task in after.values())
        stolen_ns = _machine_taken_ns() if is_ready else None
        interval = Interval(
            wall_ns=now_ns - self._looked_ns,
            late_ns=late_ns - around.explained_since(self._around),
            ran_ns=ran_ns,
            delayed_ns=delayed_ns,
            was_ready=any(task.is_ready for task in before.values()),
            is_ready=is_ready,
            is_held=any(task.is_held for task in after.values()),
            is_unclear=not waits_known() or (has_ended and around.is_busy_since(self._around)),
            stolen_ns=_between(self._stolen_ns, stolen_ns),
        )
        count = counted(interval, self._carried_ns)
        self.blocked_ns += count.blocked_ns
        self.excused_ns += count.excused_ns
        self._carried_ns, self._stolen_ns = count.carried_ns, stolen_ns
        self._tasks, self._looked_ns, self._around = after, now_ns, around

    def _look_together(self) -> tuple[_Tasks, int]:
        """Read all tasks without a wait for a core in between, and how much later that was.

        Counters that are read later than the clock would be subtracted from the wrong interval.
        """
        began_ns = _now_ns()
        for _ in range(_READINGS_MAX):
            waited_ns, at_ns = _own_wait_ns(), _now_ns()
            tasks = self._look()
            if _own_wait_ns() == waited_ns:
                break
        return tasks, at_ns - began_ns

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
    return _reading(f"/proc/{pid}")


@functools.cache
def waits_known() -> bool:
    """Whether the kernel accounts for waits for a core. Some do not (gVisor, a kernel without
    `CONFIG_SCHED_INFO`): then all blocked time is excused, because it may have been a wait."""
    return own_reading().ran_ns > 0


def own_reading() -> Reading:
    """Return the counters of this process's main thread, whatever pid namespace `/proc` shows."""
    return _reading("/proc/self")


def _reading(directory: str) -> Reading:
    try:
        ran_ns, delayed_ns = _read(f"{directory}/schedstat").split()[:2]
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


def _observer_ns(own_thread_ns: int) -> int:
    """Total time so far in which the threads of this process ran or waited for a core."""
    if os.stat("/proc/self/task").st_nlink == _LINKS_OF_ONE_TASK:
        return own_thread_ns
    pid = os.getpid()
    return sum(sum(_reading(f"/proc/{pid}/task/{tid}")) for tid in _threads(pid))


def _own_thread_ns() -> int:
    """Total time so far in which this thread ran or waited for a core."""
    return sum(_reading("/proc/thread-self"))


def _own_wait_ns() -> int:
    """Total time so far in which this thread waited for a core."""
    return _reading("/proc/thread-self").delayed_ns


def _now_ns() -> int:
    return time.monotonic_ns()  # noqa: TID251 - measures a difference; no clock can be passed in


def _waits_for_child(at: str) -> bool:
    """Whether the task waits for its child; assumed if it hides its system call."""
    try:
        return _read(f"{at}/syscall").split()[0] in _VFORK_CALLS
    except (OSError, IndexError):
        return True


_KEPT: Final[dict[str, int]] = {}
"""Files of the machine -> open descriptors, for a process that will not see them."""


def keep_open() -> None:
    """Open the files of the machine, for harnesses: a box shows no such file."""
    for path in (_PRESSURE, _MACHINE):
        with contextlib.suppress(OSError):
            _KEPT[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def kept() -> list[int]:
    """Return the descriptors that `keep_open` opened."""
    return list(_KEPT.values())


def _machine_waited_ns() -> int:
    """Total time so far in which some task of the machine waited for a CPU; 0 if unknown."""
    try:
        first = _read(_PRESSURE).split(b"\n", 1)[0]
    except OSError:
        return 0
    return int(first.rpartition(_TOTAL)[2]) * 1_000


def _machine_taken_ns() -> int:
    """Total time so far that the hypervisor and interrupts took from all CPUs, in whole ticks; 0 if
    unknown."""
    try:
        words = _read(_MACHINE).split(b"\n", 1)[0].split()
    except OSError:
        return 0
    return sum(map(int, words[_TAKEN])) * _TICK_NS


def _between(before_ns: int | None, after_ns: int | None) -> int:
    """The difference, rounded up to whole ticks."""
    if before_ns is None or after_ns is None:
        return 0
    return after_ns - before_ns + _TICK_NS


def _read(path: str) -> bytes:
    if path in _KEPT:
        return os.pread(_KEPT[path], 4_096, 0)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 4_096)
    finally:
        os.close(descriptor)
