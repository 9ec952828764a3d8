"""Lists, structs and maps as the harness writes them: their numbers, and all that is not one. Pure.

A list is `l` and a JSON array of values, a struct or a map `m` and an array of pairs of values.
"""

import json
from collections.abc import Iterator
from typing import Final

NESTED: Final = frozenset("lm")
_NUMBERS: Final = frozenset("if")


class Nested(str):
    """The text of such a value, read once."""

    __slots__ = ("numbers", "shape")
    numbers: tuple[str, ...]
    """In their order."""
    shape: str
    """All the rest; two values with one shape have numbers at the same places."""


def read(value: str) -> Nested:
    """The value with what is in it; total on any text with one of these letters."""
    if isinstance(value, Nested):
        return value
    found = Nested(value)
    numbers = list[str]()
    try:
        found.shape = json.dumps([*_parts(value, numbers)])
    except (ValueError, RecursionError, TypeError):
        numbers, found.shape = [], value
    found.numbers = tuple(numbers)
    return found


def shape(value: str) -> str:
    """What a value must share with another one to be equal, whatever its numbers."""
    return read(value).shape if value[:1] in NESTED else value


def _parts(value: object, numbers: list[str]) -> Iterator[str]:
    if isinstance(value, list):
        yield "["
        for one in value:
            yield from _parts(one, numbers)
        yield "]"
    elif not isinstance(value, str):
        raise TypeError
    elif value[:1] in NESTED:
        yield value[0]
        yield from _parts(json.loads(value[1:]), numbers)
    elif value[:1] in _NUMBERS:
        numbers.append(value)
        yield "#"
    else:
        yield f"={value}"
