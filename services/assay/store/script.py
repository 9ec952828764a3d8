"""Lua scripts as they are sent to the server.

A script is a file under `scripts/`; a line `--@include name.lua` is replaced by that file, because
a script cannot call another. The server identifies it by the SHA-1 of the whole text.

What follows an include becomes a function of its own, which is called at once. The reason: the
server runs the whole text at each call, so all its functions are created again. For each one, Lua
searches the locals that inner functions refer to in the enclosing function; references to functions
further outside are only copied. In this form a script costs a third less before its first command.
"""

import dataclasses
import functools
import hashlib
import re
from dataclasses import dataclass
from importlib import resources
from typing import Final

from assay.store.library import library_of

AS_FUNCTIONS: Final = frozenset({"claim", "finish", "open_filled", "stage", "submit"})
"""What every request needs; the others are called rarely."""
_INCLUDE: Final = re.compile(r"^--@include ([a-z_]+\.lua)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One atomic script: all its effects happen or none."""

    name: str
    text: str
    sha: str
    library: str
    """The same as a library of one function of the name `function`; `''`: it has none."""

    @property
    def function(self) -> str:
        """Of this very text: several releases may use one server."""
        return f"assay_{self.name}_{self.sha}"


def load_all() -> None:
    """Read all scripts now, which processes that are forked from this one share."""
    for file in (resources.files("assay.store") / "scripts").iterdir():
        load_script(file.name.removesuffix(".lua"))


@functools.cache
def load_script(name: str) -> Script:
    """Read `scripts/<name>.lua` and the files that it includes, once per process."""
    folder = resources.files("assay.store") / "scripts"
    source = (folder / f"{name}.lua").read_text(encoding="utf-8")

    def part(found: re.Match[str]) -> str:
        return (folder / found[1]).read_text(encoding="utf-8")

    text, includes = _INCLUDE.subn(lambda found: part(found) + "return (function()", source)
    text += "end)()" * includes + "\n"
    sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    script = Script(name=name, text=text, sha=sha, library="")
    if name not in AS_FUNCTIONS:
        return script
    library = library_of(script.function, _INCLUDE.sub(part, source))
    return dataclasses.replace(script, library=library)
