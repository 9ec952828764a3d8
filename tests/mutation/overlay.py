"""A mutant beside the tree: a copy of its source root with the change, in front of the tree.

`assay` is a namespace package, so a package of that copy is found first and all others where they
are. Nothing in the tree changes, and the processes that a test starts see the mutant too: those in
boxes as well, because the copied sandbox looks for the referee beside itself. A mutant of a C file
is compiled in its copy, with the objects of the tree that it leaves as they are.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = ("services", "simulator", "proto", "runtime")
BUILD: Final = """
import sys
from pathlib import Path
from hatch_build import build
build(Path(sys.argv[1]), Path(sys.argv[2]))
"""


class Change(Protocol):
    """A text of one file in another one's place."""

    @property
    def file(self) -> str:
        """Its path from the root of the project."""

    @property
    def old(self) -> str:
        """Occurs exactly once in the file."""

    @property
    def new(self) -> str:
        """Stands there instead."""


def overlaid(changes: Sequence[Change], place: Path) -> Path:
    """Copy their source root to `place` with the changes; returns the directory to search first.

    Raises:
        ValueError: the text that one changes does not occur exactly once.
    """
    root = Path(changes[0].file).parts[0]
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / root / "assay", place / "assay", ignore=ignored)
    for change in changes:
        file = place / Path(change.file).relative_to(root)
        text = file.read_text(encoding="utf-8")
        if text.count(change.old) != 1:
            message = f"{change.file}: not exactly once: {change.old!r}"
            raise ValueError(message)
        file.write_text(text.replace(change.old, change.new), encoding="utf-8")
        if file.suffix == ".c":
            _compile(file.parent, place / "objects")
    return place


def _compile(native: Path, objects: Path) -> None:
    made = ROOT / "build/native/plain"
    if made.is_dir():
        shutil.copytree(made, objects / "plain")
    subprocess.run([sys.executable, "-c", BUILD, native, objects], cwd=ROOT, check=True)


def environment(place: Path | None) -> dict[str, str]:
    """Environment of a process that sees the mutant at `place`; `None` = the unchanged tree."""
    tree = [str(ROOT / source) for source in SOURCES]
    path = [*([] if place is None else [str(place)]), *tree, str(ROOT)]
    return dict(os.environ, PYTHONPATH=os.pathsep.join(path))
