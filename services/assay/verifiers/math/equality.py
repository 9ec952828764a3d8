"""Compares a response's answer with the reference: structure by rules, elements by algebra.

Gold first. Two texts with the same form are equal, whatever they mean. Plain numbers are compared
exactly (decimals to `float_rounding` places) without a computer algebra system.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from typing_extensions import TypeIs

from assay.verifiers.math import agreement, algebra, grammar, numeric
from assay.verifiers.math.definition import MathSettings
from assay.verifiers.math.grammar import (
    Answer,
    Based,
    Chain,
    Date,
    Element,
    Items,
    Matrix,
    Named,
    Number,
    Ratio,
    Time,
    Union,
    Words,
)
from assay.verifiers.math.lexicon import units

_Rows = Sequence[Sequence[Answer]]
_BY_FORM: Final = (
    re.compile(r"(?a)\d\}?\s*_"),  # the subscript of a number
    re.compile(r"\\(?:l|c|d)?dots(?:[bcmo])?(?![A-Za-z])"),
)
_AXES: Final = frozenset({"x", "y", "z"})
_SMALL: Final = Fraction(1, 1_000)
_PLACES_MAX: Final = 1_000
_HALF_DAY_S: Final = 12 * 3_600
_COMPARISONS_MAX: Final = 4_096
"""Maximum number of element comparisons in one comparison of lists."""
_RANKED_ITEMS_MAX: Final = 64


@dataclass(slots=True)
class Comparison:
    """Compares one gold with one answer; counts its work."""

    settings: MathSettings
    elements: int = 0
    error: str = ""
    """Errors of the computer algebra."""

    def equal(self, gold: Answer, answer: Answer) -> bool:
        """Whether `answer` passes for `gold`."""
        if gold.form and gold.form == answer.form:
            return True
        if isinstance(gold, Chain) or isinstance(answer, Chain):
            return self._chains(gold, answer)
        if _is_nothing(gold) and _is_nothing(answer):
            return True
        answer = _single(answer)
        if Matrix in (type(gold), type(answer)) and Named not in (type(gold), type(answer)):
            return self._matrices(gold, answer)
        if isinstance(gold, Items) or isinstance(answer, Items):
            return self._items(gold, answer)
        if isinstance(gold, Named) or isinstance(answer, Named):
            return self._named(gold, answer)
        if isinstance(gold, Union) or isinstance(answer, Union):
            return self._union(gold, answer)
        if isinstance(gold, Words) or isinstance(answer, Words):
            return _word(gold) == _word(answer) != ""
        return self._value(gold, answer)

    def control(self, gold: Answer) -> None:
        """Compare a gold with itself by algebra, whatever its form; for its side effects."""
        text = _text_of(gold) or _region_text(gold)
        if text is not None:
            self._texts(text, f"0+{text}")

    # -- values --------------------------------------------------------------------------------

    def _value(self, gold: Answer, answer: Answer) -> bool:
        match gold, answer:
            case Number(), Number():
                return numbers_equal(gold, answer, self.settings)
            case Time(), Time():
                return _same_time(gold, answer)
            case Date(), Date():
                same_day = (gold.month, gold.day) == (answer.month, answer.day)
                return same_day and (gold.year == answer.year or 0 in (gold.year, answer.year))
            case (Date(), _) | (_, Date()):
                return False
            case Based(), Based():
                return int(gold.digits, gold.base) == int(answer.digits, answer.base)
            case Based(), Number():
                return answer.form.upper().lstrip("0") == gold.digits and not answer.unit
            case Number(), Based():
                return gold.form == answer.digits and not gold.unit
            case (Based(), _) | (_, Based()):
                return False
            case (Time() | Ratio(), Time() | Ratio()):
                return self._ratio(_ratio_of(gold), _ratio_of(answer))
            case (Time() | Ratio(), Number() | Element()):
                return self._quotient(_ratio_of(gold), answer, gold_first=True)
            case (Number() | Element(), Time() | Ratio()):
                return self._quotient(_ratio_of(answer), gold, gold_first=False)
        return self._element(gold, answer)

    def _element(self, gold: Answer, answer: Answer) -> bool:
        left, right = _text_of(gold), _text_of(answer)
        if left is None or right is None or not _units_fit(gold, answer):
            return False
        if any(pattern.search(text) for pattern in _BY_FORM for text in (left, right)):
            return False  # equal only in form: math-verify ignores these parts
        self.elements += 1
        if self.elements > _COMPARISONS_MAX:
            return False
        try:
            return algebra.equal(left, right, self.settings)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - sympy may raise anything on values that it cannot compare
            self.error = f"{type(error).__name__}: {_said(error)}"
            return False

    # -- ratios --------------------------------------------------------------------------------

    def _ratio(self, gold: Ratio | None, answer: Ratio | None) -> bool:
        if gold is None or answer is None or len(gold.terms) != len(answer.terms):
            return False
        if all(isinstance(term, Number) for term in (*gold.terms, *answer.terms)):
            return proportional(gold.terms, answer.terms)
        pairs = zip(gold.terms, answer.terms, strict=True)
        return all(self.equal(left, right) for left, right in pairs)

    def _quotient(self, ratio: Ratio | None, other: Answer, *, gold_first: bool) -> bool:
        """A ratio of two terms equals its quotient, unless it is a time of day."""
        if ratio is None or len(ratio.terms) != 2:
            return False
        left, right = (_text_of(term) for term in ratio.terms)
        quotient = grammar.read(f"\\frac{{{left}}}{{{right}}}")
        if not isinstance(quotient, Number | Element):
            return False
        return self.equal(quotient, other) if gold_first else self.equal(other, quotient)

    # -- names ---------------------------------------------------------------------------------

    def _named(self, gold: Answer, answer: Answer) -> bool:
        if isinstance(gold, Named) and isinstance(answer, Named):
            if not self.settings.strict or _same_name(gold.name, answer.name):
                return self.equal(gold.value, answer.value)
            return self._texts(gold.text, answer.text)
        if isinstance(gold, Named):
            if isinstance(answer, Element) and _is_relation(answer.text):
                return self._texts(gold.text, answer.text)
            return self.equal(gold.value, answer)
        if isinstance(answer, Named):
            if isinstance(gold, Element) and _is_relation(gold.text):
                return self._texts(gold.text, answer.text)
            return self.equal(gold, answer.value)
        return False

    def _texts(self, gold: str, answer: str) -> bool:
        return self._element(Element(text=gold), Element(text=answer))

    def _chains(self, gold: Answer, answer: Answer) -> bool:
        """Any side stands for a chain whose sides agree; a contradiction has no value."""
        golds, answers = _values(gold), _values(answer)
        if any(self.equal(one, two) for one in golds for two in answers):
            return True
        one, two = _otherwise(gold), _otherwise(answer)
        is_tried = one in golds and two in answers
        return bool(golds and answers) and not is_tried and self.equal(one, two)

    # -- several values ------------------------------------------------------------------------

    def _union(self, gold: Answer, answer: Answer) -> bool:
        match gold, answer:
            case Union(), Union() if self._any_order(gold.parts, answer.parts):
                return True
        left, right = _region_text(gold), _region_text(answer)
        return left is not None and right is not None and self._texts(left, right)

    def _items(self, gold: Answer, answer: Answer) -> bool:
        if isinstance(gold, Items) and isinstance(answer, Items):
            return self._both_items(gold, answer)
        if isinstance(answer, Named):
            return self.equal(gold, answer.value)
        if isinstance(gold, Named):
            return self.equal(gold.value, answer)
        if isinstance(gold, Items) and gold.decimal and isinstance(answer, Number):
            fits = answer.is_decimal or not gold.decimal.is_decimal
            return fits and numbers_equal(gold.decimal, answer, self.settings)
        if isinstance(answer, Items) and answer.decimal and isinstance(gold, Number):
            fits = gold.is_decimal or not answer.decimal.is_decimal
            return fits and numbers_equal(gold, answer.decimal, self.settings)
        if _is_region(gold) and isinstance(answer, Element | Named):
            bounds = _as_region(answer)
            if bounds is not None:
                return self._in_order(gold, bounds)
        if Union in (type(gold), type(answer)):
            one, other = _regions(gold), _regions(answer)
            if one and other:
                return self._any_order(one, other)
        if isinstance(gold, Items) and len(gold.items) == 1 and gold.kind == "set":
            return self.equal(gold.items[0], answer)
        if isinstance(answer, Items) and len(answer.items) == 1 and answer.kind == "set":
            return self.equal(gold, answer.items[0])
        left, right = _region_text(gold), _region_text(answer)
        if left is None or right is None:
            return False
        return self._texts(left, right)

    def _both_items(self, gold: Items, answer: Items) -> bool:
        kinds = {gold.kind, answer.kind}
        if (
            gold.decimal
            and answer.decimal
            and numbers_equal(gold.decimal, answer.decimal, self.settings)
        ):
            return True
        if kinds == {"set", "tuple"} and self.settings.strict:
            return False
        if "tuple" in kinds:
            return self._in_order(gold, answer)
        names = [item.name for item in gold.items if isinstance(item, Named)]
        told_apart = len(names) == len(gold.items) and len(set(names)) == len(names) > 1
        if told_apart and not any(isinstance(item, Named) for item in answer.items):
            return len(gold.items) == len(answer.items) and self._pairwise(gold.items, answer.items)
        return self._any_order(gold.items, answer.items)

    def _matrices(self, gold: Answer, answer: Answer) -> bool:
        """Row by row; a single row or column is also a point."""
        match gold, answer:
            case Matrix(rows=left), Matrix(rows=right):
                return self._rows(left, right)
            case Matrix(rows=rows), Items(kind="tuple" | "list") as other:
                return self._matrix_is(rows, other)
            case Items(kind="tuple" | "list") as other, Matrix(rows=rows):
                return self._matrix_is(rows, other)
        left_text, right_text = _text_of(gold), _text_of(answer)
        return bool(left_text and right_text) and self._texts(left_text or "", right_text or "")

    def _rows(self, gold: _Rows, answer: _Rows) -> bool:
        same_shape = [len(row) for row in gold] == [len(row) for row in answer]
        return same_shape and all(
            self._pairwise(one, two) for one, two in zip(gold, answer, strict=True)
        )

    def _matrix_is(self, rows: _Rows, other: Items) -> bool:
        """`(1, 2)` for a row or a column, `[[1, 2], [3, 4]]` for any matrix."""
        inner = [item.items for item in other.items if isinstance(item, Items)]
        if inner:
            return (
                other.brackets == "[]"
                and len(inner) == len(other.items)
                and self._rows(rows, tuple(inner))
            )
        entries = tuple(entry for row in rows for entry in row)
        is_vector = len(rows) == 1 or all(len(row) == 1 for row in rows)
        is_point = other.brackets in ("()", "[]") and len(other.items) == len(entries)
        return is_vector and is_point and self._pairwise(entries, other.items)

    def _in_order(self, gold: Items, answer: Items) -> bool:
        if "tuple" == gold.kind == answer.kind and gold.brackets != answer.brackets:
            return False
        if len(gold.items) != len(answer.items):
            return False
        answer = _coordinates(answer) if gold.kind == "tuple" else answer
        if answer.kind != "tuple" and gold.brackets != "()":
            return False
        if gold.kind != "tuple" and answer.brackets != "()":
            return False
        return self._pairwise(gold.items, answer.items)

    def _pairwise(self, gold: Sequence[Answer], answer: Sequence[Answer]) -> bool:
        return all(self.equal(left, right) for left, right in zip(gold, answer, strict=True))

    def _any_order(self, gold: Sequence[Answer], answer: Sequence[Answer]) -> bool:
        """Each gold item is among the answers, and each answer among the gold items."""
        if len(gold) > grammar.ITEMS_MAX or len(answer) > grammar.ITEMS_MAX:
            return False
        met: set[int] = set()
        for item in gold:
            found = next(
                (at for at in _nearest_first(item, answer) if self.equal(item, answer[at])), None
            )
            if found is None:
                return False
            met.add(found)
        return all(
            at in met or any(self.equal(gold[near], item) for near in _nearest_first(item, gold))
            for at, item in enumerate(answer)
        )


# -- plain numbers -------------------------------------------------------------------------------


def numbers_equal(gold: Number, answer: Number, settings: MathSettings) -> bool:
    """Exactly equal; a decimal may be rounded; `28%`, `28` and `0.28` are the same percentage."""
    if not _units_fit(gold, answer):
        return False
    left, right = gold.value, answer.value
    is_decimal = gold.is_decimal or answer.is_decimal
    if gold.is_percent == answer.is_percent:
        return _close(left, right, is_decimal, settings)
    if _close(left, right, is_decimal, settings):
        return True
    hundredth = Fraction(1, 100)
    left = left * hundredth if gold.is_percent else left
    right = right * hundredth if answer.is_percent else right
    return _close(left, right, is_decimal, settings)


def _close(gold: Fraction, answer: Fraction, is_decimal: bool, settings: MathSettings) -> bool:  # noqa: FBT001 - one of four plain values
    if gold == answer:
        return True
    if not is_decimal or not gold:  # only zero is rounded to zero
        return False
    if abs(gold) < _SMALL:
        scale = Fraction(10) ** -_exponent(gold)
        gold, answer = gold * scale, answer * scale
    places = settings.float_rounding
    return round(gold, places) == round(answer, places)


def _exponent(value: Fraction) -> int:
    """Exponent of the leading decimal digit."""
    return math.floor(math.log10(abs(value.numerator)) - math.log10(value.denominator))


def proportional(gold: Sequence[Answer], answer: Sequence[Answer]) -> bool:
    left = [term.value for term in gold if isinstance(term, Number)]
    right = [term.value for term in answer if isinstance(term, Number)]
    if not any(left) or not any(right):
        return left == right
    at = next(index for index, value in enumerate(left) if value)
    return all(
        one * right[at] == other * left[at] for one, other in zip(left, right, strict=True)
    ) and (right[at] > 0) == (left[at] > 0)


def _same_time(gold: Time, answer: Time) -> bool:
    if gold.half and answer.half:
        return gold.seconds == answer.seconds and gold.half == answer.half
    if gold.half or answer.half:
        stated, other = (gold, answer) if gold.half else (answer, gold)
        full = stated.seconds % _HALF_DAY_S + (_HALF_DAY_S if stated.half == "pm" else 0)
        return other.seconds in {stated.seconds, full}
    return gold.seconds == answer.seconds


def _ratio_of(answer: Answer) -> Ratio | None:
    if isinstance(answer, Ratio):
        return answer
    if isinstance(answer, Time) and answer.terms:
        terms = tuple(Number(Fraction(term), form=str(term)) for term in answer.terms)
        return Ratio(terms=terms)
    return None


# -- units and names -----------------------------------------------------------------------------


def _units_fit(gold: Answer, answer: Answer) -> bool:
    """A unit may be left out; two units of measure must be the same."""
    left, right = getattr(gold, "unit", ""), getattr(answer, "unit", "")
    if not left or not right or left == right:
        return True
    return not (units.is_known_unit(left) and units.is_known_unit(right))


def _word(answer: Answer) -> str:
    match answer:
        case Words():
            return grammar.meaning(answer.text)
        case Element():
            return grammar.meaning(answer.text) if answer.text.isalpha() else ""
    return ""


def _is_nothing(answer: Answer) -> bool:
    """The empty set, in symbols or in words."""
    match answer:
        case Items(kind="set", items=()):
            return True
        case Words(text=text):
            return grammar.meaning(text) == "no solution"
    return False


def _same_name(gold: str, answer: str) -> bool:
    """`W(n)` and `W(x)` name the same function, and `y` the values of a function of `x`."""
    if gold == answer or ("(" in gold and gold.split("(")[0] == answer.split("(")[0] != ""):
        return True
    if "(" not in answer and answer.partition("_")[0] == gold:  # `x_1 = 2` for `x = 2`
        return True
    return "y" in (gold, answer) and (gold.endswith("(x)") or answer.endswith("(x)"))


def _is_relation(text: str) -> bool:
    return any(mark in text for mark in ("=", "<", ">", "\\le", "\\ge", "\\neq"))


def _text_of(answer: Answer | None) -> str | None:
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


def number_text(number: Number) -> str:
    """A number as LaTeX; a decimal stays one."""
    percent = "\\%" if number.is_percent else ""
    value = number.value
    if number.is_decimal:
        return _decimal_text(value) + percent
    if value.denominator == 1:
        return f"{value.numerator}{percent}"
    sign = "-" if value < 0 else ""
    return f"{sign}\\frac{{{abs(value.numerator)}}}{{{value.denominator}}}{percent}"


def _decimal_text(value: Fraction) -> str:
    """All digits; the denominator has only the prime factors 2 and 5."""
    places = 0
    while value.denominator != 1 and places < _PLACES_MAX:
        value *= 10
        places += 1
    sign, digits = "-" if value < 0 else "", str(abs(int(value))).rjust(places + 1, "0")
    return f"{sign}{digits[: len(digits) - places]}.{digits[len(digits) - places :] or '0'}"


def _region_text(answer: Answer) -> str | None:
    """As mathematics: an interval, a union, a set, an inequality."""
    match answer:
        case Union():
            return answer.text
        case Items(kind="tuple"):
            inner = [_text_of(item) for item in answer.items]
            if len(inner) != 2 or None in inner:
                return None
            return f"{answer.brackets[0]}{inner[0]},{inner[1]}{answer.brackets[1]}"
        case Items(kind="set"):
            inner = [_text_of(item) for item in answer.items]
            if None in inner:
                return None
            return "\\{" + ",".join(str(text) for text in inner) + "\\}"
        case Element() | Named():
            text = answer.text
            return text if _is_relation(text) or "\\" in text else None
    return None


def _single(answer: Answer) -> Answer:
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


def _values(answer: Answer) -> Sequence[Answer]:
    """What may be compared: of a chain its values, or else what it says otherwise."""
    found = agreement.values(answer) if isinstance(answer, Chain) else None
    return (_otherwise(answer),) if found is None else found


def _otherwise(answer: Answer) -> Answer:
    return answer.otherwise if isinstance(answer, Chain) else answer


def _is_region(answer: Answer) -> TypeIs[Items]:
    return isinstance(answer, Items) and answer.kind == "tuple" and len(answer.items) == 2


def _as_region(answer: Element | Named) -> Items | None:
    """The interval that an inequality in one name describes."""
    said = grammar.region(answer.text)
    found = None if said is None else grammar.read(said[1])
    return found if isinstance(found, Items) and found.kind == "tuple" else None


def _regions(answer: Answer) -> tuple[Answer, ...]:
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
    return tuple(found) if len(names) <= 1 and all(map(_is_region, found)) else ()


def _coordinates(answer: Items) -> Items:
    """`y = 2, x = 3` in the order of the axes."""
    names = [item.name for item in answer.items if isinstance(item, Named)]
    if len(names) < 2 or len(names) != len(answer.items) or not set(names) <= _AXES:
        return answer
    ordered = sorted(answer.items, key=lambda item: item.name if isinstance(item, Named) else "")
    return replace(answer, items=tuple(ordered))


def _surely_equal(one: Answer, other: Answer) -> bool:
    if one.form == other.form:
        return True
    return (
        isinstance(one, Number)
        and isinstance(other, Number)
        and (one.value, one.is_percent) == (other.value, other.is_percent)
    )


def _nearest_first(item: Answer, others: Sequence[Answer]) -> list[int]:
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


def _said(error: BaseException) -> str:
    """The error's text; creating it may fail too."""
    try:
        return str(error)[:200]
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - the text of an exception may not be available
        return "(no text)"
