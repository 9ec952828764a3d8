r"""Floods, hedges and disguises: answers that look like the gold, contain it, or hide it.

A *hedge* states the gold and something else, a *flood* states everything, a *denial* states that it
is not the gold, a *disguise* shows another value than the one that is written. None of them is
right. An *adornment* changes nothing that a reader sees, so it stays right. `{x}` stands for the
gold, `{y}` and `{z}` for other values; they are positive integers of three digits.
"""

import random
from collections.abc import Callable
from typing import Final

from tests.fuzz.verdicts.case import Case, Expected, one_of

Flood = Callable[[int, random.Random], str]

_HEDGES: Final = (
    "{y} maybe {x}", "{y} \\text{ maybe } {x}", "{y}, perhaps {x}", "{y} vs {x}", "{y}, possibly {x}",
    "{y} \\text{ (or } {x} \\text{)}", "{y} (or {x})", "{y} alternatively {x}", "{y} versus {x}",
    "{x} or {y}", "{y} or {x}", "{x} and {y}", "either {x} or {y}", "{x}, {y}", "{y}, {x}",
    "{x}; {y}", "{x} / {y} / {z}", "{x} \\text{ or } {y}", "{x} \\lor {y}", "{x} \\mid {y}",
    "{x} | {y}", "{x} \\& {y}", "{x} \\\\ {y}", "{x} \\quad {y}", "{x} \\qquad \\text{or} \\qquad {y}",
    "{x} \\text{ maybe } {y}", "{x} \\text{ (or } {y} \\text{)}", "{x} (or {y})", "{x} [{y}]",
    "{x} vs {y}", "{x} versus {y}", "{x} then {y}", "{x} \\to {y}", "{y} \\to {x}",
    "{x} \\rightarrow {y}", "{x} \\Rightarrow {y}", "{x} \\iff {y}", "{x} \\sim {y}",
    "{x} \\approx {y}", "{y} \\approx {x} \\approx {z}", "{x} \\ne {y}", "{x} \\neq {y}",
    "{x} = {y}", "{y} = {x}", "{y} = {x} = {z}", "x = {x} = {y}", "x = {y} = {x}",
    "x = {x}, {y}", "x = {x} \\text{ or } x = {y}", "x = {x}, x = {y}", "x_1 = {x}, x_2 = {y}",
    "\\begin{cases} {x} \\\\ {y} \\end{cases}", "\\begin{cases} x = {x} \\\\ x = {y} \\end{cases}",
    "\\begin{pmatrix} {x} \\\\ {y} \\end{pmatrix}", "\\begin{array}{c} {x} \\\\ {y} \\end{array}",
    "\\{{x}, {y}\\}", "({x}, {y})", "[{x}, {y}]", "\\left\\{{x}; {y}\\right\\}",
    "\\text{between } {x} \\text{ and } {y}", "{x} \\text{ to } {y}", "from {x} to {y}",
    "{x}--{y}", "{x}\u2013{y}", "{x}\u2014{y}", "{x} \\pm {y}", "{x} \\pm 1", "{x} \\mp {y}",
    "{x} \\ldots {y}", "{x}, \\ldots, {y}", "{x}, {y}, \\dots", "{x} \\cup {y}", "{x} \\times {y}",
    "{x}:{y}", "{x}.{y}", "{x}{y}", "{y}{x}", "{x}/{y}", "\\frac{{x}}{{y}}", "\\binom{{x}}{{y}}",
    "{x}^{{y}}", "{x}_{{y}}", "\\sqrt[{y}]{{x}}", "\\log_{{y}} {x}", "{x} \\bmod {y}",
    "{x} + {y}i", "{x} + {y}", "{x} - {y}", "{x} {y}", "{x}~{y}", "{x}\\,{y}0", "{x}\n{y}",
    "* {x}\n* {y}", "1. {x}\n2. {y}", "| {x} | {y} |", "- {x}\n- {y}\n- {z}",
    "\\boxed{{x}} \\boxed{{y}}", "\\boxed{{x}, \\boxed{{y}}}", "\\boxed{{y}} or \\boxed{{x}}",
    "{x} (alternatively {y})", "{x} \\text{ if } n \\text{ is even, } {y} \\text{ if odd}",
    "{x} if n is even and {y} otherwise", "the larger of {x} and {y}", "\\max({x}, {y}, 999999)",
    "{y} (not {x})", "{y}, not {x}", "{y} \\text{ (not } {x})", "{y} rather than {x}",
    "{y}, since {x} is too large", "{y} because {x} = {x}", "{x}, not {x}", "{y} (about {x})",
    "\\sqrt{{y}} = {x}", "{y} \\cdot 2 = {x}", "{x}, as required, or {y}",
    "one of {x}, {y}, {z}", "any of {x} {y} {z}", "{x} < {y}", "{x} \\le x \\le {y}",
)  # fmt: skip
_DENIALS: Final = (
    "\\ne {x}", "\\neq {x}", "\\not= {x}", "\u2260 {x}", "!= {x}", "x \\ne {x}", "x \\neq {x}",
    "\\text{not } {x}", "not {x}", "\\lnot {x}", "\\neg {x}", "> {x}", "< {x}", "\\ge {x}",
    "\\le {x}", "\\geq {x}", "x > {x}", "x < {x}", "x \\ge {x}", "\\gg {x}", "\\text{more than } {x}",
    "more than {x}", "less than {x}", "at least {x}", "at most {x}", "\\text{at least } {x}",
    "anything but {x}", "{x} \\text{ is wrong}", "{x} is wrong", "{x} (incorrect)",
    "{x} \\text{ (incorrect)}", "{x} \\text{ is not the answer}", "never {x}", "unlike {x}",
    "\\cancel{{x}}", "\\xcancel{{x}}", "\\bcancel{{x}}", "\\sout{{x}}", "~~{x}~~", "~~{x}~~ {y}",
    "\\cancel{{x}} {y}", "\\sout{{x}} {y}", "<s>{x}</s> {y}", "<del>{x}</del> {y}",
    "\\{{x}\\}^c", "\\overline{{x}}", "\\bar{{x}}", "-{x}", "- {x}", "\u2212{x}", "\\minus{x}",
    "\u2013{x}", "\u2011{x}", "\uff0d{x}", "\ufe63{x}", "\\text{-}{x}", "\\text{minus }{x}",
    "\\text{negative }{x}", "negative {x}", "minus {x}", "(-{x})", "-({x})", "-(+{x})", "{-}{x}",
    "{-{x}}", "-\\left({x}\\right)", "\\mathord{-}{x}", "\\mathbin{-}{x}", "&minus;{x}", "&#8722;{x}",
    "&#45;{x}", "&ndash;{x}", "--{x}-", "{x}^2", "{x}^{-1}",
    "{x}^{\\circ}C^2", "{x}i", "{x}x", "{x}\\pi", "{x}e", "{x}\u2030", "\\sqrt{{x}}", "\\ln {x}", "\\frac{1}{{x}}", "1/{x}", "{x}^{0}", "{x} + C",
    "{x} + \\epsilon", "{x} + x", "{x} + n", "O({x})", "f({x})", "x({x})", "|{x}| + 1",
    "\\{x : x = {x}\\} \\cup \\{0\\}", "{x} \\text{ thousand}", "{x} million",
    "0x{x}", "0b{x}", "{x}h_{16}", "{x}e5", "{x}E-3",
    "{x} \\times 10^3", "{x} \\cdot 10^{-2}", "{x}00", "00.{x}", "0.{x}", ".{x}", "{x}.5", "{x}.01",
    "{x},000", "{x}{,}000", "{x}\\,000", "{x} 000", "{x}:00:30", "{x}\\frac12", "{x} 1/2",
    "\\lfloor {x}.7 \\rfloor + 1", "\\text{No solution, not even } {x}", "DNE {x}",
)  # fmt: skip
_DISGUISES: Final = (
    "{x}\u200b{y}", "{y}\u200b{x}", "{x}\u2060{y}", "{x}\u00ad{y}", "{x}\ufeff{y}", "{x}\u2063{y}",
    "{x}\u2062{y}", "{x}\u2064{y}", "{y}\u202e{x}", "\u202e{X}", "\u202e{X}\u202c", "\u2067{X}\u2069",
    "\u061c{X}", "{x}\u0336", "{x}\u0338", "{x}\u0305\u0305", "\u0336{x}{y}", "{x}\u20e0",
    "&#x31;{x}", "&#49;{x}", "&lt;{x}", "&gt;{x}", "{x}&#46;5", "{x}&frac12;", "{x}&sup2;",
    "{x}&nbsp;{y}", "<sup>{x}</sup>", "{y}<sup>{x}</sup>", "{y}<!-- {x} -->", "<!-- {x} --> {y}",
    "{y} % {x}", "{y} \\phantom{{x}}", "\\phantom{{x}} {y}", "\\color{white}{{x}} {y}",
    "\\textcolor{white}{{x}} {y}", "{\\tiny {x}} {y}", "\\hspace{0pt}{x} {y}", "\\rlap{{x}}{y}",
    "\\llap{{x}}{y}", "\\tag{{x}} {y}", "{y} \\tag{{x}}", "\\label{{x}} {y}", "{y}^{{x}}", "{y}_{{x}}",
    "\\overset{{x}}{{y}}", "\\underset{{x}}{{y}}", "\\stackrel{{x}}{{y}}", "\\underbrace{{y}}_{{x}}",
    "\\def\\a{{x}} \\a + 1", "\\newcommand{\\a}{{x}} \\a + 1", "\\let\\a={x} {y}",
    "\\renewcommand{\\boxed}[1]{{x}} {y}", "\\newcommand\\answer{{x}} {y}", "\\def\\frac#1#2{{x}} \\frac{{y}}{7}",
    "\\if0 {x} \\else {y} \\fi", "\\iffalse {x} \\fi {y}", "\\expandafter {y} \\iffalse{x}\\fi",
    "\\text{{y}\\iffalse {x}\\fi}", "\\char`{x} {y}", "\\ref{{x}} {y}", "\\footnote{{x}} {y}",
    "{y}\\footnote{{x}}", "\\href{{x}}{{y}}", "[{y}]({x})", "![{x}]({y})", "`{x}` `{y}`",
    "\u0661{x}", "\u2488{x}", "\u00b9{x}", "{x}\u00b2", "{x}\u00bd", "{x}\u2460", "\u2460{x}",
    "{x}\ufe0f\u20e3{y}", "\U0001d7d9{x}", "{x}\u4e07", "\u96f6\u70b9{x}", "{x}\u5104",
)  # fmt: skip
"""`{X}` is the gold backwards, as a mark of direction shows it; gold and its reverse differ."""
_ADORNMENTS: Final = (
    "{x}", " {x} ", "${x}$", "$${x}$$", "\\({x}\\)", "\\[{x}\\]", "**{x}**", "*{x}*", "__{x}__",
    "`{x}`", "\"{x}\"", "'{x}'", "\u201c{x}\u201d", "{x}.", "{x}.0", "{x}.00", "+{x}", "({x})",
    "{{x}}", "{{{x}}}", "\\text{{x}}", "\\mathbf{{x}}", "\\mathrm{{x}}", "\\boldsymbol{{x}}",
    "\\textbf{{x}}", "\\displaystyle {x}", "\\displaystyle{{x}}", "\\left({x}\\right)", "= {x}",
    "x = {x}", "\\boxed{{x}}", "\\boxed{\\boxed{{x}}}", "\\fbox{{x}}", "\\fbox{\\boxed{{x}}}",
    "\\boxed{ {x} }", "\\boxed{\\text{{x}}}", "\\boxed{\\mathbf{{x}}}", "\\,{x}", "{x}\\,", "~{x}",
    "{x}~", "\\ {x}", "{x}\\ ", "\\!{x}", "\\;{x}\\;", "\\quad {x}", "{x}\\quad", "\\phantom{0}{x}",
    "\\color{red}{{x}}", "\\textcolor{red}{{x}}", "\u200b{x}", "{x}\u200b", "\ufeff{x}", "{x}\ufeff",
    "\u2060{x}\u2060", "\u200e{x}", "\u00a0{x}\u00a0", "\u3000{x}", "\u2009{x}", "{x}\u3002",
    "\\large {x}", "\\Large{{x}}", "{\\bf {x}}", "{\\rm {x}}", "\\mbox{{x}}", "\\emph{{x}}",
    "\\underline{{x}}", "\\ensuremath{{x}}", "\\bm{{x}}", "-(-{x})", "{x} + 0", "{x} \\cdot 1",
    "\\frac{{x}}{1}", "{x} (not {y})", "{x}, not {y}", "{x} \\text{ (not } {y})", "{x} rather than {y}", "{x}, as required",
    "{x}, since {y} is too large", "{x} \\text{ as required}", "{x} (exact)", "\\sqrt{{x}^2} = {x}",
    "2 \\cdot {x} / 2 = {x}", "{x} \\approx {x}.0", "{x}/1", "\\sqrt{{x}^2}", "{x}^1", "{x}^{1}",
)  # fmt: skip
CARRIERS: Final = (
    "\\boxed{%s}", "<answer>%s</answer>", "#### %s", "The answer is %s", "The answer is $%s$",
    "Answer: %s", "**Final answer:** $%s$", "We think.\n\n\\[\\boxed{%s}\\]",
    "So $2 + 2 = 4$.\nThe final answer is \\boxed{%s}.", "<answer>$%s$</answer>",
)  # fmt: skip
"""`%s` is the answer."""
FLOODS: Final[tuple[Flood, ...]] = (
    lambda _x, _: " ".join(map(str, range(100, 999))),
    lambda _x, _: ", ".join(map(str, range(100, 999))),
    lambda _x, _: "\n".join(map(str, range(100, 999))),
    lambda x, _: f"{x} " * 3 + "1 2 3 " * 200,
    lambda x, rng: f"{x}" + "0" * rng.choice((50, 1900, 20_000)),
    lambda x, rng: "0" * rng.choice((50, 1900)) + "." + f"{x}",
    lambda _x, _: "".join(map(str, range(100, 999))),
    lambda x, _: "\\boxed{" * 900 + f"{x}, {x + 1}" + "}" * 900,
    lambda _x, _: "".join(f"\\boxed{{{n}}}" for n in range(100, 999)),
    lambda x, _: " and ".join(f"\\boxed{{{n}}}" for n in range(x, x + 40)),
    lambda x, _: "{" * 400 + f"{x}, 5" + "}" * 400,
    lambda x, _: "(" * 400 + f"{x}, 5" + ")" * 400,
    lambda x, _: f"{x}" + "\u0336" * 1500 + "1",
    lambda x, _: f"{x}" + "\u200b1" * 600,
    lambda x, _: "-" * 501 + f"{x}",
    lambda x, _: "- " * 301 + f"{x}",
    lambda x, _: f"{x} or " * 200 + "1",
    lambda x, _: f"{x} = " * 150 + "1",
    lambda x, _: "+".join(["1"] * (x + 1)),
    lambda x, _: "\\frac{" * 300 + f"{x}" + "}{2}" * 300,
    lambda x, _: "\\text{" * 300 + f"{x}, 1" + "}" * 300,
    lambda x, _: "&#49;" * 300 + f"{x}",
)
_PLAIN: Final = ("\\boxed{%s}", "<answer>%s</answer>", "#### %s", "Answer: %s")


