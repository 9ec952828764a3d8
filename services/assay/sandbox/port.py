"""What running untrusted code looks like from outside, whichever launcher does it.

Guarantee of every launcher: no network, no sight of the host's files, processes, environment or of
other runs; hard limits on CPU time, blocked time, memory, processes, files and output; the whole
process tree is dead when `run` returns. Time that the machine takes (waiting for a core, a stalled
machine, our own work) counts against no program. A run that breaks a limit is a value
(`RunStatus`), an isolation that cannot be had is `IsolationUnavailable`, anything else that goes
wrong outside the program raises `SandboxError`: the infrastructure's fault, never the program's.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol

MIB = 1024 * 1024
SLOWED_MAX = 20.0
"""By how much a busy machine may slow a program before its run is given up and tried again."""


class SandboxError(Exception):
    """The sandbox broke, not the program in it; the attempt may be tried again."""


class HeldUp(SandboxError):
    """The machine was too busy, or stood still, for longer than anyone waits.

    It is no evidence about the program, whatever another run shows: the attempt is to be repeated.
    """


class MonotonicClock(Protocol):
    """The part of `assay.edge.clock.Clock` that the sandbox needs."""

    def monotonic_ns(self) -> int:
        """Never goes back; for durations only."""


class RunStatus(StrEnum):
    """How a run ended."""

    EXITED = "exited"
    """By itself; `exit_code` says how."""
    SIGNALED = "signaled"
    """By a signal of its own making (a crash); `exit_code` is minus the signal's number."""
    CPU_LIMIT = "cpu_limit"
    BLOCKED_LIMIT = "blocked_limit"
    """It slept or waited for itself too long; waiting for a core does not count."""
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"

    @property
    def is_limit(self) -> bool:
        """True where a limit ended the run."""
        return self not in {RunStatus.EXITED, RunStatus.SIGNALED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one run. What it does itself decides the verdict: CPU time and blocked time."""

    cpu_s: float = 10.0
    blocked_s: float = 5.0
    """Time in which no task of the tree ran or was ready to run; see `accounting.blocked`."""
    wall_s: float | None = None
    """Protects who waits for the run: passing it is a `SandboxError`, unless the program was
    blocked. Default: `SLOWED_MAX` times what the other two allow, plus a minute."""
    memory_bytes: int = 512 * MIB
    processes: int = 64
    open_files: int = 256
    file_bytes: int = 64 * MIB
    """Largest file it may write."""
    disk_bytes: int = 64 * MIB
    """Size of its scratch file system."""
    inodes: int = 8_192
    output_bytes: int = 32 * MIB
    """stdout and stderr, each; the run ends when one passes it."""
    cpu_cores: float = 1.0
    """Cores' worth of CPU that all its threads together get a second."""

    @property
    def wall_s_max(self) -> float:
        """The bound in force on wall time."""
        if self.wall_s is not None:
            return self.wall_s
        return SLOWED_MAX * (self.cpu_s + self.blocked_s) + 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRun:
    """A program to run in the sandbox's `/box` directory, which holds `files`."""

    argv: tuple[str, ...]
    stdin: bytes = b""
    files: Mapping[str, bytes] = field(default_factory=lambda: MappingProxyType({}))
    """Relative path -> content; executable where the name is in `executables`."""
    executables: frozenset[str] = frozenset()
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    collect: tuple[str, ...] = ()
    """Regular files under `/box` to bring back; links are never followed, missing ones are left
    out, each is bounded by `limits.file_bytes`."""
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonRun:
    """A Python program, run as `python program.py` would run it in `/box`."""

    source: bytes
    prelude: bytes = b""
    """Python text that runs first, in a namespace of its own; holds no NUL."""
    argv: tuple[str, ...] = ()
    """After the program's own name."""
    stdin: bytes = b""
    files: Mapping[str, bytes] = field(default_factory=lambda: MappingProxyType({}))
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    collect: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a run did."""

    status: RunStatus
    exit_code: int | None
    stdout: bytes
    stderr: bytes
    files: Mapping[str, bytes] = field(default_factory=lambda: MappingProxyType({}))
    cpu_s: float
    blocked_s: float
    wall_s: float
    memory_bytes_peak: int


class CommandLauncher(Protocol):
    """Runs any program: compilers, binaries, interpreters."""

    def run(self, command: CommandRun) -> RunResult:
        """Run to the end.

        Raises:
            SandboxError: the sandbox could not be set up or torn down.
        """

    def close(self) -> None:
        """Give back what the launcher holds."""


class BlockedMeter(Protocol):
    """Counts how long a process tree was blocked by its own doing (`accounting.blocked`)."""

    blocked_ns: int

    def begin(self, now_ns: int) -> None:
        """Count from now on."""

    def look(self, now_ns: int, *, due_ns: int) -> None:
        """Add the interval since the last look, which was to happen at `due_ns`."""


class Box(Protocol):
    """What a harness (pid 1 of a fresh box, our own code) may do there."""

    def spawn_confined(self, run: Callable[[], None], *, keep_fds: Sequence[int]) -> int:
        """Fork `run` into a nested pid and mount namespace with its own `/proc`.

        The child has no capabilities, the seccomp filter, and no descriptor but 0, 1, 2 and
        `keep_fds`: not the harness's channel, nothing of what is still sealed.

        Returns:
            Its pid as the harness sees it (to be waited for with `os.waitpid`).
        """

    def unseal(self) -> bytes:
        """Return `HarnessRun.sealed`, once; it enters the box's memory only now.

        A candidate forked before this call holds no copy of it and can reach none.
        """

    def confine_self(self) -> None:
        """Give up what `run` of `spawn_confined` is denied; the channel stays open."""

    def channel_write(self, data: bytes) -> None:
        """Append to `HarnessResult.channel`; only the harness can."""

    def blocked_meter(self, pid: int) -> BlockedMeter:
        """Return a meter for the process `pid` and all below it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessRun:
    """Our own code to run as pid 1 of a fresh box, together with code that is not ours."""

    module: str
    """Imported by the zygote before it forks; `main(payload: bytes, box: Box) -> None`."""
    payload: bytes
    """What may be known to every process of the box."""
    sealed: bytes = b""
    """What the candidate must never see (tests with expected values): see `Box.unseal`."""
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessResult:
    """What a harness reported, and how its box ended."""

    status: RunStatus
    """Of the whole box: limits count the harness and the candidate together."""
    exit_code: int | None
    channel: bytes
    """All that the harness wrote to its channel; at most `limits.output_bytes`."""
    stdout: bytes
    stderr: bytes
    """Descriptors 1 and 2 of every process of the box: never to be believed."""
    cpu_s: float
    blocked_s: float
    wall_s: float
    memory_bytes_peak: int


class HarnessLauncher(Protocol):
    """Runs harnesses in fresh boxes, cheaply."""

    def run_harness(self, run: HarnessRun) -> HarnessResult:
        """Run to the end.

        Raises:
            SandboxError: the sandbox, or the harness itself, broke.
        """

    def close(self) -> None:
        """Give back what the launcher holds."""
