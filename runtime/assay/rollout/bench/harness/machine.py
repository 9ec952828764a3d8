"""The machine that a figure was measured on, and its load."""

from __future__ import annotations

import os
import platform
import subprocess
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchMachine:
    """Facts needed to compare figures."""

    cpu: str
    cores: int
    memory_bytes: int
    kernel: str
    architecture: str
    compiler: str
    steal_percent: float
    """Steal: percent of all CPU time since boot that the hypervisor gave to other guests."""
    load_1m: float
    """Load average over the last minute when the bench began; above 0, the cores were not free."""

    def as_dict(self) -> dict[str, object]:
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"{self.cpu}, {self.cores} cores, {self.memory_bytes >> 30} GiB, {self.architecture},"
            f" Linux {self.kernel}, {self.compiler}, load {self.load_1m:.1f},"
            f" steal {self.steal_percent:.1f} %"
        )


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("model name", "CPU implementer")):
            return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def _compiler() -> str:
    try:
        done = subprocess.run(
            ["cc", "-dumpfullversion"],  # noqa: S607 - the cc that built the library
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return "no compiler"
    return f"cc {done.stdout.strip()}"


def _ticks() -> list[int]:
    return [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]


def _steal_percent() -> float:
    ticks = _ticks()
    return 100 * ticks[7] / max(sum(ticks), 1)


class Company:
    """Other load during a bench; one sample per call of `sample`."""

    def __init__(self) -> None:
        self._last = _ticks()
        self.steal_percent: list[float] = []
        """Steal: percent of all CPU time since the previous sample."""
        self.load_1m: list[float] = []

    def sample(self) -> None:
        """Take one sample."""
        now = _ticks()
        passed = [b - a for a, b in zip(self._last, now, strict=True)]
        self.steal_percent.append(100 * passed[7] / max(sum(passed), 1))
        self.load_1m.append(os.getloadavg()[0])
        self._last = now


def this_machine() -> BenchMachine:
    """Read the machine now."""
    return BenchMachine(
        cpu=_cpu_name(),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        kernel=platform.release(),
        architecture=platform.machine(),
        compiler=_compiler(),
        steal_percent=_steal_percent(),
        load_1m=os.getloadavg()[0],
    )


def resident_bytes() -> int:
    """Resident memory of this process, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def realtime(*, wanted: bool) -> Iterator[None]:
    """First-in-first-out scheduling for this thread and those it starts: free cores for the bench
    on a busy machine. Needs the privilege; every wait inside must park."""
    if not wanted:
        yield
        return
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, *before)


def cpus() -> tuple[int, int]:
    """Two CPUs to pin to: different ones if there are two."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[0], allowed[-1]
