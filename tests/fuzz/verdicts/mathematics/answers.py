r"""Cases of `math`: golds of a grammar, echoed in the ways that models end, and changed.

An answer is drawn as values; how it is written, and what a change of a value is, follows from them,
so that right and wrong are known without any judge.
"""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from tests.fuzz.verdicts.case import Case, Expected, one_of

Writer = Callable[[random.Random], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A gold and other ways to write it, and answers that differ from it."""

    kind: str
    gold: str
    same: tuple[str, ...] = ()
    other: tuple[str, ...]


def _integer(rng: random.Random) -> Answer:
    value = rng.choice((rng.randint(2, 99), rng.randint(100, 99_999), rng.randint(10**6, 10**9)))
    minus = rng.choice(("-", "- ", "\u2212", "\u2212 ", "")) if rng.random() < 0.6 else ""
    sign = -1 if minus else 1
    grouped = f"{value:,}"
    same = [f"{'-' if sign < 0 else ''}{value}", f"{'-' if sign < 0 else ''}{grouped}"]
    if sign < 0:
        same += [f"\u2212{value}", f"- {value}"]
    digits = str(value)
    at = rng.randrange(len(digits))
    changed = digits[:at] + str((int(digits[at]) + rng.randint(1, 8)) % 9 + 0) + digits[at + 1 :]
    if int(changed) == value:
        changed = str(value + 1)
    bare = "-" if sign < 0 else ""
    flipped = "" if sign < 0 else "-"
    other = [
        f"{flipped}{value}",
        f"{bare}{changed}",
        f"{bare}{value}, {value + 1}",
        f"{bare}{value} {value + 1} {value + 2}",
        f"{bare}{value}.5",
        f"{bare}{value} or {value + 3}",
    ]
    return Answer(kind="integer", gold=f"{minus}{value}", same=tuple(same), other=tuple(other))


def _fraction(rng: random.Random) -> Answer:
    value = Fraction(rng.randint(1, 60), rng.choice((7, 11, 13, 17, 19)))
    if value.denominator == 1:
        value += Fraction(1, 7)
    n, d = value.numerator, value.denominator
    minus = rng.choice(("", "-"))
    ways = (f"{n}/{d}", f"\\frac{{{n}}}{{{d}}}", f"\\dfrac{{{n}}}{{{d}}}", f"\\tfrac{{{n}}}{{{d}}}")
    flipped = "" if minus else "-"
    other = (
        f"{minus}{d}/{n}",
        f"{minus}{n + d * 3}/{d}",
        f"{minus}{n}/{d + 1}",
        f"{flipped}{n}/{d}",
        f"{n}",
        f"{minus}{n}, {d}",
    )
    return Answer(
        kind="fraction",
        gold=minus + rng.choice(ways),
        same=tuple(minus + way for way in ways),
        other=tuple(x for x in other if x not in {f"{minus}{n}/{d}"}),
    )


def _decimal(rng: random.Random) -> Answer:
    value = rng.randint(101, 99_999)
    if value % 10 == 0:
        value += 3
    text = f"{value // 100}.{value % 100:02d}"
    minus = rng.choice(("", "-"))
    more = f"{(value + 7) // 100}.{(value + 7) % 100:02d}"
    return Answer(
        kind="decimal",
        gold=minus + text,
        same=(minus + text, f"{minus}{text}0"),
        other=(
            minus + more,
            f"{'' if minus else '-'}{text}",
            f"{minus}{value}",
            f"{minus}{value // 100}",
        ),
    )


def _values(rng: random.Random, at_least: int = 2) -> list[int]:
    return rng.sample(range(-60, 200), rng.randint(at_least, 5))


def _list(rng: random.Random) -> Answer:
    values = sorted(_values(rng))
    one = str(values[-1])
    # A comma without a blank in front of three digits is part of a number: `19,135` is not a list.
    bare = 0 if any(value >= 100 for value in values[1:]) else 2
    separators = {", ": 4, ",": bare, "; ": 1}
    separator = one_of(rng, separators)
    gold = separator.join(map(str, values))
    if len(values) == 2 and rng.random() < 0.4:
        gold = f"{values[0]} and {values[1]}"
    apart = all(0 <= value < 100 for value in values) and rng.random() < 0.5
    if apart:  # of at most two digits each: no blank is one between thousands
        gold = " ".join(map(str, values))
    wrong = [values[0] + 300, *values[1:]]
    return Answer(
        kind="list",
        gold=gold,
        same=(gold, ", ".join(map(str, values)), ", ".join(map(str, values[::-1]))),
        other=(
            one,
            str(values[0]),
            ", ".join(map(str, values[:-1])) or "0",
            ", ".join(map(str, wrong)),
            ", ".join(map(str, [*values, 777])),
        ),
    )


def _fractions(rng: random.Random) -> Answer:
    """Two or three fractions, whose own signs are read as part of a list, in any order."""
    below = rng.sample((2, 3, 5, 7, 9, 11), rng.randint(2, 3))
    values = [Fraction(rng.choice((1, 1, rng.randint(1, 40))), one) for one in below]
    values = [one + 1 if one.denominator == 1 else one for one in values]
    plain = [f"{one.numerator}/{one.denominator}" for one in values]
    turned = plain[::-1]
    last = values[-1] + 1
    return Answer(
        kind="list of fractions",
        gold=", ".join(plain),
        same=(
            ", ".join(turned),
            " and ".join((", ".join(plain[:-1]), plain[-1])),
            " or ".join(plain),
            "; ".join(turned),
            f"\\{{{', '.join(turned)}\\}}",
            ", ".join(f"\\frac{{{one.numerator}}}{{{one.denominator}}}" for one in values),
            ", ".join(f"{one.numerator * 2}/{one.denominator * 2}" for one in values),
        ),
        other=(
            plain[0],
            plain[-1],
            ", ".join([*plain[:-1], f"-{plain[-1]}"]),
            ", ".join([*plain[:-1], f"{last.numerator}/{last.denominator}"]),
            " and ".join([*plain[:-1], f"{last.numerator}/{last.denominator}"]),
            ", ".join([*plain, "1/13"]),
        ),
    )


def _tuple(rng: random.Random) -> Answer:
    values = _values(rng)[:3]
    gold = f"({', '.join(map(str, values))})"
    return Answer(
        kind="tuple",
        gold=gold,
        same=(gold, f"\\left({', '.join(map(str, values))}\\right)"),
        other=(
            f"({', '.join(map(str, values[::-1]))})",
            f"({', '.join(map(str, [values[0] + 201, *values[1:]]))})",
            str(values[-1]),
            f"({', '.join(map(str, [*values, 5]))})",
        ),
    )


def _set(rng: random.Random) -> Answer:
    values = _values(rng)
    shuffled = rng.sample(values, len(values))
    return Answer(
        kind="set",
        gold=f"\\{{{', '.join(map(str, values))}\\}}",
        same=(f"\\{{{', '.join(map(str, shuffled))}\\}}",),
        other=(
            f"\\{{{', '.join(map(str, [*values, 777]))}\\}}",
            f"\\{{{values[0]}\\}}",
            str(values[0]),
        ),
    )


def _interval(rng: random.Random) -> Answer:
    low = rng.randint(-50, 50)
    high = low + rng.randint(1, 50)
    left, right = rng.choice((("(", "]"), ("[", ")"), ("[", "]")))
    gold = f"{left}{low}, {high}{right}"
    swapped = {"(": "[", "[": "("}[left]
    return Answer(
        kind="interval",
        gold=gold,
        same=(gold, f"\\left{left}{low},{high}\\right{right}"),
        other=(
            f"{swapped}{low}, {high}{right}",
            f"{left}{low}, {high + 1}{right}",
            str(high),
            f"{low}",
        ),
    )


def _time(rng: random.Random) -> Answer:
    hour, minute = rng.randint(1, 12), rng.randint(10, 59)
    other: tuple[str, ...] = (
        f"{hour}:{(minute + 7 - 10) % 50 + 10}",
        f"{hour % 12 + 1}:{minute}",
        str(hour),
        str(minute),
    )
    if hour % 2 == 0 and minute % 20 == 0:  # the same ratio, and another time
        other += (f"{hour // 2}:{minute // 2}",) * 2
    half = rng.choice(("", "", " am", " p.m."))
    twelve = "PM" if "a" in half else "AM"
    other += (f"{hour}:{minute} {twelve}",) if half else ()
    same = (f"{hour}:{minute}", f"{hour}:{minute}{half}")
    return Answer(kind="time", gold=f"{hour}:{minute}{half}", same=same, other=other)


def _ratio(rng: random.Random) -> Answer:
    a, b = rng.choice(((3, 4), (2, 7), (5, 9), (1, 8), (7, 11)))
    return Answer(
        kind="ratio",
        gold=f"{a}:{b}",
        same=(f"{a}:{b}", f"{a} : {b}"),
        other=(f"{b}:{a}", f"{a}:{b + 1}", str(b), str(a)),
    )


def _unit(rng: random.Random) -> Answer:
    value = rng.randint(2, 9_999)
    minus, flipped = rng.choice((("", "-"), ("", "-"), ("-", "")))
    unit = rng.choice(
        ("cm", "kg", "meters", "m/s", "\\text{ cm}", "\\text{ hours}", "^\\circ", "dollars")
    )
    glue = "" if unit.startswith(("\\", "^")) else " "
    return Answer(
        kind="unit",
        gold=f"{minus}{value}{glue}{unit}",
        same=(f"{minus}{value}{glue}{unit}", f"{minus}{value}"),
        other=(
            f"{minus}{value + 1}",
            f"{flipped}{value}",
            f"{flipped}{value}{glue}{unit}",
            f"{minus}{value + 10}{glue}{unit}",
            f"{minus}{value}, {value + 1}",
        ),
    )


def _percent(rng: random.Random) -> Answer:
    value = rng.randint(2, 99)
    minus, flipped = rng.choice((("", "-"), ("", "-"), ("-", "")))
    return Answer(
        kind="percent",
        gold=f"{minus}{value}{rng.choice(('%', chr(92) + '%'))}",
        same=(f"{minus}{value}%", f"{minus}{value}\\%"),
        other=(f"{minus}{value + 1}%", f"{flipped}{value}%", f"{minus}{value * 7}\\%"),
    )


def _assignment(rng: random.Random) -> Answer:
    value = rng.randint(-99, 999)
    name = rng.choice("xyabn")
    return Answer(
        kind="assignment",
        gold=f"{name} = {value}",
        same=(f"{name}={value}", str(value)),
        other=(f"{name} = {value + 1}", str(value - 3), f"{name} = {-value if value else 8}"),
    )


def _roots(rng: random.Random) -> Answer:
    a, b = rng.sample(range(1, 40), 2)
    gold = f"x = {a} or x = {-b}"
    return Answer(
        kind="several assignments",
        gold=gold,
        same=(gold, f"x = {a}, x = {-b}", f"{a}, {-b}"),
        other=(f"x = {a}", f"x = {-b}", str(a), str(-b), f"x = {a} or x = {b}"),
    )


def _surd(rng: random.Random) -> Answer:
    a, b = rng.randint(2, 30), rng.choice((2, 3, 5, 7, 11))
    return Answer(
        kind="surd",
        gold=rng.choice((f"{a}\\sqrt{{{b}}}", f"{a} \\sqrt {{{b}}}", f"\\sqrt{{{b}}} \\cdot {a}")),
        same=(f"{a}\\sqrt{{{b}}}", f"\\sqrt{{{a * a * b}}}"),
        other=(
            f"{a + 1}\\sqrt{{{b}}}",
            f"-{a}\\sqrt{{{b}}}",
            f"{a}\\sqrt{{{b + 2}}}",
            f"{a}",
            f"\\sqrt{{{b}}}",
        ),
    )


def _polynomial(rng: random.Random) -> Answer:
    a, b, c = (rng.randint(2, 20) for _ in range(3))
    return Answer(
        kind="polynomial",
        gold=f"{a}x^2 + {b}x - {c}",
        same=(f"{a}x^{{2}}+{b}x-{c}", f"{b}x - {c} + {a}x^2"),
        other=(f"{a}x^2 - {b}x - {c}", f"{a + 1}x^2 + {b}x - {c}", f"{a}x^2 + {b}x", f"{c}"),
    )


def _equation(rng: random.Random) -> Answer:
    a, b = rng.randint(2, 20), rng.randint(1, 20)
    return Answer(
        kind="equation",
        gold=f"y = {a}x + {b}",
        same=(f"y={a}x+{b}", f"y = {b} + {a}x"),
        other=(f"y = {a}x - {b}", f"y = {a + 1}x + {b}", f"{b}", f"y = -{a}x + {b}"),
    )


def _word(rng: random.Random) -> Answer:
    words = (
        "Monday",
        "Tuesday",
        "even",
        "odd",
        "Alice",
        "Carla",
        "parabola",
        "hyperbola",
        "yes",
        "no",
    )
    word, another = rng.sample(words, 2)
    return Answer(
        kind="word",
        gold=rng.choice((word, f"\\text{{{word}}}")),
        same=(word, f"\\text{{{word}}}"),
        other=(another, f"not {word}"),
    )


_KINDS: Final = (
    _integer,
    _integer,
    _integer,
    _fraction,
    _decimal,
    _list,
    _list,
    _fractions,
    _tuple,
    _set,
    _interval,
    _time,
    _ratio,
    _unit,
    _percent,
    _assignment,
    _roots,
    _surd,
    _polynomial,
    _equation,
    _word,
)
_CARRIERS: Final = (
    "\\boxed{{{0}}}",
    "So the final answer is \\boxed{{{0}}}.",
    "We get 17 + 4 = 21 and then 3.\n\n$\\boxed{{{0}}}$",
    "Thus we have\n\\[ \\boxed{{{0}}} \\]\nand we are done.",
    "<answer>{0}</answer>",
    "<think>maybe 12345?</think>\n<answer>{0}</answer>",
    "It was 5 at first, then 6.\n#### {0}",
    "Some steps: 1 + 1 = 2.\nThe answer is {0}.",
    "The final answer is ${0}$.",
    "**Answer:** {0}",
    "Answer: ${0}$",
)


def _signed(rng: random.Random, text: str) -> str:
    """With the sign that books print, or with a blank behind a sign that begins a value."""
    if "-" not in text or rng.random() < 0.7:
        return text
    if rng.random() < 0.3:
        return re.sub(r"(^|[(,] ?)-(?=[0-9])", r"\1- ", text)
    return text.replace("-", "\u2212")


def _guesses(rng: random.Random, gold: str) -> list[str]:
    """Several guesses of the same size with the gold among them; often it is the last one."""
    is_short = len(gold) < 4
    low, high = (1, 99) if is_short else (10**5, 10**6)
    tried = [str(rng.randint(low, high)) for _ in range(rng.randint(2, 6))]
    tried = [one for one in tried if one != gold] or [str(high + 1)]
    tried.insert(rng.choice((len(tried), rng.randint(0, len(tried)))), gold)
    return tried


def any_answer(rng: random.Random) -> Answer:
    """An answer of any kind."""
    answer = rng.choice(_KINDS)(rng)
    return replace(answer, gold=_signed(rng, answer.gold))


def answer_case(rng: random.Random) -> Case:
    """A gold, and a response that says it or something else."""
    answer = any_answer(rng)
    kind = one_of(
        rng, {"echo": 3, "same": 3, "other": 5, "shotgun": 1, "cut": 0.7, "repeated": 0.5}
    )
    said, expected = answer.gold, Expected.RIGHT
    if kind == "same":
        said = rng.choice(answer.same or (answer.gold,))
    elif kind != "echo":
        expected = Expected.WRONG
        said = rng.choice(answer.other)
    said = _signed(rng, said)
    response: str = rng.choice(_CARRIERS).format(said)
    if kind == "shotgun":
        tried = _guesses(rng, answer.gold)
        response = rng.choice(
            (
                "The answer is " + ", ".join(tried) + ".",
                "The answer is " + " ".join(tried) + ".",
                " ".join(f"\\boxed{{{one}}}" for one in tried),
                "\n".join(f"The answer is {one}." for one in tried),
                "<answer>" + " or ".join(tried) + "</answer>",
                "\\boxed{" + ", ".join(tried) + "}",
            )
        )
    elif kind == "cut":
        response = rng.choice(
            (
                f"So we get \\boxed{{{answer.gold}",
                f"Therefore \\boxed{{\\frac{{{answer.gold}}}{{",
                f"<answer>{answer.gold[:-1]}",
            )
        )
    elif kind == "repeated":
        loop = f"Wait, let me check again. The answer is {answer.gold}. Hmm, 5 + 7 = 12. "
        response = loop * rng.randint(200, 400) + "Wait, let me"
    garbage = one_of(rng, {"": 14, "\0": 1, "\ud800": 1, "\ufeff": 1, "bytes": 1})
    said_bytes = b"\xff\xfe " + response.encode("utf-8", "surrogatepass")
    said_text = f"{garbage} {response}" if garbage else response
    return Case(
        pipeline="math",
        kind=f"{answer.kind}: {kind}",
        response=said_bytes if garbage == "bytes" else said_text,
        reference={"answers": [answer.gold]},
        expected=expected,
    )


_BOMBS: Final = (
    "9^{9^{9^{9}}}",
    "(10^9)!",
    "2^{1000000007}",
    "((((((1!)!)!)!)!)!)!",
    "\\sum_{k=1}^{100000000} k^k",
    "\\int \\sin^{1000}(x) dx",
    "(" * 3000 + "1" + ")" * 3000,
    "+".join("1" for _ in range(9000)),
    "\\frac{1}{0}",
    "0^0",
    "\\infty - \\infty",
    "\\begin{pmatrix}1&2\\\\3\\end{pmatrix}",
    "1e999999999",
    "\\lim_{x \\to 0} \\frac{\\sin x}{x}",
    "\\text{\\boxed{1}}",
    "x" * 1900,
    "\\frac" * 600,
    "{" * 900,
    "\\left(" * 500,
    "^" * 900,
    "_" * 900,
    "1" * 1900,
    "\\gcd(12, 18)",
    "\\zeta(3) \\Gamma(1/2)",
    "\\det\\begin{bmatrix}1&2\\\\3&4\\end{bmatrix}",
    "\\binom{100000}{50000}",
    "\\log_{0}{1}",
    "\\sqrt[0]{1}",
    "i^i",
    "\\arcsin(2)",
    "\\prod_{k=1}^{n} k",
    "\\mathbb{R} \\setminus \\{0\\}",
    "__import__('os').system('id')",
    "lambda: 1",
    "x = y = z = 1",
    "\\forall x \\exists y",
    "\\int_0^1 \\frac{dx}{\\sqrt{1-x^4}}",
    "\\mathrm{erf}(1)",
    "\\lfloor \\pi^{100} \\rfloor",
)


def bomb_case(rng: random.Random) -> Case:
    """An answer that costs or breaks the verifier; it is wrong, and it is judged."""
    parts = rng.sample(_BOMBS, rng.choice((1, 1, 1, 2)))
    answer = rng.choice((" + ", ", ", " = ", " \\cdot ", " \\cup ")).join(parts)
    gold = rng.choice(("17", "-3.25", "\\frac{3}{7}", "x^2 + 1", "(2, 3)", "\\{1, 2\\}", "[0, 1)"))
    return Case(
        pipeline="math",
        kind="bomb",
        response=rng.choice(_CARRIERS).format(answer),
        reference={"answers": [gold]},
        expected=Expected.WRONG,
    )
