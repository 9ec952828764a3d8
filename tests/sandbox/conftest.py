"""Real launchers, opened once; every way of running a Python program; the host watched throughout.

`way` runs each specification three times: as a Python program in the zygote's own box, as a program
executed there, and through bubblewrap. After every test the host must be as it was before: no
process of the launcher's uid, no mount, no cgroup, no changed kernel setting.
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from assay.config.settings import SandboxSettings
from assay.edge.clock import Clock
from assay.sandbox.launchers.bubblewrap import BubblewrapLauncher
from assay.sandbox.launchers.order import Inside
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import MIB, CommandRun, Limits, PythonRun, RunResult, RunStatus

HARNESS = Path(__file__).with_name("harness_under_test.py")
SECRET = "token-that-no-program-may-ever-see"
INTERPRETER = os.path.realpath(sys.executable)
KERNEL_SETTINGS = (
    "kernel/core_pattern",
    "kernel/hostname",
    "kernel/modprobe",
    "kernel/panic",
    "vm/overcommit_memory",
    "fs/suid_dumpable",
    "user/max_user_namespaces",
)
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

Launcher = ZygoteLauncher | BubblewrapLauncher
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way of running a Python program."""

    name: str
    launcher: Launcher
    python: Callable[..., RunResult]
    """Takes the source as text, and the fields of `PythonRun`."""


@pytest.fixture(scope="session", autouse=True)
def _secret_in_the_environment() -> Iterator[None]:
    os.environ["HOST_SECRET_TOKEN"] = SECRET
    yield
    del os.environ["HOST_SECRET_TOKEN"]


@pytest.fixture(scope="session")
def zygote(_secret_in_the_environment: None) -> Iterator[ZygoteLauncher]:
    inside = Inside(harnesses={"under_test": HARNESS})
    with ZygoteLauncher(SandboxSettings(), Clock(), inside=inside) as launcher:
        yield launcher


@pytest.fixture(scope="session")
def bubblewrap(_secret_in_the_environment: None) -> Iterator[BubblewrapLauncher]:
    with BubblewrapLauncher(SandboxSettings(), Clock()) as launcher:
        yield launcher


@pytest.fixture(params=["zygote", "bubblewrap"])
def launcher(request: pytest.FixtureRequest) -> Launcher:
    opened: Launcher = request.getfixturevalue(request.param)
    return opened


@pytest.fixture(params=["zygote-python", "zygote-command", "bubblewrap"])
def way(request: pytest.FixtureRequest) -> Way:
    return way_named(request, request.param)


def way_named(request: pytest.FixtureRequest, name: str) -> Way:
    launcher: Launcher = request.getfixturevalue("bubblewrap" if name == "bubblewrap" else "zygote")

    def in_zygote(source: str, **fields: Any) -> RunResult:
        assert isinstance(launcher, ZygoteLauncher)
        return launcher.run_python(PythonRun(source=source.encode(), **fields))

    def executed(source: str, **fields: Any) -> RunResult:
        files = {**fields.pop("files", {}), "program.py": source.encode()}
        argv = (INTERPRETER, "-S", "program.py", *fields.pop("argv", ()))
        return launcher.run(CommandRun(argv=argv, files=files, **fields))

    python = in_zygote if name == "zygote-python" else executed
    return Way(name=name, launcher=launcher, python=python)


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
    a box forked in between would look like a program.
    """
    found = []
    for process in psutil.process_iter():
        try:
            mine = process.uids().real == launcher.uid and process.ppid() != launcher.zygote_pid
            if mine and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def uids_in_boxes(launcher: Launcher) -> set[int]:
    """Real, effective and saved uids of all processes below the heads of the launcher's boxes."""
    uids: set[int] = set()
    for box in psutil.Process(launcher.zygote_pid).children():
        with contextlib.suppress(psutil.NoSuchProcess):
            uids.update(uid for inner in box.children(recursive=True) for uid in inner.uids())
    return uids


def _is_idle(launcher: Launcher) -> bool:
    return not processes_of(launcher)


def cgroups_of_this_process() -> list[Path]:
    """Cgroups of runs; those of the launcher itself (their parents) may stay while it lives."""
    mine = f"assay.{os.getpid()}."
    return [
        Path(directory, run)
        for directory, runs, _ in os.walk("/sys/fs/cgroup")
        if Path(directory).name.startswith(mine)
        for run in runs
    ]


def host_state() -> dict[str, Any]:
    paths = {name: Path("/proc/sys", name) for name in KERNEL_SETTINGS}
    settings = {name: path.read_text() for name, path in paths.items() if path.exists()}
    return {"mounts": Path("/proc/self/mountinfo").read_text(), **settings}


@pytest.fixture(autouse=True)
def unharmed_host(
    request: pytest.FixtureRequest, zygote: ZygoteLauncher, bubblewrap: BubblewrapLauncher
) -> Iterator[None]:
    before = host_state()
    yield
    assert host_state() == before
    assert cgroups_of_this_process() == []
    for launcher in (zygote, bubblewrap):
        until(partial(_is_idle, launcher), f"{processes_of(launcher)} outlive their run")


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
