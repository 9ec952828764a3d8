r"""Constants that a solution may choose: `C e^x` and `A e^x` are the same solutions. Pure.

Works on text. A reference has such constants if it names `C`, `K`, `C_1`, `c_2` once each, as
factors or terms, beside a function that solves equations; the response may call them otherwise, by
capital letters that the reference does not use, and in another order. Names that stand twice, in a
fraction or an exponent, or beside powers alone (`C_1 v`, of a capacitor) may be given.
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
_SOLVES: Final = re.compile(r"(?<![a-z\\])e\s?\^|\\(?:exp|sin|cos|sinh|cosh)(?![A-Za-z])")
_BRACED: Final = re.compile(r"\{[^{}]*\}")
_SETS: Final = re.compile(r"\\(?:math|text|in)")
_CONSTANTS_MAX: Final = 3
_DEPTH_MAX: Final = 8
"""Of braces; those of a deeper text stay, and names in them count as outside."""


def otherwise_named(gold: str, answer: str) -> Iterator[str]:
    """The answer with its constants called as those of the gold, in every order but its own."""
    if _SETS.search(gold + answer) or not _VARIABLE.search(gold) or not _SOLVES.search(gold):
        return
    wanted = _names(_CHOSEN, gold)
    found = [name for name in _names(_NAMED, answer) if name in wanted or name not in gold]
    if not len(wanted) == len(found) <= _CONSTANTS_MAX:
        return
    if not (_stand_once(_CHOSEN, wanted, gold) and _stand_once(_NAMED, found, answer)):
        return
    for order in permutations(wanted):
        called = dict(zip(found, order, strict=True))
        renamed = _NAMED.sub(lambda match, by=called: by.get(match[0], match[0]), answer)  # type: ignore[misc]
        if renamed != answer:
            yield renamed


def _names(pattern: re.Pattern[str], text: str) -> list[str]:
    return list(dict.fromkeys(match["name"] for match in pattern.finditer(text) if match["name"]))


def _stand_once(pattern: re.Pattern[str], names: list[str], text: str) -> bool:
    """Whether each name stands once, and in no braces but those of its index."""
    every = [match["name"] for match in pattern.finditer(text)]
    bare = re.sub(r"(?a)_\{(\d)\}", r"_\1", text)
    for _ in range(_DEPTH_MAX):
        bare = _BRACED.sub("", bare)
    outside = {match["name"] for match in pattern.finditer(bare)}
    return all(
        every.count(name) == 1 and name.replace("{", "").replace("}", "") in outside
        for name in names
    )
