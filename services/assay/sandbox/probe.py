"""What isolation this host gives, found by using it, and what to do where it gives too little.

`probe` starts each launcher and runs a program in it; nothing is concluded from versions or file
names. `require_isolation` is what a worker calls before it takes work.
"""

import logging
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from assay.config.settings import SandboxSettings
from assay.core.errors import IsolationUnavailable
from assay.sandbox.cgroup import open_backend
from assay.sandbox.launcher import BubblewrapLauncher, ZygoteLauncher
from assay.sandbox.port import CommandRun, MonotonicClock, SandboxError
from assay.sandbox.seccomp import compile_filter

_log = logging.getLogger(__name__)
_TRUE: Final = CommandRun(argv=("true",))
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing tried."""

    available: bool
    detail: str = ""
    """Why not; empty where it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxReport:
    """What the host gives; plain data for `assay doctor` and the metric `assay_sandbox_info`."""

    namespaces: Finding
    """The zygote's own boxes: Python programs, harnesses, compiled programs."""
    bubblewrap: Finding
    """Bubblewrap's: compilers. Where it is missing the zygote's boxes can take its place."""
    seccomp: Finding
    cgroup: str
    """`v2`, `v1` or `none`."""
    cgroup_limits: tuple[str, ...]
    """Of `memory`, `processes`, `cpu_time`, `cpu_share`: bounded for a run's whole tree."""
    uid_drop: bool
    """Each launcher runs programs as a uid of its own: the launcher starts as root."""
    advice: tuple[str, ...]

    @property
    def isolated(self) -> bool:
        """Whether untrusted code can be run as the sandbox promises."""
        return self.namespaces.available and self.seccomp.available

    @property
    def mode(self) -> str:
        """One word for logs and metrics: `namespaces+cgroup-v1`, `namespaces`, `unisolated`."""
        if not self.isolated:
            return "unisolated"
        return "namespaces" if self.cgroup == "none" else f"namespaces+cgroup-{self.cgroup}"

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"mode": self.mode, "isolated": self.isolated, **asdict(self)}


def probe(settings: SandboxSettings, clock: MonotonicClock) -> SandboxReport:
    """Try everything; takes a few tenths of a second."""
    settings = settings.model_copy(update={"allow_unisolated": False})
    namespaces = _try(lambda: _run_true(ZygoteLauncher(settings, clock)))
    bubblewrap = _try(lambda: _run_true(BubblewrapLauncher(settings, clock)))
    seccomp = _try(_compile)
    kind, limits = _cgroup(settings)
    advice = []
    if not namespaces.available:
        advice.append(f"namespaces: {namespaces.detail}: {_NAMESPACE_ADVICE}")
    if not seccomp.available:
        advice.append(f"seccomp: {seccomp.detail}: install libseccomp2")
    if not bubblewrap.available:
        advice.append(f"bubblewrap: {bubblewrap.detail}")
    if not {"memory", "processes"}.issubset(limits):
        advice.append(f"cgroup {kind}: {_CGROUP_ADVICE}")
    return SandboxReport(
        namespaces=namespaces,
        bubblewrap=bubblewrap,
        seccomp=seccomp,
        cgroup=kind,
        cgroup_limits=limits,
        uid_drop=os.geteuid() == 0,
        advice=tuple(advice),
    )


def _try(attempt: Callable[[], None]) -> Finding:
    try:
        attempt()
    except (IsolationUnavailable, SandboxError, OSError) as error:
        return Finding(available=False, detail=str(error).strip().splitlines()[-1][:500])
    return Finding(available=True)


def _compile() -> None:
    compile_filter()


def _run_true(launcher: ZygoteLauncher | BubblewrapLauncher) -> None:
    with launcher:
        result = launcher.run(_TRUE)
    if result.exit_code != 0:
        raise SandboxError(result.stderr.decode(errors="replace") or f"ended as {result.status}")


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
    """Return the report where untrusted code may be run.

    Raises:
        IsolationUnavailable: it may not; says what is missing and how to get it. Not raised, but
            logged, where `allow_unisolated` is set.
    """
    report = probe(settings, clock)
    if report.isolated:
        for line in report.advice:
            _log.warning("sandbox: %s", line)
        return report
    missing = "; ".join(report.advice)
    if not settings.allow_unisolated:
        raise IsolationUnavailable(f"this host cannot isolate untrusted code: {missing}")
    _log.critical("untrusted code will run WITHOUT ISOLATION: %s", missing)
    return report