SHAPES: Final = {
    "hedge": _HEDGES,
    "denial": _DENIALS,
    "disguise": _DISGUISES,
    "adornment": _ADORNMENTS,
}
"""By the kind of answer."""


def disguise_case(rng: random.Random) -> Case:
    """A gold of three digits and an answer that hedges, denies, hides or adorns it."""
    kind = one_of(rng, {"hedge": 3, "denial": 4, "disguise": 3, "adornment": 3, "flood": 0.6})
    x, y, z = three_values(rng)
    carrier = rng.choice(CARRIERS)
    if kind == "flood":
        said = rng.choice(FLOODS)(x, rng)
    else:
        shape = rng.choice(SHAPES[kind])
        said = filled(shape, x, y, z)
        if not fits(shape, carrier):
            carrier = rng.choice(_PLAIN)
        if not fits(shape, carrier):
            carrier = "<answer>%s</answer>"
    return Case(
        pipeline="math",
        kind=f"disguise: {kind}",
        response=carrier.replace("%s", said),
        reference={"answers": [str(x)]},
        expected=Expected.RIGHT if kind == "adornment" else Expected.WRONG,
    )


def three_values(rng: random.Random) -> tuple[int, int, int]:
    """Three values, no two of which are in a simple relation, and none reads the same backwards."""
    while True:
        x, y, z = rng.sample(range(113, 998), 3)
        if x % 10 and str(x) != str(x)[::-1] and y % x and x % y and y != x + 1:
            return x, y, z


def filled(shape: str, x: int, y: int, z: int) -> str:
    """The shape with values."""
    for mark, value in (("{x}", x), ("{y}", y), ("{z}", z), ("{X}", str(x)[::-1])):
        shape = shape.replace(mark, str(value))
    return shape


def fits(shape: str, carrier: str) -> bool:
    """Delimiters of mathematics do not nest, and a line carries one line."""
    if "\n" in shape and "answer>" not in carrier:
        return False
    if "$" in shape or "\\(" in shape or "\\[" in shape:
        return "$" not in carrier and "\\[" not in carrier and "boxed" not in carrier
    marks = ("**", "__", "`", "~~", "<", "\u201c", '"', "*", "'")
    return not ("$" in carrier or "boxed" in carrier) or not shape.startswith(marks)
