r"""Constants that a solution may choose: `C e^x` and `A e^x` are the same solutions. Pure.

Works on text. A reference has such constants if it names `C`, `K`, `C_1`, `c_2` beside a variable;
the response may call them otherwise, by capital letters that the reference does not use, and in
another order.
"""

import re
from collections.abc import Iterator
from itertools import permutations
from typing import Final

_COMMAND: Final = r"(?P<command>\\[A-Za-z]+)"
_INDEX: Final = r"_(?:\d|\{\d\})"
_CHOSEN: Final = re.compile(rf"(?a){_COMMAND}|(?P<name>[cCkK]{_INDEX}|[CK](?!_))")
_NAMED: Final = re.compile(rf"(?a){_COMMAND}|(?P<name>[A-DKMckabd]{_INDEX}|[A-DKM](?!_))")
_VARIABLE: Final = re.compile(r"(?a)(?<![A-Za-z\\])[a-z](?![A-Za-z_])")
_SETS: Final = re.compile(r"\\(?:math|text|in)")
_CONSTANTS_MAX: Final = 3


def otherwise_named(gold: str, answer: str) -> Iterator[str]:
    """The answer with its constants called as those of the gold, in every order but its own."""
    if _SETS.search(gold + answer) or not _VARIABLE.search(gold):
        return
    wanted = _names(_CHOSEN, gold)
    found = [name for name in _names(_NAMED, answer) if name in wanted or name not in gold]
    if not len(wanted) == len(found) <= _CONSTANTS_MAX:
        return
    for order in permutations(wanted):
        called = dict(zip(found, order, strict=True))
        renamed = _NAMED.sub(lambda match, by=called: by.get(match[0], match[0]), answer)  # type: ignore[misc]
        if renamed != answer:
            yield renamed


def _names(pattern: re.Pattern[str], text: str) -> list[str]:
    return list(dict.fromkeys(match["name"] for match in pattern.finditer(text) if match["name"]))
