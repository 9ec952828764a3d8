"""How much of the machine a process takes beside others that have work for a caller."""

import ctypes
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

ASKED_APART_S: Final = 0.1
"""The kernel takes one such change of an ordinary user per tenth of a second, of all sessions."""
ASKED_MAX: Final = 10


def run_in_background(niceness: int, *, idle: bool) -> None:
    """Lower the priority of this process, in a new session.

    Linux schedules sessions against each other first (sched_autogroup), and `nice` only within
    one, so both are set.
    """
    with suppress(PermissionError):  # it already leads a session
        os.setsid()
    with suppress(OSError):  # a kernel without autogroups, or one that was asked too often
        _lower_session(niceness)
    if idle:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    else:
        os.setpriority(os.PRIO_PROCESS, 0, niceness)


def _lower_session(niceness: int) -> None:
    for _ in range(ASKED_MAX):
        try:
            Path("/proc/self/autogroup").write_text(str(niceness), encoding="ascii")
        except BlockingIOError:
            time.sleep(ASKED_APART_S)
        else:
            return


def trim() -> None:
    """Give the kernel back what the start took and no longer uses, where the C library can."""
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
