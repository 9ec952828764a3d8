"""Processes as the host sees them: CPU clock, state, and how to kill them.

A tree is killed from its root downwards. Untrusted code lives in separate pid namespaces, whose
init is one of the processes seen here, so none of it can hide from the walk. Processes orphaned
meanwhile are adopted by the fork server above them, which kills strays
(`assay.worker.forking.server`).
"""

import contextlib
import ctypes
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NAME: Final = 15
_PR_SET_CHILD_SUBREAPER: Final = 36
_CPU_CLOCK_OF_PROCESS: Final = 2
_PROCESSES_MAX: Final = 10_000
"""Maximum number of processes in one walk."""
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent dies; a change of uid undoes it."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of every orphan below this process."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def cpu_ns(pid: int) -> int:
    """CPU time that the process's own threads have used; 0 when it is gone."""
    clock = (~pid << 3) | _CPU_CLOCK_OF_PROCESS
    try:
        return time.clock_gettime_ns(clock)
    except OSError:
        return 0


def children(pid: int) -> list[int]:
    """Pids of the process's children, those of all its threads."""
    found: list[int] = []
    with contextlib.suppress(OSError, ValueError):
        for thread in Path("/proc", str(pid), "task").iterdir():
            found += map(int, (thread / "children").read_text().split())
    return found


def kill_tree(pid: int, pidfd: int) -> None:
    """Kill -9 the process and all below it; does nothing if it is gone (its pid may be reused)."""
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, 0)
        below = _descendants(pid)
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        for process in below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def kill_child(pid: int) -> None:
    """Kill -9 a child that has not been waited for, and all below it."""
    below = _descendants(pid)
    for process in (pid, *below):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    found = children(pid)
    for process in found:
        if len(found) > _PROCESSES_MAX:
            break
        found += children(process)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A process as the kernel sees it."""

    state: str
    """One letter of proc(5); empty when it is gone."""

    @property
    def is_stopped(self) -> bool:
        """Stopped by a signal or a tracer, until continued."""
        return self.state in {"T", "t"}

    @property
    def is_held_up(self) -> bool:
        """Stopped, or stuck in the kernel: not caused by the process itself."""
        return self.is_stopped or self.state == "D"


def condition(pid: int) -> Condition:
    """Read the state of the process's main thread."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return Condition(state="")
    return Condition(state=state)


def set_name(name: str) -> None:
    """Set the name of this process in `ps -o comm` and `top`."""
    _libc.prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0)
