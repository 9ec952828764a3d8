"""Accounts in cgroup v1, and in hybrid hosts: one directory per controller."""

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator
from typing import Final

from assay.sandbox.accounting.account import Account, Backend, Usage
from assay.sandbox.accounting.directories import (
    LIMIT_OF,
    NUMBERS,
    PERIOD_US,
    field,
    kill_all,
    make,
    own_directory,
    own_name,
    read,
    remove,
    sweep,
    write,
)
from assay.sandbox.port import Limits

_WANTED: Final = ("memory", "pids", "cpuacct", "cpu")
_NEEDED: Final = frozenset({"memory", "pids", "cpuacct"})


class _V1Account(Account):
    def __init__(self, directories: dict[str, str]) -> None:
        self._at = directories
        for directory in directories.values():
            make(directory, lambda _: None)
        self._cpu = os.open(f"{directories['cpuacct']}/cpuacct.usage", os.O_RDONLY | os.O_CLOEXEC)

    def set_limits(self, limits: Limits, *, own_processes: int) -> None:
        write(f"{self._at['memory']}/memory.limit_in_bytes", str(limits.memory_bytes))
        write(f"{self._at['pids']}/pids.max", str(limits.processes + own_processes))
        if "cpu" in self._at:
            quota_us = int(limits.cpu_cores * PERIOD_US)
            write(f"{self._at['cpu']}/cpu.cfs_quota_us", str(quota_us))

    def open_joins(self) -> list[int]:
        # `tasks` and not `cgroup.procs`: moving the calling thread alone takes no global lock.
        flags = os.O_WRONLY | os.O_CLOEXEC
        return [os.open(f"{directory}/tasks", flags) for directory in self._at.values()]

    def watch(self, pid: int) -> None:
        pass

    def pids(self) -> Iterable[int]:
        return map(int, read(f"{self._at['cpuacct']}/cgroup.procs").split())

    def cpu_s(self) -> float:
        return int(os.pread(self._cpu, 32, 0)) / 1e9

    def usage(self) -> Usage:
        memory = self._at["memory"]
        return Usage(
            cpu_s=self.cpu_s(),
            memory_bytes_peak=int(read(f"{memory}/memory.max_usage_in_bytes")),
            oom_kills=field(read(f"{memory}/memory.oom_control"), "oom_kill"),
        )

    def close(self) -> None:
        os.close(self._cpu)
        if read(f"{self._at['pids']}/cgroup.procs"):
            write(f"{self._at['pids']}/pids.max", "0")
            kill_all(self._at["pids"])
        for directory in self._at.values():
            remove(directory)


class V1(Backend):
    """One directory per run and controller."""

    kind = "v1"

    def __init__(self) -> None:
        roots = {name: path for name, path in _controllers() if os.access(path, os.W_OK)}
        if not roots.keys() >= _NEEDED:
            raise OSError(errno.EROFS, "the v1 controllers memory, pids, cpuacct are not writable")
        self.limits = frozenset(LIMIT_OF[name] for name in roots)
        self._parents = {name: f"{root}/{own_name()}" for name, root in roots.items()}
        for root in roots.values():
            sweep(root)

    def create(self) -> Account:
        number = next(NUMBERS)
        return _V1Account({name: f"{parent}/{number}" for name, parent in self._parents.items()})

    def close(self) -> None:
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
