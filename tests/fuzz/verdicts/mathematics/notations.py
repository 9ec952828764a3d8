r"""Values drawn at random, in the notations of many countries and tools, and values that differ.

`spellings` has fixed golds; here gold, right and wrong follow from drawn values, so no list of known
texts can pass. A spelling is written from the value, never from another spelling.
"""

import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

from tests.fuzz.verdicts.case import Case, Expected
from tests.fuzz.verdicts.mathematics.spellings import Spellings

Notation = Callable[[random.Random], Spellings]

_RAISED: Final = str.maketrans(
    "0123456789-", "\u2070\xb9\xb2\xb3\u2074\u2075\u2076\u2077\u2078\u2079\u207b"
)
_LOWERED: Final = str.maketrans(
    "0123456789", "\u2080\u2081\u2082\u2083\u2084\u2085\u2086\u2087\u2088\u2089"
)
_WIDE: Final = str.maketrans(
    "0123456789-+", "\uff10\uff11\uff12\uff13\uff14\uff15\uff16\uff17\uff18\uff19\uff0d\uff0b"
)
_ARABIC: Final = str.maketrans(
    "0123456789", "\u0660\u0661\u0662\u0663\u0664\u0665\u0666\u0667\u0668\u0669"
)
_MONTHS: Final = ("January", "March", "April", "July", "October", "December")


def large_integer(rng: random.Random) -> Spellings:
    """Separators of several countries."""
    value = rng.randint(1_000_000, 99_999_999)
    minus = rng.choice(("", "-"))
    by_comma = f"{value:,}"
    same = [str(value), by_comma, *(by_comma.replace(",", mark) for mark in _SEPARATORS)]
    same += [
        str(value).translate(_WIDE),
        str(value).translate(_ARABIC),
        f"{value}.0",
        f"{value:,}.00",
    ]
    digits = str(value)
    wrong = [
        str(value + 1),
        digits[:-1],
        digits + "0",
        digits[::-1] + "1",
        by_comma.replace(",", ", "),
    ]
    other = [minus + one for one in wrong] + [("" if minus else "-") + digits, f"{minus}{value}, 5"]
    return Spellings(minus + digits, tuple(minus + one for one in same), tuple(other))


_SEPARATORS: Final = (
    " ",
    ".",
    "{,}",
    "\\,",
    "\\ ",
    "~",
    "'",
    "\u2019",
    "\u202f",
    "\xa0",
    "\u2009",
    "_",
    "\\!\\,",
    "\\thinspace ",
)


def signed(rng: random.Random) -> Spellings:
    """Signs of every kind."""
    value = rng.randint(2, 999)
    minuses = (
        "-",
        "\u2212",
        "\u2013",
        "- ",
        "\u2212 ",
        "\uff0d",
        "\\minus ",
        "negative ",
        "minus ",
    )
    same = [f"{mark}{value}" for mark in minuses]
    same += [
        f"-{value}.0",
        f"(-{value})",
        f"{{-{value}}}",
        f"\\left(-{value}\\right)",
        f"-\\text{{{value}}}",
    ]
    same += [
        f"-\\mathbf{{{value}}}",
        f"-{{{value}}}",
        f"\\mathbf{{-{value}}}",
        f"-({value})",
        f"$-${value}",
    ]
    other = (
        str(value),
        f"+{value}",
        f"-{value + 1}",
        f"--{value}",
        f"-{value}0",
        f"-(-{value})",
        f"-{value}, {value}",
    )
    return Spellings(f"-{value}", tuple(same), other)


def fraction(rng: random.Random) -> Spellings:
    below = rng.choice((3, 7, 9, 11, 13, 17))
    value = Fraction(rng.randint(1, 60), below)
    while value.denominator == 1:
        value += Fraction(1, below)
    n, d = value.numerator, value.denominator
    k = rng.randint(2, 9)
    minus = rng.choice(("", "-"))
    same = [
        f"{n}/{d}",
        f"{n} / {d}",
        f"\\frac{{{n}}}{{{d}}}",
        f"\\dfrac{{{n}}}{{{d}}}",
        f"\\tfrac{{{n}}}{{{d}}}",
        f"\\cfrac{{{n}}}{{{d}}}",
        f"\\frac {{{n}}} {{{d}}}",
        f"\\frac{{{n * k}}}{{{d * k}}}",
        f"{n}\u2044{d}",
        f"\\displaystyle\\frac{{{n}}}{{{d}}}",
        f"{{{n} \\over {d}}}",
        f"{n} \\div {d}",
        f"{n}\u00f7{d}",
        f"\\left(\\frac{{{n}}}{{{d}}}\\right)",
        f"{n}:{d}",
        f"\\frac{{{n}.0}}{{{d}}}",
        f"{float(value):.12f}",
        f"\\frac{{\\text{{{n}}}}}{{\\text{{{d}}}}}",
        f"\\nicefrac{{{n}}}{{{d}}}",
        f"\\sfrac{{{n}}}{{{d}}}",
        f"{str(n).translate(_RAISED)}\u2044{str(d).translate(_LOWERED)}",
        f"({n})/({d})",
    ]
    other = [
        f"{d}/{n}",
        f"{n + 1}/{d}",
        f"{n}/{d + 1}",
        f"{n}",
        f"{n}, {d}",
        f"{n}{d}",
        f"{n} {d}",
        f"{n}.{d}",
    ]
    flipped = "" if minus else "-"
    same = [one for one in same if not minus or not one.startswith("{")]
    wrong = [minus + one for one in other] + [f"{flipped}{n}/{d}", f"\\frac{{{flipped}{n}}}{{{d}}}"]
    right = [minus + one for one in same] + [f"\\frac{{{minus}{n}}}{{{d}}}"]
    return Spellings(f"{minus}\\frac{{{n}}}{{{d}}}", tuple(right), tuple(wrong))


