"""Compiled regular expressions, kept on disk between starts of a stage.

Python compiles an expression to a list of integers, by code that is itself Python. The 800 of
`math.verify` take as long as the import of sympy. That list is what is kept; CPython's matcher
checks it before use. Where the interpreter has no such interface, nothing is kept.

Invariant: `re.compile` returns what it would have returned without this; only a warning about an
expression is not repeated.
"""

import marshal
import re
import sys
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from assay.config.computed import read, write

PATTERNS_MAX: Final = 10_000
_CHANGES_NOTHING: Final = re.DEBUG | re.LOCALE
"""With these, `re.compile` prints, or depends on more than its arguments."""
_CODE: Final = "I"
"""The type of an `array` of code."""

_Key = tuple[str | bytes, int]
_Compiled = tuple[int, bytes, int, dict[str, int], tuple[str | None, ...]]
"""Of `_sre.compile`: flags, code, groups, their indexes by name, their names by index."""


@contextmanager
def kept_patterns(path: Path | None) -> Iterator[None]:
    """For the length of the block, `re.compile` takes from a file what it has.

    Afterwards the file holds all that was compiled in the block, if any of it was new.

    Args:
        path: see `assay.config.computed`; `None`: nothing is kept.
    """
    compiler = _compiler()
    if path is None or compiler is None:
        yield
        return
    content = read(path, _key())
    held: dict[_Key, _Compiled] = {} if content is None else marshal.loads(content)  # noqa: S302 - our own file, see `computed`
    used: dict[_Key, _Compiled] = {}
    compile_it = compiler.compile

    def compiled(pattern: Any, flags: int = 0) -> re.Pattern[Any]:  # noqa: ANN401 - as `re` has it
        if type(pattern) not in (str, bytes) or flags & _CHANGES_NOTHING:
            return compile_it(pattern, flags)  # type: ignore[no-any-return]
        key = (pattern, int(flags))
        used[key] = found = held.get(key) or _integers(compiler, *key)
        return _pattern(compiler, pattern, found)

    compiler.compile = compiled
    try:
        yield
    finally:
        compiler.compile = compile_it
    if not used.keys() <= held.keys() and len(used) <= PATTERNS_MAX:
        write(path, _key(), marshal.dumps(used))


def _integers(compiler: Any, pattern: str | bytes, flags: int) -> _Compiled:  # noqa: ANN401 - a private module
    """As in `re._compiler.compile`."""
    parsed = compiler._parser.parse(pattern, flags)  # noqa: SLF001
    code = array(_CODE, compiler._code(parsed, flags))  # noqa: SLF001
    state = parsed.state
    names: list[str | None] = [None] * state.groups
    for name, index in state.groupdict.items():
        names[index] = name
    indexes = dict(state.groupdict)
    return int(flags | state.flags), code.tobytes(), state.groups - 1, indexes, tuple(names)


def _pattern(compiler: Any, pattern: str | bytes, found: _Compiled) -> re.Pattern[Any]:  # noqa: ANN401 - a private module
    flags, code, groups, indexes, names = found
    made: re.Pattern[Any] = compiler._sre.compile(  # noqa: SLF001 - what `re` itself calls
        pattern, flags, array(_CODE, code).tolist(), groups, indexes, names
    )
    return made


def _compiler() -> Any:  # noqa: ANN401 - a private module
    """`re._compiler`, if it is as this module knows it."""
    found: Any = getattr(re, "_compiler", None)
    known = all(hasattr(found, name) for name in ("compile", "_code", "_parser", "_sre"))
    return found if known and array(_CODE).itemsize == found._sre.CODESIZE else None  # noqa: SLF001


def _key() -> bytes:
    return f"{sys.implementation.cache_tag} {sys.version} {sys.byteorder} {sys.maxsize}".encode()
