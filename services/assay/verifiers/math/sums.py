r"""Finite sums and products compared with closed forms: `\sum_{k=1}^n k` and `n(n + 1)/2`.

A sum is worked out, exactly, for several integers in place of the names in its bounds and random
fractions in place of the others. Both sides must have one value each time. Bounded: names, points,
terms. Equality at these points is taken for equality: a wrong closed form would have to meet the
right one at all of them.
"""

import random
from collections.abc import Mapping
from typing import Any, Final

from sympy import (  # type: ignore[import-untyped]  # ships no types
    Basic,
    Expr,
    Integer,
    Product,
    Rational,
    Sum,
)

_POINTS: Final = (1, 2, 3, 4, 5, 6, 8, 11)
"""Values of the names in bounds."""
_AGREEMENTS_MIN: Final = 5
_TERMS_MAX: Final = 400
"""Terms that one value of a side may have."""
_NAMES_MAX: Final = 4
_DIGITS: Final = 30
_NEAR: Final = 1e-12
_WORKED_OUT: Final = (Sum, Product)


class _Unbounded(Exception):
    """A sum with no or too many terms to be worked out."""


def has_sum(value: Any) -> bool:  # noqa: ANN401 - a sympy object
    """Whether there is a sum or a product to work out."""
    return isinstance(value, Expr) and value.has(*_WORKED_OUT)


def same(gold: Any, answer: Any) -> bool:  # noqa: ANN401 - sympy objects
    """Whether both have the same values; false if that cannot be decided."""
    if not (isinstance(gold, Expr) and isinstance(answer, Expr)):
        return False
    names = {name.name for name in gold.free_symbols | answer.free_symbols}
    if len(names) > _NAMES_MAX:
        return False
    whole = _in_bounds(gold) | _in_bounds(answer)
    draw = random.Random(len(names))  # noqa: S311 - points, not secrets
    told = 0
    for point in _POINTS:
        at = {
            name: Integer(point) if name in whole else Rational(draw.randint(7, 97), 41)
            for name in sorted(names)
        }
        try:
            one, two = _value(gold, at), _value(answer, at)
        except _Unbounded:
            continue
        if one is None or two is None:
            continue
        if not _is_near(one, two):
            return False
        told += 1
    return told >= min(_AGREEMENTS_MIN, len(_POINTS))


def _in_bounds(value: Any) -> set[str]:  # noqa: ANN401 - a sympy object
    """Names that stand in the bounds of a sum, or under a factorial: integers."""
    found: set[str] = set()
    for one in value.atoms(*_WORKED_OUT):
        for limits in one.limits:
            for bound in limits[1:]:
                found |= {name.name for name in bound.free_symbols}
    return found


def _value(value: Any, at: Mapping[str, Any]) -> complex | None:  # noqa: ANN401 - a sympy object
    points = {name: at[name.name] for name in value.free_symbols if name.name in at}
    try:
        found = _worked_out(value.subs(points))
        return complex(found.evalf(_DIGITS, maxn=2 * _DIGITS))
    except (TypeError, ValueError, ArithmeticError, AttributeError, NotImplementedError):
        return None


def _worked_out(value: Any) -> Any:  # noqa: ANN401 - a sympy object
    """`value` with its sums as the terms that they have."""
    if not value.has(*_WORKED_OUT):
        return value
    if isinstance(value, _WORKED_OUT):
        return _terms(value)
    return value.func(*(_worked_out(one) if isinstance(one, Basic) else one for one in value.args))


def _terms(value: Any) -> Any:  # noqa: ANN401 - a sympy object
    (name, low, high), *more = value.limits
    if more or not (low.is_Integer and high.is_Integer) or not 0 <= high - low + 1 <= _TERMS_MAX:
        raise _Unbounded
    terms = [_worked_out(value.function.subs(name, at)) for at in range(int(low), int(high) + 1)]
    result = Integer(0) if isinstance(value, Sum) else Integer(1)
    for term in terms:
        result = result + term if isinstance(value, Sum) else result * term
    return result


def _is_near(one: complex, two: complex) -> bool:
    return abs(one - two) <= _NEAR * max(1.0, abs(one), abs(two)) or one == two
