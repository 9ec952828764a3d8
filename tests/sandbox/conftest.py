"""Real launchers, opened once; every way of running a Python program; the host watched throughout.

`way` runs each specification four times: as a Python program in the zygote's own box, as a program
executed there, as the first in a box that Python sets up instead of C, and through bubblewrap.
After every test the host must be as it was before: no process of the launcher's uid, no mount, no
cgroup with a process in it, no changed kernel setting. (`test_ended.py`: no cgroup at all.)
"""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.elsewhere import Unprivileged
from tests.sandbox.ways import (
    INTERPRETER,
    ROOMY,
    SECRET,
    Launcher,
    Run,
    Way,
    populated_cgroups,
    processes_of,
    until,
)

from assay.config.settings import SandboxSettings
from assay.edge.clock import Clock
from assay.sandbox.launchers.bubblewrap import BubblewrapLauncher
from assay.sandbox.launchers.order import Inside
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import CommandRun, PythonRun, RunResult

HARNESS = Path(__file__).with_name("harness_under_test.py")
KERNEL_SETTINGS = (
    "kernel/core_pattern",
    "kernel/hostname",
    "kernel/modprobe",
    "kernel/panic",
    "vm/overcommit_memory",
    "fs/suid_dumpable",
    "user/max_user_namespaces",
)


@pytest.fixture(scope="session", autouse=True)
def _secret_in_the_environment() -> Iterator[None]:
    os.environ["HOST_SECRET_TOKEN"] = SECRET
    yield
    del os.environ["HOST_SECRET_TOKEN"]


@pytest.fixture(scope="session")
def zygote(_secret_in_the_environment: None) -> Iterator[ZygoteLauncher]:
    inside = Inside(harnesses={"under_test": HARNESS})
    with ZygoteLauncher(SandboxSettings(), Clock(), inside=inside) as launcher:
        assert launcher.is_native, "the tests need the library: python hatch_build.py"
        yield launcher


class PythonLauncher(ZygoteLauncher):
    """Its boxes are set up in Python, as where the library was not built."""

    _NATIVE = False


@pytest.fixture(scope="session")
def fallback(_secret_in_the_environment: None) -> Iterator[ZygoteLauncher]:
    inside = Inside(harnesses={"under_test": HARNESS})
    with PythonLauncher(SandboxSettings(), Clock(), inside=inside) as launcher:
        assert not launcher.is_native
        yield launcher


class ForkedLauncher(ZygoteLauncher):
    """Pid 1 of its boxes stays a fork of the zygote, as where it cannot execute its own program."""

    _APART = False


@pytest.fixture(scope="session")
def forked(_secret_in_the_environment: None) -> Iterator[ZygoteLauncher]:
    with ForkedLauncher(SandboxSettings(), Clock()) as launcher:
        assert launcher.is_native
        yield launcher


@pytest.fixture(scope="session")
def bubblewrap(_secret_in_the_environment: None) -> Iterator[BubblewrapLauncher]:
    with BubblewrapLauncher(SandboxSettings(), Clock()) as launcher:
        yield launcher


@pytest.fixture(params=["zygote", "bubblewrap"])
def launcher(request: pytest.FixtureRequest) -> Launcher:
    opened: Launcher = request.getfixturevalue(request.param)
    return opened


@pytest.fixture(params=["zygote-python", "zygote-command", "fallback-python", "bubblewrap"])
def way(request: pytest.FixtureRequest) -> Way:
    return way_named(request, request.param)


def way_named(request: pytest.FixtureRequest, name: str) -> Way:
    launcher: Launcher = request.getfixturevalue(name.partition("-")[0])

    def in_zygote(source: str, **fields: Any) -> RunResult:
        assert isinstance(launcher, ZygoteLauncher)
        return launcher.run_python(PythonRun(source=source.encode(), **fields))

    def executed(source: str, **fields: Any) -> RunResult:
        files = {**fields.pop("files", {}), "program.py": source.encode()}
        argv = (INTERPRETER, "-S", "program.py", *fields.pop("argv", ()))
        return launcher.run(CommandRun(argv=argv, files=files, **fields))

    python = in_zygote if name.endswith("-python") else executed
    return Way(name=name, launcher=launcher, python=python)


@pytest.fixture(scope="session")
def unprivileged() -> Iterator[Unprivileged]:
    if os.geteuid() != 0:
        pytest.skip("the suite itself runs unprivileged")
    allowed = Path("/proc/sys/kernel/unprivileged_userns_clone")
    if allowed.exists() and allowed.read_text().strip() != "1":
        pytest.skip("this kernel gives user namespaces to root only")
    opened = Unprivileged("auto")
    yield opened
    opened.close()


@pytest.fixture(
    params=["zygote", "bubblewrap", "unprivileged zygote", "unprivileged bubblewrap"],
)
def run(request: pytest.FixtureRequest) -> Run:
    owner, _, name = request.param.rpartition(" ")
    if owner:
        other: Unprivileged = request.getfixturevalue("unprivileged")

        def elsewhere(source: str, **fields: Any) -> RunResult:
            return other.run(name, source, **{"limits": ROOMY, **fields})

        return elsewhere

    opened: Launcher = request.getfixturevalue(name)

    def here(source: str, **fields: Any) -> RunResult:
        fields = {"limits": ROOMY, **fields}
        if isinstance(opened, ZygoteLauncher):
            return opened.run_python(PythonRun(source=source.encode(), **fields))
        argv = (INTERPRETER, "-S", "program.py")
        return opened.run(CommandRun(argv=argv, files={"program.py": source.encode()}, **fields))

    return here


def _is_idle(launcher: Launcher) -> bool:
    return not processes_of(launcher)


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
    until(lambda: not populated_cgroups(), "processes outlive their run", within_s=60)
    for launcher in (zygote, bubblewrap):
        until(partial(_is_idle, launcher), f"{processes_of(launcher)} outlive their run")
