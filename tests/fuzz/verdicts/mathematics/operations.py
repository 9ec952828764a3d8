r"""Answers that leave an operation to do: `\int_0^2 x^2 dx` for `8/3`, `\sum_{k=1}^{4} k` for 10.

What each is worth follows from its numbers, exactly. The computer algebra works them out with parts
of itself that no plain number needs, so that a verifier without these parts refuses them.
"""

import math
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Final

from tests.fuzz.verdicts.case import Case, Expected

Drawn = tuple[str, Fraction]
"""An operation, and what it is worth."""


def _integral(rng: random.Random) -> Drawn:
    low, high, power = rng.randint(0, 2), rng.randint(3, 5), rng.randint(1, 4)
    factor = rng.randint(1, 9)
    value = Fraction(factor * (high ** (power + 1) - low ** (power + 1)), power + 1)
    term = f"{factor if factor > 1 else ''}x^{power}"
    space = rng.choice((" ", " \\, ", "\\,"))
    return f"\\int_{{{low}}}^{{{high}}} {term}{space}dx", value


def _sum(rng: random.Random) -> Drawn:
    first, last, power = rng.randint(0, 3), rng.randint(4, 12), rng.randint(1, 3)
    name = rng.choice("ki")
    value = sum(number**power for number in range(first, last + 1))
    shown = name if power == 1 else f"{name}^{power}"
    return f"\\sum_{{{name}={first}}}^{{{last}}} {shown}", Fraction(value)


def _geometric(rng: random.Random) -> Drawn:
    base, last = rng.randint(2, 5), rng.randint(2, 6)
    value = sum(Fraction(1, base**k) for k in range(last + 1))
    return f"\\sum_{{k=0}}^{{{last}}} \\frac{{1}}{{{base}^k}}", Fraction(value)


def _product(rng: random.Random) -> Drawn:
    first = rng.randint(1, 3)
    last = rng.randint(first + 1, 7)
    value = math.prod(range(first, last + 1))
    return f"\\prod_{{k={first}}}^{{{last}}} k", Fraction(value)


def _limit(rng: random.Random) -> Drawn:
    at = rng.randint(2, 12)
    return f"\\lim_{{x \\to {at}}} \\frac{{x^2 - {at * at}}}{{x - {at}}}", Fraction(2 * at)


def _far_limit(rng: random.Random) -> Drawn:
    above, below, added = rng.randint(1, 20), rng.randint(1, 9), rng.randint(1, 9)
    text = f"\\lim_{{x \\to \\infty}} \\frac{{{above}x + {added}}}{{{below}x - {added}}}"
    return text, Fraction(above, below)


def _determinant(rng: random.Random) -> Drawn:
    a, b, c, d = (rng.randint(1, 9) for _ in range(4))
    return f"\\begin{{vmatrix}} {a} & {b} \\\\ {c} & {d} \\end{{vmatrix}}", Fraction(a * d - b * c)


def _extreme(rng: random.Random) -> Drawn:
    values = rng.sample(range(-20, 60), rng.randint(2, 4))
    name, best = rng.choice((("max", max), ("min", min)))
    return f"\\{name}({', '.join(map(str, values))})", Fraction(best(values))


def _rounded(rng: random.Random) -> Drawn:
    tenths = rng.choice((rng.randint(1, 9), rng.randint(11, 99)))
    whole = rng.randint(2, 60)
    digits = str(tenths)
    name, added = rng.choice((("floor", 0), ("ceil", 1)))
    return f"\\l{name} {whole}.{digits} \\r{name}", Fraction(whole + added)


def _logarithm(rng: random.Random) -> Drawn:
    base, power = rng.randint(2, 7), rng.randint(2, 5)
    return f"\\log_{{{base}}} {base**power}", Fraction(power)


def _root(rng: random.Random) -> Drawn:
    value, power = rng.randint(2, 9), rng.randint(3, 5)
    return f"\\sqrt[{power}]{{{value**power}}}", Fraction(value)


def _binomial(rng: random.Random) -> Drawn:
    n = rng.randint(4, 14)
    k = rng.randint(2, n - 2)
    return f"\\binom{{{n}}}{{{k}}}", Fraction(math.comb(n, k))


def _factorials(rng: random.Random) -> Drawn:
    n = rng.randint(4, 9)
    k = rng.randint(2, n - 1)
    value = Fraction(math.factorial(n), math.factorial(k))
    return f"\\frac{{{n}!}}{{{k}!}}", value


def _size(rng: random.Random) -> Drawn:
    a, b, c = rng.choice(((3, 4, 5), (5, 12, 13), (8, 15, 17), (7, 24, 25)))
    return rng.choice((f"|{a} + {b}i|", f"\\left|{a} - {b}i\\right|", f"|-{c}|")), Fraction(c)


_OPERATIONS: Final[tuple[Callable[[random.Random], Drawn], ...]] = (
    _integral,
    _integral,
    _sum,
    _geometric,
    _product,
    _limit,
    _far_limit,
    _determinant,
    _extreme,
    _rounded,
    _logarithm,
    _root,
    _binomial,
    _factorials,
    _size,
)
_CARRIERS: Final = (
    "\\boxed{{{0}}}",
    "So we have\n\\[ \\boxed{{{0}}} \\]",
    "<answer>{0}</answer>",
    "The answer is ${0}$.",
)


def operation_case(rng: random.Random) -> Case:
    """A gold that is the value of the operation, or of another one."""
    draw = rng.choice(_OPERATIONS)
    text, value = draw(rng)
    right = rng.random() < 0.6
    gold = value
    while not right and gold == value:
        gold = rng.choice((value + rng.choice((1, -1, Fraction(1, 2))), -value, value * 2))
    return Case(
        pipeline="math",
        kind=f"operation: {draw.__name__.removeprefix('_')}",
        response=rng.choice(_CARRIERS).format(text),
        reference={"answers": [_written(rng, gold)]},
        expected=Expected.RIGHT if right else Expected.WRONG,
    )


def _written(rng: random.Random, value: Fraction) -> str:
    if value.denominator == 1:
        return str(value.numerator)
    sign, n, d = "-" if value < 0 else "", abs(value.numerator), value.denominator
    return sign + rng.choice((f"{n}/{d}", f"\\frac{{{n}}}{{{d}}}", f"\\dfrac{{{n}}}{{{d}}}"))
