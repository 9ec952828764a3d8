"""The hot-path guard from Python: watch the worker for a while and report what it did.

Allocations are counted only in a process started with `LD_PRELOAD=.../native/libassay_guard.so`;
`counts_allocations` says whether they were.
"""

from __future__ import annotations

import ctypes as ct
from contextlib import contextmanager
from typing import TYPE_CHECKING

from assay.rollout.errors import WorkerStalled
from assay.rollout.layout import GuardReport
from assay.rollout.library.binding import load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assay.rollout.local.runtime import Runtime

_ROUNDS_MAX = 1000


def _read() -> dict[str, int]:
    raw = GuardReport()
    load().assay_guard_read(ct.byref(raw))
    return {name: getattr(raw, name) for name, _ in GuardReport._fields_}


def _settle(runtime: Runtime) -> None:
    """Wait until every hot thread has passed its next section, and so has seen the arming."""
    for _ in range(_ROUNDS_MAX):
        if _read()["unsettled"] == 0:
            return
        runtime.nudge()
        runtime.wait(0.005)
    raise WorkerStalled("a hot thread did not follow the guard")


@contextmanager
def watched(runtime: Runtime) -> Iterator[dict[str, int]]:
    """Arm the guard for the block; the report is filled when the block ends."""
    report: dict[str, int] = {}
    load().assay_guard_arm()
    _settle(runtime)
    try:
        yield report
    finally:
        load().assay_guard_disarm()
        _settle(runtime)
        report.update(_read())
