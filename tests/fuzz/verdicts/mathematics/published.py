r"""Golds and answers in the spellings of published data sets: parts with labels, functions by cases,
choices with their values, prefixes of bases, clock words, money, complex numbers, LaTeX of papers.

Families as in `statements`.
"""

import random
from typing import Final

from tests.fuzz.verdicts.case import Case, Expected
from tests.fuzz.verdicts.mathematics.statements import Family, filled, values

_CASES: Final = "\\begin{cases} %s & %s \\\\ %s & %s \\end{cases}"


def _by_cases(one: str, when: str, two: str, then: str) -> str:
    return _CASES % (one, when, two, then)


FAMILIES: Final = (
    Family(
        "(a) <a> (b) <b>",
        ("(a) <a>, (b) <b>", "(a) <a>; (b) <b>", "a) <a>, b) <b>", "(b) <b>, (a) <a>", "<a>, <b>",
         "\\text{(a) } <a>, \\text{ (b) } <b>", "(i) <a> (ii) <b>", "(1) <a>, (2) <b>",
         "(a) <a> and (b) <b>", "(A) <a>; (B) <b>", "Part (a): <a>, Part (b): <b>"),
        ("(a) <b> (b) <a>", "(a) <b>, (b) <a>", "<b>, <a>", "(a) <a>", "<a>", "<b>", "(a) <a> (b) <c>",
         "(a) <a> (b) <b> (c) <c>", "(b) <a>, (a) <b>", "(i) <b> (ii) <a>", "(a)(<a>)(b)(<b>)",
         "<a> <b>ab", "a) <b>, b) <a>"),
    ),
    Family(
        "1) <a>; 2) <b>; 3) <c>",
        ("<a>, <b>, <c>", "(1) <a>, (2) <b>, (3) <c>", "(a) <a>, (b) <b>, (c) <c>",
         "3) <c>; 1) <a>; 2) <b>"),
        ("<a>, <c>, <b>", "1) <a>; 2) <c>; 3) <b>", "1) <a>; 2) <b>", "<a>, <b>", "<c>"),
    ),
    Family(
        _by_cases("x^2", "x \\ge <a>", "-x", "x < <a>"),
        (_by_cases("x^2,", "\\text{if } x \\geq <a>,", "-x,", "\\text{if } x < <a>."),
         _by_cases("-x", "x < <a>", "x^2", "x \\ge <a>"),
         "f(x) = " + _by_cases("x^2", "\\text{for } x \\ge <a>", "-x", "\\text{for } x < <a>"),
         _by_cases("x \\cdot x", "<a> \\le x", "-x", "<a> > x"),
         "\\begin{dcases} x^2 & x \\ge <a> \\\\ -x & x < <a> \\end{dcases}",
         "\\left\\{ \\begin{array}{ll} x^2 & x \\ge <a> \\\\ -x & x < <a> \\end{array} \\right."),
        (_by_cases("x^2", "x > <a>", "-x", "x \\le <a>"), _by_cases("x^2", "x \\ge <b>", "-x", "x < <b>"),
         _by_cases("-x", "x \\ge <a>", "x^2", "x < <a>"), _by_cases("x^2", "x \\ge <a>", "x", "x < <a>"),
         "x^2", "-x", "x^2, -x", "x \\ge <a>"),
    ),
    Family(
        "\\textbf{(C)}\\ <a>",
        ("C", "(C)", "\\textbf{(C)}", "<a>", "(C) <a>", "\\text{C}", "\\textbf{(C) } <a>", "C) <a>"),
        ("(C) <b>", "(B) <a>", "B", "(B)", "<b>", "C or B", "not C", "(B), (C)"),
    ),
    Family(
        "0x<a>", ("<a>_{16}", "0x<a>", "<a> \\text{ base } 16"), ("0x<b>", "<b>_{16}", "<a>_{8}", "-0x<a>", "<a>")
    ),
    Family(
        "\\text{noon}", ("12:00 \\text{ PM}", "12 pm", "12:00 noon", "Noon"), ("midnight", "12 am", "<a>", "1 pm")
    ),
    Family(
        "\\text{Rs. } <a>", ("<a>", "\u20b9<a>", "Rs <a>", "Rs. <a>", "<a> rupees", "INR <a>"), ("Rs. <b>", "\\$<a>", "-<a>")
    ),
    Family("\u00a3<a>", ("<a>", "<a> pounds", "\u00a3 <a>", "GBP <a>"), ("\u00a3<b>", "\\$<a>", "\u20ac<a>", "-\u00a3<a>")),
    Family(
        "<a> \\text{ m}",
        ("<a> m", "<a>m", "<a> \\, m", "<a> \\text{ meters}", "<a>", "<a>\\ \\mathrm{m}"),
        ("<a> km", "<a> \\text{ cm}", "<b> m", "<a>m^2", "-<a> m"),
    ),
    Family(
        "<a> \\text{ cm}^2",
        ("<a> cm^2", "<a> \\text{ sq cm}", "<a> \\text{ square centimeters}", "<a>\\,\\mathrm{cm}^{2}", "<a>"),
        ("<a> cm", "<a> \\text{ cm}", "<b> cm^2", "<a> \\text{ m}^2", "<a> \\text{ cubic centimeters}"),
    ),
    Family(
        "<a>e^{i\\pi/3}",
        ("<a>(\\frac{1}{2} + \\frac{\\sqrt{3}}{2}i)", "<a>\\left(\\cos\\frac{\\pi}{3} + i\\sin\\frac{\\pi}{3}\\right)",
         "\\frac{<a>}{2} + \\frac{<a>\\sqrt{3}}{2} i", "<a>e^{\\frac{\\pi i}{3}}"),
        ("<a>(\\frac{1}{2} - \\frac{\\sqrt{3}}{2}i)", "<a>e^{-i\\pi/3}", "<a>", "<b>e^{i\\pi/3}",
         "<a>(\\cos\\frac{\\pi}{3} - i\\sin\\frac{\\pi}{3})", "\\frac{<a>}{2}"),
    ),
    Family(
        "(<a> + i)^2",
        ("<a>^2 - 1 + 2 \\cdot <a> i", "(i + <a>)^2", "(<a>+i)(<a>+i)"),
        ("<a>^2 + 1 + 2 \\cdot <a> i", "<a>^2 - 1", "(<a> - i)^2", "<a>^2 - 1 - 2 \\cdot <a> i", "(<b>+i)^2"),
    ),
    Family(
        "\\frac{dy}{dx} = <a>x", ("<a>x", "y' = <a>x", "\\frac{dy}{dx}=<a> x"), ("<b>x", "\\frac{dy}{dx} = -<a>x", "<a>", "<a>x + <b>")
    ),
    Family(
        "\\frac{<a>}{<b>}",
        ("\\frac{<a>}{<b>} \\tag{1}", "\\frac{<a>}{<b>} \\label{eq:1}", "\\hspace{1em} \\frac{<a>}{<b>}",
         "\\vphantom{x} \\frac{<a>}{<b>}", "\\smash{<a>/<b>}", "\\displaystyle{\\frac{<a>}{<b>}}",
         "\\frac{<a>}{<b>} \\nonumber", "{<a> \\over <b>}", "\\dfrac{<a>}{<b>}"),
        ("\\frac{<b>}{<a>} \\tag{1}", "\\frac{<a>}{<c>} \\label{eq:1}", "\\hspace{<a>em} <b>", "\\tag{<a>/<b>} <c>",
         "\\vphantom{\\frac{<a>}{<b>}} <c>", "<c> \\label{<a>/<b>}"),
    ),
    Family("2:05", ("2:05", "02:05", "2:05 \\text{ p.m.}", "2.05 pm"), ("2:5", "2:50", "5:02", "2/5", "0.4")),
)  # fmt: skip
CARRIERS: Final = (
    "\\boxed{%s}",
    "Thus $$\\boxed{%s}$$",
    "<answer>%s</answer>",
)


def published_case(rng: random.Random) -> Case:
    """An answer of one family, right or wrong."""
    family = rng.choice(FAMILIES)
    is_right = rng.random() < 0.5
    drawn = values(rng)
    said = filled(rng.choice(family.right if is_right else family.wrong), drawn)
    return Case(
        pipeline="math",
        kind="published",
        response=rng.choice(CARRIERS).replace("%s", said),
        reference={"answers": [filled(family.gold, drawn)]},
        expected=Expected.RIGHT if is_right else Expected.WRONG,
    )
