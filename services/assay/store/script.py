"""Lua scripts as they are sent to the server.

A script is a file under `scripts/`; a line `--@include name.lua` is replaced by that file, because
a script cannot call another. The server identifies it by the SHA-1 of the whole text.
"""

import hashlib
import re
from dataclasses import dataclass
from importlib import resources
from typing import Final

_INCLUDE: Final = re.compile(r"^--@include ([a-z_]+\.lua)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One atomic script: all its effects happen or none."""

    name: str
    text: str
    sha: str


def load_script(name: str) -> Script:
    """Read `scripts/<name>.lua` and the files that it includes."""
    folder = resources.files("assay.store") / "scripts"
    source = (folder / f"{name}.lua").read_text(encoding="utf-8")
    text = _INCLUDE.sub(lambda found: (folder / found[1]).read_text(encoding="utf-8"), source)
    sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    return Script(name=name, text=text, sha=sha)
