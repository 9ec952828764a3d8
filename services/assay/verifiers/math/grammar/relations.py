"""Equations, inequalities, ratios: two or more sides with a sign between them."""

import re
from fractions import Fraction
from itertools import pairwise
from typing import Final

from assay.verifiers.math import notation
from assay.verifiers.math.grammar.numbers import read_number
from assay.verifiers.math.grammar.tree import (
    Answer,
    Element,
    Items,
    Named,
    Number,
    Prose,
    Ratio,
    Reader,
    Union,
    Words,
)
from assay.verifiers.math.grammar.words import RELATION, WORD, bare

_NAME_CHARS_MAX: Final = 60
_RISING: Final = {">": "<", "\\ge": "\\le", ">=": "\\le"}
_FALLING: Final = frozenset({">", "ge", ">="})
_FALLS: Final = re.compile(r"(>=|>|\\ge(?![A-Za-z]))")
_RISES: Final = re.compile(r"<|\\le(?![A-Za-z])|=")
_SEVERAL: Final = re.compile(
    r"(?a),|\\(?:text|land|lor)(?![A-Za-z])|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z])"
)
"""`x > 3 and z > 7` is no chain."""
_BOUND: Final = (
    r"(?P<x{n}>[a-z])\s*(?P<r{n}>[<>]=?|\\[lg]e(?![A-Za-z]))\s*(?P<v{n}>-?[\w./\\{{}}]+)"
)
_BOTH_BOUNDS: Final = re.compile(
    rf"(?a){_BOUND.format(n='')}\s*(?:and|\\text\s*\{{\s*and\s*\}}|\\land)\s*{_BOUND.format(n=1)}"
)
_WITHIN: Final = re.compile(
    r"(?a)(?:\||\\lvert\s?)\s?(?P<name>[a-z])\s?(?:\||\\rvert)\s?(?P<sign><|\\le(?![A-Za-z]))"
    r"\s?(?P<bound>\d+(?:\.\d+)?|\\frac\{\d+\}\{\d+\}|\d+/\d+|\\sqrt\{\d+\})"
)
"""`|x| < 2`."""
_AROUND: Final = re.compile(
    r"(?a)(?:\||\\lvert\s?)\s?(?P<name>[a-z])\s?(?P<shift>[+-]\s?\d{1,12}(?:\.\d{1,12})?)\s?(?:\||\\rvert)"
    r"\s?(?P<sign><|\\le(?![A-Za-z]))\s?(?P<bound>\d{1,12}(?:\.\d{1,12})?)"
)
"""`|x - 3| < 2`."""
_RAY: Final = re.compile(
    r"(?a)(?P<name>[A-Za-z]|\\[a-z]+)\s*(?P<sign>[<>]=?|\\[lg]e(?![A-Za-z]))\s*(?P<bound>[^<>=]+)"
)
_RAY_LEFT: Final = re.compile(
    r"(?a)(?P<bound>[^<>=]+?)\s*(?P<sign>[<>]=?|\\[lg]e(?![A-Za-z]))\s*(?P<name>[A-Za-z]|\\[a-z]+)"
)
_BETWEEN: Final = re.compile(
    r"(?a)(?P<low>[^<>=]+?)\s*(?P<one><=?|\\le(?![A-Za-z]))\s*(?P<name>[A-Za-z]|\\[a-z]+)"
    r"\s*(?P<two><=?|\\le(?![A-Za-z]))\s*(?P<high>[^<>=]+)"
)
_POINT: Final = re.compile(r"(?a)[A-Z](?:_\w)?'?\s*(?P<at>\(.+,.+\))", re.DOTALL)
_EQUALS: Final = re.compile(r"(?a)(?<![<>!=\\:])=(?!=)")
_VALUE_FOLLOWS: Final = re.compile(r"(?a)(?<![<>!=\\:])=(?!=)|\\approx(?![A-Za-z])")
_ORDER: Final = re.compile(
    r"[<>]|\\(?:le|ge|neq|equiv|sim|pmod|theta|alpha|beta|gamma|text)(?![A-Za-z])"
)
_NAME: Final = re.compile(r"(?a)[\w\s(),.'|{}\\:;^*/\[\]<>-]*[A-Za-z][\w\s(),.'|{}\\:;^*/\[\]<>-]*")
_CONGRUENT: Final = re.compile(
    r"(?a)(?P<name>[A-Za-z])\s*\\equiv\s*(?P<value>-?\d+\s*\(?\\(?:pmod|mod|bmod|text\s*\{\s*mod\s*\}).*)",
    re.DOTALL,
)
"""`x \\equiv 3 \\pmod 7`."""
_PLAIN_NAME: Final = re.compile(
    r"(?a)\\?[A-Za-z]+(?:_\{?\w+\}?)?'{0,3}(?:\((?:[a-z]|-?\d{1,9})\))?|\\frac\{(?:d|\\partial)\s?[A-Za-z]\}\{(?:d|\\partial)\s?[A-Za-z]\}"
)
"""`x`, `a_1`, `f(x)`, `f'(x)`, `\\frac{dy}{dx}`."""
_INDEX: Final = re.compile(r"(?a)_\s*(\{[^{}]*\}|\w)|\^\s*\{?-1\}?(?=\s?\((?:[a-z]|-?\d+)\)$)")
_ARGUMENT: Final = re.compile(r"(?a)(?<=[A-Za-z'])\s?\(\s?-?\d[\d.,/\s-]*\)$")
"""`f(2)`."""
_COMPOSED: Final = re.compile(r"(?a)\(\s?([A-Za-z])\s?\\circ\s?([A-Za-z])\s?\)(?=\s?\()")
"""`(f \\circ g)(2)`."""
_STATED_NAME: Final = re.compile(r"(?a)[a-df-hj-z](?:_\{?\w+\}?)?")
"""`3 = x`; not the constants e and i."""
_AND: Final = re.compile(
    r"(?a)\s*(?:,|(?<![A-Za-z\\])and(?![A-Za-z])|\\text\s?\{\s*and\s*\}|\\land)\s*"
)
_ORDERED: Final = re.compile(r"(?a)(<=|>=|[<>]|\\[lg]e(?![A-Za-z]))")
_INTEGER: Final = re.compile(r"(?a)-?\d{1,15}(?:\.\d{1,15})?")
_COLON: Final = frozenset({":"})
_SIDES_MAX: Final = 16
_ROUNDING: Final = Fraction(1, 20)
"""Absolute and relative difference of two sides of which one is rounded."""


