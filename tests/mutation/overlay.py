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
from pathlib import Path
from typing import Final

from tests.mutation.mutants import Mutant
from tests.mutation.verdicts import VerdictMutant

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = ("services", "simulator", "proto", "runtime")
BUILD: Final = """
import sys
from pathlib import Path
from hatch_build import build
build(Path(sys.argv[1]), Path(sys.argv[2]))
"""


def overlaid(mutant: Mutant | VerdictMutant, place: Path) -> Path:
    """Copy its source root to `place` with the change; returns the directory to search first.

    Raises:
        ValueError: the text that it changes does not occur exactly once.
    """
    root, *_ = Path(mutant.file).parts
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / root / "assay", place / "assay", ignore=ignored)
    file = place / Path(mutant.file).relative_to(root)
    text = file.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        message = f"{mutant.file}: not exactly once: {mutant.old!r}"
        raise ValueError(message)
    file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
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