def mixed(rng: random.Random) -> Spellings:
    whole, below = rng.randint(2, 30), rng.choice((5, 7, 8, 9))
    top = rng.choice([t for t in range(1, below) if Fraction(t, below).denominator == below])
    value = whole + Fraction(top, below)
    n, d = value.numerator, value.denominator
    same = (
        f"{whole} {top}/{below}",
        f"{whole}\\frac{{{top}}}{{{below}}}",
        f"{whole}\\dfrac{{{top}}}{{{below}}}",
        f"{whole}\\,\\frac{{{top}}}{{{below}}}",
        f"{whole}\\ \\frac{{{top}}}{{{below}}}",
        f"{n}/{d}",
        f"{whole}+\\frac{{{top}}}{{{below}}}",
        f"{whole} + {top}/{below}",
        f"\\frac{{{n}}}{{{d}}}",
        f"{whole}~\\frac{{{top}}}{{{below}}}",
        f"{whole} {top}\u2044{below}",
        f"{whole} and {top}/{below}",
        f"{whole}{{\\frac{{{top}}}{{{below}}}}}",
        f"{whole}\\tfrac{top}{below}",
        f"{whole} \\frac{{{top}}}{{{below}}}",
        f"{float(value):.10f}",
    )
    other = (
        f"{whole}",
        f"{top}/{below}",
        f"-{whole} {top}/{below}",
        f"{whole + 1} {top}/{below}",
        f"{whole}{top}/{below}",
        f"{whole}, {top}/{below}",
        f"{whole} {below}/{top}",
        f"{whole} \\cdot \\frac{{{top}}}{{{below}}}",
    )
    return Spellings(f"{whole}\\frac{{{top}}}{{{below}}}", same, other)


def decimal(rng: random.Random) -> Spellings:
    """Decimals, with point and comma."""
    whole, part = rng.randint(0, 999), rng.randint(1, 99) * 10 + rng.randint(1, 9)
    text = f"{whole}.{part:03d}"
    value = Fraction(text)
    same = (
        text,
        f"{text}0",
        f"{whole}{{.}}{part:03d}",
        f"\\mathrm{{{text}}}",
        f"{value.numerator}/{value.denominator}",
        text.translate(_WIDE),
        f"+{text}",
        f"{text}\\quad",
        f"\\num{{{text}}}",
        f"\\approx {text}",
        f"{value * 1000}\\times 10^{{-3}}",
        f"{value * 1000}e-3",
        f"\u2248 {text}",
    )
    other = (
        f"-{text}",
        f"{whole + 1}.{part:03d}",
        f"{whole}.{part + 7:03d}",
        f"{whole}",
        f"{whole}{part:03d}",
        f"{part}",
    )
    return Spellings(text, same, other)


def scientific(rng: random.Random) -> Spellings:
    """Powers of ten in every notation."""
    digits, power = rng.randint(11, 99), rng.choice((*range(-12, -3), *range(5, 15)))
    if digits % 10 == 0:
        digits += 1
    m = f"{digits // 10}.{digits % 10}"
    raised = str(power).translate(_RAISED)
    same = (
        f"{m}e{power}",
        f"{m}E{power}",
        f"{m}E{power:+03d}",
        f"{m} \\times 10^{{{power}}}",
        f"{m}\\cdot 10^{{{power}}}",
        f"{m} \u00d7 10{raised}",
        f"{m}*10^{power}" if power > 0 else f"{m}*10^({power})",
        f"{m} x 10^{{{power}}}",
        f"{digits}\\times 10^{{{power - 1}}}",
        f"{m} \\times {{10}}^{{{power}}}",
        f"{m}\\,\\times\\,10^{{{power}}}",
        f"{m} \\ast 10^{{{power}}}",
        f"{m}\u00b710{raised}",
        f"10^{{{power}}} \\times {m}",
        f"{m}*10**{power}" if power > 0 else f"{m}*10**({power})",
        f"\\num{{{m}e{power}}}",
    )
    other = (
        f"{m} \\times 10^{{{power + 1}}}",
        f"{m} \\times 10^{{{-power}}}",
        m,
        f"-{m} \\times 10^{{{power}}}",
        f"{m}0 \\times 10^{{{power - 1}}}",
        f"{digits} \\times 10^{{{power}}}",
        f"10^{{{power}}}",
        f"{m}^{{{power}}}",
    )
    return Spellings(f"{m} \\times 10^{{{power}}}", same, other)


def percentage(rng: random.Random) -> Spellings:
    value = rng.randint(11, 98)
    if value % 10 == 0:
        value += 3
    same = (
        f"{value}%",
        f"{value}\\%",
        f"{value} \\%",
        f"{value}\\,\\%",
        f"{value} percent",
        f"{value}\\text{{ percent}}",
        f"{value} per cent",
        f"\\text{{{value}\\%}}",
        f"{value}\uff05",
        f"{value}.0\\%",
        f"0.{value}",
        f"{value}/100",
        f"\\frac{{{value}}}{{100}}",
        f"{value}$\\%$",
        f"{value}~\\%",
        f"\\approx {value}\\%",
        f"{value}{{\\%}}",
    )
    other = (
        f"{value + 1}\\%",
        f"-{value}\\%",
        f"0.{value}\\%",
        f"{value}0\\%",
        f"{value // 10}\\%",
        f"0.0{value}",
        f"{value}\\%, {value + 1}\\%",
        f"{100 - value}\\%" if value != 50 else "7\\%",
    )
    return Spellings(f"{value}\\%", same, other)


