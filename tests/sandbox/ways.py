"""The ways of running a program in a box, and what the host looks like from outside."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import psutil

from assay.sandbox.launchers.bubblewrap import BubblewrapLauncher
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import MIB, Limits, RunResult, RunStatus

SECRET = "token-that-no-program-may-ever-see"
INTERPRETER = os.path.realpath(sys.executable)
QUICK = Limits(
    cpu_s=0.6,
    blocked_s=5.0,
    memory_bytes=128 * MIB,
    processes=32,
    open_files=64,
    disk_bytes=16 * MIB,
    file_bytes=8 * MIB,
    inodes=256,
    output_bytes=1 * MIB,
)

ROOMY = replace(QUICK, cpu_s=10.0, memory_bytes=256 * MIB, disk_bytes=32 * MIB)

Run = Callable[..., RunResult]
"""Takes the source of a Python program and the fields `stdin`, `limits`."""
Launcher = ZygoteLauncher | BubblewrapLauncher
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way of running a Python program."""

    name: str
    launcher: Launcher
    python: Callable[..., RunResult]
    """Takes the source as text, and the fields of `PythonRun`."""


def until(condition: Callable[[], _T], what: str, within_s: float = 10.0) -> _T:
    """Wait for `condition`, and fail when it does not come true; returns what made it true."""
    deadline = time.monotonic() + within_s
    while not (met := condition()):
        assert time.monotonic() < deadline, what
        threading.Event().wait(0.005)
    return met


def processes_of(launcher: Launcher) -> list[psutil.Process]:
    """Processes that belong to the launcher's programs: of its uid, and not the heads of boxes.

    A box's head is the zygote's child. That is asked of each process and not of a list made before:
    a box forked in between would look like a program. A launcher that is not root has the uid of
    the tests: its programs are what is below the zygote.
    """
    found = []
    for process in psutil.process_iter():
        try:
            mine = process.uids().real == launcher.uid and process.ppid() != launcher.zygote_pid
            if launcher.uid == os.geteuid():
                mine = mine and launcher.zygote_pid in {one.pid for one in process.parents()}
            if mine and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def cgroups_of_this_process() -> list[Path]:
    """Cgroups of runs; those of the launcher itself (their parents) may stay while it lives."""
    mine = f"assay.{os.getpid()}."
    return [
        Path(directory, run)
        for directory, runs, _ in os.walk("/sys/fs/cgroup")
        if Path(directory).name.startswith(mine)
        for run in runs
    ]


def populated_cgroups() -> list[Path]:
    """Those in which a process lives; an empty one may wait for the next run."""
    populated = []
    for cgroup in cgroups_of_this_process():
        with contextlib.suppress(FileNotFoundError):
            if (cgroup / "cgroup.procs").read_text():
                populated.append(cgroup)
    return populated


def uids_in_boxes(launcher: Launcher) -> set[int]:
    """Real, effective and saved uids of all processes below the heads of the launcher's boxes."""
    uids: set[int] = set()
    for box in psutil.Process(launcher.zygote_pid).children():
        with contextlib.suppress(psutil.NoSuchProcess):
            uids.update(uid for inner in box.children(recursive=True) for uid in inner.uids())
    return uids


NEIGHBOUR = "print(sum(number * number for number in range(2_000)))"
NEIGHBOUR_SAYS = b"2664667000\n"


def beside_a_neighbour(way: Way, run: Callable[[], RunResult]) -> RunResult:
    """Run something hostile while a neighbour of the same launcher does honest work, unharmed."""
    with ThreadPoolExecutor(1) as pool:
        hostile = pool.submit(run)
        while True:
            neighbour = way.python(NEIGHBOUR, limits=Limits(cpu_s=5))
            assert neighbour.status is RunStatus.EXITED
            assert neighbour.stdout == NEIGHBOUR_SAYS
            if hostile.done():
                return hostile.result()
