"""Numbers and places in words, generated: with what they count, with units, and as ordinals."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.verifiers.math.definition import MathSettings
from assay.verifiers.math.lexicon import spelled
from assay.verifiers.math.verify import judge

ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
IRREGULAR = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth",
    "nine": "ninth", "twelve": "twelfth",
}  # fmt: skip
UNITS = {"hours": "h", "minutes": "min", "meters": "m", "kilograms": "kg", "dollars": "$"}
SETTINGS = MathSettings()
EQUAL = {
    "2.5 hours": ("two and a half hours", "two hours thirty minutes", "two hours and 30 minutes"),
    "1.5 hours": ("an hour and a half", "one and a half hours", "ninety minutes"),
    "1/2 hour": ("half an hour", "30 minutes", "one half hour"),
    "three apples": ("3", "3 apples", "Three Apples", "three"),
    "4th": ("fourth", r"4^{\text{th}}", r"4\text{th}", "4", "the fourth"),
    "fourth": ("4th", "the fourth", "Fourth"),
    "second quadrant": ("2nd quadrant", "Quadrant II", "the second quadrant"),
    "112th": ("one hundred and twelfth", "one hundred twelfth"),
    "2/3": ("two thirds", "two-thirds"),
    "1 second": ("one second", "1 s"),
    "first and third": ("1st and 3rd",),
    "June 4th": ("June 4",),
    "2.5": ("two and a half", "2 and a half"),
}
OTHERS = {
    "two hours": ("two minutes", "three hours", "two hours and a half"),
    "two triangles": ("two circles", "2 circles", "three triangles"),
    "second quadrant": ("first quadrant", "Quadrant III", "2"),
    "second derivative": ("second integral", "2", "first derivative"),
    r"\frac14": ("fourth", "4th"),
    "third": ("1/3", "one third", "3 cm"),
    "23rd": ("20/3", "22nd"),
    "two cats and three dogs": ("two", "2", "three cats and two dogs"),
    "1 second": ("first second", "two seconds"),
    "one way": ("two way",),
    "4th of July": ("4th",),
}


def _passes(gold: str, answer: str) -> bool:
    return judge((gold,), answer, SETTINGS).passed is True


def _words(value: int) -> str:
    if value < 20:
        return ONES[value]
    if value < 100:
        return TENS[value // 10 - 2] + (f"-{ONES[value % 10]}" if value % 10 else "")
    rest = f" and {_words(value % 100)}" if value % 100 else ""
    return f"{ONES[value // 100]} hundred{rest}"


def _ordinal(value: int) -> str:
    said = _words(value)
    at = max(said.rfind(" "), said.rfind("-")) + 1
    last = said[at:]
    regular = f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th"
    return said[:at] + IRREGULAR.get(last, regular)


def _ending(value: int) -> str:
    if value % 100 in (11, 12, 13):
        return f"{value}th"
    return f"{value}" + {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")


@pytest.mark.parametrize(("gold", "said"), [(g, a) for g, all_ in EQUAL.items() for a in all_])
def test_the_same_in_words_passes(gold: str, said: str) -> None:
    assert _passes(gold, said)


@pytest.mark.parametrize(("gold", "said"), [(g, a) for g, all_ in OTHERS.items() for a in all_])
def test_other_words_do_not_pass(gold: str, said: str) -> None:
    assert not _passes(gold, said)


@given(
    st.integers(2, 999),
    st.integers(-1, 1),
    st.sampled_from(sorted(UNITS)),
    st.sampled_from(["{}", "\\text{{{}}}"]),
)
def test_a_quantity_in_words(value: int, off: int, unit: str, form: str) -> None:
    said = form.format(f"{_words(value + off)} {unit}")
    assert _passes(f"{value} {unit}", said) == (off == 0)
    assert _passes(said, f"{value} {unit}") == (off == 0)
    other = next(one for one in sorted(UNITS) if one != unit)
    assert not _passes(f"{value} {unit}", f"{_words(value)} {other}")


@given(st.integers(1, 999), st.integers(-1, 1), st.sampled_from(["", " quadrant", " row"]))
def test_a_place_in_words(value: int, off: int, noun: str) -> None:
    place = _ending(max(1, value + off)) + noun
    is_same = max(1, value + off) == value
    if noun and " " in _ordinal(value):
        return  # `one hundred and fifth row` is read as text
    assert _passes(_ordinal(value) + noun, place) == is_same
    assert _passes(place, _ordinal(value) + noun) == is_same
    assert not _passes(place, f"1/{value + 1}")


@pytest.mark.parametrize("sign", ["minus", "negative"])
def test_a_number_in_words_has_its_sign(sign: str) -> None:
    assert spelled.number(f"{sign} two thirds") == Fraction(-2, 3)
    assert spelled.number("two thirds") == Fraction(2, 3)
