"""A mutant beside the tree: a copy of the services with the change, in front of the tree.

`assay` is a namespace package, so a package of that copy is found first and all others where they
are. Nothing in the tree changes, and the processes that a test starts see the mutant too: those in
boxes as well, because the copied sandbox looks for the referee beside itself.
"""

import os
import shutil
from pathlib import Path
from typing import Final

from tests.mutation.mutants import Mutant
from tests.mutation.verdicts import VerdictMutant

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = ("services", "simulator", "proto", "runtime")


def overlaid(mutant: Mutant | VerdictMutant, place: Path) -> Path:
    """Copy the services to `place` with the change; returns the directory to search first.

    Raises:
        ValueError: the text that it changes does not occur exactly once.
    """
    parts = Path(mutant.file).relative_to("services")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "services/assay", place / "assay", ignore=ignored)
    file = place / parts
    text = file.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        message = f"{mutant.file}: not exactly once: {mutant.old!r}"
        raise ValueError(message)
    file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    return place


def environment(place: Path | None) -> dict[str, str]:
    """Environment of a process that sees the mutant at `place`; `None` = the unchanged tree."""
    tree = [str(ROOT / source) for source in SOURCES]
    path = [*([] if place is None else [str(place)]), *tree, str(ROOT)]
    return dict(os.environ, PYTHONPATH=os.pathsep.join(path))
