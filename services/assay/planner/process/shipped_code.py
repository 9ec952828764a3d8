"""Machine code that comes with a wheel, so that the first plan of an installation waits for no
compiler: `python -m assay.planner.process.shipped_code FOLDER` makes it.

It is made for any processor of the architecture and for the Python and numba that made it. Where
these, or the sources, are others, what was shipped is left alone and functions are compiled.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Final

import assay
from assay.planner.process.code_cache import (
    ANY_PROCESSOR,
    COMPILED_PACKAGES,
    VARIABLE,
    sources_digest,
)

PLACE: Final = "planner/compiled"
"""Below the package `assay`."""


def folder_of(package: Path) -> str | None:
    """What numba calls the folder for the functions of the modules in `package`.

    `None`: numba is not installed, or has no such interface.
    """
    try:
        from numba.core.caching import _CacheLocator

        name: Callable[[str], str] = _CacheLocator.get_suitable_cache_subpath
        return name(str(package / "module.py"))
    except (ImportError, AttributeError):
        return None


def packages(roots: Iterable[str | Path]) -> Iterable[tuple[str, Path]]:
    """The compiled packages below these roots: name and folder."""
    for root in roots:
        for package in COMPILED_PACKAGES:
            if Path(root, package).is_dir():
                yield package, Path(root, package)


def unpack(roots: Iterable[str | Path], environment: Mapping[str, str]) -> bool:
    """Put what was shipped for these sources where numba looks for it, once.

    Returns:
        Whether machine code of these sources was shipped, and is there.
    """
    found = [str(root) for root in roots]
    if not environment.get(VARIABLE):
        return False
    digest, into = sources_digest(found), Path(environment[VARIABLE])
    shipped = [path for root in found if (path := Path(root, PLACE, digest)).is_dir()]
    for name, package in packages(found) if shipped else ():
        source, folder = shipped[0] / name, folder_of(package)
        if folder is None or not put(source, into / folder):
            return False
    return bool(shipped)


def put(source: Path, target: Path) -> bool:
    """Copy a folder as a whole, unless it is there; whether it is."""
    if target.exists() or not source.is_dir():
        return True
    try:
        scratch = mkdtemp(dir=target.parent)
        shutil.copytree(source, scratch, dirs_exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.replace(scratch, target)  # noqa: PTH105 - the scratch folder is a string
        shutil.rmtree(scratch, ignore_errors=True)
    except OSError:
        return False
    return target.exists()


def make(roots: Iterable[str | Path], into: Path) -> Path:
    """Compile all that a plan needs; returns the folder that was made below `into`."""
    found = [str(root) for root in roots]
    made = into / sources_digest(found)
    from assay.config.planning import PlanSettings
    from assay.planner.process.warm_up import warm_up
    from assay.planner.session.session import Session

    settings = PlanSettings()
    warm_up(Session(settings), settings.replan_s)
    for name, package in packages(found):
        folder = folder_of(package)
        compiled = Path(os.environ[VARIABLE]) / (folder or "")
        if folder is not None and compiled.is_dir():
            shutil.copytree(compiled, made / name, dirs_exist_ok=True)
    if not made.is_dir():
        raise RuntimeError("numba did not keep what it compiled")
    return made


AGAIN: Final = """
import runpy, sys
sys.path[:] = sys.argv[2:]
runpy.run_module("assay.planner.process.shipped_code", run_name="__main__")
"""
"""Runs this module where this process found it: a build's own environment has it on no path."""


def main() -> None:
    """Start again with an empty cache: numba reads its settings when it is imported."""
    if os.environ.get("ASSAY_COMPILES") == "1":
        make(assay.__path__, Path(sys.argv[1]))
        return
    with TemporaryDirectory() as cache:
        given = {**os.environ, VARIABLE: cache, **ANY_PROCESSOR, "ASSAY_COMPILES": "1"}
        command = [sys.executable, "-c", AGAIN, sys.argv[1], *sys.path]
        sys.exit(subprocess.run(command, env=given, check=False).returncode)  # noqa: S603 - ours


if __name__ == "__main__":
    main()
