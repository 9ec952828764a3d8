r"""Values with marks that make them another one: locales, currencies, percentages, degrees, signs.

Each kind draws a gold, the ways to write it, and the ways to write something close to it.
"""

import random
from collections.abc import Callable
from typing import Final

from tests.fuzz.verdicts.case import Case, Expected
from tests.fuzz.verdicts.mathematics.spellings import Spellings

_PLACES: Final = (
    *("Answer: %s", "**Answer:** %s", "The answer is %s.", "<answer>%s</answer>", "#### %s"),
    *("<p>Answer: <b>%s</b></p>", "| Answer | %s |", "```\nAnswer: %s\n```", "Answer:\n%s"),
)
_BOXES: Final = ("\\boxed{%s}", "$\\boxed{%s}$")


def _thousands(rng: random.Random) -> Spellings:
    value = rng.randint(1001, 999_998)
    grouped, plain = f"{value:,}", str(value)
    marks = (" ", "\u202f", "\u00a0", "{,}", "'", "\u2019", "\\,", "_", ",")
    same = tuple(grouped.replace(",", mark) for mark in marks)
    return Spellings(plain, (*same, f"{plain}.0"), (grouped.replace(",", ", "), plain[:-1]))


def _money(rng: random.Random) -> Spellings:
    value = rng.randint(1001, 99_998)
    same = (f"${value:,}", f"\\${value}", f"{value} dollars", f"USD {value:,}", f"US${value}")
    other = (
        f"\u20ac{value}",
        f"{value} cents",
        f"-${value}",
        f"${value}k",
        f"\u00a3{value}",
        f"{value}%",
    )
    return Spellings(f"\\${value}", same, other)


def _percentage(rng: random.Random) -> Spellings:
    value = rng.randint(11, 97)
    same = (f"{value}%", f"{value} percent", f"{value} per cent", f"0.{value}", f"{value}\uff05")
    other = (f"{value + 1}%", f"0.{value}%", f"{value}\u2030", f"{value} km", f"{value}^\\circ")
    return Spellings(f"{value}\\%", same, other)


def _degrees(rng: random.Random) -> Spellings:
    value = rng.randint(5, 175)
    same = (f"{value}\u00b0", f"{value} degrees", f"{value}^{{\\circ}}", f"{value} deg", f"{value}")
    other = (f"{value}'", f"{value + 1}\u00b0", f"{value} radians", f"{value}%", f"-{value}\u00b0")
    return Spellings(f"{value}^\\circ", same, other)


def _signed(rng: random.Random) -> Spellings:
    value = rng.randint(1001, 99_999)
    signs = ("\u2212", "\u2013", "\ufe63", "\uff0d", "\u2010", "\u2011", "minus ", "negative ")
    other = (str(value), f"+{value}", f"\u2212{value}1")
    return Spellings(f"-{value}", tuple(f"{sign}{value}" for sign in signs), other)


def _either_sign(rng: random.Random) -> Spellings:
    value = rng.randint(2, 60)
    same = (
        f"\u00b1{value}",
        f"+{value}, -{value}",
        f"{value} or -{value}",
        f"plus or minus {value}",
    )
    other = (str(value), f"-{value}", f"\\pm {value + 1}", f"{value} \\pm 1")
    return Spellings(f"\\pm {value}", same, other)


def _interval(rng: random.Random) -> Spellings:
    low = rng.randint(-9, 5)
    high = low + rng.randint(1, 9)
    same = (f"[{low},{high})", f"[{low}; {high})", f"{low} \u2264 x < {high}", f"[{low}, {high}[")
    other = (f"({low}, {high})", f"[{low}, {high}]", f"{low} < x < {high}", f"]{low}, {high}[")
    return Spellings(f"[{low}, {high})", same, other)


def _congruence(rng: random.Random) -> Spellings:
    modulus = rng.randint(5, 30)
    value = rng.randint(1, modulus - 2)
    same = (
        f"{value} (mod {modulus})",
        f"x \u2261 {value} mod {modulus}",
        f"{value} \\text{{ (mod }} {modulus})",
    )
    other = (f"{value + 1} (mod {modulus})", f"x \u2261 {value} (mod {modulus + 1})", str(modulus))
    return Spellings(f"x \\equiv {value} \\pmod{{{modulus}}}", same, other)


def _mixed(rng: random.Random) -> Spellings:
    value = rng.randint(1, 9)
    same = (
        f"{value} 3/7",
        f"{7 * value + 3}/7",
        f"{value} \u00b3\u2044\u2087",
        f"{value}<sup>3</sup>/<sub>7</sub>",
    )
    other = (f"{value}3/7", f"{value} 3/8", str(value), f"{value} - 3/7")
    return Spellings(f"{value}\\frac{{3}}{{7}}", same, other)


def _named(rng: random.Random) -> Spellings:
    one, two = rng.sample(range(2, 99), 2)
    same = (
        f"x={one}, y={two}",
        f"x = {one} and y = {two}",
        f"x = {one}\\\\ y = {two}",
        f"({one}, {two})",
    )
    other = (f"x={two}, y={one}", f"x = {one}", f"x={one}, y={two + 1}", f"x = {one} or y = {two}")
    return Spellings(f"x = {one}, y = {two}", same, other)


def _boxes(rng: random.Random) -> Spellings:
    one, two = rng.sample(range(2, 99), 2)
    first, second = f"\\boxed{{{one}}}", f"\\boxed{{{two}}}"
    same = (
        *(f"{first} and {second}", f"{second}, {first}", f"- {first}\n- {second}"),
        *(
            f"1. {first}\n2. {second}",
            f"(a) {first}\n(b) {second}",
            f"**(a)** {first}\n\n**(b)** {second}",
        ),
    )
    return Spellings(
        f"{one}, {two}",
        same,
        (first, f"{first} and \\boxed{{{two + 1}}}", f"\\boxed{{{one}{two}}}"),
    )


_KINDS: Final[tuple[Callable[[random.Random], Spellings], ...]] = (
    *(_thousands, _money, _percentage, _degrees, _signed, _either_sign, _interval, _congruence),
    *(_mixed, _named, _boxes),
)


def amount_case(rng: random.Random) -> Case:
    """A drawn gold, and a response that says it or something close to it."""
    drawn = rng.choice(_KINDS)
    spelled, is_right = drawn(rng), rng.random() < 0.5
    said = rng.choice(spelled.same if is_right else spelled.other)
    is_text = "$" in said or not said.isascii() or "<" in said
    place = "%s" if drawn is _boxes else rng.choice(_PLACES if is_text else _PLACES + _BOXES)
    return Case(
        pipeline="math",
        kind=f"amount: {drawn.__name__.strip('_')}",
        response=place.replace("%s", said),
        reference={"answers": [spelled.gold]},
        expected=Expected.RIGHT if is_right else Expected.WRONG,
    )
