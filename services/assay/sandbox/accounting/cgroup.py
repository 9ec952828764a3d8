"""Accounting and limits of a run's whole process tree: cgroup v2, cgroup v1, or `/proc`.

Each run gets a new cgroup (a used one keeps old counts and charges), below one parent per process.
The parent is named `assay.<pid>.<start time>`, so that a later process can detect that its owner is
dead and remove it. The backend is chosen by trying; `Backend.limits` names what it limits.

* v2: one tree. Its "no internal processes" rule makes the first worker move the processes of its
  own cgroup into a leaf `assay-host`.
* v1, and hybrid hosts: one directory per controller.
* none: `/proc` is read during the run. Memory is checked by sampling (a page that several processes
  map counts once), and per-process resource limits do the rest. Memory that no sample sees is
  refused (files in memory: see `seccomp.py`) or bounded (the scratch file system).
"""

import contextlib
import errno
import itertools
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from assay.sandbox.accounting.blocked import tree
from assay.sandbox.port import Limits, SandboxError

HOST_LEAF: Final = "assay-host"
_PREFIX: Final = "assay."
_KILL_ROUNDS_MAX: Final = 2_000
_V2_WANTED: Final = frozenset({"memory", "pids", "cpu"})
_V1_WANTED: Final = ("memory", "pids", "cpuacct", "cpu")
_V1_NEEDED: Final = frozenset({"memory", "pids", "cpuacct"})
_PERIOD_US: Final = 100_000
_NUMBERS: Final = itertools.count()
"""One counter per process: backends of one process share its parent directory."""
_LIMIT_OF: Final = {
    "memory": "memory",
    "pids": "processes",
    "cpuacct": "cpu_time",
    "cpu": "cpu_share",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Usage of a run over all its processes."""

    cpu_s: float
    memory_bytes_peak: int
    oom_kills: int


class Account(ABC):
    """Counts one run, and limits it if the backend can."""

    sample_s: float | None = None
    """How often to call `usage` during the run, in seconds; `None` if the kernel counts."""

    @abstractmethod
    def set_limits(self, limits: Limits, *, own_processes: int) -> None:
        """Limit the run.

        Args:
            limits: the limits of the program.
            own_processes: number of Assay's own processes in the account.
        """

    @abstractmethod
    def open_joins(self) -> list[int]:
        """Return new descriptors; writing `0` to each moves the writer into the account."""

    @abstractmethod
    def watch(self, pid: int) -> None:
        """Set the root process of the run."""

    @abstractmethod
    def pids(self) -> Iterable[int]:
        """The processes of the run, including Assay's own."""

    @abstractmethod
    def cpu_s(self) -> float:
        """CPU time so far."""

    @abstractmethod
    def usage(self) -> Usage:
        """Usage of the run so far."""

    @abstractmethod
    def close(self) -> None:
        """Kill the remaining processes and remove the account.

        Raises:
            SandboxError: a process in it cannot be killed.
        """


class Backend(ABC):
    """Creates accounts, one per run."""

    kind: str
    limits: frozenset[str]
    """Which of `memory`, `processes`, `cpu_time`, `cpu_share` it limits or counts for a tree."""

    @abstractmethod
    def create(self) -> Account:
        """Create an account for one run."""

    @abstractmethod
    def close(self) -> None:
        """Remove everything that this process created."""


def _write(path: str, value: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)


def _read(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 65_536).decode()
    finally:
        os.close(descriptor)


def _field(text: str, name: str) -> int:
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0


def _start_time(pid: int) -> str:
    """Start time of `pid` in kernel ticks; with the pid it identifies a process uniquely."""
    return _read(f"/proc/{pid}/stat").rpartition(")")[2].split()[19]


def _own_name() -> str:
    return f"{_PREFIX}{os.getpid()}.{_start_time(os.getpid())}"


def _is_dead(name: str) -> bool:
    pid, _, start = name.removeprefix(_PREFIX).partition(".")
    try:
        return _start_time(int(pid)) != start
    except (OSError, ValueError):
        return True


def _kill_all(directory: str) -> None:
    """Kill until no process is left; the caller has forbidden new processes.

    Raises:
        SandboxError: a process is still there after many rounds.
    """
    for _ in range(_KILL_ROUNDS_MAX):
        pids = _read(f"{directory}/cgroup.procs").split()
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        os.sched_yield()
    raise SandboxError(f"processes in {directory} cannot be killed")


def _remove(directory: str) -> None:
    for _ in range(_KILL_ROUNDS_MAX):
        try:
            os.rmdir(directory)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            # The last process is dead but still counted by the cgroup.
            os.sched_yield()
        else:
            return
    raise SandboxError(f"{directory} stays busy")


def _sweep(parent: str) -> None:
    """Remove the remains of dead predecessors below `parent`."""
    with os.scandir(parent) as entries:
        left = [e.path for e in entries if e.name.startswith(_PREFIX) and _is_dead(e.name)]
    for directory in left:
        with contextlib.suppress(OSError, SandboxError):
            _remove_tree(directory)


def _remove_tree(directory: str) -> None:
    with os.scandir(directory) as entries:
        runs = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    for run in runs:
        _kill_all(run)
        _remove(run)
    _remove(directory)


# --- v1 ---------------------------------------------------------------------------------------


class _V1Account(Account):
    def __init__(self, directories: dict[str, str]) -> None:
        self._at = directories
        for directory in directories.values():
            os.mkdir(directory)
        self._cpu = os.open(f"{directories['cpuacct']}/cpuacct.usage", os.O_RDONLY | os.O_CLOEXEC)

    def set_limits(self, limits: Limits, *, own_processes: int) -> None:
        _write(f"{self._at['memory']}/memory.limit_in_bytes", str(limits.memory_bytes))
        _write(f"{self._at['pids']}/pids.max", str(limits.processes + own_processes))
        if "cpu" in self._at:
            quota_us = int(limits.cpu_cores * _PERIOD_US)
            _write(f"{self._at['cpu']}/cpu.cfs_quota_us", str(quota_us))

    def open_joins(self) -> list[int]:
        # `tasks` and not `cgroup.procs`: moving the calling thread alone takes no global lock.
        flags = os.O_WRONLY | os.O_CLOEXEC
        return [os.open(f"{directory}/tasks", flags) for directory in self._at.values()]

    def watch(self, pid: int) -> None:
        pass

    def pids(self) -> Iterable[int]:
        return map(int, _read(f"{self._at['cpuacct']}/cgroup.procs").split())

    def cpu_s(self) -> float:
        return int(os.pread(self._cpu, 32, 0)) / 1e9

    def usage(self) -> Usage:
        memory = self._at["memory"]
        return Usage(
            cpu_s=self.cpu_s(),
            memory_bytes_peak=int(_read(f"{memory}/memory.max_usage_in_bytes")),
            oom_kills=_field(_read(f"{memory}/memory.oom_control"), "oom_kill"),
        )

    def close(self) -> None:
        os.close(self._cpu)
        if _read(f"{self._at['pids']}/cgroup.procs"):
            _write(f"{self._at['pids']}/pids.max", "0")
            _kill_all(self._at["pids"])
        for directory in self._at.values():
            _remove(directory)


class _V1(Backend):
    kind = "v1"

    def __init__(self) -> None:
        roots = {name: path for name, path in _v1_controllers() if os.access(path, os.W_OK)}
        if not roots.keys() >= _V1_NEEDED:
            raise OSError(errno.EROFS, "the v1 controllers memory, pids, cpuacct are not writable")
        self.limits = frozenset(_LIMIT_OF[name] for name in roots)
        self._parents = {name: f"{root}/{_own_name()}" for name, root in roots.items()}
        for root in roots.values():
            _sweep(root)

    def create(self) -> Account:
        for parent in self._parents.values():
            with contextlib.suppress(FileExistsError):
                os.mkdir(parent)
        number = next(_NUMBERS)
        return _V1Account({name: f"{parent}/{number}" for name, parent in self._parents.items()})

    def close(self) -> None:
        for parent in self._parents.values():
            with contextlib.suppress(OSError):
                os.rmdir(parent)


def _v1_controllers() -> Iterator[tuple[str, str]]:
    """Yield each wanted controller and the directory of this process's own cgroup in it."""
    own = {}
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        own.update(dict.fromkeys(controllers.split(","), path))
    for line in _read("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        if kind != "cgroup":
            continue
        root, mount_point = left.split(" ")[3:5]
        for controller in set(options.split(",")).intersection(_V1_WANTED):
            yield controller, _own_directory(mount_point, root, own.get(controller, "/"))


def _own_directory(mount_point: str, root: str, path: str) -> str:
    """Where `path` of the hierarchy is mounted; in a container only part of it is visible."""
    below = path.removeprefix(root.rstrip("/")).strip("/") if path.startswith(root) else ""
    return f"{mount_point}/{below}".rstrip("/")


# --- v2 ---------------------------------------------------------------------------------------


class _V2Account(Account):
    def __init__(self, directory: str, limits: frozenset[str]) -> None:
        self._at = directory
        self._limits = limits
        os.mkdir(directory)
        self._cpu = os.open(f"{directory}/cpu.stat", os.O_RDONLY | os.O_CLOEXEC)

    def set_limits(self, limits: Limits, *, own_processes: int) -> None:
        if "memory" in self._limits:
            _write(f"{self._at}/memory.max", str(limits.memory_bytes))
            _write(f"{self._at}/memory.oom.group", "1")
            with contextlib.suppress(FileNotFoundError):  # a kernel without swap
                _write(f"{self._at}/memory.swap.max", "0")
        if "processes" in self._limits:
            _write(f"{self._at}/pids.max", str(limits.processes + own_processes))
        if "cpu_share" in self._limits:
            _write(f"{self._at}/cpu.max", f"{int(limits.cpu_cores * _PERIOD_US)} {_PERIOD_US}")

    def open_joins(self) -> list[int]:
        return [os.open(f"{self._at}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)]

    def watch(self, pid: int) -> None:
        pass

    def pids(self) -> Iterable[int]:
        return map(int, _read(f"{self._at}/cgroup.procs").split())

    def cpu_s(self) -> float:
        return _field(os.pread(self._cpu, 4_096, 0).decode(), "usage_usec") / 1e6

    def usage(self) -> Usage:
        peak = oom_kills = 0
        if "memory" in self._limits:
            with contextlib.suppress(FileNotFoundError):  # memory.peak: since Linux 5.19
                peak = int(_read(f"{self._at}/memory.peak"))
            oom_kills = _field(_read(f"{self._at}/memory.events"), "oom_kill")
        return Usage(cpu_s=self.cpu_s(), memory_bytes_peak=peak, oom_kills=oom_kills)

    def close(self) -> None:
        os.close(self._cpu)
        if "populated 1" in _read(f"{self._at}/cgroup.events"):
            try:
                _write(f"{self._at}/cgroup.kill", "1")
            except FileNotFoundError:  # since Linux 5.14
                _kill_all(self._at)
        _remove(self._at)


class _V2(Backend):
    kind = "v2"

    def __init__(self) -> None:
        own = _v2_own_directory()
        controllers = _V2_WANTED.intersection(_read(f"{own}/cgroup.controllers").split())
        _delegate(own, controllers)
        self.limits = frozenset(_LIMIT_OF[name] for name in controllers) | {"cpu_time"}
        self._controllers = controllers
        _sweep(own)
        self._parent = f"{own}/{_own_name()}"

    def create(self) -> Account:
        try:
            os.mkdir(self._parent)
        except FileExistsError:
            pass
        else:
            _delegate(self._parent, self._controllers)
        return _V2Account(f"{self._parent}/{next(_NUMBERS)}", self.limits)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.rmdir(self._parent)


def _v2_own_directory() -> str:
    path = next(
        (ln[3:] for ln in _read("/proc/self/cgroup").splitlines() if ln.startswith("0::")), "/"
    )
    for line in _read("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        if right.startswith("cgroup2 "):
            root, mount_point = left.split(" ")[3:5]
            own = _own_directory(mount_point, root, path)
            return own.removesuffix(f"/{HOST_LEAF}")
    raise OSError(errno.ENOENT, "no cgroup2 file system is mounted")


def _delegate(directory: str, controllers: frozenset[str]) -> None:
    """Let children of `directory` use `controllers`."""
    missing = controllers.difference(_read(f"{directory}/cgroup.subtree_control").split())
    if not missing:
        return
    wanted = " ".join(f"+{name}" for name in sorted(missing))
    try:
        _write(f"{directory}/cgroup.subtree_control", wanted)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        _move_to_leaf(directory)
        _write(f"{directory}/cgroup.subtree_control", wanted)


def _move_to_leaf(directory: str) -> None:
    leaf = f"{directory}/{HOST_LEAF}"
    with contextlib.suppress(FileExistsError):
        os.mkdir(leaf)
    for pid in _read(f"{directory}/cgroup.procs").split():
        with contextlib.suppress(ProcessLookupError):
            _write(f"{leaf}/cgroup.procs", pid)


# --- none -------------------------------------------------------------------------------------

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_SHARED_LOOKS: Final = 3
"""Number of consecutive sums over the limit before one is trusted: a process that ends between two
reads makes a single sum too large."""
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class _ProcAccount(Account):
    """Sums the usage of the run's tree from `/proc`; a process that ends between two samples is
    counted by its parent's total of reaped children."""

    sample_s = 0.02

    def __init__(self) -> None:
        self._root: int | None = None
        self._cpu_s = 0.0
        self._peak = 0
        self._looks_over = 0
        self._memory_bytes_max = 0
        self._over = 0

    def set_limits(self, limits: Limits, *, own_processes: int) -> None:
        del own_processes
        self._memory_bytes_max = limits.memory_bytes

    def open_joins(self) -> list[int]:
        return []

    def watch(self, pid: int) -> None:
        self._root = pid

    def pids(self) -> Iterable[int]:
        return tree(self._root) if self._root is not None else ()

    def cpu_s(self) -> float:
        return self._sample().cpu_s

    def usage(self) -> Usage:
        return self._sample()

    def close(self) -> None:
        self._root = None

    def _sample(self) -> Usage:
        ticks = resident = 0
        pages: dict[int, int] = {}
        for pid, fields in _tree(self._root) if self._root is not None else ():
            ticks += sum(int(value) for value in fields[11:15])
            pages[pid] = int(fields[21])
        resident = sum(pages.values()) * _PAGE_BYTES
        if len(pages) > 1 and resident > max(self._peak, self._memory_bytes_max):
            # The sum counts shared pages once per process. Only now is the exact figure needed.
            resident = self._shared(pages)
        self._cpu_s = max(self._cpu_s, ticks / _TICKS_PER_S)
        self._peak = max(self._peak, resident)
        self._over = int(self._peak > self._memory_bytes_max)
        return Usage(cpu_s=self._cpu_s, memory_bytes_peak=self._peak, oom_kills=self._over)

    def _shared(self, pages: dict[int, int]) -> int:
        """Memory of the tree with shared pages counted once; 0 while a sum is not trusted."""
        resident = sum(_proportional_bytes(pid, count) for pid, count in pages.items())
        self._looks_over = self._looks_over + 1 if resident > self._memory_bytes_max else 0
        return resident if not 0 < self._looks_over < _SHARED_LOOKS else 0


def _tree(root: int) -> Iterator[tuple[int, list[str]]]:
    """Yield pid and the `/proc/<pid>/stat` fields after the name, for `root` and descendants."""
    for pid in tree(root):
        with contextlib.suppress(OSError):
            yield pid, _read(f"/proc/{pid}/stat").rpartition(")")[2].split()


def _proportional_bytes(pid: int, resident_pages: int) -> int:
    """Memory of a process in which a page that n processes map counts as 1/n.

    A process that cannot be inspected (it can prevent that) is charged all that it maps.
    """
    try:
        told = _read(f"/proc/{pid}/smaps_rollup")
    except PermissionError:
        return resident_pages * _PAGE_BYTES
    except OSError:  # it has ended
        return 0
    kilobytes = next((line.split()[1] for line in told.splitlines() if line[:4] == "Pss:"), "0")
    return int(kilobytes) * 1_024


class _Proc(Backend):
    kind = "none"
    limits: frozenset[str] = frozenset()

    def create(self) -> Account:
        return _ProcAccount()

    def close(self) -> None:
        pass


# --- choice -----------------------------------------------------------------------------------


def open_backend(wanted: str) -> Backend:
    """Open the backend that the settings name; `auto` selects the best that works.

    Raises:
        OSError: the named backend does not work here.
    """
    if wanted == "none":
        return _Proc()
    if wanted == "v1":
        return _V1()
    if wanted == "v2":
        return _V2()
    with contextlib.suppress(OSError):
        return _full_v2()
    with contextlib.suppress(OSError):
        return _V1()
    return _Proc()


def _full_v2() -> Backend:
    controllers = _read(f"{_v2_own_directory()}/cgroup.controllers").split()
    if not _V2_WANTED.issubset(controllers):
        raise OSError(errno.ENODEV, "cgroup2 here has no memory, pids and cpu controllers")
    return _V2()
