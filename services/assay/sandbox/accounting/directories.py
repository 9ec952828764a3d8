"""Directories of cgroups: one per run, below one parent per process.

The parent is named `assay.<pid>.<start time>`, so that a later process can detect that its owner is
dead and remove it.
"""

import contextlib
import errno
import itertools
import os
import signal
from collections.abc import Callable
from typing import Final

from assay.sandbox.port import SandboxError

_PREFIX: Final = "assay."
_KILL_ROUNDS_MAX: Final = 2_000
PERIOD_US: Final = 100_000
NUMBERS: Final = itertools.count()
"""One counter per process: backends of one process share its parent directory."""
LIMIT_OF: Final = {
    "memory": "memory",
    "pids": "processes",
    "cpuacct": "cpu_time",
    "cpu": "cpu_share",
}


def write(path: str, value: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)


def read(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 65_536).decode()
    finally:
        os.close(descriptor)


def field(text: str, name: str) -> int:
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0


def make(directory: str, prepare: Callable[[str], None]) -> None:
    """Create the directory of a run.

    Args:
        directory: below a parent that may not exist, as another backend of this process removed it.
        prepare: called with the parent after it was created.
    """
    try:
        os.mkdir(directory)
    except FileNotFoundError:
        parent = os.path.dirname(directory)
        try:
            os.mkdir(parent)
        except FileExistsError:
            pass
        else:
            prepare(parent)
        os.mkdir(directory)


def _start_time(pid: int) -> str:
    """Start time of `pid` in kernel ticks; with the pid it identifies a process uniquely."""
    return read(f"/proc/{pid}/stat").rpartition(")")[2].split()[19]


def own_name() -> str:
    return f"{_PREFIX}{os.getpid()}.{_start_time(os.getpid())}"


def _is_dead(name: str) -> bool:
    pid, _, start = name.removeprefix(_PREFIX).partition(".")
    try:
        return _start_time(int(pid)) != start
    except (OSError, ValueError):
        return True


def kill_all(directory: str) -> None:
    """Kill until no process is left; the caller has forbidden new processes.

    Raises:
        SandboxError: a process is still there after many rounds.
    """
    for _ in range(_KILL_ROUNDS_MAX):
        pids = read(f"{directory}/cgroup.procs").split()
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        os.sched_yield()
    raise SandboxError(f"processes in {directory} cannot be killed")


def remove(directory: str) -> None:
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


def sweep(parent: str) -> None:
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
        kill_all(run)
        remove(run)
    remove(directory)


def own_directory(mount_point: str, root: str, path: str) -> str:
    """Where `path` of the hierarchy is mounted; in a container only part of it is visible."""
    below = path.removeprefix(root.rstrip("/")).strip("/") if path.startswith(root) else ""
    return f"{mount_point}/{below}".rstrip("/")