_UNITS: Final = (
    (
        "cm",
        ("cm", "centimeters", "centimetres", "\\text{cm}", "\\mathrm{cm}", "\\text{ centimeters}"),
        ("m", "kg", "cm^2"),
    ),
    ("kg", ("kg", "kilograms", "\\mathrm{kg}", "\\text{ kg}"), ("g", "m", "lb")),
    (
        "m/s",
        (
            "m/s",
            "\\text{m/s}",
            "\\mathrm{m/s}",
            "meters per second",
            "\\text{ m/s}",
            "\\frac{\\text{m}}{\\text{s}}",
        ),
        ("km/h", "m", "s"),
    ),
    (
        "cm^2",
        (
            "cm^2",
            "\\text{cm}^2",
            "\\text{ cm}^{2}",
            "square centimeters",
            "\\mathrm{cm^2}",
            "cm\u00b2",
            "sq. cm",
        ),
        ("cm", "cm^3", "m^2"),
    ),
    ("hours", ("hours", "\\text{ h}", "hrs", "\\text{ hours}", "hour"), ("minutes", "days")),
    (
        "°",
        ("^\\circ", "^{\\circ}", "\u00b0", " degrees", "\\degree", "\\text{ degrees}"),
        (" rad", " cm"),
    ),
    ("dollars", ("dollars", "USD", "\\text{ dollars}"), ("cents", "euros")),
)


def quantity(rng: random.Random) -> Spellings:
    """A number with a unit."""
    value = rng.randint(2, 980)
    _, names, wrong = rng.choice(_UNITS)

    def said(name: str) -> str:
        glue = (
            ""
            if name.startswith(("^", "\u00b0", "\\degree", " ", "\\text{ "))
            else rng.choice((" ", "\\,", "~", "\\ "))
        )
        return f"{value}{glue}{name}"

    same = [said(name) for name in names] + [
        str(value),
        f"{value}.0",
        f"= {value}",
        f"\\approx {said(names[0])}",
    ]
    other = [said(name) for name in wrong]
    other += [
        said(names[0]).replace(str(value), str(value + 1), 1),
        f"-{said(names[0])}",
        f"{value}, {value + 2}",
    ]
    return Spellings(said(names[0]), tuple(same), tuple(other))


def money(rng: random.Random) -> Spellings:
    """Amounts of money."""
    whole, cents = rng.randint(2, 9_999), rng.randint(11, 98)
    if cents % 10 == 0:
        cents += 5
    text = f"{whole}.{cents}"
    same = (
        f"\\${text}",
        f"${text}",
        f"{text} dollars",
        f"\\$ {text}",
        f"\\${whole:,}.{cents}",
        f"USD {text}",
        f"{text}\\$",
        f"US\\${text}",
        f"\\text{{\\$}}{text}",
        f"{text} USD",
        f"\\$\\,{text}",
        text,
        f"{{\\$}}{text}",
    )
    other = (
        f"\\${whole}",
        f"\\${whole + 1}.{cents}",
        f"-\\${text}",
        f"\u20ac{text}",
        f"\\${whole}{cents}",
        f"\\${whole}.{cents + 1}",
    )
    return Spellings(f"\\${text}", same, other)


def time(rng: random.Random) -> Spellings:
    """Times of day."""
    hour, minute, half = rng.randint(1, 11), rng.randint(10, 59), rng.choice(("am", "pm"))
    text = f"{hour}:{minute}"
    dotted = f"{half[0]}.m."
    same = (
        f"{text} {half}",
        f"{text}{half}",
        f"{text} {half.upper()}",
        f"{text} {dotted}",
        f"{text}\\text{{ {half}}}",
        f"0{text} {half}" if hour < 10 else f"{text} {half}",
        f"{hour + 12 * (half == 'pm')}:{minute}",
        f"{text}\\,\\text{{{half.upper()}}}",
        f"{text}:00 {half}",
        f"{hour}.{minute} {half}",
        f"{text}\\ \\mathrm{{{half}}}",
        text,
        f"\\text{{{text} {half}}}",
    )
    wrong_half = "am" if half == "pm" else "pm"
    other = (
        f"{text} {wrong_half}",
        f"{hour % 12 + 1}:{minute} {half}",
        f"{hour}:{(minute + 3) % 49 + 10} {half}",
        str(hour),
        f"{minute}",
        f"{hour + 12 * (half == 'am')}:{minute}",
    )
    return Spellings(f"{text} {half}", same, tuple(one for one in other if one != text))


def date(rng: random.Random) -> Spellings:
    at, day, year = rng.randrange(len(_MONTHS)), rng.randint(13, 28), rng.randint(1900, 2099)
    month, number = _MONTHS[at], (1, 3, 4, 7, 10, 12)[at]
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th") if day not in (11, 12, 13) else "th"
    same = (
        f"{month} {day}, {year}",
        f"{day} {month} {year}",
        f"{month} {day}{suffix}, {year}",
        f"{day}{suffix} {month} {year}",
        f"{month[:3]} {day}, {year}",
        f"{month[:3]}. {day}, {year}",
        f"the {day}{suffix} of {month}, {year}",
        f"{year}-{number:02d}-{day:02d}",
        f"\\text{{{month} {day}, {year}}}",
        f"{month} {day} {year}",
        f"\\text{{{month} }}{day}, {year}",
        f"{year}/{number:02d}/{day:02d}",
        f"{month.upper()} {day}, {year}",
        f"{month}~{day},~{year}",
        f"{day} {month}, {year}",
    )
    other = (
        f"{month} {day + 1}, {year}",
        f"{month} {day}, {year + 1}",
        f"{_MONTHS[at - 1]} {day}, {year}",
        str(day),
        str(year),
        f"{day}",
    )
    return Spellings(f"{month} {day}, {year}", same, other)


