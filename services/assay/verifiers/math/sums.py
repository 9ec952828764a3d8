r"""Finite sums and products compared with closed forms: `\sum_{k=1}^n k` and `n(n + 1)/2`.

A sum is worked out, exactly, for several integers in place of the names in its bounds and random
fractions in place of the others. Both sides must have one value each time, to the last digit where
they are rational. Bounded: names, points, terms. Equality at these points is taken for equality: a
wrong closed form would have to meet the right one at all of them.
"""

import random
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, Final

from sympy import (  # type: ignore[import-untyped]  # ships no types
    Basic,
    Expr,
    Float,
    Integer,
    Product,
    Rational,
    Sum,
    nsimplify,
)

_POINTS: Final = (1, 2, 3, 4, 5, 6, 8, 11)
"""Values of the name in bounds, where there is one."""
_DRAWN: Final = 24
"""Points where several names are in bounds: each has a value of its own, or `n(n + 1)` would pass
for a sum to n and one to m. Some have no terms."""
_AGREEMENTS_MIN: Final = 5
_TERMS_MAX: Final = 400
"""Terms that one value of a side may have."""
_NAMES_MAX: Final = 4
_DIGITS: Final = 30
_NEAR: Final = Rational(1, 10**25)
"""Of irrational values, relative."""
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
    told = 0
    for at in _points(sorted(names), whole):
        try:
            one, two = _value(gold, at), _value(answer, at)
        except _Unbounded:
            continue
        if one is None or two is None:
            continue
        if not _is_near(one, two):
            return False
        told += 1
    return told >= _AGREEMENTS_MIN


def _points(names: Sequence[str], whole: Set[str]) -> Iterator[Mapping[str, Any]]:
    """Values of the names, other ones each time; integers for those in `whole`."""
    draw = random.Random(len(names))  # noqa: S311 - points, not secrets
    for number in range(_DRAWN if len(whole) > 1 else len(_POINTS)):
        integers = {
            name: draw.choice(_POINTS) if len(whole) > 1 else _POINTS[number]
            for name in names
            if name in whole
        }
        yield {
            name: Integer(integers[name]) if name in whole else Rational(draw.randint(7, 97), 41)
            for name in names
        }


def _in_bounds(value: Any) -> set[str]:  # noqa: ANN401 - a sympy object
    """Names that stand in the bounds of a sum: integers."""
    found: set[str] = set()
    for one in value.atoms(*_WORKED_OUT):
        for limits in one.limits:
            for bound in limits[1:]:
                found |= {name.name for name in bound.free_symbols}
    return found


def _value(value: Any, at: Mapping[str, Any]) -> Any | None:  # noqa: ANN401 - sympy objects
    """A number; `None` if sympy does not find one, and then the point tells nothing."""
    points = {name: at[name.name] for name in value.free_symbols if name.name in at}
    try:
        exact = nsimplify(value, rational=True) if value.has(Float) else value
        found = _worked_out(exact.subs(points))
        if found.is_Rational:
            return found
        found = found.evalf(_DIGITS, maxn=2 * _DIGITS)
    except (TypeError, ValueError, ArithmeticError, AttributeError, NotImplementedError):
        return None
    return found if found.is_number and found.is_finite else None


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


def _is_near(one: Any, two: Any) -> bool:  # noqa: ANN401 - sympy numbers
    if one.is_Rational and two.is_Rational:
        return bool(one == two)
    return bool(abs(one - two) <= _NEAR * max(abs(one), abs(two)))
