r"""Whether the sides of a chain have one value: `\frac{1}{3} = 0.333`, not `\pi \approx 3.15`.

By numeric evaluation, without sympy. A decimal agrees with an exact value that is rounded or
cut off at its last place. Sides with unknown names must be equal at every point.
"""

import cmath
import random
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Final, NamedTuple

from assay.verifiers.math import grammar, numeric
from assay.verifiers.math.grammar import Answer, Chain, Element, Number
from assay.verifiers.math.lexicon import measures

_PLACES: Final = re.compile(r"(?a)^-?[\d,]*\.(\d+)(?:\\?%)?$")
_PLACES_MAX: Final = 400
_ROUNDED_MIN: Final = 100
"""A shorter integer is a value of its own, not another one rounded."""
_SLACK: Final = 1 + 1e-6
_DIFFERENT: Final = 1e-6
"""Relative distance of two exact values that are not one."""
_TOLERATED: Final = 0.05
"""Relative distance of a rounded value that may be a rough one."""
_ROUNDINGS_MAX: Final = 2
_PLAIN: Final = re.compile(r"(?a)(?:[\d\s.+*/^(){}-]|\\(?:frac|sqrt|pi|cdot|times)(?![A-Za-z]))*")
_MIXED: Final = re.compile(r"(?a)\d\s*\\frac|\d\s+\d")
_SYMBOL: Final = re.compile(r"(?a)(?P<value>-?[\d.,/]{1,40})\s{0,2}(?P<unit>[A-Za-z]{1,3})")
"""A number and letters, which are a unit if another side has one of the same kind."""
_ANGLE: Final = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![A-Za-z])")


class _Side(NamedTuple):
    answer: Answer
    tree: numeric.Expression
    places: int | None
    """Decimal places of a side that may be rounded; `None` if it is exact."""


def values(chain: Chain) -> Sequence[Answer] | None:
    """What a chain says: its last exact side and its decimals, which are one value; nothing if the
    sides contradict each other; `None` if that cannot be decided."""
    amounts = _amounts(chain)
    if amounts is not None:
        return amounts
    try:
        sides = _sides(chain)
        if sides is None:
            return None
        exact = [side for side in sides if side.places is None]
        rounded = [side for side in sides if side.places is not None]
        if not rounded:
            same = _all_same([side.tree for side in exact])
        else:
            same = _round_to(exact, rounded)
    except (numeric.Unread, ArithmeticError, ValueError, RecursionError):
        return None
    if same:
        return [side.answer for side in (*exact[-1:], *rounded[:_ROUNDINGS_MAX])]
    contradict = chain.is_claimed and same is False and _are_plain(sides)
    return () if contradict and _are_far_apart(sides) else None


def _amounts(chain: Chain) -> Sequence[Number] | None:
    """Sides in several units, if they are one amount: `90 minutes or 1.5 hours`."""
    sides = [side for side in map(_amount, chain.sides) if side is not None]
    units = {_unit(side) for side in chain.sides} - {""}
    if len(sides) != len(chain.sides) or not units or len({side.unit for side in sides}) < 2:
        return None
    exact = next((side for side in sides if not side.is_decimal), sides[0])
    for side in sides:
        value = measures.scaled(exact.value, exact.unit, side.unit)
        if value is None or not (value == side.value or _is_rounded(value, side)):
            return None
    return sides


def _amount(side: Answer) -> Number | None:
    if isinstance(side, Element) and (said := _SYMBOL.fullmatch(side.text.strip())):
        side = grammar.read(f"{said['value']} \\text{{ {said['unit']}}}")
    return side if isinstance(side, Number) and side.unit else None


def _is_rounded(value: Fraction, side: Number) -> bool:
    places = _places(side, after_sign=False)
    return places is not None and _rounds_to(float(value), _Side(side, _tree(side), places))