def ratio(rng: random.Random) -> Spellings:
    """Ratios of two and of three terms; none of two terms can be read as a time of day."""
    terms = rng.choice(((3, 4), (2, 7), (5, 9), (7, 9), (2, 3, 7), (1, 4, 9), (5, 3, 2)))
    k = rng.randint(2, 7)
    same = [
        mark.join(map(str, terms))
        for mark in (":", " : ", "\\colon ", "{:}", "\u2236", " to ", "\\mathbin{:}")
    ]
    same += [
        ":".join(str(k * term) for term in terms),
        f"\\text{{{':'.join(map(str, terms))}}}",
        f"${terms[0]}$:" + ":".join(f"${t}$" for t in terms[1:]),
    ]
    other = [
        ":".join(map(str, terms[::-1])),
        ":".join(map(str, (terms[0] + 1, *terms[1:]))),
        str(terms[0]),
        ", ".join(map(str, terms)),
    ]
    other += ["-" + ":".join(map(str, terms)), ":".join(map(str, (*terms, 1)))]
    if len(terms) == 2:
        same += [f"{terms[0]}/{terms[1]}", f"\\frac{{{terms[0]}}}{{{terms[1]}}}"]
    return Spellings(":".join(map(str, terms)), tuple(same), tuple(other))


def interval(rng: random.Random) -> Spellings:
    """Intervals, and the inequality that says the same."""
    low = rng.randint(-30, 30)
    high = low + rng.randint(1, 40)
    left, right = rng.choice(("(", "[")), rng.choice((")", "]"))
    below, above = ("<" if left == "(" else "\\le"), ("<" if right == ")" else "\\leq")
    same = (
        f"{left}{low},{high}{right}",
        f"{left}{low}, {high}{right}",
        f"{left} {low} , {high} {right}",
        f"\\left{left}{low},{high}\\right{right}",
        f"x \\in {left}{low}, {high}{right}",
        f"x\\in\\left{left}{low},\\,{high}\\right{right}",
        f"\\big{left}{low},{high}\\big{right}",
        f"{left}{low}.0, {high}{right}",
        f"{left}{low}; {high}{right}",
        f"\\text{{{left}{low}, {high}{right}}}",
        f"\\mathopen{left}{low},{high}\\mathclose{right}",
    )
    swapped = ("[" if left == "(" else "(", ")" if right == "]" else "]")
    other = (
        f"{swapped[0]}{low}, {high}{right}",
        f"{left}{low}, {high}{swapped[1]}",
        f"{left}{low}, {high + 1}{right}",
        f"{left}{low - 1}, {high}{right}",
        f"{left}{high}, {low}{right}",
        str(low),
        str(high),
        f"x {below} {high}",
        f"x {above} {low}",
    )
    as_set = f"\\{{{low}, {high}\\}}"
    differs = () if left + right == "()" else (as_set,)  # `(a, b)` may be a point
    return Spellings(f"{left}{low}, {high}{right}", same, (*other, *differs))


def union(rng: random.Random) -> Spellings:
    """Unions of rays."""
    low = rng.randint(-20, 10)
    high = low + rng.randint(2, 20)
    same = (
        f"(-\\infty,{low})\\cup({high},\\infty)",
        f"(-\u221e, {low}) \u222a ({high}, \u221e)",
        f"({high},+\\infty)\\cup(-\\infty,{low})",
        f"x\\in(-\\infty,{low})\\cup({high},\\infty)",
        f"x < {low} or x > {high}",
        f"x<{low}\\text{{ or }}x>{high}",
        f"\\left(-\\infty,{low}\\right)\\cup\\left({high},\\infty\\right)",
        f"(-\\infty,{low}) \\bigcup ({high},\\infty)",
        f"x > {high} \\text{{ or }} x < {low}",
        f"x < {low} \\lor x > {high}",
        f"x<{low}, x>{high}",
    )
    other = (
        f"(-\\infty,{low}]\\cup({high},\\infty)",
        f"(-\\infty,{low})",
        f"({high},\\infty)",
        f"(-\\infty,{high})\\cup({low},\\infty)",
        f"({low},{high})",
        f"x > {low} or x > {high}",
        f"x < {low}",
        f"(-\\infty,{low})\\cap({high},\\infty)",
        f"{low}, {high}",
    )
    return Spellings(f"(-\\infty, {low}) \\cup ({high}, \\infty)", same, other)


def integers(rng: random.Random) -> Spellings:
    values = rng.sample(range(-40, 99), rng.randint(2, 4))
    shuffled = values[1:] + values[:1]
    words = list(map(str, values))
    last = f"{', '.join(words[:-1])} and {words[-1]}"
    same = (
        ", ".join(words),
        ",".join(words)
        if all(abs(v) < 100 for v in values) and len(values) > 2
        else ", ".join(words),
        "; ".join(words),
        last,
        ", ".join(map(str, shuffled)),
        f"\\{{{', '.join(words)}\\}}",
        f"x = {', '.join(words)}",
        f"x \\in \\{{{', '.join(words)}\\}}",
        ", ".join(f"x = {w}" for w in words),
        ", ".join(f"x_{i} = {w}" for i, w in enumerate(words, 1)),
        " \\text{ and } ".join(words),
        ", ".join(f"${w}$" for w in words),
        ",\\ ".join(words),
        ",\\quad ".join(words),
        " or ".join(words),
        last.replace(" and", ", and"),
        " \\text{ or } ".join(f"x={w}" for w in words),
        f"\\lbrace {', '.join(words)} \\rbrace",
        "\uff0c".join(words),
        "\u3001".join(words),
        ",~".join(words),
        "\\text{ , }".join(words),
    )
    other = (
        *words,
        ", ".join(words[:-1]) or "1",
        ", ".join([*words, "555"]),
        ", ".join(map(str, [values[0] + 200, *values[1:]])),
        ", ".join(map(str, [-values[0] if values[0] else 9, *values[1:]]))
        if -values[0] not in values
        else "777",
        str(sum(values) + 1000),
    )
    return Spellings(", ".join(words), same, other)


