"""Plain numbers, ratios and times of day: compared exactly, and written as LaTeX. No algebra."""

import math
import re
from collections.abc import Sequence
from datetime import date
from fractions import Fraction
from typing import Final

from assay.verifiers.math.definition import MathSettings
from assay.verifiers.math.grammar import Answer, Date, Element, Number, Ratio, Time
from assay.verifiers.math.lexicon import measures, units

_SMALL: Final = Fraction(1, 1_000)
_PLACES_MAX: Final = 1_000
_ROUNDED_PLACES_MAX: Final = 30
_ROUNDED_MIN: Final = 1_000
"""A decimal of fewer than four digits is taken as it is."""
_SHORT_PLACES_MIN: Final = 4
_SHORT_BELOW_MAX: Final = 100
_FRACTION: Final = re.compile(r"(?a)-?(?:\\frac|\d+/\d)")
_HALF_DAY_S: Final = 12 * 3_600

_PER_CENT: Final = frozenset({"", "percentagepoint", "percentage point", "percentage points"})
"""Units of a number that may be a percentage without its sign."""


def numbers_equal(gold: Number, answer: Number, settings: MathSettings) -> bool:
    """Exactly equal; a decimal may be rounded; `28%`, `28` and `0.28` are the same percentage."""
    left, right = gold.value, answer.value
    converted = None
    if {gold.unit, answer.unit} == {"", "cent"} and gold.is_compound != answer.is_compound:
        cents, other = (gold, answer) if gold.is_compound else (answer, gold)
        if cents.value == 100 * other.value:  # `12 dollars and 50 cents` for 12.50
            return True
    if gold.unit != answer.unit:
        converted = measures.scaled(right, answer.unit, gold.unit)
    if converted is not None:
        right = converted
    elif not units_fit(gold, answer):
        return False
    is_alike = gold.is_percent == answer.is_percent
    if settings.rounded_golds and is_alike and is_rounded_from(gold, right):
        return True
    if settings.rounded_golds and is_alike and not answer.is_decimal and _is_short(gold, right):
        return True
    if not is_alike and (answer if gold.is_percent else gold).unit not in _PER_CENT:
        return False
    is_decimal = gold.is_decimal or answer.is_decimal
    if gold.is_percent == answer.is_percent:
        return _close(left, right, is_decimal, settings)
    if not _is_fraction(gold) and _close(left, right, is_decimal, settings):
        return True
    hundredth = Fraction(1, 100)
    left = left * hundredth if gold.is_percent else left
    right = right * hundredth if answer.is_percent else right
    return _close(left, right, is_decimal, settings)


def _is_fraction(number: Number) -> bool:
    """`7/3` without a percent sign is no percentage; `28`, `0.28` and `33 1/3` may be one."""
    return not number.is_percent and _FRACTION.match(number.form) is not None


def is_rounded_from(gold: Number, value: Fraction) -> bool:
    """Whether a decimal gold is `value`, rounded at its last place to four or more digits."""
    places, scaled = _at_last_place(gold)
    return scaled >= _ROUNDED_MIN and _rounds_to(gold, value, places, scaled)


def _is_short(gold: Number, value: Fraction) -> bool:
    """`1/12` for `0.0833`: two fractions with denominators up to 100 differ by more than a place of
    four, so the gold is the rounded value of one of them at most."""
    places, scaled = _at_last_place(gold)
    if places < _SHORT_PLACES_MIN or value.denominator > _SHORT_BELOW_MAX:
        return False
    return _rounds_to(gold, value, places, scaled)


def _at_last_place(gold: Number) -> tuple[int, Fraction]:
    """The decimal places of a gold, and its size in units of the last one; zeros if it has none."""
    places = 0
    scaled = abs(gold.value)
    while gold.is_decimal and scaled.denominator != 1 and places < _ROUNDED_PLACES_MAX:
        scaled *= 10
        places += 1
    return (places, scaled) if places and scaled.denominator == 1 else (0, Fraction(0))


def _rounds_to(gold: Number, value: Fraction, places: int, scaled: Fraction) -> bool:
    return 2 * abs(abs(value) * 10**places - scaled) <= 1 and (value > 0) == (gold.value > 0)


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
    """Whether two ratios of numbers are one."""
    left = [term.value for term in gold if isinstance(term, Number)]
    right = [term.value for term in answer if isinstance(term, Number)]
    if len(left) != len(right) or not any(left) or not any(right):
        return left == right
    at = next(index for index, value in enumerate(left) if value)
    return all(
        one * right[at] == other * left[at] for one, other in zip(left, right, strict=True)
    ) and (right[at] > 0) == (left[at] > 0)


def is_reduced_ratio(gold: Time) -> bool:
    """`5:11:12`, as ratios of three are given: no zero before a digit, and in lowest terms."""
    return len(gold.terms) > 2 and math.gcd(*gold.terms) == 1