def _sides(chain: Chain) -> Sequence[_Side] | None:
    """The sides that can be compared; the first may be a formula with unknown names."""
    if len({_unit(side) for side in chain.sides} - {""}) > 1:
        return None
    sides = [
        _Side(side, _tree(side), _places(side, after_sign=after))
        for side, after in zip(chain.sides, chain.rounds, strict=True)
    ]
    if sides[0].tree.names and not any(side.tree.names for side in sides[1:]):
        return sides[1:] if len(sides) > 2 else None
    return sides


def _unit(side: Answer) -> str:
    if not isinstance(side, Number | Element) or _is_of_angle(side):
        return ""
    return side.unit


def _is_of_angle(side: Answer) -> bool:
    """`\\sin 60^\\circ`: the degrees belong to the argument."""
    return isinstance(side, Element) and side.unit == "°" and bool(_ANGLE.search(side.text))


def _tree(side: Answer) -> numeric.Expression:
    if isinstance(side, Number):
        return numeric.constant(side.value / 100 if side.is_percent else side.value)
    if isinstance(side, Element) and _is_of_angle(side):
        return numeric.leaf(Element(text=f"{side.text}^\\circ"))
    return numeric.leaf(side)


def _places(side: Answer, *, after_sign: bool) -> int | None:
    if not isinstance(side, Number):
        return None
    if not side.is_decimal:
        whole = after_sign and side.value.denominator == 1
        return 0 if whole and abs(side.value) >= _ROUNDED_MIN else None
    written = _PLACES.search(side.form)
    places = len(written[1]) if written else _places_of(side.value)
    return places + 2 if side.is_percent else places


def _places_of(value: Fraction) -> int:
    places = 0
    while (value * 10**places).denominator != 1 and places < _PLACES_MAX:
        places += 1
    return places


def _round_to(exact: Sequence[_Side], rounded: Sequence[_Side]) -> bool | None:
    """Whether each decimal is the exact value, or that with the most places, rounded or cut off."""
    if any(side.tree.names for side in exact):
        return None
    most = max(rounded, key=lambda side: side.places or 0)
    found = [side.tree.tree({}) for side in exact] or [most.tree.tree({})]
    if not all(numeric.near(found[0], value) for value in found):
        return False
    return all(_rounds_to(found[0], side) for side in rounded)


def _rounds_to(value: complex, side: _Side) -> bool:
    unit = 10.0 ** -(side.places or 0)
    stated = side.tree.tree({}).real
    if abs(value.imag) > unit or stated * value.real < 0:
        return False
    over = abs(value.real) - abs(stated)
    return -unit / 2 * _SLACK <= over < unit / _SLACK


def _all_same(trees: Sequence[numeric.Expression]) -> bool | None:
    names = sorted(set().union(*(tree.names for tree in trees)))
    draw = random.Random(len(names))  # noqa: S311 - points, not secrets
    told = 0
    for _ in range(numeric.POINTS):
        scope = {name: complex(draw.uniform(0.3, 2.7)) for name in names}
        found = [tree.tree(scope) for tree in trees]
        if not all(cmath.isfinite(value) and abs(value) < numeric.SIZE_MAX for value in found):
            continue
        told += 1
        if not all(numeric.near(found[0], value) for value in found):
            return False
    return True if told else None


def _are_plain(sides: Sequence[_Side]) -> bool:
    """Numbers and arithmetic, which no other reading could make equal."""
    return all(not _unit(side.answer) and _is_arithmetic(side.answer) for side in sides)


def _is_arithmetic(answer: Answer) -> bool:
    if not isinstance(answer, Element):
        return isinstance(answer, Number)
    return _PLAIN.fullmatch(answer.text) is not None and not _MIXED.search(answer.text)


def _may_be_rough(side: _Side) -> bool:
    """A decimal. An integer is as exact as it stands: `686 (about 681)` contradicts itself."""
    return isinstance(side.answer, Number) and side.answer.is_decimal


def _are_far_apart(sides: Sequence[_Side]) -> bool:
    found = [side.tree.tree({}) for side in sides]
    tolerated = _TOLERATED if any(map(_may_be_rough, sides)) else _DIFFERENT
    least, most = min(found, key=abs), max(found, key=abs)
    return abs(most - least) > tolerated * max(abs(most), 1e-9)
