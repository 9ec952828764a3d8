r"""Sets of integers given by bounds, and intervals without a point, in one spelling. Pure.

`\{x \in \mathbb{Z} \mid -1 \le x \le 2\}` is `\{-1, 0, 1, 2\}`, and `1 \le x \le 5, x \ne 3` is
`x \in [1, 3) \cup (3, 5]`; `x \ne \pm 1` is `x \in (-\infty, -1) \cup (-1, 1) \cup (1, \infty)`.
Bounds have to be numbers; anything else stays as it is.
"""

import math
import operator
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Final, NamedTuple

_NUMBER: Final = r"-?\d{1,9}(?:\.\d{1,9})?"
_AT_MOST: Final = r"<\s?=?|\\l(?:e|eq|eqslant)(?![A-Za-z])"
_INTEGERS: Final = (
    r"\\in\s*(?P<set{n}>\\mathbb\s?\{{?\s?[ZN]\s?\}}?\s?"
    r"(?:\^\s?\{{?\s?[*+]\s?\}}?|_\s?\{{?\s?\+\s?\}}?)?)"
)
_BOUNDS: Final = (
    rf"(?:(?P<low>{_NUMBER})\s*(?P<from>{_AT_MOST})\s*)?(?P=name)\s*(?P<to>{_AT_MOST})"
    rf"\s*(?P<high>{_NUMBER})"
)
_INTEGER_SET: Final = re.compile(
    rf"(?a)\\(?:left\s*\\)?\{{\s*(?P<name>[a-z])\s*(?:{_INTEGERS.format(n=1)}\s*)?"
    rf"(?:\\mid(?![A-Za-z])|\\vert(?![A-Za-z])|\||:)\s*{_BOUNDS}"
    rf"(?:\s*,\s*(?P=name)\s*{_INTEGERS.format(n=2)})?\s*\\(?:right\s*\\)?\}}"
)
_AND: Final = (
    r"(?:\\text\s?\{\s*(?:and|\u4e14)\s*\}|(?<![A-Za-z])and(?![A-Za-z])|\\land(?![A-Za-z])|\u4e14)"
)
_AND_NOT: Final = (
    rf"\s*(?:,|;|{_AND})\s*(?:{_AND}\s*)?"
    rf"(?P=name)\s*(?:\\neq?(?![A-Za-z])|!=)\s*(?P<out>{_NUMBER})"
)
_VALUE: Final = (
    r"-?\s?\\[dt]?frac\s?(?:\{\d{1,9}\}|\d)\s?(?:\{\d{1,9}\}|\d)"
    rf"|-?\d{{1,9}}/\d{{1,9}}|{_NUMBER}"
)
_MAY_BE_BOTH: Final = rf"(?:\\pm(?![A-Za-z])\s*)?(?:{_VALUE})"
_VALUES: Final = rf"{_MAY_BE_BOTH}(?:\s*(?:,\s*(?:{_AND})?|{_AND})\s*{_MAY_BE_BOTH}){{0,15}}"
_WITHOUT: Final = re.compile(
    rf"(?a)(?:(?P<low>{_NUMBER})\s*(?P<from>{_AT_MOST})\s*(?P<name>[a-z])\s*(?P<to>{_AT_MOST})"
    rf"\s*(?P<high>{_NUMBER}){_AND_NOT})"
)
_IN_WITHOUT: Final = re.compile(
    rf"(?a)(?P<name>[a-z])\s*\\in\s*(?P<opens>[\[(])\s*(?P<low>{_NUMBER})\s*,\s*(?P<high>{_NUMBER})"
    rf"\s*(?P<closes>[\])]){_AND_NOT}"
)
_BRACED: Final = re.compile(
    r"\\(?:left\s*\\)?\{\s*(?P<name>[a-z])\s*(?:\\in\s*\\mathbb\s?\{?\s?R\s?\}?\s*)?"
    r"(?:\\mid(?![A-Za-z])|\\vert(?![A-Za-z])|\||:)\s*(?P<inner>[^{}|]{3,80}?)\s*\\(?:right\s*\\)?\}"
)
_OUTSIDE: Final = re.compile(
    r"(?a)(?:\||\\lvert\s?)\s?(?P<name>[a-z])\s?(?:\||\\rvert)\s?"
    r"(?P<sign>>\s?=?|\\g(?:e|eq|eqslant)(?![A-Za-z]))\s?(?P<bound>\d{1,9}(?:\.\d{1,9})?|(?:\d{1,4}\s?)?\\sqrt\s?(?:\{\d{1,9}\}|\d)"
    r"|\\[dt]?frac\s?\{\d{1,9}\}\s?\{\d{1,9}\}|\d{1,9}/\d{1,9})"
)
"""`|x| > 3`."""
_PARTED: Final = re.compile(rf"\s*(?:[,;]\s*(?:{_AND})?|{_AND})\s*")
_IS_NOT: Final = re.compile(
    rf"(?a)(?P<name>[a-z])\s*(?:\\neq?(?![A-Za-z])|!=)\s*(?P<both>\\pm(?![A-Za-z])\s*)?(?P<out>{_VALUE})"
)
_ALSO: Final = re.compile(rf"(?a){_VALUE}")
_ALL_BUT: Final = re.compile(
    r"(?a)(?:(?P<name>[a-z])\s*(?:\\notin(?![A-Za-z])|\\in\s*\\mathbb\s?\{?\s?R\s?\}?\s*(?:\\(?:set|small)minus|\\backslash|-))"
    r"|\\mathbb\s?\{?\s?R\s?\}?\s*(?:\\(?:set|small)minus|\\backslash|-))\s*"
    rf"\\(?:left\s*\\)?\{{\s*(?P<outs>{_VALUES})\s*\\(?:right\s*\\)?\}}"
)
"""`x \\notin \\{0, 1\\}`."""
_EXCEPT: Final = re.compile(
    r"(?a)(?:\\text\s?\{\s*)?(?:[Aa]ll\s+)?[Rr]eal(?:\s+number)?s\s+(?:[a-z]\s+)?(?:except|other\s+than)(?:\s+for)?\s*\}?\s*"
    rf"(?P<outs>{_VALUES})\s*\}}?"
)
_EACH: Final = re.compile(rf"(?a)(?P<both>\\pm(?![A-Za-z])\s*)?(?P<out>{_VALUE})")
_ORDER: Final = r"[<>]\s?=?|\\[lg](?:e|eq|eqslant|t)(?![A-Za-z])"
_RAY: Final = re.compile(
    rf"(?a)(?P<name>[a-z])\s*(?P<sign>{_ORDER})\s*(?P<bound>{_VALUE})"
    rf"|(?P<bound1>{_VALUE})\s*(?P<sign1>{_ORDER})\s*(?P<name1>[a-z])"
)
_RAY_PARTS: Final = ("name", "sign", "bound")
_TURNED: Final = {">": "<", "=": "\\le", "e": "\\le", "q": "\\le", "t": "\\le"}
_TELLS: Final = re.compile(
    r"\\(?:not)?in(?![a-z])|\\ne|!=|minus|backslash|mathbb|except|other|(?:\||\\rvert)\s?(?:>|\\g)"
)
_FRACTION: Final = re.compile(
    r"(?a)\s?\\[dt]?frac\s?(?:\{(\d+)\}|(?P<n>\d))\s?(?:\{(\d+)\}|(?P<d>\d))"
)
_MEMBERS_MAX: Final = 200
_CHARS_MAX: Final = 200


