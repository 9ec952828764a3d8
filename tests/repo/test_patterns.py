r"""A group that is repeated possessively ends with the alternative `(?!)`.

In Python 3.11.0 to 3.11.4 such a repeat ends where its last, failed attempt stood, if that
had a look-ahead or an atomic group in it: `(?:(?!b)a)*+b` does not match `aab` (CPython issue
106052). An alternative that always fails is tried last and from the beginning, so the repeat ends
where it should. It changes no match of any other Python.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("services", "runtime", "simulator")
POSSESSIVE = re.compile(
    r"(?:(?P<closed>\|\(\?!\))?\)|(?<!\{)\{\w+\})(?:[*+?]|\{{1,2}[0-9,]*\}{1,2})\+(?!\+)"
)
"""Of a group, or of what is put in from elsewhere, which may be one."""


def left_open(source: str) -> list[str]:
    """The lines with a possessive repeat of a group that does not end so."""
    found = (one for one in POSSESSIVE.finditer(source) if not one["closed"])
    return [source[source.rfind("\n", 0, one.start()) + 1 : one.end()].strip() for one in found]


@pytest.mark.parametrize(
    ("pattern", "is_open"),
    [
        (r"(?:(?!b)a)*+b", True),
        (r"(?:\s++(?:[a-z]|(?!))++)?+", True),
        (r"(?:a|b){2,3}+", True),
        (r"rf'(?:a|b){{2,3}}+'", True),
        (r"rf'{_PART}{{2,3}}+'", True),
        (r"rf'{_PART}*+'", True),
        (r"rf'(?:{_PART}|(?!))*+ {_PART}+ {{1,2}}+'", False),
        (r"(?:(?!b)a|(?!))*+b", False),
        (r"(?:a|b)+ [ab]*+ \)?", False),
    ],
)
def test_open_repeats_are_found(pattern: str, *, is_open: bool) -> None:
    assert bool(left_open(pattern)) == is_open


def test_every_possessive_repeat_of_a_group_is_right_in_every_python() -> None:
    for root in SOURCES:
        for file in (ROOT / root).rglob("*.py"):
            assert left_open(file.read_text(encoding="utf-8")) == [], file.relative_to(ROOT)
