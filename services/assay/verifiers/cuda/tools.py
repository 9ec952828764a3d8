"""Programs of this host that a box needs and does not show: `ninja`, which is installed beside
Python.

A box shows `/usr` and single folders; the folder of an environment's programs would show all of
them.
"""

import os
import shutil
from pathlib import Path
from typing import Final

NAMES: Final = ("ninja",)
_SHOWN: Final = Path("/usr")


def tools_in(folder: Path, names: tuple[str, ...] = NAMES, path: str | None = None) -> Path | None:
    """A folder with copies of the programs that `/usr` does not have.

    Args:
        folder: where it is made.
        names: of the programs.
        path: where they are searched; None: `$PATH`.

    Returns:
        None where boxes show all of them, or there are none.
    """
    made = None
    for name in names:
        found = shutil.which(name, path=path)
        if found is None or Path(found).resolve().is_relative_to(_SHOWN):
            continue
        made = folder / "tools"
        made.mkdir(parents=True, exist_ok=True)
        scratch = made / f".{name}.{os.getpid()}"
        shutil.copy(found, scratch)  # a link's target, with its mode
        scratch.replace(made / name)
    return made
