"""Accounting and limits of a run's whole process tree: cgroup v2, cgroup v1, or `/proc`.

Each run has a cgroup of its own, below one parent per process; `groups.py` says when one serves
again.
The backend is chosen by trying; `Backend.limits` names what it limits.
"""

import contextlib

from assay.sandbox.accounting.account import Backend
from assay.sandbox.accounting.cgroup_v1 import V1
from assay.sandbox.accounting.cgroup_v2 import V2, full_v2
from assay.sandbox.accounting.proc import Proc
from assay.sandbox.port import Limits


def open_backend(wanted: str) -> Backend:
    """Open the backend that the settings name; `auto` selects the best that works.

    Raises:
        OSError: the named backend does not work here.
    """
    if wanted == "none":
        return Proc()
    if wanted == "v1":
        return _tried(V1())
    if wanted == "v2":
        return _tried(V2())
    with contextlib.suppress(OSError):
        return _tried(full_v2())
    with contextlib.suppress(OSError):
        return _tried(V1())
    return Proc()


def _tried(backend: Backend) -> Backend:
    """The backend, once it has made a cgroup as for a run: a tree may be there to be read only.

    Raises:
        OSError: it cannot.
    """
    try:
        account = backend.create()
        try:
            account.set_limits(Limits(), own_processes=1)
        finally:
            account.close()
    except OSError:
        backend.close()
        raise
    return backend