def point(rng: random.Random) -> Spellings:
    """Tuples: the order counts."""
    values = rng.sample(range(-40, 99), rng.choice((2, 3)))
    words = list(map(str, values))
    inside, column, spaced = ", ".join(words), " \\\\ ".join(words), ",\\ ".join(words)
    same = [
        f"({inside})",
        f"({','.join(words)})",
        f"\\left({inside}\\right)",
        f"( {' , '.join(words)} )",
        f"\\bigl({inside}\\bigr)",
        f"P({inside})",
        f"\\langle {inside} \\rangle",
        f"\\begin{{pmatrix}} {column} \\end{{pmatrix}}",
        f"({'; '.join(words)})",
        f"({spaced})",
        f"(${'$, $'.join(words)}$)",
        f"\\begin{{bmatrix}}{'&'.join(words)}\\end{{bmatrix}}",
        f"\uff08{inside}\uff09",
        f"P = ({inside})",
        f"\\text{{({inside})}}",
        f"({words[0]}.0, {', '.join(words[1:])})",
    ]
    names = "xyz"[: len(values)]
    same += [
        ", ".join(f"{n} = {w}" for n, w in zip(names, words, strict=True)),
        f"({', '.join(names)}) = ({inside})",
    ]
    other = [
        f"({', '.join(words[::-1])})",
        f"({', '.join(words)}, 3)",
        words[0],
        f"({', '.join(map(str, [values[0] + 1, *values[1:]]))})",
    ]
    other += [
        f"({', '.join(map(str, [*values[:-1], -values[-1] or 5]))})",
        ", ".join(f"{n} = {w}" for n, w in zip(names, words[::-1], strict=True)),
    ]
    return Spellings(f"({inside})", tuple(same), tuple(other))


def matrix(rng: random.Random) -> Spellings:
    a, b, c, d = rng.sample(range(-9, 30), 4)
    rows = f"{a} & {b} \\\\ {c} & {d}"
    same = [f"\\begin{{{kind}}} {rows} \\end{{{kind}}}" for kind in ("pmatrix", "bmatrix")]
    same += [
        f"\\left(\\begin{{array}}{{cc}} {rows} \\end{{array}}\\right)",
        f"\\left[\\begin{{matrix}}{rows}\\end{{matrix}}\\right]",
        f"\\begin{{pmatrix}}{a}&{b}\\\\{c}&{d}\\\\\\end{{pmatrix}}",
        f"[[{a}, {b}], [{c}, {d}]]",
        f"A = \\begin{{pmatrix}} {rows} \\end{{pmatrix}}",
        f"\\begin{{pmatrix}}\n{a} & {b} \\\\\n{c} & {d}\n\\end{{pmatrix}}",
        f"\\left(\\begin{{smallmatrix}}{rows}\\end{{smallmatrix}}\\right)",
        f"\\begin{{bmatrix}} {a} & {b} \\\\[4pt] {c} & {d} \\end{{bmatrix}}",
        f"\\begin{{pmatrix}} {a} & {b} \\cr {c} & {d} \\end{{pmatrix}}",
    ]
    other = [
        f"\\begin{{pmatrix}} {a} & {c} \\\\ {b} & {d} \\end{{pmatrix}}",
        f"\\begin{{pmatrix}} {a + 1} & {b} \\\\ {c} & {d} \\end{{pmatrix}}",
        f"\\begin{{pmatrix}} {a} & {b} \\end{{pmatrix}}",
        f"\\begin{{vmatrix}} {rows} \\end{{vmatrix}}",
        str(a),
        f"{a}, {b}, {c}, {d}",
        f"\\begin{{pmatrix}} {-a or 77} & {b} \\\\ {c} & {d} \\end{{pmatrix}}",
        f"\\begin{{pmatrix}} {c} & {d} \\\\ {a} & {b} \\end{{pmatrix}}",
    ]
    return Spellings(f"\\begin{{pmatrix}} {rows} \\end{{pmatrix}}", tuple(same), tuple(other))


def surd(rng: random.Random) -> Spellings:
    a, b = rng.randint(2, 20), rng.choice((2, 3, 5, 6, 7, 10, 11, 13))
    same = [
        f"{a}\\sqrt{{{b}}}",
        f"{a}\\sqrt {{{b}}}",
        f"{a} \\cdot \\sqrt{{{b}}}",
        f"{a}\\,\\sqrt{{{b}}}",
        f"{a}\\times\\sqrt{{{b}}}",
        f"\\sqrt{{{a * a * b}}}",
        f"{a}\u221a{b}",
        f"{a}\u221a({b})",
        f"{a}*sqrt({b})",
        f"{a}sqrt({b})",
        f"{a}\\cdot {b}^{{1/2}}",
        f"{a}({b})^{{0.5}}",
        f"{a}\\sqrt[2]{{{b}}}",
        f"\\sqrt{{{b}}}\\cdot {a}",
        f"\\frac{{{a * b}}}{{\\sqrt{{{b}}}}}",
        f"{a * b**0.5:.12f}",
        f"{a}\\left(\\sqrt{{{b}}}\\right)",
        f"{a} {b}^{{\\frac{{1}}{{2}}}}",
        f"{a}\\sqrt{{\\mathstrut {b}}}",
        f"{a}\\surd{{{b}}}",
    ]
    other = [
        f"{a + 1}\\sqrt{{{b}}}",
        f"-{a}\\sqrt{{{b}}}",
        f"{a}\\sqrt{{{b + 1}}}",
        f"\\sqrt{{{b}}}",
        str(a),
        f"{a}\\sqrt[3]{{{b}}}",
        f"{a}{b}",
        f"{a * b}",
    ]
    return Spellings(f"{a}\\sqrt{{{b}}}", tuple(same), tuple(other))


