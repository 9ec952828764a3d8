"""Determines the isolation of this host by using it, and what to do if it is insufficient.

`probe` starts each launcher and runs a real program of each kind in it (Python, a harness with a
candidate, a command). `probe_tools` runs a compiler, its output, and a confined process. Nothing is
concluded from versions or file names. A worker calls `require_isolation`, which tries what no
program may run without, before it takes work.
"""

import contextlib
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from assay.config.settings import SandboxSettings
from assay.core.errors import IsolationUnavailable
from assay.sandbox import trial
from assay.sandbox.accounting.backends import open_backend
from assay.sandbox.accounting.blocked import waits_known
from assay.sandbox.launchers.bubblewrap import BubblewrapLauncher, open_command_launcher
from assay.sandbox.launchers.order import Inside
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import (
    CommandRun,
    HarnessRun,
    MonotonicClock,
    PythonRun,
    RunResult,
    SandboxError,
)
from assay.sandbox.seccomp import compile_filter

_log = logging.getLogger(__name__)
_ECHO: Final = CommandRun(argv=("sh", "-c", f"printf {trial.ANSWER.decode()}"))
_COMPILER: Final = "g++"
_CONFINED_S: Final = 60.0
_NAMESPACE_ADVICE: Final = (
    "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
    "user.max_user_namespaces>0, kernel.apparmor_restrict_unprivileged_userns=0) or run as root; "
    "in a container: a seccomp profile with unshare, clone, mount and pivot_root, and an unmasked "
    "/proc (docker: --security-opt seccomp=unconfined --security-opt systempaths=unconfined; "
    "Kubernetes: hostUsers: false with procMount: Unmasked)"
)
_CGROUP_ADVICE: Final = (
    "memory and processes of a whole tree are not limited: make the process's own cgroup writable "
    "(systemd Delegate=yes, or a container with a writable cgroup file system)"
)


