"""How much of the machine a process takes beside others that have work for a caller."""

import ctypes
import os
from contextlib import suppress
from pathlib import Path


def run_in_background(niceness: int, *, idle: bool) -> None:
    """Lower the priority of this process, in a new session.

    Linux schedules sessions against each other first (sched_autogroup), and `nice` only within
    one, so both are set.
    """
    with suppress(PermissionError):  # it already leads a session
        os.setsid()
    with suppress(OSError):  # a kernel without autogroups, or asked too often
        Path("/proc/self/autogroup").write_text(str(niceness), encoding="ascii")
    if idle:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    else:
        os.setpriority(os.PRIO_PROCESS, 0, niceness)


def trim() -> None:
    """Give the kernel back what the start took and no longer uses, where the C library can."""
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