def conjugates(rng: random.Random) -> Spellings:
    """`a \\pm b \\sqrt c`."""
    a, b = rng.randint(1, 20), rng.choice((2, 3, 5, 6, 7))
    root = f"\\sqrt{{{b}}}"
    same = (
        f"{a} \\pm {root}",
        f"{a}\\pm{root}",
        f"{a} \u00b1 \u221a{b}",
        f"{a}+{root}, {a}-{root}",
        f"{a} - {root} and {a} + {root}",
        f"x = {a} \\pm {root}",
        f"\\{{{a}-{root}, {a}+{root}\\}}",
        f"{a} +/- {root}",
        f"x = {a}+{root} \\text{{ or }} x = {a}-{root}",
        f"x_{{1,2}} = {a} \\pm {root}",
        f"{a} \\mp {root}",
        f"\\frac{{{2 * a} \\pm \\sqrt{{{4 * b}}}}}{{2}}",
    )
    other = (
        f"{a} + {root}",
        f"{a} - {root}",
        f"-{a} \\pm {root}",
        f"{a} \\pm \\sqrt{{{b + 1}}}",
        f"{a + 1} \\pm {root}",
        f"\\pm {a} + {root}",
        f"{a}, {root}",
    )
    return Spellings(f"{a} \\pm {root}", same, other)


def polynomial(rng: random.Random) -> Spellings:
    """Polynomials in one unknown."""
    a, b, c = (rng.randint(2, 12) for _ in range(3))
    same = (
        f"{a}x^2+{b}x-{c}",
        f"{a}x^{{2}} + {b}x - {c}",
        f"-{c}+{b}x+{a}x^2",
        f"{a}x\u00b2 + {b}x \u2212 {c}",
        f"{a}*x^2 + {b}*x - {c}",
        f"{a}x**2+{b}*x-{c}",
        f"{a} x^2 + {b} x - {c}",
        f"{a}\\cdot x^2+{b}\\cdot x-{c}",
        f"f(x) = {a}x^2+{b}x-{c}",
        f"y = {a}x^2+{b}x-{c}",
        f"{a} {{x}}^{{2}} + {b} x - {c}",
        f"x({a}x+{b})-{c}",
        f"{a}\\,x^2+{b}\\,x-{c}",
        f"P(x)={a}x^{{2}}+{b}x-{c}",
    )
    other = (
        f"{a}x^2-{b}x-{c}",
        f"{a}x^2+{b}x+{c}",
        f"{a + 1}x^2+{b}x-{c}",
        f"{a}x^3+{b}x-{c}",
        f"{a}x^2+{b}x",
        f"{a}y^2+{b}y-{c}",
        str(c),
        f"{a}x^2, {b}x, -{c}",
    )
    return Spellings(f"{a}x^2 + {b}x - {c}", same, other)


def equation(rng: random.Random) -> Spellings:
    a, b = rng.randint(2, 12), rng.randint(1, 20)
    same = (
        f"y={a}x+{b}",
        f"y = {b} + {a}x",
        f"{a}x+{b}=y",
        f"y - {a}x = {b}",
        f"{a}x - y + {b} = 0",
        f"y = {a} x + {b}",
        f"y = {a} \\cdot x + {b}",
        f"y={a}*x+{b}",
        f"{2 * a}x - 2y + {2 * b} = 0",
        f"\\text{{y}} = {a}\\text{{x}} + {b}",
        f"y-{b}={a}x",
        f"0 = {a}x - y + {b}",
    )
    other = (
        f"y={a}x-{b}",
        f"y={a + 1}x+{b}",
        f"y=-{a}x+{b}",
        f"x={a}y+{b}",
        f"y>{a}x+{b}",
        f"{a}x+y+{b}=0",
        str(a),
        f"y={b}x+{a}" if a != b else "y=3",
    )
    return Spellings(f"y = {a}x + {b}", same, other)


def inequality(rng: random.Random) -> Spellings:
    """Inequalities, and their intervals."""
    value = rng.randint(1, 60)
    sign, flipped, left = rng.choice((("\\ge", "\\le", "["), (">", "<", "(")))
    plain = ">=" if sign == "\\ge" else ">"
    unicode_sign = "\u2265" if sign == "\\ge" else ">"
    same = (
        f"x {sign} {value}",
        f"x {plain} {value}",
        f"{value} {flipped} x",
        f"x {unicode_sign} {value}",
        f"{left}{value},\\infty)",
        f"x\\in{left}{value},+\\infty)",
        f"x {sign} {value}.0",
        f"x \\geqslant {value}" if sign == "\\ge" else f"x \\gt {value}",
        f"{left}{value}, \u221e)",
    )
    strict = {"\\ge": ">", ">": "\\ge"}[sign]
    other = (
        f"x {flipped} {value}",
        f"x {strict} {value}",
        f"x {sign} {value + 1}",
        f"x {sign} -{value}",
        str(value),
        f"x = {value}",
        f"(-\\infty,{value})",
        f"x \\neq {value}",
    )
    return Spellings(f"x {sign} {value}", same, other)


def complex_number(rng: random.Random) -> Spellings:
    a, b = rng.randint(1, 30), rng.randint(2, 30)
    if a == b:
        b += 1
    same = (
        f"{a}+{b}i",
        f"{b}i+{a}",
        f"{a} + {b} i",
        f"{a}+i{b}",
        f"{a}+{b}\\mathrm{{i}}",
        f"{a} + {b}\\,i",
        f"z = {a}+{b}i",
        f"{a}+{b}\\cdot i",
        f"{a}+{b}\\text{{i}}",
        f"{a}+{b}*i",
    )
    other = (
        f"{a}-{b}i",
        f"-{a}+{b}i",
        f"{b}+{a}i",
        str(a),
        f"{a}+{b}",
        f"{a}+{b + 1}i",
        f"{b}i",
        f"({a},{b + 1})",
    )
    return Spellings(f"{a} + {b}i", same, other)


def logarithm(rng: random.Random) -> Spellings:
    """Logarithms and angles."""
    a, b = rng.sample((2, 3, 5, 7), 2)
    same = (
        f"\\log_{a} {b}",
        f"\\log_{{{a}}} {b}",
        f"\\log_{a}({b})",
        f"\\log_{{{a}}}\\left({b}\\right)",
        f"\\frac{{\\ln {b}}}{{\\ln {a}}}",
        f"\\frac{{\\log {b}}}{{\\log {a}}}",
        f"\\ln({b})/\\ln({a})",
        f"\\frac{{1}}{{\\log_{b} {a}}}",
        f"log_{a}({b})",
        f"\\log_{a}{{{b}}}",
    )
    other = (
        f"\\log_{b} {a}",
        f"\\ln {b}",
        f"\\log_{a} {b * b}",
        f"-\\log_{a} {b}",
        str(b),
        f"\\log_{{{a * a}}} {b}",
        f"{b}/{a}",
    )
    return Spellings(f"\\log_{a} {b}", same, other)


