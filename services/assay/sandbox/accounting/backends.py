"""Accounting and limits of a run's whole process tree: cgroup v2, cgroup v1, or `/proc`.

Each run gets a new cgroup (a used one keeps old counts and charges), below one parent per process.
The backend is chosen by trying; `Backend.limits` names what it limits.
"""

import contextlib

from assay.sandbox.accounting.account import Backend
from assay.sandbox.accounting.cgroup_v1 import V1
from assay.sandbox.accounting.cgroup_v2 import V2, full_v2
from assay.sandbox.accounting.proc import Proc


def open_backend(wanted: str) -> Backend:
    """Open the backend that the settings name; `auto` selects the best that works.

    Raises:
        OSError: the named backend does not work here.
    """
    if wanted == "none":
        return Proc()
    if wanted == "v1":
        return V1()
    if wanted == "v2":
        return V2()
    with contextlib.suppress(OSError):
        return full_v2()
    with contextlib.suppress(OSError):
        return V1()
    return Proc()
