"""Accounts in cgroup v2: one tree.

Its "no internal processes" rule makes the first worker move the processes of its own cgroup into a
leaf `assay-host`.
"""

import contextlib
import errno
import os
from collections.abc import Iterable, Mapping
from typing import Final

from assay.sandbox.accounting.account import Account, Backend
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
from assay.sandbox.accounting.groups import Group, Groups, number, text

HOST_LEAF: Final = "assay-host"
_WANTED: Final = frozenset({"memory", "pids", "cpu"})
_LIMIT_FILES: Final = {"memory": "memory.max", "processes": "pids.max", "cpu_share": "cpu.max"}


class _V2Group(Group):
    """One directory of the unified tree."""

    def __init__(self, directory: str, limits: frozenset[str], controllers: frozenset[str]) -> None:
        super().__init__()
        self._at = directory
        make(directory, lambda parent: _delegate(parent, controllers))
        self.joins = [self._open(f"{directory}/cgroup.procs", os.O_WRONLY)]
        self._limits = {
            name: self._open(f"{directory}/{file}", os.O_WRONLY)
            for name, file in _LIMIT_FILES.items()
            if name in limits
        }
        self._cpu = self._open(f"{directory}/cpu.stat")
        self._tasks = self._open(f"{directory}/pids.current") if "processes" in limits else None
        self._memory: int | None = None
        self._kills: int | None = None
        self._peak: int | None = None
        self._peak_is_reset = True
        if "memory" in limits:
            self._set_up_memory()

    def _set_up_memory(self) -> None:
        write(f"{self._at}/memory.oom.group", "1")
        with contextlib.suppress(FileNotFoundError):  # a kernel without swap
            write(f"{self._at}/memory.swap.max", "0")
        self._memory = self._open(f"{self._at}/memory.current")
        self._kills = self._open(f"{self._at}/memory.events")
        peak = f"{self._at}/memory.peak"
        try:
            self._peak = self._open(peak, os.O_RDWR)  # since Linux 6.12
        except OSError:
            self._peak_is_reset = False
            with contextlib.suppress(FileNotFoundError):  # since Linux 5.19
                self._peak = self._open(peak)

    def set_limits(self, limits: Mapping[str, int]) -> None:
        for name, descriptor in self._limits.items():
            period = f" {PERIOD_US}" if name == "cpu_share" else ""
            os.pwrite(descriptor, f"{limits[name]}{period}".encode(), 0)

    def tasks(self) -> int:
        if self._tasks is not None:
            return number(self._tasks)
        return field(read(f"{self._at}/cgroup.events"), "populated")

    def pids(self) -> Iterable[int]:
        return map(int, read(f"{self._at}/cgroup.procs").split())

    def cpu_s(self) -> float:
        return field(text(self._cpu), "usage_usec") / 1e6

    def memory_bytes(self) -> int:
        return 0 if self._memory is None else number(self._memory)

    def memory_bytes_peak(self) -> int:
        return 0 if self._peak is None else number(self._peak)

    def reset_peak(self) -> bool:
        if self._peak is not None and self._peak_is_reset:
            os.pwrite(self._peak, b"0", 0)
        return self._peak_is_reset

    def oom_kills(self) -> int:
        return 0 if self._kills is None else field(text(self._kills), "oom_kill")

    def kill(self) -> None:
        try:
            write(f"{self._at}/cgroup.kill", "1")
        except FileNotFoundError:  # since Linux 5.14
            kill_all(self._at)

    def remove(self) -> None:
        self._held.close()
        remove(self._at)


class V2(Backend):
    """One directory per cgroup."""

    kind = "v2"

    def __init__(self) -> None:
        own = _own_cgroup()
        controllers = _WANTED.intersection(read(f"{own}/cgroup.controllers").split())
        _delegate(own, controllers)
        self.limits = frozenset(LIMIT_OF[name] for name in controllers) | {"cpu_time"}
        self._controllers = controllers
        sweep(own)
        self._parent = f"{own}/{own_name()}"
        self._groups = Groups(self._made)

    def _made(self) -> Group:
        directory = f"{self._parent}/{next(NUMBERS)}"
        return _V2Group(directory, self.limits, self._controllers)

    def create(self) -> Account:
        return self._groups.take()

    def trim(self) -> None:
        self._groups.remove_all()

    def close(self) -> None:
        self.trim()
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
