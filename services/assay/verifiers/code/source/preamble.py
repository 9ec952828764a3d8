"""Names that a program may use without importing them, as in the harness of its data set.

LeetCode runs a solution after star imports of about twenty modules. LiveCodeBench, APPS, TACO and
the code rewards of trainers do the same, so solutions use `List`, `deque` or `gcd` without
importing them.

The preamble runs in the program's process, before the program and in a separate namespace. Its
names are added to the builtins, so that

* a program's own definitions and imports take precedence, and line numbers, `from __future__` and
  `__name__` do not change;
* a name of the preamble is never a name *of the program*: a test that uses `gcd` does not get it
  from a program that does not define it;
* only names that occur in the program are imported, so the cost is negligible.
"""

import builtins
import re
from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from importlib import import_module
from typing import Final


class Preamble(StrEnum):
    """Which names a program may use without importing them."""

    AUTO = "auto"
    """`leetcode` for calls and for programs with a `class Solution`, `standard` for stdin and
    stdout, `none` for test code: HumanEval and MBPP provide no names beyond their prompts."""
    NONE = "none"
    """Builtins only."""
    STANDARD = "standard"
    """Public names of the modules below, and the modules themselves."""
    LEETCODE = "leetcode"
    """The names of `standard`, `ListNode`, `TreeNode` and the sorted containers, if installed."""


_STAR_MODULES: Final = (
    "typing",  # first, so that `Counter` is the class and not its alias
    *("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random"),
    *("statistics", "itertools", "functools", "operator", "io", "sys", "json"),
)
_MODULES: Final = (*_STAR_MODULES, "time", "fractions")
_OPTIONAL: Final = {
    "np": "import numpy as np",
    "numpy": "import numpy",
    "SortedList": "from sortedcontainers import SortedList",
    "SortedDict": "from sortedcontainers import SortedDict",
    "SortedSet": "from sortedcontainers import SortedSet",
}
_NODES: Final = {
    "ListNode": """
class ListNode:
    def __init__(self, val=0, next=None):
        self.val = val
        self.next = next
""",
    "TreeNode": """
class TreeNode:
    def __init__(self, val=0, left=None, right=None):
        self.val = val
        self.left = left
        self.right = right
""",
}
RECURSION_MAX: Final = 50_000
"""Recursion limit, as set by the same harnesses; Python's default is 1,000."""
_WORD: Final = re.compile(r"(?<![\w.])([A-Za-z]\w*)([ \t]*\.)?")
_SOLUTION: Final = re.compile(r"^class[ \t]+Solution\b", re.MULTILINE)
_HEAD: Final = f"""\
import builtins as _builtins, sys as _sys
_sys.setrecursionlimit(max({RECURSION_MAX}, _sys.getrecursionlimit()))
_sys.set_int_max_str_digits(0)
"""
_TAIL: Final = """
for _name, _value in list(globals().items()):
    if not _name.startswith("_"):
        _builtins.__dict__.setdefault(_name, _value)
"""


def preamble_for(program: str, *, preset: Preamble, text: str = "") -> str:
    """Return Python text to run before `program`; may be empty.

    Args:
        program: only names that occur in it are imported.
        preset: the available names; not `AUTO` (see `resolved`).
        text: a data set's own preamble; its public names are added too.
    """
    if preset is Preamble.NONE and not text:
        return ""
    parts = [_HEAD]
    if preset is not Preamble.NONE:
        parts.extend(_imports(program, leetcode=preset is Preamble.LEETCODE))
    return "\n".join([*parts, text, _TAIL])


def resolved(preset: Preamble, program: str, *, by_calls: bool, by_stdin: bool) -> Preamble:
    """Resolve `AUTO` for this program and the kind of its tests."""
    if preset is not Preamble.AUTO:
        return preset
    if by_calls or _SOLUTION.search(program):
        return Preamble.LEETCODE
    return Preamble.STANDARD if by_stdin else Preamble.NONE


def _imports(program: str, *, leetcode: bool) -> Iterator[str]:
    """Import statements and classes for the names that occur in `program`."""
    found = set(_WORD.findall(program))
    dotted = {word for word, dot in found if dot}
    members = _star_names()
    for word in sorted({word for word, _ in found}):
        if word in _MODULES and (word in dotted or word not in members):
            yield f"import {word}"
        elif word in members:
            yield f"from {members[word]} import {word}"
        elif word in _OPTIONAL and (leetcode or word in {"np", "numpy"}):
            yield f"try:\n    {_OPTIONAL[word]}\nexcept ImportError:\n    pass"
        elif leetcode and word in _NODES:
            yield _NODES[word]


@cache
def _star_names() -> dict[str, str]:
    """The names of the star imports: name -> module; a later module overrides an earlier one.

    No builtin is replaced, and exception classes are left out: they are distinguished by name.
    """
    found: dict[str, str] = {}
    for module_name in _STAR_MODULES:
        module = import_module(module_name)
        for name in getattr(module, "__all__", None) or vars(module):
            value = getattr(module, name)
            if name.startswith("_") or _is_exception(value) or hasattr(builtins, name):
                continue
            found[name] = module_name
    return found


def _is_exception(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)
