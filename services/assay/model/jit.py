"""Inner loops are compiled where numba is installed and run as plain Python where it is not.

The compiled and the plain loop are the same source, so they cannot drift apart; the *readable*
reference is `assay.sim.pools.reference`, and tests hold the loops to it.

Machine code is kept per state of the sources. numba itself looks only at the file of the compiled
function: after an upgrade it would run code that was compiled with functions or record types of
another release.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, ParamSpec, TypeVar, cast

import assay

P = ParamSpec("P")
R = TypeVar("R")

COMPILED_PACKAGES: Final = ("model", "planner/core", "sim/pools")
"""Where compiled functions, and what they are compiled with, are defined."""
KEPT_MAX: Final = 4
"""States of the sources of which machine code is kept."""


def sources_digest(roots: Iterable[str | Path]) -> str:
    """SHA-256 of the compiled packages below these roots; names and contents."""
    digest = hashlib.sha256()
    for root in sorted(map(str, roots)):
        for package in COMPILED_PACKAGES:
            for file in sorted(Path(root, package).glob("*.py")):
                content = file.read_bytes()
                digest.update(f"{package}/{file.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


def cache_dir(base: Path, digest: str) -> Path | None:
    """The directory for these sources, made; those of all but the latest others are deleted.

    `None`: it cannot be written.
    """
    chosen = base / digest
    try:
        chosen.mkdir(parents=True, exist_ok=True)
        os.utime(chosen)
        others = sorted(base.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    except OSError:
        return None
    for old in others[KEPT_MAX:]:
        shutil.rmtree(old, ignore_errors=True)
    return chosen if os.access(chosen, os.W_OK) else None


def _base() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - a user without a home is no error here
    return Path(home, "assay", "compiled")


try:
    import numba
except ImportError:  # the plain loops are some hundred times slower and give the same answers
    COMPILED = False

    def jit(function: Callable[P, R]) -> Callable[P, R]:
        """Leave the loop as it is."""
        return function
else:
    COMPILED = True
    if not os.environ.get("NUMBA_CACHE_DIR"):
        found = cache_dir(_base(), sources_digest(assay.__path__))
        if found is not None:
            numba.config.CACHE_DIR = str(found)  # type: ignore[attr-defined]

    def jit(function: Callable[P, R]) -> Callable[P, R]:
        """Compile the loop at its first call and keep the machine code for later processes."""
        return cast("Callable[P, R]", numba.njit(cache=True)(function))
