"""A script as a function that the server keeps: made once, and not again at each call. Pure.

The server runs the whole text of a script at each call, which creates all of its functions again:
half of what a call costs beside its requests. A library of functions is loaded once; what a call
then runs are the statements that are no definitions. The text of a script is cut accordingly, by
its lines that begin in the first column:

* `local function f` and `function table.f` are definitions, and so are constants: locals whose
  values are literals. They stay where they are.
* Of any other `local a, b = ...` the declaration stays, so that the same functions see it, and the
  assignment becomes part of the call. After the call these locals are empty again.
* All other statements become part of the call, in their order.

So the same text does the same in both forms; tests run the store's conformance suite with each.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

_COMMENT: Final = re.compile(r"^\s*--.*$|\s--\s.*$", re.MULTILINE)
_LOCAL: Final = re.compile(r"local\s+(?!function\b)([\w, ]+?)\s*(?:=\s*(.*))?", re.DOTALL)
_FUNCTION: Final = re.compile(r"(?:local )?function (?:(\w+)\.)?")
_LITERALS: Final = re.compile(r"(?:\s|[-+*(){},.\d]|\d+e-\d+|'[^']*')*")
"""Numbers, strings, and tables and sums of them: nothing that a call could change."""
_INSIDE: Final = ("end", "}", ")", "else")
"""A line that begins so continues what is above it."""
_GLOBALS: Final = ", ".join(
    [
        *("cmsgpack", "ipairs", "math", "next", "pairs", "select", "string", "table", "tonumber"),
        "unpack",
    ]
)
"""Globals that each call first copies into locals. Looking one up searches two tables, and none
exists yet while the function is loaded."""
_FLAGS: Final = re.compile(r"^#!lua(?: flags=([\w,-]+))?\n")


class NoLibrary(ValueError):
    """A text that cannot be cut; it says why."""


def statements(text: str) -> Iterator[str]:
    """The statements of a text that begin in the first column, without comments."""
    lines: list[str] = []
    for line in _COMMENT.sub("", text).splitlines():
        begins = line[:1].strip() and not line.startswith(_INSIDE)
        if begins and lines:
            yield "\n".join(lines)
            lines = []
        if line.strip():
            lines.append(line)
    if lines:
        yield "\n".join(lines)


def library_of(name: str, text: str) -> str:
    """The library with one function, called as itself.

    Args:
        name: of the library and its function: letters, digits, underscores.
        text: of the script, with its first line `#!lua` and everything that it includes.

    Raises:
        NoLibrary: a local is declared twice, or the first line is another one.
    """
    head = _FLAGS.match(text)
    if head is None:
        raise NoLibrary(f"{name}: no line '#!lua'")
    flags = ", ".join(f"'{flag}'" for flag in (head[1] or "").split(",") if flag)
    kept, call, names = _cut(name, list(statements(text[head.end() :])))
    empty = "".join(f"  {one} = nil\n" for one in names)
    return (
        f"#!lua name={name}\n"
        f"local function globals() return {_GLOBALS} end\n"
        f"local KEYS, ARGV, {_GLOBALS}\n"
        f"{kept}\n"
        f"local function run()\n{call}\nend\n"
        f"local function forget()\n  KEYS, ARGV = nil, nil\n{empty}end\n"
        "redis.register_function{\n"
        f"  function_name = '{name}', flags = {{ {flags} }},\n"
        "  callback = function(keys, args)\n"
        "    KEYS, ARGV = keys, args\n"
        f"    {_GLOBALS} = globals()\n"
        "    local answer = run()\n"
        "    forget()\n"
        "    return answer\n"
        "  end\n"
        "}\n"
    )


def _cut(name: str, parts: Sequence[str]) -> tuple[str, str, Sequence[str]]:
    """What is loaded once, what each call runs, and the locals that the call fills."""
    tables = {found[1] for part in parts if (found := _FUNCTION.match(part)) and found[1]}
    kept: list[str] = []
    call: list[str] = []
    names: list[str] = []
    known: set[str] = set()
    for part in parts:
        local = _LOCAL.fullmatch(part)
        if local is None:
            (kept if _FUNCTION.match(part) else call).append(part)
            continue
        declared, value = [one.strip() for one in local[1].split(",")], local[2]
        if not known.isdisjoint(declared):
            raise NoLibrary(f"{name}: a local is declared twice: {local[1]}")
        known.update(declared)
        if tables.issuperset(declared) or (
            value and _LITERALS.fullmatch(value) and local[1].isupper()
        ):
            kept.append(part)
            continue
        kept.append(f"local {local[1]}")
        call.append(f"{local[1]} = {value or 'nil'}")
        names += declared
    return "\n".join(kept), "\n".join(call), names
