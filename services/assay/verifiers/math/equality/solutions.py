r"""Sets that a polynomial describes, by their elements: `\{-2, 2\}` for `\{x : x^2 = 4\}`.

Only for a gold that is such a set: the condition of a set is no answer where the gold has its
elements, since it may be the question. A set says what its name is (`x \in \mathbb{Z}`); otherwise
it is a real number, and the elements count only if no other number solves the equation. Pure;
degree, coefficients and number of elements are bounded.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sympy import Float, Integer, Poly, Rational, Symbol  # type: ignore[import-untyped]  # ships no types
from sympy.polys.polyerrors import BasePolynomialError  # type: ignore[import-untyped]  # ships no types

from assay.verifiers.math import algebra
from assay.verifiers.math.grammar import Answer, Element, Items, Named, Number

_CHARS_MAX: Final = 200
_DEGREE_MAX: Final = 12
_HIGH_POWER: Final = re.compile(r"(?a)\^\s*\{?\s*\d{3}")
"""Would be expanded before its degree is known."""
_COEFFICIENT_MAX: Final = 10**30
_INTEGERS_MAX: Final = 1_000
"""Integers on both sides of zero that are tried."""
_DIGITS: Final = 60
_ZERO: Final = 10.0**-40
_KIND: Final = r"\\in\s*\\mathbb\s?\{?\s?(?P<kind%d>[RZNQ])\s?\}?\s*"
_BUILT: Final = re.compile(
    rf"(?a)\\\{{\s*(?P<name>[a-z])\s*(?:{_KIND % 1})?(?::|(?<!\\)\||\\(?:mid|vert)(?![A-Za-z]))\s*"
    r"(?P<left>[^=<>|:,;]+?)\s*(?P<sign>=|[<>]=?|\\[lg]e(?![A-Za-z]))\s*(?P<right>[^=<>|:,;]+?)\s*"
    rf"(?:,\s*(?P=name)\s*{_KIND % 2})?\\\}}"
)
_SIGNS: Final = {"=": "=", "<": "<", "<=": "<=", "\\le": "<=", ">": ">", ">=": ">=", "\\ge": ">="}
_RATIONAL: Final = frozenset("ZNQ")
_HOLDS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "<": lambda value: value < 0,
    "<=": lambda value: value <= 0,
    ">": lambda value: value > 0,
    ">=": lambda value: value >= 0,
}


@dataclass(frozen=True, slots=True)
class _Described:
    """All numbers of a kind at which a polynomial is zero, or has a sign."""

    polynomial: Any
    sign: str
    kind: str
    """`R`, `Z`, `N`, `Q`, or empty."""


def same(gold: Answer, answer: Answer) -> bool | None:
    """Whether the answer has the elements of the gold; `None`: the gold is something else."""
    described = _described(gold)
    if described is None:
        return None
    other = _described(answer)
    if other is not None:
        return _is_same_condition(described, other)
    values = _values(answer)
    if values is None:
        return None
    if described.kind in _RATIONAL:
        members = _members(described)
        return members is not None and members == set(values)
    return described.sign == "=" and _are_roots(described, values)


def _described(answer: Answer) -> _Described | None:
    text = answer.text.strip() if isinstance(answer, Element) else ""
    built = _BUILT.fullmatch(text) if len(text) <= _CHARS_MAX else None
    if built is None or (built["kind1"] and built["kind2"]) or _HIGH_POWER.search(text):
        return None
    try:
        left, right = (algebra.parsed(built[side]) for side in ("left", "right"))
        difference = left - right
        names = difference.free_symbols
        if len(names) != 1 or {str(name) for name in names} != {built["name"]}:
            return None
        polynomial = Poly(difference, *names, domain="QQ")
    except (algebra.Unreadable, BasePolynomialError, TypeError, AttributeError, ValueError):
        return None
    sizes = [max(abs(one.p), one.q) for one in polynomial.all_coeffs()]
    if not 0 < polynomial.degree() <= _DEGREE_MAX or max(sizes) > _COEFFICIENT_MAX:
        return None
    plain = polynomial.replace(next(iter(names)), Symbol("x"))
    return _Described(plain, _SIGNS[built["sign"]], built["kind1"] or built["kind2"] or "")


def _is_same_condition(gold: _Described, answer: _Described) -> bool | None:
    """`None`: another rule compares inequalities that are not written alike."""
    if (gold.kind, gold.sign) != (answer.kind, answer.sign):
        return None if "=" not in (gold.sign, answer.sign) else False
    if gold.sign != "=":
        factor = gold.polynomial.LC() / answer.polynomial.LC()
        return True if factor > 0 and gold.polynomial == answer.polynomial * factor else None
    one, other = (said.polynomial.sqf_part().monic() for said in (gold, answer))
    return bool(one == other)


def _values(answer: Answer) -> Sequence[Any] | None:
    """The values that an answer lists, as sympy's numbers; `None` if it lists something else."""
    if isinstance(answer, Named):
        answer = answer.value
    if isinstance(answer, Items) and answer.kind == "tuple":
        return None
    items = answer.items if isinstance(answer, Items) else (answer,)
    found = [_number(item.value if isinstance(item, Named) else item) for item in items]
    return None if None in found else found


