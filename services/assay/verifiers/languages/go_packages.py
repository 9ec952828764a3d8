"""Go's library, compiled once per machine and version, and the list that compiler and linker read.

Since Go 1.20 a distribution has no compiled library. It is the operator's own compiler on its own
sources, so it runs outside of a box; boxes see the result read-only. Several processes that need it
at the same time wait for the first.
"""

import fcntl
import hashlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay.verifiers.languages.toolchains import Toolchain, ToolMissing

_BUILD_S_MAX: Final = 900.0
_FORM: Final = "{{if .Export}}packagefile {{.ImportPath}}={{.Export}}{{end}}"
LIST: Final = "packages"


@dataclass(frozen=True, slots=True, kw_only=True)
class GoPackages:
    """Where the compiled library is."""

    folder: Path
    """To be shown in the box."""

    @property
    def list(self) -> Path:
        """Import path and file, a line each."""
        return self.folder / LIST


def go_folder() -> Path:
    """Where compiled libraries of this user are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "assay" / "go"


def go_packages(toolchain: Toolchain, folder: Path | None = None) -> GoPackages:
    """Compile the library unless that has been done.

    Raises:
        ToolMissing: it cannot be compiled; the message has the end of the compiler's.
    """
    go = toolchain.programs["go"]
    version = hashlib.sha256(f"{go}\n{toolchain.version}".encode()).hexdigest()[:16]
    own = (folder or go_folder()) / version
    own.mkdir(parents=True, exist_ok=True)
    found = GoPackages(folder=own)
    with (own / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not found.list.exists():
            _compile(go, found)
    return found


def _compile(go: Path, found: GoPackages) -> None:
    fixed = {"GOTOOLCHAIN": "local", "GOFLAGS": "", "CGO_ENABLED": "0", "GO111MODULE": "off"}
    places = {"GOCACHE": str(found.folder / "cache"), "HOME": str(found.folder)}
    try:
        done = subprocess.run(  # noqa: S603 - the operator's own compiler on its own sources
            [go, "list", "-export", "-f", _FORM, "std"],
            env={"PATH": os.environ.get("PATH", ""), **fixed, **places},
            capture_output=True,
            stdin=subprocess.DEVNULL,
            check=True,
            timeout=_BUILD_S_MAX,
        )
    except subprocess.CalledProcessError as error:
        raise ToolMissing(f"Go: {error.stderr[-500:].decode('utf-8', 'replace')}") from error
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolMissing(f"Go: {error}") from error
    lines = [line for line in done.stdout.splitlines() if line]
    if not lines:
        raise ToolMissing(f"Go: {go} lists no package of its library")
    unfinished = found.folder / f"{LIST}.unfinished"
    unfinished.write_bytes(b"\n".join(lines) + b"\n")
    unfinished.rename(found.list)
