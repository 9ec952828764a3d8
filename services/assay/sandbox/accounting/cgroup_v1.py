"""Accounts in cgroup v1, and in hybrid hosts: one directory per controller."""

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from assay.sandbox.accounting.account import Account, Backend
from assay.sandbox.accounting.directories import (
    LIMIT_OF,
    NUMBERS,
    field,
    kill_all,
    make,
    own_directory,
    own_name,
    read,
    remove,
    sweep,
)
from assay.sandbox.accounting.groups import Group, Groups, number, text

_WANTED: Final = ("memory", "pids", "cpuacct", "cpu")
_NEEDED: Final = frozenset({"memory", "pids", "cpuacct"})
_LIMIT_FILES: Final = {
    "memory": "memory.limit_in_bytes",
    "pids": "pids.max",
    "cpu": "cpu.cfs_quota_us",
}


class _V1Group(Group):
    """One directory per controller."""

    def __init__(self, directories: dict[str, str]) -> None:
        super().__init__()
        self._at = directories
        for directory in directories.values():
            make(directory, lambda _: None)
        # `tasks` and not `cgroup.procs`: moving the calling thread alone takes no global lock.
        self.joins = [self._open(f"{at}/tasks", os.O_WRONLY) for at in directories.values()]
        self._limits = {
            LIMIT_OF[name]: self._open(f"{directories[name]}/{file}", os.O_WRONLY)
            for name, file in _LIMIT_FILES.items()
            if name in directories
        }
        self._cpu = self._open(f"{directories['cpuacct']}/cpuacct.usage")
        self._tasks = self._open(f"{directories['pids']}/pids.current")
        memory = directories["memory"]
        self._memory = self._open(f"{memory}/memory.usage_in_bytes")
        self._peak = self._open(f"{memory}/memory.max_usage_in_bytes", os.O_RDWR)
        self._kills = self._open(f"{memory}/memory.oom_control")

    def set_limits(self, limits: Mapping[str, int]) -> None:
        for name, descriptor in self._limits.items():
            os.pwrite(descriptor, b"%d" % limits[name], 0)

    def tasks(self) -> int:
        return number(self._tasks)

    def pids(self) -> Iterable[int]:
        return map(int, read(f"{self._at['cpuacct']}/cgroup.procs").split())

    def cpu_s(self) -> float:
        return number(self._cpu) / 1e9

    def memory_bytes(self) -> int:
        return number(self._memory)

    def memory_bytes_peak(self) -> int:
        return number(self._peak)

    def reset_peak(self) -> bool:
        os.pwrite(self._peak, b"0", 0)
        return True

    def oom_kills(self) -> int:
        return field(text(self._kills), "oom_kill")

    def kill(self) -> None:
        os.pwrite(self._limits["processes"], b"0", 0)
        kill_all(self._at["pids"])

    def remove(self) -> None:
        self._held.close()
        for directory in self._at.values():
            remove(directory)


class V1(Backend):
    """One directory per cgroup and controller."""

    kind = "v1"

    def __init__(self) -> None:
        roots = {name: path for name, path in _controllers() if os.access(path, os.W_OK)}
        if not roots.keys() >= _NEEDED:
            raise OSError(errno.EROFS, "the v1 controllers memory, pids, cpuacct are not writable")
        self.limits = frozenset(LIMIT_OF[name] for name in roots)
        self._parents = {name: f"{root}/{own_name()}" for name, root in roots.items()}
        self._groups = Groups(self._made)
        for root in roots.values():
            sweep(root)

    def _made(self) -> Group:
        named = next(NUMBERS)
        return _V1Group({name: f"{parent}/{named}" for name, parent in self._parents.items()})

    def create(self) -> Account:
        return self._groups.take()

    def trim(self) -> None:
        self._groups.remove_all()

    def close(self) -> None:
        self.trim()
        for parent in self._parents.values():
            with contextlib.suppress(OSError):
                os.rmdir(parent)


def _controllers() -> Iterator[tuple[str, str]]:
    """Yield each wanted controller and the directory of this process's own cgroup in it."""
    own = {}
    for line in read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        own.update(dict.fromkeys(controllers.split(","), path))
    for line in read("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        if kind != "cgroup":
            continue
        root, mount_point = left.split(" ")[3:5]
        for controller in set(options.split(",")).intersection(_WANTED):
            yield controller, own_directory(mount_point, root, own.get(controller, "/"))
