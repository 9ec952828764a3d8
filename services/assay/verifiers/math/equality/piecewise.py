r"""Functions by cases compared by their values: `|x|` for `x` if `x \ge 0` and `-x` otherwise.

Both sides are evaluated at every bound of a condition, between two bounds and beyond the outer
ones, with several values of the other names. Equal are sides that have the same values there and
are undefined at the same points. Conditions are chains of relations, linear in one name; anything
else is left to the other rules. No algebra, bounded: bounds, points.
"""

import math
import random
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from assay.verifiers.math import numeric
from assay.verifiers.math.grammar import Answer, Element, Items, Named, Number, Words

_RELATION: Final = re.compile(r"(\\(?:le|ge|neq)(?![A-Za-z])|[<>=])")
_BARS: Final = re.compile(r"\\[lr]vert(?![A-Za-z])|\\mid(?![A-Za-z])")
_EXTREME: Final = re.compile(
    r"\\(?P<of>max|min)\s?(?:\(|\\\{)\s?(?P<one>[^(){},|]{1,60}),(?P<two>[^(){},|]{1,60})(?:\)|\\\})"
)
_BOUNDS_MAX: Final = 12
_DRAWS: Final = 3
_BEYOND: Final = (0.37, 3.1, 47.3, 1013.7)
_BETWEEN: Final = (0.113, 0.5, 0.871)
_COMPARED_MIN: Final = 8
_NEAR: Final = 1e-9


class _Relation(NamedTuple):
    left: numeric.Expression
    sign: str
    right: numeric.Expression


class _Case(NamedTuple):
    value: numeric.Expression
    when: tuple[_Relation, ...] | None
    """`None`: otherwise."""


def same(gold: Answer, answer: Answer) -> bool:
    """Whether one of them is given by cases, or is the larger or smaller of two values, and both
    have the same values everywhere."""
    if not (_rows(gold) or _rows(answer) or _EXTREME.search(_said(gold) + _said(answer))):
        return False
    try:
        return _are_same(_cases(gold), _cases(answer))
    except (numeric.Unread, ArithmeticError, ValueError, RecursionError):
        return False


def _said(answer: Answer) -> str:
    answer = answer.value if isinstance(answer, Named) else answer
    return answer.text if isinstance(answer, Element) else ""


def _rows(answer: Answer) -> Sequence[Items]:
    """Pairs of a value and a condition."""
    answer = answer.value if isinstance(answer, Named) else answer
    if not isinstance(answer, Items) or answer.kind != "set":
        return ()
    rows = [item for item in answer.items if isinstance(item, Items) and len(item.items) == 2]
    are_cases = all(isinstance(row.items[1], Element | Named | Words) for row in rows)
    return rows if are_cases and 1 < len(rows) == len(answer.items) else ()


def _cases(answer: Answer) -> list[_Case]:
    if rows := _rows(answer):
        found = [_Case(_value(row.items[0]), _when(row.items[1])) for row in rows]
        return sorted(found, key=lambda case: case.when is None)
    return [_Case(_value(answer), None)]


def _value(answer: Answer) -> numeric.Expression:
    answer = answer.value if isinstance(answer, Named) else answer
    if isinstance(answer, Element) and not answer.unit:
        return numeric.leaf(Element(_without_bars(_EXTREME.sub(_extreme, answer.text))))
    return numeric.leaf(answer)


def _extreme(match: re.Match[str]) -> str:
    r"""`\max(a, b)` as half of `a + b + |a - b|`."""
    one, two = f"({match['one']})", f"({match['two']})"
    sign = "+" if match["of"] == "max" else "-"
    return f"\\frac{{{one}+{two}{sign}\\sqrt{{({one}-{two})^{{2}}}}}}{{2}}"


def _without_bars(text: str) -> str:
    r"""`|x|` as `\sqrt{(x)^2}`."""
    parts = _BARS.sub("|", text).split("|")
    inner = parts[1::2]
    if len(parts) % 2 == 0 or not all(part.strip() for part in inner):
        raise numeric.Unread
    parts[1::2] = [f"\\sqrt{{({part})^{{2}}}}" for part in inner]
    return "".join(parts)


def _when(condition: Answer) -> tuple[_Relation, ...] | None:
    match condition:
        case Words(text="otherwise"):
            return None
        case Named(name=name, value=Items(kind="tuple", items=(low, high), brackets=brackets)):
            middle = numeric.leaf(Element(name))
            signs = ("<" if brackets[0] == "(" else "\\le", "<" if brackets[1] == ")" else "\\le")
            return (
                _Relation(_bound(low), signs[0], middle),
                _Relation(middle, signs[1], _bound(high)),
            )
        case Named(name=name, value=Number() | Element() as value):
            return (_Relation(numeric.leaf(Element(name)), "=", _bound(value)),)
        case Element(text=text):
            sides = _RELATION.split(text)
            if len(sides) < 3:
                raise numeric.Unread
            found = [_bound(Element(side.strip())) for side in sides[::2]]
            return tuple(
                _Relation(left, sign, right)
                for (left, right), sign in zip(pairwise(found), sides[1::2], strict=True)
            )
    raise numeric.Unread


