"""Accounts in cgroup v2: one tree.

Its "no internal processes" rule makes the first worker move the processes of its own cgroup into a
leaf `assay-host`.
"""

import contextlib
import errno
import os
from collections.abc import Iterable
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

HOST_LEAF: Final = "assay-host"
_WANTED: Final = frozenset({"memory", "pids", "cpu"})


class _V2Account(Account):
    def __init__(self, directory: str, limits: frozenset[str], controllers: frozenset[str]) -> None:
        self._at = directory
        self._limits = limits
        make(directory, lambda parent: _delegate(parent, controllers))
        self._cpu = os.open(f"{directory}/cpu.stat", os.O_RDONLY | os.O_CLOEXEC)

    def set_limits(self, limits: Limits, *, own_processes: int) -> None:
        if "memory" in self._limits:
            write(f"{self._at}/memory.max", str(limits.memory_bytes))
            write(f"{self._at}/memory.oom.group", "1")
            with contextlib.suppress(FileNotFoundError):  # a kernel without swap
                write(f"{self._at}/memory.swap.max", "0")
        if "processes" in self._limits:
            write(f"{self._at}/pids.max", str(limits.processes + own_processes))
        if "cpu_share" in self._limits:
            write(f"{self._at}/cpu.max", f"{int(limits.cpu_cores * PERIOD_US)} {PERIOD_US}")

    def open_joins(self) -> list[int]:
        return [os.open(f"{self._at}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)]

    def watch(self, pid: int) -> None:
        pass

    def pids(self) -> Iterable[int]:
        return map(int, read(f"{self._at}/cgroup.procs").split())

    def cpu_s(self) -> float:
        return field(os.pread(self._cpu, 4_096, 0).decode(), "usage_usec") / 1e6

    def usage(self) -> Usage:
        peak = oom_kills = 0
        if "memory" in self._limits:
            with contextlib.suppress(FileNotFoundError):  # memory.peak: since Linux 5.19
                peak = int(read(f"{self._at}/memory.peak"))
            oom_kills = field(read(f"{self._at}/memory.events"), "oom_kill")
        return Usage(cpu_s=self.cpu_s(), memory_bytes_peak=peak, oom_kills=oom_kills)

    def close(self) -> None:
        os.close(self._cpu)
        if "populated 1" in read(f"{self._at}/cgroup.events"):
            try:
                write(f"{self._at}/cgroup.kill", "1")
            except FileNotFoundError:  # since Linux 5.14
                kill_all(self._at)
        remove(self._at)


class V2(Backend):
    """One directory per run."""

    kind = "v2"

    def __init__(self) -> None:
        own = _own_cgroup()
        controllers = _WANTED.intersection(read(f"{own}/cgroup.controllers").split())
        _delegate(own, controllers)
        self.limits = frozenset(LIMIT_OF[name] for name in controllers) | {"cpu_time"}
        self._controllers = controllers
        sweep(own)
        self._parent = f"{own}/{own_name()}"

    def create(self) -> Account:
        directory = f"{self._parent}/{next(NUMBERS)}"
        return _V2Account(directory, self.limits, self._controllers)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.rmdir(self._parent)


def _own_cgroup() -> str:
    path = next(
        (ln[3:] for ln in read("/proc/self/cgroup").splitlines() if ln.startswith("0::")), "/"
    )
    for line in read("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        if right.startswith("cgroup2 "):
            root, mount_point = left.split(" ")[3:5]
            own = own_directory(mount_point, root, path)
            return own.removesuffix(f"/{HOST_LEAF}")
    raise OSError(errno.ENOENT, "no cgroup2 file system is mounted")


def _delegate(directory: str, controllers: frozenset[str]) -> None:
    """Let children of `directory` use `controllers`."""
    missing = controllers.difference(read(f"{directory}/cgroup.subtree_control").split())
    if not missing:
        return
    wanted = " ".join(f"+{name}" for name in sorted(missing))
    try:
        write(f"{directory}/cgroup.subtree_control", wanted)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        _move_to_leaf(directory)
        write(f"{directory}/cgroup.subtree_control", wanted)


def _move_to_leaf(directory: str) -> None:
    leaf = f"{directory}/{HOST_LEAF}"
    with contextlib.suppress(FileExistsError):
        os.mkdir(leaf)
    for pid in read(f"{directory}/cgroup.procs").split():
        with contextlib.suppress(ProcessLookupError):
            write(f"{leaf}/cgroup.procs", pid)


def full_v2() -> V2:
    """With every controller that limits need.

    Raises:
        OSError: the host lacks one.
    """
    controllers = read(f"{_own_cgroup()}/cgroup.controllers").split()
    if not _WANTED.issubset(controllers):
        raise OSError(errno.ENODEV, "cgroup2 here has no memory, pids and cpu controllers")
    return V2()
