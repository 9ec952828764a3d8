"""Cgroups that count one run after another.

To create and remove one takes the kernel a third of all CPU time that the launcher spends on a run.
So one serves again, but only if nothing of the run before is left in what it counts and limits
(`Group.renew`), and nothing can join it any more:

* the box of that run is dead: until then it may join, late, and would be in another run's
* no task of that run is counted, not even a dead one that no one has waited for
* nothing in it was ever killed for its memory: that count cannot be set back
* at most `LEFT_BYTES_MAX` are still charged to it. The kernel takes a moment to free what a dead
  process had, and keeps some of it; the next run may use that much more, so that no run is stopped
  for another's memory
* its highest memory is set back, and CPU time counts from where it stands
* its limits are written for each run, which for CPU time gives a whole quota

Any other is removed, and a new one made.
"""

import contextlib
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from assay.sandbox.accounting.account import Account, Usage
from assay.sandbox.accounting.directories import PERIOD_US
from assay.sandbox.port import Limits

LEFT_BYTES_MAX: Final = 1024 * 1024
"""A trivial Python program leaves some 0.3 MiB for some milliseconds."""
FREE_MAX: Final = 4
"""Cgroups per launcher that wait for a run: one is in use, one or two are those of boxes whose
program has ended."""
_NUMBER_BYTES: Final = 32
_TEXT_BYTES: Final = 4_096


class Group(ABC):
    """A cgroup, whose files stay open as long as it is there."""

    joins: list[int]
    """Descriptors; writing `0` to each moves the writer into it."""

    def __init__(self) -> None:
        """Begin without open files."""
        self._held = contextlib.ExitStack()

    def _open(self, path: str, how: int = os.O_RDONLY) -> int:
        descriptor = os.open(path, how | os.O_CLOEXEC)
        self._held.callback(os.close, descriptor)
        return descriptor

    @abstractmethod
    def set_limits(self, limits: Mapping[str, int]) -> None:
        """Limit it.

        Args:
            limits: bytes of `memory`, number of `processes`, and `cpu_share` in microseconds per
                period of 0.1 s; what its controllers do not limit is left out.
        """

    @abstractmethod
    def tasks(self) -> int:
        """Number of tasks that are counted, dead ones included that no one has waited for."""

    @abstractmethod
    def pids(self) -> Iterable[int]:
        """Processes that live in it."""

    @abstractmethod
    def cpu_s(self) -> float:
        """CPU time of all that ever ran in it."""

    @abstractmethod
    def memory_bytes(self) -> int:
        """What is charged to it now."""

    @abstractmethod
    def memory_bytes_peak(self) -> int:
        """The most that was charged to it since `reset_peak`, or ever; 0 if nothing counts it."""

    @abstractmethod
    def reset_peak(self) -> bool:
        """Let the peak begin again; `False` where the kernel cannot."""

    @abstractmethod
    def oom_kills(self) -> int:
        """Processes that were killed for its memory."""

    @abstractmethod
    def kill(self) -> None:
        """Kill what is left in it, and let nothing begin.

        Raises:
            SandboxError: a process cannot be killed.
        """

    @abstractmethod
    def remove(self) -> None:
        """Remove it; it is empty.

        Raises:
            SandboxError: it stays busy.
        """

    def renew(self) -> int | None:
        """Make it ready for another run.

        Returns:
            Bytes that are still charged for the run before, or `None` if it cannot serve again.
        """
        try:
            if self.tasks() or self.oom_kills():
                return None
            left_bytes = self.memory_bytes()
            return left_bytes if left_bytes <= LEFT_BYTES_MAX and self.reset_peak() else None
        except OSError:  # someone else has removed it
            return None


def number(descriptor: int) -> int:
    """The number that a file of a cgroup holds."""
    return int(os.pread(descriptor, _NUMBER_BYTES, 0))


def text(descriptor: int) -> str:
    """What a file of a cgroup holds."""
    return os.pread(descriptor, _TEXT_BYTES, 0).decode()


class Groups:
    """Those of one launcher that wait for a run. Used from several threads."""

    def __init__(self, make: Callable[[], Group]) -> None:
        """Start with none; `make` creates one."""
        self._make = make
        self._free: deque[Group] = deque()

    def take(self) -> Account:
        """An account for one run, in the cgroup that has waited longest or in a new one."""
        while (group := self._oldest()) is not None:
            left_bytes = group.renew()
            if left_bytes is not None:
                return _GroupAccount(group, self, left_bytes)
            group.remove()
        return _GroupAccount(self._make(), self, 0)

    def give_back(self, group: Group) -> None:
        """Keep it for a later run, or remove it if enough are kept."""
        if len(self._free) < FREE_MAX:
            self._free.append(group)
        else:
            group.remove()

    def remove_all(self) -> None:
        """Remove those that wait."""
        while (group := self._oldest()) is not None:
            group.remove()

    def _oldest(self) -> Group | None:
        with contextlib.suppress(IndexError):
            return self._free.popleft()
        return None


class _GroupAccount(Account):
    """Of one run, in a cgroup that may have counted others before."""

    def __init__(self, group: Group, groups: Groups, left_bytes: int) -> None:
        self._group = group
        self._groups = groups
        self._left_bytes = left_bytes
        self._cpu_before_s = group.cpu_s()
        self._is_final = False

    def set_limits(self, limits: Limits, *, own_processes: int) -> None:
        self._group.set_limits(
            {
                "memory": limits.memory_bytes + self._left_bytes,
                "processes": limits.processes + own_processes,
                "cpu_share": int(limits.cpu_cores * PERIOD_US),
            }
        )

    @property
    def joins(self) -> list[int]:
        return self._group.joins

    def watch(self, pid: int) -> None:
        pass

    def pids(self) -> Iterable[int]:
        return self._group.pids()

    def cpu_s(self) -> float:
        return self._group.cpu_s() - self._cpu_before_s

    def usage(self) -> Usage:
        return Usage(
            cpu_s=self.cpu_s(),
            memory_bytes_peak=self._group.memory_bytes_peak(),
            oom_kills=self._group.oom_kills(),
        )

    def box_is_dead(self) -> None:
        self._is_final = True

    def close(self) -> None:
        if self._group.tasks():
            self._group.kill()
        if self._is_final:
            self._groups.give_back(self._group)
        else:
            self._group.remove()
