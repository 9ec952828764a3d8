"""What an answer is apart from its value: words, names, text, regions."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Final

from typing_extensions import TypeIs

from assay.verifiers.math import agreement, grammar, notation, numeric
from assay.verifiers.math.equality import numbers
from assay.verifiers.math.equality.numbers import number_text
from assay.verifiers.math.grammar import (
    Answer,
    Based,
    Chain,
    Element,
    Items,
    Matrix,
    Named,
    Number,
    Union,
    Words,
)
from assay.verifiers.math.lexicon import measures, units

_BARE_VALUE: Final = (
    r"(?P<value>-?[\d.,]*\d(?:[eE]-?\d{1,3}|\s?\\(?:times|cdot)\s?10\s?\^\s?(?:\{\s?-?\d{1,3}\s?\}|\d))?"
    r"|-?\\frac\{\d+\}\{\d+\})\s*"
)
_BARE_UNIT: Final = re.compile(
    rf"(?a){_BARE_VALUE}"
    r"(?P<unit>[A-Za-z]{1,3}(?:\s?\^\s?\{?\s?[23]\s?\}?)?(?:/[A-Za-z]{1,3}(?:\^[23])?)?)"
)
_COMPOUND_UNIT: Final = re.compile(
    rf"(?a){_BARE_VALUE}" + r"(?P<unit>[A-Z\\a-z](?:[A-Za-z\d\s^{}/()*-]|\\cdot(?![A-Za-z])){1,60})"
)
"""`J/(kg K)`, `m \\cdot s^{-2}`."""
_UNIT_FRACTION: Final = re.compile(
    r"(?a)(?<=[\s\d}])\\frac\s?\{\s?([A-Za-z]{1,3}(?:\^\{?[23]\}?)?)\s?\}"
    r"\s?\{\s?([A-Za-z]{1,3}(?:\^\{?[23]\}?)?)\s?\}\s*$"
)
"""`9.8 \\frac{m}{s^2}`."""
_PARTIAL: Final = re.compile(
    r"(?a)\\frac\{\\partial\s?([A-Za-z])(?:\([^()]*\))?\}\{\\partial\s?([A-Za-z])\}"
)
_DERIVATIVE: Final = re.compile(r"(?a)\\frac\{?d([A-Za-z])\}?\{?d[A-Za-z]\}?")
_LN: Final = re.compile(r"\\ln(?![A-Za-z])")
_PI: Final = re.compile(r"\\pi(?![A-Za-z])")
_LOG: Final = re.compile(r"\\log(?![A-Za-z]|\s*_)")
_IN_SMALL: Final = re.compile(r"(?a)([a-f][0-9a-f]{1,40})\s?_\s?\{\s?16\s?\}")
_HEXADECIMAL: Final = 16
_DIGIT: Final = re.compile(r"(?a)\d")
_DOTS: Final = frozenset({"\\ldots", "\\dots", "\\cdots", "...", "\\ldots ", "\\dots "})
_AXES: Final = frozenset({"x", "y", "z"})
_RANKED_ITEMS_MAX: Final = 64


def word(answer: Answer) -> str:
    match answer:
        case Words():
            return grammar.meaning(answer.text)
        case Element(text="\\infty" | "+\\infty"):
            return grammar.meaning("infinite")
        case Element():
            return grammar.meaning(answer.text) if answer.text.isalpha() else ""
    return ""


def with_unit(said: Element, unit: str) -> Number | None:
    """`5 m` as five meters, where the other side says that there are meters; otherwise `m` is a
    name."""
    text = _UNIT_FRACTION.sub(r"\1/\2", said.text)
    match = _COMPOUND_UNIT.fullmatch(text)
    stated = units.compound_form(match["unit"], any_quotient=True) if match is not None else ""
    if match is None or not stated:
        match = _BARE_UNIT.fullmatch(text)
        stated = units.unit_form(match["unit"].replace(" ", "")) if match is not None else ""
    if match is None:
        return None
    is_meant = numbers.are_called_alike(stated, unit) or stated == unit
    if not is_meant and measures.scaled(Fraction(1), stated, unit) is None:
        return None
    read = grammar.read(match["value"])
    return replace(read, unit=stated) if isinstance(read, Number) and not read.unit else None


def in_radians(degrees: Number, other: Element) -> str:
    """An angle in degrees as a multiple of pi, if the other side is one; otherwise empty."""
    if not _PI.search(other.text) or other.unit not in ("", "rad"):
        return ""
    return f"\\frac{{({number_text(replace(degrees, unit=''))})\\pi}}{{180}}"


def is_nothing(answer: Answer) -> bool:
    """The empty set, in symbols or in words."""
    match answer:
        case Items(kind="set", items=()):
            return True
        case Words(text=text):
            return grammar.meaning(text) == "no solution"
    return False


def same_name(gold: str, answer: str) -> bool:
    """`W(n)` and `W(x)` name the same function, and `y` the values of a function of `x`; `f(2)` and
    `f(3)` are two values."""
    gold, answer = (
        _PARTIAL.sub(r"\1_\2", _DERIVATIVE.sub(r"\1'", name)) for name in (gold, answer)
    )
    if gold == answer:
        return True
    if "(" in gold and gold.split("(")[0] == answer.split("(")[0] != "":
        return not _DIGIT.search(gold.partition("(")[2] + answer.partition("(")[2])
    if (
        "(" not in gold + answer
        and gold.partition("_")[0] == answer.partition("_")[0]
        and ("_" not in gold or "_" not in answer)
    ):  # `x_1 = 2` for `x = 2`
        return True
    return "y" in (gold, answer) and (gold.endswith("(x)") or answer.endswith("(x)"))


def letters(answer: Answer) -> str:
    """The labels of several choices, as `ACD` and as `A, C, D`; empty if it is something else."""
    match answer:
        case Words(text=text) | Element(text=text):
            said = notation.words_of(text).strip()
        case Items(kind="list" | "set", items=items):
            said = "".join(sorted(getattr(item, "text", "?") for item in items))
        case _:
            return ""
    several = re.fullmatch("[A-H]{2,8}", said) is not None
    return said if several and said == "".join(sorted(set(said))) else ""


_ALTERNATIVES: Final = (
    {"yes", "no"}, {"even", "odd", "neither"}, {"converge", "diverge"}, {"rational", "irrational"},
    {"always", "sometimes", "never"}, {"increasing", "decreasing"}, {"positive", "negative"},
    {"prime", "composite"}, {"linear", "nonlinear"}, {"valid", "invalid"},
)  # fmt: skip


def are_of_parts(gold: Answer) -> bool:
    """`True, False, True`: of several parts, so that the order counts."""
    if not isinstance(gold, Items) or gold.kind != "list" or len(gold.items) < 2:
        return False
    said = {word(item) for item in gold.items}
    return any(said <= words for words in _ALTERNATIVES)


def is_either(answer: Answer) -> bool:
    """`A or C`."""
    return isinstance(answer, Items) and answer.joined == "or"


_LABEL: Final = re.compile("[A-J]")
_EXCLUDED: Final = re.compile(r"(?a)\s*([A-Za-z](?:_\w)?|\\[a-z]+)\s*\\neq(?![A-Za-z])")
_INEQUALITY: Final = re.compile(r"[<>]|\\(?:le|ge|neq)(?![A-Za-z])")


def labels(answer: Answer) -> str:
    """Letters that may be labels, in the order in which they are written; empty if it is something
    else."""
    match answer:
        case Items(kind="list" | "tuple", items=items):
            parts = [getattr(item, "text", "") for item in items]
            return "".join(parts) if all(map(_LABEL.fullmatch, parts)) else ""
        case Words(form=form) | Element(text=form):
            said = re.sub(r"\\text|[\s{}]", "", form)
            return said if re.fullmatch("[A-J]{2,10}", said) else ""
    return ""


def ranked(gold: Answer) -> str:
    """Labels that are not in the order of the alphabet are a ranking: `C, A, B`, `CAB`."""
    if isinstance(gold, Items):
        said = labels(gold) if gold.kind == "list" else ""
    else:
        said = labels(gold) if len(labels(gold)) > 2 else ""
    return said if len(set(said)) == len(said) > 1 and list(said) != sorted(said) else ""


def are_joined_otherwise(gold: Items, answer: Items) -> bool:
    """`x = 1 or y = 2` for `x = 1, y = 2` or for a point; `and` for the `or` of the gold."""
    if not (
        gold.kind == "tuple" or any(_are_of_names(one) or _exclude(one) for one in (gold, answer))
    ):
        return False
    return (gold.joined, answer.joined) in {("", "or"), ("and", "or"), ("or", "and")}


def _are_of_names(answer: Items) -> bool:
    """Whether it gives values of two or more names, each once; `x_1`, `x_2` are values of `x`."""
    names = [name.split("_")[0] for item in answer.items if (name := _name_of(item))]
    return len(names) == len(answer.items) == len(set(names)) > 1


def by_name(answer: Items) -> dict[str, Answer]:
    """Its items by their names, as in `A(1, 2), B(3, 4)`; empty if one has no name of its own."""
    named = {item.name: item for item in answer.items if isinstance(item, Named)}
    return dict(named) if len(named) == len(answer.items) else {}


def _name_of(item: Answer) -> str:
    """The name whose value or bound it is; empty if it is something else."""
    if isinstance(item, Named):
        return item.name
    if not isinstance(item, Element):
        return ""
    excluded = _EXCLUDED.match(item.text)
    bounded = grammar.region(item.text) if excluded is None else None
    return excluded[1] if excluded is not None else bounded[0] if bounded is not None else ""


def _exclude(answer: Items) -> bool:
    """`x \\ne a, x \\ne b`: with `or` that excludes nothing."""
    return all(isinstance(item, Element) and _EXCLUDED.match(item.text) for item in answer.items)


def only(answer: Answer) -> Answer | None:
    """The element of a set of one, unless that is the empty set."""
    if isinstance(answer, Items) and answer.kind == "set" and len(answer.items) == 1:
        return None if is_nothing(answer.items[0]) else answer.items[0]
    return None


def are_values_and_bounds(one: Answer, other: Answer) -> bool:
    """`\\{-1, 2\\}` and `-1 < x < 2`."""
    for values, bounds in ((one, other), (other, one)):
        if isinstance(values, Items) and values.kind == "set" and isinstance(bounds, Element):
            return _INEQUALITY.search(bounds.text) is not None
    return False


_BRACKETED: Final = re.compile(r"\[([^\[\],]{1,80})\]")


def one_logarithm(gold: str, answer: str) -> tuple[str, str]:
    r"""`\log` without a base is the natural one where the other side says `\ln`."""
    if _LN.search(gold) and not _LN.search(answer):
        return gold, _LOG.sub(r"\\ln", answer)
    if _LN.search(answer) and not _LN.search(gold):
        return _LOG.sub(r"\\ln", gold), answer
    return gold, answer


def whole_part(gold: str, answer: str) -> str:
    r"""`[x]` as `\lfloor x \rfloor`, where the gold says that."""
    bracketed = _BRACKETED.fullmatch(answer.strip()) if "\\lfloor" in gold else None
    return f"\\lfloor {bracketed[1]} \\rfloor" if bracketed else answer


def is_relation(text: str) -> bool:
    return any(mark in text for mark in ("=", "<", ">", "\\le", "\\ge", "\\neq"))


def statement(answer: Answer) -> str:
    """The text of what may be an equation; empty if it is something else."""
    return answer.text if isinstance(answer, Named | Element) else ""


def text_of(answer: Answer | None) -> str | None:
    match answer:
        case Number():
            return number_text(answer)
        case Matrix():
            return answer.text
        case Element():
            return answer.text
        case Named():
            return answer.text
    return None


def region_text(answer: Answer) -> str | None:
    """As mathematics: an interval, a union, a set, an inequality."""
    match answer:
        case Union():
            return answer.text
        case Items(kind="tuple"):
            inner = [text_of(item) for item in answer.items]
            if len(inner) != 2 or None in inner:
                return None
            return f"{answer.brackets[0]}{inner[0]},{inner[1]}{answer.brackets[1]}"
        case Items(kind="set"):
            inner = [text_of(item) for item in answer.items]
            if None in inner:
                return None
            return "\\{" + ",".join(str(text) for text in inner) + "\\}"
        case Element() | Named():
            text = answer.text
            return text if is_relation(text) or "\\" in text else None
    return None


def is_based_so(text: str, other: Based) -> bool:
    """`ff_{16}`, where the other side says that there are digits."""
    match = _IN_SMALL.fullmatch(text)
    return match is not None and other.base == _HEXADECIMAL and match[1].upper() == other.digits


def single(answer: Answer) -> Answer:
    """The same answer given twice is one answer."""
    if (
        isinstance(answer, Items)
        and answer.kind == "list"
        and answer.brackets != "pm"
        and len(answer.items) > 1
    ):
        first = answer.items[0]
        if all(_surely_equal(first, item) for item in answer.items[1:]):
            return first
    return answer


def spread(answer: Answer) -> Answer:
    """`\\{1, 2, \\ldots, 10\\}` with all its integers: two or more equal steps before the dots."""
    if not isinstance(answer, Items) or answer.kind == "tuple" or len(answer.items) < 4:
        return answer
    *first, dots, last = answer.items
    if not isinstance(dots, Element) or dots.text not in _DOTS or not isinstance(last, Number):
        return answer
    said = [item.value for item in first if isinstance(item, Number) and not item.unit]
    steps = {two - one for one, two in pairwise(said)}
    if len(said) != len(first) or len(steps) != 1 or {*said, last.value} - _integers(said, last):
        return answer
    count, rest = divmod(last.value - said[0], step := steps.pop()) if steps != {0} else (0, 1)
    if rest or not len(said) <= count < grammar.ITEMS_MAX:
        return answer
    items = (said[0] + step * at for at in range(int(count) + 1))
    return replace(answer, items=tuple(Number(value, form=str(value)) for value in items))


def _integers(values: Sequence[Fraction], last: Number) -> set[Fraction]:
    return {value for value in (*values, last.value) if value.denominator == 1}


def values(answer: Answer) -> Sequence[Answer]:
    """What may be compared: of a chain its values, or else what it says otherwise."""
    found = agreement.values(answer) if isinstance(answer, Chain) else None
    return (otherwise(answer),) if found is None else found


def otherwise(answer: Answer) -> Answer:
    return answer.otherwise if isinstance(answer, Chain) else answer


def is_region(answer: Answer) -> TypeIs[Items]:
    return isinstance(answer, Items) and answer.kind == "tuple" and len(answer.items) == 2


def is_falling(answer: Items) -> bool:
    """Whether it cannot be an interval: `[3, 1]` and `[2, 2]` are points."""
    match answer.items:
        case (Number(value=low, unit=unit), Number(value=high, unit=other)) if unit == other:
            return high <= low
    return False


def as_region(answer: Element | Named) -> Items | None:
    """The interval that an inequality in one name describes."""
    said = grammar.region(answer.text)
    found = None if said is None else grammar.read(said[1])
    return found if isinstance(found, Items) and found.kind == "tuple" else None


def endless(one: Answer, other: Answer) -> tuple[Items, Items] | None:
    """The intervals of two inequalities of which one names infinity: `-\\infty < x < 0`."""
    if not isinstance(one, Element) or not isinstance(other, Element):
        return None
    if "\\infty" not in one.text + other.text:
        return None
    first, second = as_region(one), as_region(other)
    return None if first is None or second is None else (first, second)


def regions(answer: Answer) -> tuple[Answer, ...]:
    """The intervals of a union, or of inequalities in one name; empty if it is something else."""
    if isinstance(answer, Union):
        return answer.parts
    if not isinstance(answer, Items) or answer.kind != "list":
        return ()
    names: set[str] = set()
    found: list[Answer] = []
    for item in answer.items:
        if isinstance(item, Named):
            names.add(item.name)
            found.append(item.value)
        elif isinstance(item, Element) and (said := grammar.region(item.text)):
            names.add(said[0])
            found.append(grammar.read(said[1]))
        else:
            found.append(item)
    return tuple(found) if len(names) <= 1 and all(map(is_region, found)) else ()


def coordinates(answer: Items) -> Items:
    """`y = 2, x = 3` in the order of the axes."""
    names = [item.name for item in answer.items if isinstance(item, Named)]
    if len(names) < 2 or len(names) != len(answer.items) or not set(names) <= _AXES:
        return answer
    ordered = sorted(answer.items, key=lambda item: item.name if isinstance(item, Named) else "")
    return replace(answer, items=tuple(ordered))


def repeats(gold: Items) -> bool:
    """Whether it says an item more than once, so that the numbers count: `1, 1, 2`."""
    return any(_surely_equal(one, other) for one, other in combinations(gold.items, 2))


def _surely_equal(one: Answer, other: Answer) -> bool:
    if one.form == other.form:
        return True
    return (
        isinstance(one, Number)
        and isinstance(other, Number)
        and (one.value, one.is_percent) == (other.value, other.is_percent)
    )


def nearest_first(item: Answer, others: Sequence[Answer]) -> list[int]:
    """The position in `others` where an equal one is most likely."""
    order = list(range(len(others)))
    if len(others) > _RANKED_ITEMS_MAX:
        return order
    value = _approximate(item)
    if value is None:
        return order

    def distance(at: int) -> float:
        other = _approximate(others[at])
        return math.inf if other is None else abs(other - value)

    return sorted(order, key=distance)


def _approximate(answer: Answer) -> float | None:
    match answer:
        case Number():
            return float(answer.value) if abs(answer.value) < 10**300 else None
        case Named():
            return _approximate(answer.value)
        case Element():
            return numeric.approximate(answer.text)
    return None