def ascending(text: str) -> str:
    """`4 > x \\ge -1`, and `x \\ge -1 and x < 4`, as `-1 \\le x < 4`."""
    within = _WITHIN.fullmatch(text)
    if within:
        sign, bound = within["sign"], within["bound"]
        return f"-{bound} {sign} {within['name']} {sign} {bound}"
    around = _AROUND.fullmatch(text)
    if around:
        sign, reach = around["sign"], Fraction(around["bound"])
        center = -Fraction(around["shift"].replace(" ", ""))
        return f"{center - reach} {sign} {around['name']} {sign} {center + reach}"
    both = _BOTH_BOUNDS.fullmatch(text)
    if (
        both
        and both["x"] == both["x1"]
        and (both["r"][-2:] in _FALLING) != (both["r1"][-2:] in _FALLING)
    ):
        lower, upper = (
            (("v", "r"), ("v1", "r1"))
            if both["r"][-2:] in _FALLING
            else (
                ("v1", "r1"),
                ("v", "r"),
            )
        )
        rising = _RISING[both[lower[1]]]
        return f"{both[lower[0]]} {rising} {both['x']} {both[upper[1]]} {both[upper[0]]}"
    text = _joined(text) or text
    parts = _FALLS.split(text)
    if len(parts) == 5 and not _RISES.search(text) and not _SEVERAL.search(text):
        first, one, middle, two, last = (part.strip() for part in parts)
        return f"{last} {_RISING[two]} {middle} {_RISING[one]} {first}"
    return text


def _joined(text: str) -> str | None:
    """`1 < x and x < 3`, `x > 1, x < 3`, `a < b, b < c` as one chain.

    Bounds of one name between which there is nothing are two regions: `x < 1, x > 3`.
    """
    both = _AND.split(text)
    if len(both) != 2 or not 0 < text.count("<") + text.count(">") + text.count("\\") < 20:
        return None
    halves = [[part.strip() for part in _ORDERED.split(half)] for half in both]
    if any(len(half) != 3 or not half[0] or not half[2] for half in halves):
        return None
    (low, sign, high), (low1, sign1, high1) = (
        (last, _RISING[sign], first) if sign in _RISING else (first, sign, last)
        for first, sign, last in halves
    )
    if low == high1:
        (low, sign, high), (low1, sign1, high1) = (low1, sign1, high1), (low, sign, high)
    if high != low1:
        return None
    is_written_so = halves[0][2] == halves[1][0]
    is_region = _INTEGER.fullmatch(low) and _INTEGER.fullmatch(high1)
    if not is_written_so and not (is_region and float(low) < float(high1)):
        return None
    return f"{low} {sign} {high} {sign1} {high1}"


def region(text: str) -> tuple[str, str] | None:
    """The name and the interval of an inequality in one name: `x < 2` is `(-\\infty, 2)`."""
    between = _BETWEEN.fullmatch(text)
    if between:
        opening = "(" if between["one"] == "<" else "["
        closing = ")" if between["two"] == "<" else "]"
        bounds = f"{between['low']}, {between['high']}"
        return None if RELATION.search(bounds) else (between["name"], opening + bounds + closing)
    after, before = _RAY.fullmatch(text), _RAY_LEFT.fullmatch(text)
    found = after or before
    if found is None or RELATION.search(found["bound"]):
        return None
    is_lower = (found["sign"][-2:] in _FALLING) == (after is not None)
    is_open = found["sign"] in {"<", ">"}
    if is_lower:
        return found["name"], f"{'(' if is_open else '['}{found['bound']}, \\infty)"
    return found["name"], f"(-\\infty, {found['bound']}{')' if is_open else ']'}"