def angle(rng: random.Random) -> Spellings:
    """Multiples of pi."""
    n, d = rng.choice(((1, 3), (2, 3), (3, 4), (5, 6), (7, 12), (1, 5)))
    top = "\\pi" if n == 1 else f"{n}\\pi"
    same = (
        f"\\frac{{{top}}}{{{d}}}",
        f"\\dfrac{{{top}}}{{{d}}}",
        f"{top}/{d}",
        f"\\frac{{{n}}}{{{d}}}\\pi",
        f"{n}\u03c0/{d}",
        f"\\frac{{{n}}}{{{d}}} \\cdot \\pi",
        f"({n}/{d})\\pi",
        f"\\frac{{{top}}}{{{d}}} \\text{{ radians}}",
        f"\\frac{{{n} \\pi}}{{{d}}}",
        f"\\pi \\cdot \\frac{{{n}}}{{{d}}}",
        f"{n}*pi/{d}",
        f"{n}pi/{d}",
    )
    other = (
        f"\\frac{{{n}}}{{{d}}}",
        f"-\\frac{{{top}}}{{{d}}}",
        f"\\frac{{{n + d}\\pi}}{{{d}}}",
        f"{top}",
        f"\\frac{{{top}}}{{{d + 1}}}",
        "\\pi^2",
        f"{d}\\pi/{n}" if n > 1 else f"{d}\\pi",
    )
    return Spellings(f"\\frac{{{top}}}{{{d}}}", same, other)


def based(rng: random.Random) -> Spellings:
    """Numbers in another base."""
    base, value = rng.choice((2, 3, 5, 7, 8)), rng.randint(30, 400)
    digits, rest = "", value
    while rest:
        digits, rest = str(rest % base) + digits, rest // base
    wrong = digits[:-1] + str((int(digits[-1]) + 1) % base)
    same = (
        f"{digits}_{base}",
        f"{digits}_{{{base}}}",
        digits,
        f"({digits})_{base}",
        f"({digits})_{{{base}}}",
        f"{digits}_{{({base})}}",
        f"{digits}\u2080".replace("\u2080", str(base).translate(_LOWERED)),
        f"\\text{{{digits}}}_{base}",
        f"{digits}_\\text{{{base}}}",
        f"{{{digits}}}_{{{base}}}",
        f"{digits}_{{\\text{{{base}}}}}",
        f"{digits} \\text{{ base }} {base}",
        f"{digits} base {base}",
        f"{digits} (base {base})",
        f"{digits}\\,_{base}",
    )
    other = (
        f"{wrong}_{base}",
        f"{digits}_{{{base + 1}}}",
        f"{digits}0_{base}",
        f"-{digits}_{base}",
        wrong,
        str(base),
    )
    return Spellings(f"{digits}_{base}", same, other)


def words(rng: random.Random) -> Spellings:
    """Answers in words."""
    groups = (
        (
            "no solution",
            (
                "No solution",
                "\\text{no solution}",
                "NO SOLUTION",
                "\\text{No Solution}",
                "no solutions",
                "No solution.",
                "\\mbox{no solution}",
                "no~solution",
            ),
            ("0", "one solution", "infinitely many solutions", "solution", "x = 0"),
        ),
        (
            "infinitely many solutions",
            (
                "Infinitely many solutions",
                "\\text{infinitely many solutions}",
                "infinitely many solutions.",
            ),
            ("no solution", "many solutions", "0"),
        ),
        (
            "Evelyn",
            (
                "evelyn",
                "\\text{Evelyn}",
                "\\textbf{Evelyn}",
                "**Evelyn**",
                "Evelyn.",
                "`Evelyn`",
                "\\mathrm{Evelyn}",
                '"Evelyn"',
                "*Evelyn*",
                "_Evelyn_",
                "'Evelyn'",
                "\\textit{Evelyn}",
                "\\emph{Evelyn}",
                "\\mathbf{Evelyn}",
            ),
            ("Evan", "not Evelyn", "Evelyn and Bob", "Bob", "Evelyn or Bob"),
        ),
        (
            "isosceles triangle",
            ("Isosceles triangle", "\\text{isosceles triangle}", "isosceles"),
            ("equilateral triangle", "triangle", "isosceles trapezoid", "not isosceles triangle"),
        ),
        ("\\text{DNE}", ("DNE", "dne", "\\mathrm{DNE}", "\\textbf{DNE}"), ("0", "1", "\\infty")),
        (
            "undefined",
            ("Undefined", "\\text{undefined}", "undefined."),
            ("defined", "0", "\\infty"),
        ),
    )
    gold, same, other = rng.choice(groups)
    return Spellings(gold, same, other)


def infinite(rng: random.Random) -> Spellings:
    """Infinity with a sign."""
    if rng.random() < 0.5:
        return Spellings(
            "-\\infty",
            (
                "-\u221e",
                "-\\infty",
                "\u2212\u221e",
                "- \\infty",
                "-infinity",
                "negative infinity",
                "minus infinity",
                "$-\\infty$",
                "-\\text{infinity}",
            ),
            ("\\infty", "0", "-1", "+\\infty"),
        )
    return Spellings(
        "\\infty",
        ("\u221e", "+\\infty", "infinity", "\\text{infinity}", "Infinity", "\\infty.", "+\u221e"),
        ("-\\infty", "0", "1", "\\text{not infinity}"),
    )