def _bound(answer: Answer) -> numeric.Expression:
    text = answer.text.replace(" ", "") if isinstance(answer, Element) else ""
    if text in ("\\infty", "+\\infty", "-\\infty"):
        size = -math.inf if text[0] == "-" else math.inf
        return numeric.Expression(lambda _: complex(size), frozenset())
    return numeric.leaf(answer)


def _are_same(gold: Sequence[_Case], answer: Sequence[_Case]) -> bool:
    compared = 0
    for at in _places((*gold, *answer)):
        one, two = _at(gold, at), _at(answer, at)
        if one is None and two is None:
            continue
        if one is None or two is None or not _agree(one, two):
            return False
        compared += 1
    return compared >= _COMPARED_MIN


def _agree(one: complex, two: complex) -> bool:
    is_far = abs(one - two) > _NEAR  # the difference of two infinities is neither far nor near
    return numeric.near(one, two) or not is_far


def _places(cases: Sequence[_Case]) -> Iterator[dict[str, complex]]:
    """Values of all names at which the cases are compared: about each bound of the one that they
    are given by, with other values of the rest in each draw. None if they are given by several.

    Raises:
        numeric.Unread: see `_bounds`.
    """
    relations = [one for case in cases for one in case.when or ()]
    of_values = set().union(*(case.value.names for case in cases))
    names = set().union(*(side.names for one in relations for side in (one.left, one.right)))
    if not relations:  # none of them is given by cases
        names = set(sorted(of_values)[:1])
    if len(names) != 1:
        return
    (name,) = names
    others = sorted(of_values - names)
    draw = random.Random(len(others))  # noqa: S311 - points, not secrets
    points = _points(_bounds(relations, name) if relations else [0.0])
    for _ in range(_DRAWS if others else 1):
        scope = {other: complex(draw.choice((-1, 1)) * draw.uniform(0.3, 2.7)) for other in others}
        for point in points:
            yield {**scope, name: complex(point)}


def _bounds(relations: Sequence[_Relation], name: str) -> list[float]:
    """Where a relation may change.

    Raises:
        numeric.Unread: one is not linear, or there are too many.
    """
    found: list[float] = []
    for one in relations:
        low, middle, high = (
            (one.left.tree({name: complex(at)}) - one.right.tree({name: complex(at)})).real
            for at in (0.0, 1.0, 2.0)
        )
        if math.isinf(low):
            continue
        if not math.isclose(high - middle, middle - low, abs_tol=_NEAR) or low == middle:
            raise numeric.Unread
        found.append(low / (low - middle))
    distinct: list[float] = []
    for bound in sorted(found):
        if not distinct or not math.isclose(bound, distinct[-1], rel_tol=_NEAR, abs_tol=_NEAR):
            distinct.append(bound)
    if not 0 < len(distinct) <= _BOUNDS_MAX:
        raise numeric.Unread
    return distinct


def _points(bounds: Sequence[float]) -> list[float]:
    inside = [low + (high - low) * part for low, high in pairwise(bounds) for part in _BETWEEN]
    outside = [end for far in _BEYOND for end in (bounds[0] - far, bounds[-1] + far)]
    return [*bounds, *inside, *outside]


def _at(cases: Sequence[_Case], scope: numeric.Scope) -> complex | None:
    """The value at a point; `None` if there is no real one.

    Raises:
        numeric.Unread: two cases apply and have different values.
    """
    found: complex | None = None
    for case in cases:
        if case.when is None:
            applies = found is None
        else:
            applies = all(_holds(relation, scope) for relation in case.when)
        if not applies:
            continue
        value = _real(case.value, scope)
        if found is not None and (value is None or not numeric.near(found, value)):
            raise numeric.Unread
        if value is None:
            return None
        found = value
    return found


def _real(value: numeric.Expression, scope: numeric.Scope) -> complex | None:
    try:
        said = value.tree(scope)
    except (ArithmeticError, ValueError):
        return None
    is_real = abs(said.imag) <= _NEAR * max(1.0, abs(said))
    return complex(said.real) if is_real and math.isfinite(said.real) else None


def _holds(relation: _Relation, scope: numeric.Scope) -> bool:
    left, right = relation.left.tree(scope).real, relation.right.tree(scope).real
    is_equal = math.isclose(left, right, rel_tol=_NEAR, abs_tol=_NEAR)
    match relation.sign:
        case "=":
            return is_equal
        case "\\neq":
            return not is_equal
        case "\\le":
            return left < right or is_equal
        case "\\ge":
            return left > right or is_equal
        case "<":
            return left < right and not is_equal
    return left > right and not is_equal
