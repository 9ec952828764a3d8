"""The form in which boxes receive a run, and the result of it."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from assay.sandbox.launchers.collect import check_name
from assay.sandbox.launchers.packages import Packages
from assay.sandbox.launchers.watch import Ending
from assay.sandbox.port import CommandRun, Limits, RunResult

ENVIRONMENT: Final = MappingProxyType(
    {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "TMPDIR": "/tmp",
        "LANG": "C.UTF-8",
        "USER": "box",  # libraries that name caches after their user find no list of users
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """Directories that a box shows in addition to the system's."""

    readable: tuple[Path, ...] = ()
    """Directories shown read-only, at their own paths."""
    python_path: tuple[Path, ...] = ()
    """Directories that Python programs import from; also shown."""
    gpu_devices: tuple[str, ...] = ()
    """Names of files in `/dev` of a GPU that boxes show, with the `ioctl` calls of its driver. Only
    boxes that the zygote creates do."""
    packages: Packages = field(default_factory=Packages)
    """Packages that Python programs import, of directories that are not shown as a whole."""
    harnesses: Mapping[str, Path] = field(default_factory=dict)
    """Name (`HarnessRun.module`) -> source file."""

    def shown(self) -> list[str]:
        """All directories to show, including the interpreter's own."""
        wanted = {*self.readable, *self.python_path, *self.packages.folders}
        wanted.add(Path(sys.base_prefix))
        paths = sorted({os.path.realpath(path) for path in wanted if path.is_dir()})
        return [path for path in paths if not Path(path).is_relative_to("/usr")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The form in which boxes receive a run."""

    kind: str
    argv: Sequence[str]
    env: Mapping[str, str]
    files: Sequence[tuple[str, bytes, bool]]
    source: bytes
    stdin: bytes
    collect: Sequence[str]
    limits: Limits
    sealed: bytes | None = None
    """Set for a harness only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How a run ended, and its output."""

    ending: Ending
    streams: tuple[bytes, ...]
    """stdout, stderr, and a harness's channel."""
    files: Mapping[str, bytes]


def checked_files(
    files: Mapping[str, bytes], executables: frozenset[str], collected: Sequence[str]
) -> list[tuple[str, bytes, bool]]:
    """Return the path, content and executable flag of each file.

    Raises:
        InvalidRequest: a path is not plain; see `check_name`.
    """
    for name in collected:
        check_name(name, "collect")
    return [
        (check_name(name, "files"), bytes(content), name in executables)
        for name, content in files.items()
    ]


def command_order(command: CommandRun, files: Sequence[tuple[str, bytes, bool]]) -> Order:
    """Return the order for a program that is executed."""
    return Order(
        kind="command",
        argv=command.argv,
        env={**ENVIRONMENT, **command.env},
        files=files,
        source=b"",
        stdin=command.stdin,
        collect=command.collect,
        limits=command.limits,
    )


def result_of(done: Done) -> RunResult:
    """Return the result for the caller of `run` or `run_python`."""
    ending = done.ending
    return RunResult(
        status=ending.status,
        exit_code=ending.exit_code,
        stdout=done.streams[0],
        stderr=done.streams[1],
        files=done.files,
        cpu_s=ending.usage.cpu_s,
        blocked_s=ending.blocked_s,
        wall_s=ending.wall_s,
        memory_bytes_peak=ending.usage.memory_bytes_peak,
    )