def factorial(rng: random.Random) -> Spellings:
    """Factorials and binomials."""
    n = rng.randint(5, 9)
    value = 1
    for k in range(2, n + 1):
        value *= k
    return Spellings(
        f"{n}!",
        (
            f"{n}!",
            str(value),
            f"{value:,}",
            f"({n})!",
            f"{n} !",
            f"{n}\\cdot {n - 1}!",
            f"{{{n}}}!",
        ),
        (f"{n + 1}!", str(n), f"-{n}!", f"{n}!!", str(value + 1), f"2\\cdot {n}!"),
    )


def repeating(rng: random.Random) -> Spellings:
    block = rng.randint(12, 98)
    if block % 11 == 0:
        block += 1
    value = Fraction(block, 99)
    b = f"{block:02d}"
    same = (
        f"0.\\overline{{{b}}}",
        f"{value.numerator}/{value.denominator}",
        f"0.({b})",
        f"0.{b}{b}{b}...",
        f"0.{b}{b}{b}\\ldots",
        f"0.{b}{b}{b}\u2026",
        f"0.\\overline{{{b}{b}}}",
        f"0.\\dot{{{b[0]}}}\\dot{{{b[1]}}}",
        f".\\overline{{{b}}}",
        f"0.{b}\\overline{{{b}}}",
        f"{float(value):.12f}",
        f"0{{.}}\\overline{{{b}}}",
        f"0.\\bar{{{b}}}",
    )
    other = (
        f"0.{b}",
        f"0.\\overline{{{block + 1}}}",
        f"-0.\\overline{{{b}}}",
        f"1.\\overline{{{b}}}",
        f"0.0\\overline{{{b}}}",
        b,
        f"0.{b[0]}\\overline{{{b[1]}}}",
    )
    return Spellings(f"0.\\overline{{{b}}}", same, other)


def power(rng: random.Random) -> Spellings:
    a, b = rng.choice((2, 3, 5, 7)), rng.randint(4, 9)
    value = a**b
    same = (
        f"{a}^{b}",
        f"{a}^{{{b}}}",
        str(value),
        f"{value:,}",
        f"{a}{str(b).translate(_RAISED)}",
        f"{a}**{b}",
        f"{{{a}}}^{{{b}}}",
        f"({a})^{b}",
        f"{a} ^ {b}",
        f"{a}^{{{b - 1}}} \\cdot {a}",
        f"\\text{{{value}}}",
    )
    other = (
        f"{b}^{a}" if b**a != value else "7",
        f"{a}^{b + 1}",
        f"{a}^{{-{b}}}",
        f"-{a}^{b}",
        f"{a}{b}",
        str(a * b) if a * b != value else "1",
        str(value + 1),
        f"{a}, {b}",
    )
    return Spellings(f"{a}^{{{b}}}", same, other)


def assignment(rng: random.Random) -> Spellings:
    value, name = rng.randint(2, 400), rng.choice("xnkabt")
    same = (
        f"{name}={value}",
        f"{name} = {value}",
        str(value),
        f"{value} = {name}",
        f"${name} = {value}$",
        f"{name}\\,=\\,{value}",
        f"\\text{{{name}}} = {value}",
        f"{name} = {value}.0",
        f"\\mathbf{{{name} = {value}}}",
        f"{name}={value}.",
        f"{name} = {{{value}}}",
    )
    other = (
        f"{name} = {value + 1}",
        f"{name} = -{value}",
        f"{name} > {value}",
        f"{name} \\neq {value}",
        f"{name} = {value}, {value + 1}",
        str(value * 10),
        f"{name} = {value} or {name} = {value + 4}",
        f"{name} \\le {value}",
    )
    return Spellings(f"{name} = {value}", same, other)


NOTATIONS: Final[Sequence[Notation]] = (
    large_integer,
    signed,
    fraction,
    mixed,
    decimal,
    scientific,
    percentage,
    quantity,
    money,
    time,
    date,
    ratio,
    interval,
    union,
    integers,
    point,
    matrix,
    surd,
    conjugates,
    polynomial,
    equation,
    inequality,
    complex_number,
    logarithm,
    angle,
    based,
    words,
    infinite,
    factorial,
    repeating,
    power,
    assignment,
)
CARRIERS: Final = (
    "\\boxed{%s}",
    "<answer>%s</answer>",
    "So it is so.\n#### %s",
    "The answer is $%s$.",
    "**Answer:** %s",
    "$$\\boxed{%s}$$",
    "\\[\n\\boxed{ %s }\n\\]",
    "\\(\\boxed{%s}\\)",
    "**Final Answer**\n\n\\boxed{%s}",
    "<answer>\\boxed{%s}</answer>",
    "<answer>$%s$</answer>",
    "**\\boxed{%s}**",
    "The final answer is: $\\boxed{%s}$",
    "Final answer: $%s$",
    "\\boxed{$%s$}",
    "\\boxed{\\textbf{%s}}",
    "\\boxed{\\color{blue}{%s}}",
    "\\boxed{\\displaystyle %s}",
    "\\boxed{\\large %s}",
    "<answer>**%s**</answer>",
    "<answer>`%s`</answer>",
    "\\fbox{%s}",
    "The answer is \\(%s\\).",
    "Therefore, the answer is\n\n$$%s$$",
)


def notation_case(rng: random.Random) -> Case:
    """A drawn gold, and a response that says it or something else."""
    drawn = rng.choice(NOTATIONS)
    spelled = drawn(rng)
    right = rng.random() < 0.6
    said = rng.choice(spelled.same if right else spelled.other)
    carrier = rng.choice(CARRIERS)
    if "$" in said or "\\(" in said:
        carrier = "\\boxed{%s}"  # delimiters inside delimiters are another text
    return Case(
        pipeline="math",
        kind=f"notation: {drawn.__name__}",
        response=carrier.replace("%s", said),
        reference={"answers": [spelled.gold]},
        expected=Expected.RIGHT if right else Expected.WRONG,
    )
