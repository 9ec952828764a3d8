r"""Families with an integer parameter: `7k + 3`, `\frac{\pi}{4} + k\pi`, `2k\pi \pm \frac{\pi}{3}`.

Its name does not matter, and one expression may begin elsewhere (`7n - 4`). A text is such a family
if it says that its name is an integer, or if the name is one that is hardly ever given: `k`, not
`n`. Every member is linear in the name, with a period that is a whole number of at least 2 or a
multiple of pi or of a degree, so that `n(n + 1)/2`, `2^k` and `k` are functions of what is given.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from sympy import Expr, pi  # type: ignore[import-untyped]  # ships no types

from assay.verifiers.math import algebra, notation
from assay.verifiers.math.equality.comparison import Comparison
from assay.verifiers.math.grammar import Answer, Element, Items, Named, Number
from assay.verifiers.math.reading import Read

INTEGER: Final = r"\in\mathbbZ"
"""The end of a condition that makes a name an integer."""
FREE: Final = "k"
"""The name that a problem hardly ever gives; lengths and masses are `l` and `m`."""
_COUNTS: Final = frozenset("jklmnt")
"""Names that an answer may have instead."""
_PLAIN: Final = re.compile("[A-Za-z]|\\\\[a-z]{2,8}")
_DEGREE: Final = re.compile(r"\^\s*\{?\s*\\circ\s*\}?|\\degree(?![A-Za-z])|\u00b0")
_CHARS_MAX: Final = 300
_MEMBERS_MAX: Final = 16


def same(gold: Read, answer: Read, comparison: Comparison) -> bool:
    """Whether both are one family under two names, or from two beginnings on."""
    if max(len(gold.form), len(answer.form)) > _CHARS_MAX:
        return False
    one, two = _name(gold.answer), _name(answer.answer)
    if not one or not two:
        return False
    says_so = answer.condition.endswith(INTEGER)
    is_family = gold.condition.endswith(INTEGER) or (not gold.condition and one == FREE)
    if not (is_family or (says_so and not gold.condition)):
        return False
    if not (says_so or (not answer.condition and two in _COUNTS)):
        return False
    if not is_family or not (
        isinstance(gold.answer, Element) and isinstance(answer.answer, Element)
    ):
        return one != two and comparison.equal(gold.answer, _renamed(answer.answer, two, one))
    if one == two and not (gold.condition or says_so):
        return False
    return _is_shifted(_line(gold.answer, one), _line(answer.answer, two))


def _name(answer: Answer) -> str:
    """The only name in an answer that is a family; empty if it is not a family."""
    found: set[str] = set()
    for count, member in enumerate(_members(answer)):
        value = _value(member) if member is not None and count < _MEMBERS_MAX else None
        names = set() if value is None else {name.name for name in value.free_symbols}
        if len(names) != 1 or _line(member, *names) is None:
            return ""
        found |= names
    return found.pop() if len(found) == 1 else ""


def _members(answer: Answer) -> Iterator[Element | None]:
    match answer:
        case Element(unit=""):
            yield answer
        case Items(kind="list" | "set", items=items):
            for item in items:
                if not isinstance(item, Number):
                    yield from _members(item)
        case Named(name=name, value=value) if _PLAIN.fullmatch(name) and name not in _COUNTS:
            yield from _members(value)
        case _:
            yield None


def _value(member: Element) -> Any | None:  # noqa: ANN401 - a sympy object
    try:
        value = algebra.parsed(_DEGREE.sub(r" \\cdot \\frac{\\pi}{180} ", member.text))
    except algebra.Unreadable:
        return None
    return value if isinstance(value, Expr) else None


def _line(member: Element | None, name: str) -> tuple[Any, Any] | None:
    """Period and a member of the family; `None` if it is not linear or has no such period."""
    value = None if member is None else _value(member)
    if value is None:
        return None
    (symbol,) = (one for one in value.free_symbols if one.name == name)
    period = value.diff(symbol)
    if not period.is_number or period.has(*value.free_symbols):
        return None
    is_whole = period.is_Integer and abs(period) > 1
    is_angle = (period / pi).is_Rational and period != 0
    return (period, value.subs(symbol, 0)) if is_whole or is_angle else None


def _is_shifted(one: tuple[Any, Any] | None, two: tuple[Any, Any] | None) -> bool:
    if one is None or two is None or abs(one[0]) != abs(two[0]):
        return False
    return bool(((one[1] - two[1]) / one[0]).expand().is_Integer)


def _renamed(answer: Answer, name: str, to: str) -> Answer:
    match answer:
        case Element(text=text):
            text = re.sub(rf"(?<![A-Za-z\\]){name}(?![A-Za-z])", to, text)
            return replace(answer, text=text, form=notation.form(text))
        case Items(items=items):
            renamed = tuple(_renamed(item, name, to) for item in items)
            return replace(answer, items=renamed, form="")
        case Named(value=value):
            return _renamed(value, name, to)
    return answer