def _number(item: Answer) -> Any | None:  # noqa: ANN401 - a sympy object
    match item:
        case Number(value=value, unit="", is_percent=False):
            return Rational(value.numerator, value.denominator)
        case Element(text=text, unit=""):
            try:
                value = algebra.parsed(text)
            except algebra.Unreadable:
                return None
            is_closed = getattr(value, "is_number", False) and not value.has(Float)
            return value if is_closed and value.is_real else None
    return None


def _are_roots(said: _Described, values: Sequence[Any]) -> bool:
    """Whether they are all roots, each once: as many different roots as there are real ones."""
    polynomial = said.polynomial.sqf_part()
    count = polynomial.count_roots()
    if len(values) != count or (not said.kind and count < polynomial.degree()):
        return False
    near = [value.evalf(_DIGITS) for value in values]
    slope = polynomial.diff()
    if any(abs(_at(polynomial, x)) > _ZERO * max(1, abs(_at(slope, x))) for x in near):
        return False
    return all(abs(one - other) > _ZERO for at, one in enumerate(near) for other in near[:at])


def _at(polynomial: Any, point: Any) -> Any:  # noqa: ANN401 - sympy objects
    total = Float(0, _DIGITS)
    for coefficient in polynomial.all_coeffs():
        total = total * point + coefficient
    return total


def _members(said: _Described) -> set[Any] | None:
    """The rational numbers or integers at which it holds; `None`: not known, or too many."""
    found = _rational_roots(said) if said.sign == "=" else _integers_between(said)
    if found is None or said.kind == "Q":
        return found
    found = {one for one in found if one.is_integer}
    if said.kind == "N" and 0 in found:
        return None  # whether 0 is one of them is not agreed
    return found if said.kind == "Z" else {one for one in found if one > 0}


def _rational_roots(said: _Described) -> set[Any]:
    return set(said.polynomial.ground_roots())


def _integers_between(said: _Described) -> set[Any] | None:
    """Those at which the polynomial has the sign; beyond the bound of Cauchy it keeps its sign."""
    first, *rest = (abs(one) for one in said.polynomial.all_coeffs())
    if said.kind == "Q" or 1 + max(rest, default=0) / first > _INTEGERS_MAX:
        return None
    holds = _HOLDS[said.sign]
    lowest = 1 if said.kind == "N" and not holds(said.polynomial.eval(0)) else -_INTEGERS_MAX
    tried = range(lowest, _INTEGERS_MAX + 1)
    found = {Integer(one) for one in tried if holds(said.polynomial.eval(one))}
    return None if found & {_INTEGERS_MAX, -_INTEGERS_MAX} else found
