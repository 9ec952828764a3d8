"""Golds generated from the grammar of answers, by seed: for `golds.py` and for tests."""

import random
from collections.abc import Callable, Iterator

WORDS = ("Monday", "even", "no solution", "\\text{odd}", "isosceles", "yes", "\\text{Evelyn}")
UNITS = ("cm", "\\text{ m/s}", "\\text{ cm}^2", "kg", "hours", "dollars", "^\\circ", "apples")
LETTERS = "xyznkabt"


def integer(draw: random.Random) -> str:
    """An integer: signed, spaced, with separators."""
    value = draw.choice((draw.randint(0, 20), draw.randint(100, 999), draw.randint(1000, 10**7)))
    digits = draw.choice((str(value), f"{value:,}", f"{value:,}".replace(",", "{,}")))
    sign = draw.choice(("", "", "", "-", "- ", "\N{MINUS SIGN}")) if value else ""
    return sign + digits


def plain_integer(draw: random.Random) -> str:
    """An integer below a thousand, which needs no separator."""
    value = draw.randint(1, 999)
    return draw.choice(("", "", "-")) + str(value)


def decimal(draw: random.Random) -> str:
    """A decimal with a few digits."""
    return f"{draw.choice(('', '-'))}{draw.randint(0, 99)}.{draw.randint(1, 99):02d}"


def scientific(draw: random.Random) -> str:
    """`a \\times 10^{b}`."""
    return f"{draw.randint(1, 9)}.{draw.randint(1, 9)} \\times 10^{{{draw.randint(-20, 20)}}}"


def fraction(draw: random.Random) -> str:
    """A fraction: plain, LaTeX or mixed."""
    top, below = draw.randint(1, 40), draw.randint(2, 40)
    form = draw.choice(
        ("{}/{}", "\\frac{{{}}}{{{}}}", "\\dfrac{{{}}}{{{}}}", "-\\frac{{{}}}{{{}}}")
    )
    return form.format(top, below)


def expression(draw: random.Random) -> str:
    """An expression with a symbol, a root, or pi."""
    letter, a, b = draw.choice(LETTERS), draw.randint(2, 9), draw.randint(1, 9)
    form = draw.choice(
        (
            "{a}{x}+{b}",
            "{x}^{a} - {b}{x}",
            "{a}\\sqrt{{{b}}}+1",
            "\\frac{{{x}+{a}}}{{{b}}}",
            "{a}\\pi",
            "({x}+{a})({x}-{b})",
            "{a} {x} ^ {{ {b} }}",
            "\\sin({a}{x})",
            "e^{{{a}{x}}}",
            "\\frac{{{a}\\sqrt{{{b}}}}}{{{x}}}",
        )
    )
    return form.format(x=letter, a=a, b=b)


def element(draw: random.Random) -> str:
    return draw.choice((plain_integer, fraction, decimal, expression))(draw)


def several(draw: random.Random) -> str:
    parts = list(dict.fromkeys(element(draw) for _ in range(draw.randint(2, 4))))
    between = draw.choice((", ", "; ", " and ", " or ", ", "))
    return between.join(parts)


def bracketed(draw: random.Random) -> str:
    """A set, a tuple, an interval."""
    parts = ", ".join(dict.fromkeys(element(draw) for _ in range(draw.randint(2, 3))))
    opening, closing = draw.choice((("(", ")"), ("\\{", "\\}"), ("\\left(", "\\right)")))
    return opening + parts + closing


def interval(draw: random.Random) -> str:
    """An interval: open or closed, sometimes with a union."""
    low, high = sorted(draw.sample(range(-20, 20), 2))
    one = f"{draw.choice('([')}{low}, {high}{draw.choice(')]')}"
    return draw.choice(
        (one, f"{one} \\cup [{high + 3}, \\infty)", f"(-\\infty, {low - 2}) \\cup {one}")
    )


def points(draw: random.Random) -> str:
    """A list of points."""
    return ", ".join(f"({draw.randint(-9, 9)}, {draw.randint(-9, 9)})" for _ in range(2))


def named(draw: random.Random) -> str:
    """Assignments and equations."""
    letter = draw.choice(LETTERS)
    return draw.choice(
        (
            f"{letter} = {element(draw)}",
            f"{letter}={draw.randint(1, 9)}, w={draw.randint(10, 20)}",
            f"{letter} = {draw.randint(1, 9)} or {letter} = -{draw.randint(1, 9)}",
            f"y = {draw.randint(2, 9)}x + {draw.randint(1, 9)}",
            f"(p, q) = ({draw.randint(1, 9)}, {draw.randint(1, 9)})",
        )
    )


def relation(draw: random.Random) -> str:
    sign = draw.choice(("<", ">", "\\le", "\\geq", "\\leq"))
    return f"{draw.choice(LETTERS)} {sign} {draw.randint(-9, 9)}"


def others(draw: random.Random) -> str:
    """Ratios, times, units, percentages, bases, words, dates, matrices."""
    return draw.choice(
        (
            f"{draw.randint(1, 20)}:{draw.randint(1, 20)}",
            f"{draw.randint(1, 12)}:{draw.randint(0, 59):02d}",
            f"{draw.randint(1, 12)}:{draw.randint(0, 59):02d} {draw.choice(('am', 'pm'))}",
            f"{draw.randint(1, 99)} {draw.choice(UNITS)}",
            f"\\${draw.randint(1, 99)}.{draw.randint(0, 99):02d}",
            f"{draw.randint(1, 99)}\\%",
            f"1{draw.choice('01')}{draw.choice('01')}{draw.choice('01')}_2",
            f"{draw.choice(('March', 'July'))} {draw.randint(1, 28)}, 20{draw.randint(10, 30)}",
            "\\begin{{pmatrix}} {} & {} \\\\ {} & 1 \\end{{pmatrix}}".format(
                *(draw.randint(-9, 9) for _ in range(3))
            ),
            f"{draw.randint(1, 9)} \\pm \\sqrt{{{draw.randint(2, 19)}}}",
            draw.choice(WORDS),
        )
    )


FORMS: tuple[Callable[[random.Random], str], ...] = (
    integer,
    decimal,
    scientific,
    fraction,
    expression,
    several,
    bracketed,
    interval,
    points,
    named,
    relation,
    others,
    others,
)


def golds(draw: random.Random, count: int) -> Iterator[str]:
    """Generate this many golds, in every form of the grammar."""
    for at in range(count):
        yield FORMS[at % len(FORMS)](draw)