def written_out(text: str) -> str:
    """The text, if it is such a set, in the other spelling."""
    if len(text) > _CHARS_MAX or not _TELLS.search(text):
        return text
    bare = text.strip(" $.")
    outside = _OUTSIDE.fullmatch(bare)
    if outside is not None:
        name, sign, bound = outside["name"], outside["sign"], outside["bound"]
        return f"{name} {_TURNED[sign.strip()[-1]]} -{bound} or {name} {sign} {bound}"
    integers = _INTEGER_SET.fullmatch(bare)
    if integers is not None:
        return _members(integers) or text
    braced = _BRACED.fullmatch(bare)
    bare = braced["inner"] if braced else bare
    all_but = _ALL_BUT.fullmatch(bare) or _EXCEPT.fullmatch(bare)
    if all_but is not None:
        outs = [out for each in _EACH.finditer(all_but["outs"]) for out in _stated(each)]
        cut = _pieces(all_but.groupdict().get("name"), outs) if len(outs) > 1 else None
        return cut or text
    without = _WITHOUT.fullmatch(bare) or _IN_WITHOUT.fullmatch(bare)
    if without is not None:
        return _union(without) or text
    return _cut_out(bare) or text


def _members(found: re.Match[str]) -> str | None:
    kind = found["set1"] or found["set2"]
    if kind is None or (found["set1"] and found["set2"]):
        return None
    least = _least(kind)
    if found["low"] is None and least is None:
        return None
    if found["low"] is not None and least is None and "N" in kind and Fraction(found["low"]) <= 0:
        return None  # whether 0 is one of them is not agreed
    first = math.ceil(Fraction(found["low"])) if found["low"] else least or 0
    if found["low"] and found["from"].strip() == "<" and first == Fraction(found["low"]):
        first += 1
    last = math.floor(Fraction(found["high"]))
    if found["to"].strip() == "<" and last == Fraction(found["high"]):
        last -= 1
    first = max(first, least) if least is not None else first
    if not 0 <= last - first < _MEMBERS_MAX:
        return None
    return f"\\{{{', '.join(map(str, range(first, last + 1)))}\\}}"