def read_ratio(text: str, reader: Reader) -> Answer | None:
    """`3:4`, `1:2:3`."""
    parts = notation.split(text, _COLON)
    if not 2 <= len(parts) <= 8 or not all(part.strip() for part in parts):
        return None
    if "=" in text or "\\mid" in text or RELATION.search(text) or WORD.search(bare(text)):
        return None
    terms = tuple(reader.part(part.strip()) for part in parts)
    if not all(isinstance(term, Number | Element) for term in terms):
        return None
    return Ratio(terms=terms, form=notation.form(text))


def read_named(text: str, reader: Reader) -> Answer | None:
    """`name = value` with a value that is more than an expression."""
    point = _POINT.fullmatch(text)
    if point:
        at = reader.part(point["at"])
        is_point = isinstance(at, Items) and at.brackets == "()"
        name = text[: point.start("at")].strip()
        return Named(name, at, point["at"], notation.form(text)) if is_point else None
    belongs = re.search(r"\\in(?![A-Za-z])", text)
    if belongs and not _EQUALS.search(text):
        name, rest = text[: belongs.start()].strip(), text[belongs.end() :].strip()
        value = reader.part(rest) if rest else None
        is_region = isinstance(value, Items | Union) and (
            isinstance(value, Union) or bool(value.brackets)
        )
        if name and len(name) <= 12 and value is not None and is_region:
            return Named(name=notation.form(name), value=value, text=text, form=notation.form(text))
        return None
    congruent = _CONGRUENT.fullmatch(text)
    if congruent:
        value = reader.part(congruent["value"])
        return Named(congruent["name"], value, text, notation.form(text))
    sides = _outside(_EQUALS, text)
    if len(sides) != 2 or RELATION.search(text):
        return None
    name, rest = sides[0].strip(), sides[1].strip()
    if _STATED_NAME.fullmatch(rest) and isinstance(read_number(name, reader), Number):
        name, rest = rest, name
    if not name or not rest or not is_name(name):
        return None
    value = reader.part(rest)
    if isinstance(value, Prose | Named) or (isinstance(value, Words) and "\\text" not in rest):
        return None
    if isinstance(value, Element) and not value.unit and not _is_plain_name(name):
        return None
    return Named(name=notation.form(name), value=value, text=text, form=notation.form(text))


def read_contradiction(text: str, reader: Reader) -> Answer | None:
    """`304 = 451` names two values: it has no value, and equals only the same text."""
    sides = [side.strip() for side in _outside(_VALUE_FOLLOWS, text)]
    if not 2 <= len(sides) <= _SIDES_MAX:
        return None
    for one, two in pairwise(read_number(side, reader) if side else None for side in sides):
        if isinstance(one, Number) and isinstance(two, Number) and not _may_be_equal(one, two):
            return Words(text=text, form=notation.form(text))
    return None


def _may_be_equal(one: Number, two: Number) -> bool:
    """Whether they are equal, up to rounding, percent signs and conversions of units."""
    if one.unit or two.unit:
        return True
    values = one.value / (100 if one.is_percent else 1), two.value / (100 if two.is_percent else 1)
    if values[0] == values[1] or one.value == two.value:
        return True
    distance = abs(values[0] - values[1])
    rounded = one.is_decimal or two.is_decimal
    return rounded and distance <= max(_ROUNDING, _ROUNDING * max(map(abs, values)))


def read_computed(text: str, reader: Reader) -> Answer | None:
    """`2 + 3 = 5`, `\\sin 0.3 \\approx 0.296`: no letter is unknown, so the end is the value."""
    sides = _outside(_VALUE_FOLLOWS, text)
    if len(sides) < 2 or _ORDER.search(text) or not all(side.strip() for side in sides):
        return None
    if re.search(r"(?a)[A-Za-df-z]", bare(" ".join(sides[:-1]))):
        return None
    value = read_number(sides[-1].strip(), reader)
    if value is None:
        return None
    name = notation.form(sides[0].strip())
    return Named(name=name, value=value, text=text, form=notation.form(text))


def _outside(signs: re.Pattern[str], text: str) -> list[str]:
    """The sides of signs that do not stand in braces, as those of `\\sum_{k=1}^n` do."""
    if "_{" not in text and "_ {" not in text:
        return signs.split(text)
    depths = {token.start: token.depth for token in notation.tokens(text)}
    parts: list[str] = []
    began = 0
    for match in signs.finditer(text):
        if depths.get(match.start(), 0) == 0:
            parts.append(text[began : match.start()])
            began = match.end()
    return [*parts, text[began:]]


def _is_plain_name(name: str) -> bool:
    return _PLAIN_NAME.fullmatch(name) is not None


def is_name(name: str) -> bool:
    """Letters, `f(x)`, `f(2)`, `(x, y)`, `AB`, `a_3`, `|AB|`, a quotient of such; no sum."""
    if len(name) > _NAME_CHARS_MAX or name.startswith("-") or not _NAME.fullmatch(name):
        return False
    loose = _ARGUMENT.sub("", _INDEX.sub("", _COMPOSED.sub(r"\1\2", name)))
    return not re.search(r"(?a)\d|\^|-|\+", re.sub(r"(?a)\\text\s*\{[^{}]*\}", "t", loose))
