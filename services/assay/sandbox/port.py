"""The interface for running untrusted code, common to all launchers.

Guarantee of every launcher: no network and no view of the host's files, processes, environment or
other runs; hard limits on CPU time, blocked time, memory, processes, files and output; no
process of the program exists when `run` returns. Delays of the machine (waiting for a core, a
stalled machine, the launcher's own work) never count against a program. A broken limit is a value
(`RunStatus`). Missing isolation raises `IsolationUnavailable`. Any other failure outside the
program raises `SandboxError`: an infrastructure failure, never the program's fault.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol

MIB = 1024 * 1024
SLOWED_MAX = 20.0
"""Factor by which a busy machine may slow a program before its run is given up and retried."""


class SandboxError(Exception):
    """The sandbox broke, not the program in it; the attempt may be tried again."""


class HeldUp(SandboxError):
    """The machine was too busy, or stalled, for longer than the wall limit.

    It is no evidence about the program, even if another run succeeds: repeat the attempt.
    """


class MonotonicClock(Protocol):
    """The part of `assay.edge.clock.Clock` that the sandbox needs."""

    def monotonic_ns(self) -> int:
        """Monotonic time, for durations only."""


class RunStatus(StrEnum):
    """How a run ended."""

    EXITED = "exited"
    """By itself; `exit_code` says how."""
    SIGNALED = "signaled"
    """By a signal that it caused (a crash); `exit_code` is minus the signal's number."""
    CPU_LIMIT = "cpu_limit"
    BLOCKED_LIMIT = "blocked_limit"
    """It slept or was blocked by itself too long; waiting for a core does not count."""
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"

    @property
    def is_limit(self) -> bool:
        """True if a limit ended the run."""
        return self not in {RunStatus.EXITED, RunStatus.SIGNALED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one run. Only its own CPU time and blocked time decide the verdict."""

    cpu_s: float = 10.0
    blocked_s: float = 5.0
    """Time in which no task of the tree ran or was ready to run; see `accounting.blocked`."""
    wall_s: float | None = None
    """Protects the caller: exceeding it is a `SandboxError`, unless the program was blocked.
    Default: `SLOWED_MAX` times the sum of the other two, plus a minute."""
    memory_bytes: int = 512 * MIB
    address_bytes: int | None = None
    """Virtual memory per process, where no cgroup bounds the memory of the tree (there it is
    sampled). Default: twice `memory_bytes`. Runtimes that reserve more than they use need more."""
    processes: int = 64
    open_files: int = 256
    file_bytes: int = 64 * MIB
    """Largest file it may write."""
    disk_bytes: int = 64 * MIB
    """Size of its scratch file system."""
    inodes: int = 8_192
    output_bytes: int = 32 * MIB
    """Limit for stdout and stderr each; the run ends when one exceeds it."""
    cpu_cores: float = 1.0
    """CPU seconds per second for all its threads together."""

    @property
    def wall_s_max(self) -> float:
        """The effective bound on wall time."""
        if self.wall_s is not None:
            return self.wall_s
        return SLOWED_MAX * (self.cpu_s + self.blocked_s) + 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRun:
    """A program to run in the sandbox's `/box` directory, which holds `files`."""

    argv: tuple[str, ...]
    stdin: bytes = b""
    files: Mapping[str, bytes] = field(default_factory=lambda: MappingProxyType({}))
    """Relative path -> content; executable if the name is in `executables`."""
    executables: frozenset[str] = frozenset()
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    collect: tuple[str, ...] = ()
    """Regular files under `/box` to bring back; links are never followed, missing ones are left
    out, each is bounded by `limits.file_bytes`."""
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonRun:
    """A Python program, run like `python program.py` in `/box`."""

    source: bytes
    prelude: bytes = b""
    """Python text that runs first, in a separate namespace; must not contain NUL."""
    argv: tuple[str, ...] = ()
    """Arguments after the program's name."""
    stdin: bytes = b""
    files: Mapping[str, bytes] = field(default_factory=lambda: MappingProxyType({}))
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    collect: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How a run ended, what it printed and left behind, and what it used."""

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

    @property
    def isolated(self) -> bool:
        """False only if the host has no isolation and the operator allows that."""

    def run(self, command: CommandRun) -> RunResult:
        """Run to the end.

        Raises:
            SandboxError: the sandbox could not be set up or torn down.
        """

    def close(self) -> None:
        """Give back what the launcher holds."""


class BlockedMeter(Protocol):
    """Counts how long a process tree was blocked by itself (`accounting.blocked`)."""

    blocked_ns: int

    def begin_new(self, now_ns: int) -> None:
        """Count a tree that begins now, on any clock that `look` uses too."""

    def undecided_ns(self, now_ns: int) -> int:
        """Time since the last sample, and time that it could not decide."""

    def look(self, now_ns: int, *, due_ns: int, has_answered: int | None = None) -> None:
        """Add the interval since the last sample, which was due at `due_ns`.

        `has_answered` is a process whose main thread was running at `now_ns`.
        """


class Box(Protocol):
    """Operations of a harness (trusted code that is pid 1 of a fresh box)."""

    def spawn_confined(
        self, run: Callable[[], None], *, keep_fds: Sequence[int], shares_files: bool = False
    ) -> int:
        """Fork `run` into a nested pid and mount namespace with its own `/proc`.

        With `shares_files` it has the harness's `/box` and `/tmp`, else empty ones of its own.

        The child has no capabilities, runs under the seccomp filter, and has no descriptors except
        0, 1, 2 and `keep_fds`. It has neither the harness's channel nor any of the sealed data.

        Returns:
            Its pid as the harness sees it (for `os.waitpid`).
        """

    def unseal(self) -> bytes:
        """Return `HarnessRun.sealed`, once; only this call loads it into the box's memory.

        A candidate forked before this call has no copy of it and cannot reach one.
        """

    def confine_self(self) -> None:
        """Drop the rights that `spawn_confined` denies to `run`; the channel stays open."""

    def channel_write(self, data: bytes) -> None:
        """Append to `HarnessResult.channel`; only the harness can."""

    def blocked_meter(self, pid: int) -> BlockedMeter:
        """Return a meter for the process `pid` and its descendants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessRun:
    """Trusted code to run as pid 1 of a fresh box, together with untrusted code."""

    module: str
    """Imported by the zygote before it forks; `main(payload: bytes, box: Box) -> None`."""
    payload: bytes
    """Data that every process of the box may see."""
    sealed: bytes = b""
    """Data that the candidate must never see (tests with expected values); see `Box.unseal`."""
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessResult:
    """The report of a harness, and how its box ended."""

    status: RunStatus
    """Status of the whole box: limits count the harness and the candidate together."""
    exit_code: int | None
    channel: bytes
    """Everything that the harness wrote to its channel; at most `limits.output_bytes`."""
    stdout: bytes
    stderr: bytes
    """Descriptors 1 and 2 of every process of the box: untrusted."""
    cpu_s: float
    blocked_s: float
    wall_s: float
    memory_bytes_peak: int