def same_time(gold: Time, answer: Time) -> bool:
    if gold.half and answer.half:
        return gold.seconds == answer.seconds and gold.half == answer.half
    if gold.half or answer.half:
        stated, other = (gold, answer) if gold.half else (answer, gold)
        full = stated.seconds % _HALF_DAY_S + (_HALF_DAY_S if stated.half == "pm" else 0)
        return other.seconds in {stated.seconds, full}
    return gold.seconds == answer.seconds


def same_date(gold: Date, answer: Date) -> bool:
    """The same day; the year may be left out, a day of the week must be that of the date."""
    if (gold.month, gold.day) != (answer.month, answer.day):
        return False
    if 0 not in (gold.year, answer.year) and gold.year != answer.year:
        return False
    year = gold.year or answer.year
    said = {gold.weekday, answer.weekday} - {-1}
    return not year or said <= {date(year, gold.month, gold.day).weekday()}


def as_duration(time: Time) -> Number | None:
    """`1h30` as 90 minutes; `None` for a time of day with a colon."""
    if not time.is_duration:
        return None
    return Number(Fraction(time.seconds, 60), unit="min", is_compound=True)


_MONEY: Final = frozenset({"$", "€", "£", "¥", "₹"})
_SCALES: Final = {"k": 3, "K": 3, "M": 6, "B": 9}
_MONEY_SCALES: Final = _SCALES | {"m": 6, "mn": 6, "b": 9, "bn": 9, "T": 12, "t": 12, "tn": 12}
_MAGNITUDE: Final = re.compile(
    r"(?a)(?P<value>-?\d{1,18}(?:,\d{3}){0,6}(?:\.\d{1,18})?)(?P<apart>\s?)(?P<scale>[kKmMbBtT]n?)"
)
_IN_TEXT: Final = re.compile(
    r"(?a)(?P<value>-?(?:\u00a4)?-?\d{1,18}(?:,\d{3}){0,6}(?:\.\d{1,18})?)\{(?P<scale>[kKmMbBtT]n?)\}"
)


def magnified(said: Answer, other: Answer) -> Number | None:
    """`25k` as 25000, where the other side is a number of things or of money; otherwise the letter
    is a name. Small letters other than `k` need a sign of money."""
    if not isinstance(other, Number) or not (other.unit in _MONEY or not is_measured(other)):
        return None
    unit = ""
    match said:
        case Element(text=text, unit=unit) if unit in _MONEY or not unit:
            found = _MAGNITUDE.fullmatch(text.strip())
            if found is not None and found["apart"] and not unit:
                return None
        case Number(form=form):
            found = _IN_TEXT.fullmatch(form)
            unit = "$" if found is not None and "\u00a4" in found["value"] else ""
        case _:
            return None
    scales = _MONEY_SCALES if unit else _SCALES
    power = scales.get(found["scale"]) if found is not None else None
    if found is None or power is None:
        return None
    if not unit and isinstance(said, Number) and found["scale"] != "k":  # `300 \\text{ K}`
        return None
    value = Fraction(found["value"].replace(",", "").replace("\u00a4", ""))
    return Number(value * 10**power, unit=unit)


def is_measured(number: Number) -> bool:
    """Whether it has a unit of measure."""
    return bool(number.unit) and units.is_known_unit(number.unit)


def ratio_of(answer: Answer) -> Ratio | None:
    if isinstance(answer, Ratio):
        return answer
    if isinstance(answer, Time) and answer.terms:
        terms = tuple(Number(Fraction(term), form=str(term)) for term in answer.terms)
        return Ratio(terms=terms)
    return None


def conversion(answer: Answer, gold: Answer) -> str | None:
    """The factor from the answer's unit to the gold's, as LaTeX; `None` if there is none."""
    unit, other = getattr(answer, "unit", ""), getattr(gold, "unit", "")
    factor = measures.scaled(Fraction(1), unit, other) if unit and unit != other else None
    return None if factor is None else f"\\frac{{{factor.numerator}}}{{{factor.denominator}}}"


_CALLED_ALIKE: Final = (
    {"£", "lb"},
    {"c", "°c"},
    {"c", "cent"},
    {"f", "°f"},
    {"t", "tesla"},
    {"h", "henry"},
)
"""Pounds, degrees without their sign, and symbols in another case."""


_MARKS: Final = frozenset({"'", "''"})


def are_called_alike(unit: str, other: str) -> bool:
    """Whether one word or symbol stands for both."""
    return {unit, other} in _CALLED_ALIKE


def units_fit(gold: Answer, answer: Answer) -> bool:
    """A unit may be left out; two units of measure must be the same."""
    left, right = getattr(gold, "unit", ""), getattr(answer, "unit", "")
    if right in _MARKS and not left:
        return False  # `2'` says more than 2: minutes, feet, a derivative
    if not left or not right or left == right or are_called_alike(left, right):
        return True
    if getattr(gold, "is_spelled", False) or getattr(answer, "is_spelled", False):
        return left.rstrip("s") == right.rstrip("s")
    return not (units.is_known_unit(left) and units.is_known_unit(right))


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