class _Ray(NamedTuple):
    """`x > 0`: one bound of a name."""

    name: str
    bound: str
    is_lower: bool
    is_open: bool


def _ray(found: re.Match[str]) -> _Ray:
    is_turned = found["name"] is None  # `0 < x`
    name, sign, bound = (found[f"{part}1" if is_turned else part] for part in _RAY_PARTS)
    return _Ray(
        name=name,
        bound=bound,
        is_lower=sign.startswith((">", "\\g")) is not is_turned,
        is_open=sign.strip() in {"<", ">", "\\lt", "\\gt"},
    )


def _cut_out(text: str) -> str | None:
    """`x > 0, x \\ne 1`: bounds of one name and the numbers between them that it is not."""
    names: set[str] = set()
    outs: list[str] = []
    rays: list[_Ray] = []
    for part in _PARTED.split(text):
        if (point := _IS_NOT.fullmatch(part)) is not None:
            names.add(point["name"])
            outs += _stated(point)
        elif (found := _RAY.fullmatch(part)) is not None:
            rays.append(_ray(found))
            names.add(rays[-1].name)
        elif outs and _ALSO.fullmatch(part):  # `x \\ne 0, 1`
            outs.append(part)
        else:
            return None
    lows = [ray for ray in rays if ray.is_lower]
    highs = [ray for ray in rays if not ray.is_lower]
    if len(names) != 1 or len(lows) > 1 or len(highs) > 1 or len(outs) + len(rays) < 2 or not outs:
        return None
    return _pieces(names.pop(), outs, *lows, *highs)


def _stated(point: re.Match[str]) -> tuple[str, ...]:
    """`\\pm 3` is two points."""
    return (point["out"], f"-{point['out']}") if point["both"] else (point["out"],)


def _value(said: str) -> Fraction | None:
    """`-\\frac{1}{2}`; `None`: a fraction of zeros."""
    found = _FRACTION.sub(lambda m: f"{m[1] or m['n']}/{m[3] or m['d']}", said)
    sign = -1 if found.count("-") % 2 else 1
    try:
        return sign * Fraction(found.replace("-", "").strip())
    except ZeroDivisionError:
        return None


def _pieces(name: str | None, said: Sequence[str], *bounds: _Ray) -> str | None:
    """The intervals between the points; `None`: a point is not between the bounds."""
    first, last = "(-\\infty", "\\infty)"
    outs = sorted({value for one in said if (value := _value(one)) is not None})
    if None in map(_value, said):
        return None
    for ray in bounds:
        bound = _value(ray.bound)
        is_beyond = operator.le if ray.is_lower else operator.ge
        if bound is None or any(is_beyond(out, bound) for out in outs):
            return None
        if ray.is_lower:
            first = f"{'(' if ray.is_open else '['}{ray.bound}"
        else:
            last = f"{ray.bound}{')' if ray.is_open else ']'}"
    begins = [first, *(f"({out}" for out in outs)]
    ends = [*(f"{out})" for out in outs), last]
    parts = " \\cup ".join(f"{one}, {two}" for one, two in zip(begins, ends, strict=True))
    return f"{name} \\in {parts}" if name else parts


def _least(kind: str) -> int | None:
    return 1 if ("*" in kind and "N" in kind) or "+" in kind else None


def _union(found: re.Match[str]) -> str | None:
    low, out, high = (Fraction(found[name]) for name in ("low", "out", "high"))
    if not low < out < high:
        return None
    groups = found.groupdict()
    opens = groups.get("opens") or ("(" if found["from"].strip() == "<" else "[")
    closes = groups.get("closes") or (")" if found["to"].strip() == "<" else "]")
    name, point = found["name"], found["out"]
    return f"{name} \\in {opens}{found['low']}, {point}) \\cup ({point}, {found['high']}{closes}"