_SCHEDSTAT_ADVICE: Final = (
    "the kernel does not report waits for a core (/proc/PID/schedstat): a program that sleeps is "
    "ended only after wall_s"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check."""

    available: bool
    detail: str = ""
    """The reason if it is not available; otherwise empty."""


_NOT_TRIED: Final = Finding(available=False, detail="not tried")


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxReport:
    """The host's features; plain data for `assay doctor` and the metric `assay_sandbox_info`."""

    namespaces: Finding
    """The zygote's own boxes: Python programs, harnesses, compiled programs."""
    bubblewrap: Finding
    """Bubblewrap's boxes: compilers. If it is missing, the zygote's boxes can replace it."""
    seccomp: Finding
    cgroup: str
    """`v2`, `v1` or `none`."""
    cgroup_limits: tuple[str, ...]
    """Which of `memory`, `processes`, `cpu_time`, `cpu_share` are limited for a whole tree."""
    uid_drop: bool
    """Each launcher runs programs as its own uid, because it starts as root."""
    advice: tuple[str, ...]

    @property
    def isolated(self) -> bool:
        """Whether untrusted code can run with the sandbox's guarantees."""
        return self.namespaces.available and self.seccomp.available

    @property
    def mode(self) -> str:
        """One word for logs and metrics: `namespaces+cgroup-v1`, `namespaces`, `unisolated`."""
        if not self.isolated:
            return "unisolated"
        return "namespaces" if self.cgroup == "none" else f"namespaces+cgroup-{self.cgroup}"

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain data for JSON."""
        return {"mode": self.mode, "isolated": self.isolated, **asdict(self)}


def probe(settings: SandboxSettings, clock: MonotonicClock) -> SandboxReport:
    """Run all checks; takes a few tenths of a second."""
    settings = settings.model_copy(update={"allow_unisolated": False})
    report = _isolation(settings, clock)
    bubblewrap = _try(lambda: _try_bubblewrap(settings, clock))
    advice = () if bubblewrap.available else (f"bubblewrap: {bubblewrap.detail}",)
    return replace(report, bubblewrap=bubblewrap, advice=(*report.advice, *advice))


def _isolation(settings: SandboxSettings, clock: MonotonicClock) -> SandboxReport:
    """Run the checks without which no untrusted code may run."""
    namespaces = _try(lambda: _try_zygote(settings, clock))
    seccomp = _try(_compile)
    kind, limits = _cgroup(settings)
    advice = []
    if not namespaces.available:
        advice.append(f"namespaces: {namespaces.detail}: {_NAMESPACE_ADVICE}")
    if not seccomp.available:
        advice.append(f"seccomp: {seccomp.detail}: install libseccomp2")
    if not waits_known():
        advice.append(_SCHEDSTAT_ADVICE)
    if not {"memory", "processes"}.issubset(limits):
        advice.append(f"cgroup {kind}: {_CGROUP_ADVICE}")
    return SandboxReport(
        namespaces=namespaces,
        bubblewrap=_NOT_TRIED,
        seccomp=seccomp,
        cgroup=kind,
        cgroup_limits=limits,
        uid_drop=os.geteuid() == 0,
        advice=tuple(advice),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReport:
    """Tools that some pipelines need in addition to a working sandbox."""

    compiler: Finding
    """A C++ program compiles in bubblewrap's box, or its replacement, and runs in another."""
    confinement: Finding
    """A confined process (for readers of hostile text) can still import what it needs."""


def probe_tools(settings: SandboxSettings, clock: MonotonicClock) -> ToolReport:
    """Run the checks of tools; takes a second or two."""
    return ToolReport(
        compiler=_try(lambda: _try_compiler(settings, clock)),
        confinement=_try(lambda: _try_confined(settings)),
    )


def _try(attempt: Callable[[], None]) -> Finding:
    try:
        attempt()
    except (IsolationUnavailable, SandboxError, OSError, subprocess.TimeoutExpired) as error:
        return Finding(available=False, detail=_last_line(str(error).encode())[:500])
    return Finding(available=True)


def _compile() -> None:
    compile_filter()


def _try_zygote(settings: SandboxSettings, clock: MonotonicClock) -> None:
    inside = Inside(harnesses={"trial": Path(trial.__file__)})
    with ZygoteLauncher(settings, clock, inside=inside) as launcher:
        _expect("a command", launcher.run(_ECHO))
        _expect("a Python program", launcher.run_python(PythonRun(source=trial.PROGRAM)))
        judged = launcher.run_harness(HarnessRun(module="trial", payload=b"1353"))
    if judged.channel != trial.ANSWER:
        raise SandboxError(f"a harness: {_last_line(judged.stderr) or judged.status.value}")


def _try_bubblewrap(settings: SandboxSettings, clock: MonotonicClock) -> None:
    with BubblewrapLauncher(settings, clock) as launcher:
        _expect("a command", launcher.run(_ECHO))


def _try_compiler(settings: SandboxSettings, clock: MonotonicClock) -> None:
    path = shutil.which(_COMPILER)
    if path is None:
        raise SandboxError(f"{_COMPILER} is not installed")
    order = CommandRun(
        argv=(path, "-pipe", "-o", "program", "program.cpp"),
        files={"program.cpp": trial.CPP_PROGRAM},
        collect=("program",),
    )
    with contextlib.closing(open_command_launcher(settings, clock)) as opened:
        compiled = opened.run(order)
    if "program" not in compiled.files:
        raise SandboxError(f"{path}: {_last_line(compiled.stderr) or compiled.status.value}")
    built = CommandRun(
        argv=("./program",), files=compiled.files, executables=frozenset({"program"})
    )
    with ZygoteLauncher(settings, clock) as launcher:
        _expect("a compiled program", launcher.run(built))


def _try_confined(settings: SandboxSettings) -> None:
    done = subprocess.run(  # noqa: S603 - our own interpreter, fixed arguments
        [sys.executable, "-P", "-m", trial.__name__, settings.model_dump_json()],
        capture_output=True,
        check=False,
        timeout=_CONFINED_S,
    )
    if done.returncode:
        raise SandboxError(_last_line(done.stderr) or f"ended with {done.returncode}")


def _expect(kind: str, result: RunResult) -> None:
    if result.exit_code != 0 or result.stdout != trial.ANSWER:
        why = _last_line(result.stderr) or f"ended as {result.status}, {result.exit_code}"
        raise SandboxError(f"{kind}: {why}")


def _last_line(text: bytes) -> str:
    return (text.decode(errors="replace").strip().splitlines() or [""])[-1]


def _cgroup(settings: SandboxSettings) -> tuple[str, tuple[str, ...]]:
    try:
        backend = open_backend(settings.cgroup)
    except OSError as error:
        return f"none ({settings.cgroup} asked for: {error})", ()
    try:
        return backend.kind, tuple(sorted(backend.limits))
    finally:
        backend.close()


def require_isolation(settings: SandboxSettings, clock: MonotonicClock) -> SandboxReport:
    """Return the report if untrusted code may run.

    Bubblewrap is not tried: what needs it finds out and takes the zygote's boxes instead.

    Raises:
        IsolationUnavailable: it may not; the message says what is missing and how to enable it. If
            `allow_unisolated` is set, it is logged instead.
    """
    report = _isolation(settings.model_copy(update={"allow_unisolated": False}), clock)
    if report.isolated:
        for line in report.advice:
            _log.warning("sandbox: %s", line)
        return report
    missing = "; ".join(report.advice)
    if not settings.allow_unisolated:
        raise IsolationUnavailable(f"this host cannot isolate untrusted code: {missing}")
    _log.critical("untrusted code will run WITHOUT ISOLATION: %s", missing)
    return report
