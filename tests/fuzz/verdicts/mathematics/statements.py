r"""Answers as models state them: in sentences, with labels, conditions, words, units, regions.

A *family* is a gold with the texts that state it and texts that are near it. `<a>`, `<b>` and `<c>`
stand for integers of two or three digits, `<a>` the smallest and `<c>` the greatest.
"""

import random
from dataclasses import dataclass
from typing import Final

from tests.fuzz.verdicts.case import Case, Expected


@dataclass(frozen=True, slots=True)
class Family:
    """A gold, right answers and wrong ones."""

    gold: str
    right: tuple[str, ...]
    wrong: tuple[str, ...]


BOXED: Final = (
    Family(
        "(-\\infty, <a>)",
        ("x < <a>", "x \\in (-\\infty, <a>)", "\\{x \\mid x < <a>\\}", "]-\\infty, <a>[",
         "\\{x \\in \\mathbb{R} : x < <a>\\}", "(-\\infty,<a>)", "<a> > x"),
        ("x \\le <a>", "x > <a>", "(-\\infty, <a>]", "(<a>, \\infty)", "\\{x \\mid x \\le <a>\\}",
         "\\{x \\mid x > <a>\\}", "x < <b>", "<a>", "x = <a>", "\\{x \\mid x < <b>\\}"),
    ),
    Family(
        "[<a>, <b>]",
        ("<a> \\le x \\le <b>", "<b> \\ge x \\ge <a>", "x \\in [<a>, <b>]", "[<a>; <b>]",
         "\\{x : <a> \\leq x \\leq <b>\\}", "<a> \u2264 x \u2264 <b>"),
        ("<a> < x < <b>", "<a> \\le x < <b>", "(<a>, <b>)", "<a>, <b>", "\\{<a>, <b>\\}",
         "<a> \\le x \\le <c>", "\\{x : <a> < x \\leq <b>\\}", "x \\ge <a>"),
    ),
    Family(
        "(-\\infty, <a>) \\cup (<b>, \\infty)",
        ("x < <a> \\text{ or } x > <b>", "x < <a> \\lor x > <b>",
         "(<b>, \\infty) \\cup (-\\infty, <a>)"),
        ("<a> < x < <b>", "x < <a>", "x > <b>", "x < <a> \\text{ or } x \\ge <b>",
         "x < <a> \\text{ or } x > <c>"),
    ),
    Family(
        "\\{<a>, <b>, <c>\\}",
        ("<c>, <b>, <a>", "\\{<b>; <a>; <c>\\}", "<a>, <b>, \\text{ and } <c>",
         "x \\in \\{<a>, <b>, <c>\\}"),
        ("<a>, <b>", "<a>, <b>, <c>, ...", "<a>, <b>, <c>, \\ldots", "\\{<a>, <b>, <c>, \\dots\\}",
         "<a>, <b>, \\ldots, <c>", "<a> + <b> + <c>", "<a>..<c>"),
    ),
    Family(
        "<a>\\mathbf{i} - <b>\\mathbf{j}",
        ("(<a>, -<b>)", "\\langle <a>, -<b> \\rangle", "<a>i - <b>j", "<a>\\vec{i} - <b>\\vec{j}",
         "<a>\\hat{\\imath} - <b>\\hat{\\jmath}", "-<b>\\mathbf{j} + <a>\\mathbf{i}",
         "\\begin{pmatrix} <a> \\\\ -<b> \\end{pmatrix}", "\\vec v = <a>\\mathbf i - <b>\\mathbf j"),
        ("<a>", "<a>\\mathbf{i}", "<a>\\mathbf{i} + <b>\\mathbf{j}", "(<a>, <b>)", "-<b>",
         "<b>\\mathbf{i} - <a>\\mathbf{j}", "<a>\\mathbf{i} - <b>\\mathbf{k}", "<a> - <b>"),
    ),
    Family(
        "<a>",
        ("\\textbf{(C) } <a>", "\\text{(B)}\\ <a>", "(D) <a>", "\\text{E) } <a>", "\\text{The answer is } <a>",
         "\\text{Answer: } <a>", "\\text{The answer is <a>}", "\\textbf{(A) <a>}", "<a> \\text{ cups}",
         "<a> \\text{ cubic feet}", "<a>\\text{ m/s}^2", "<a>\\ \\text{cm}^3", "<a>\\ units^2",
         "<a>\\,^\\circ\\text{C}", "<a> \\text{ boxes of eggs}", "<a>\\;\\Omega", "<a>\\,\\mu\\text{m}"),
        ("<a> \\text{ to } <b>", "<a> \\text{ plus } <b>", "<a> \\text{ minus } <b>",
         "<a> \\text{ times } <b>", "<a> \\text{ over } <b>", "<a> \\text{ divided by } <b>",
         "<a> \\text{ squared}", "<a> \\text{ cubed}", "<a> \\text{ out of } <b>", "<a> \\text{ mod } <b>",
         "<a> \\text{ hundred}", "<a> \\text{ tenths}", "<a> \\text{ and a half}", "<a> \\text{ halves}",
         "<a> \\text{ pairs of } <b>", "<a> \\text{ percent of } <b>", "<a>\\mathbf{i} + <b>\\mathbf{j}",
         "<a>\\vec{i}", "<a> \\text{ of } x", "<a>\\ldots", "<a>\\text{ thousandths}", "<a> \\text{ factorial}",
         "\\textbf{(C) } <b>", "\\textbf{(C) } \\text{not } <a>", "\\text{The answer is not } <a>",
         "\\text{(A)}\\ <b> \\text{ (B)}\\ <a>", "<a>^\\circ\\text{C} - <b>"),
    ),
    Family(
        "\\text{(C)}",
        ("C", "(C)", "\\textbf{(C) } <a>", "\\text{(C)}\\ <a>", "\\text{C) } <a>", "\\text{(C) <a>}",
         "C. <a>", "\\mathbf{(C)}\\ \\frac{<a>}{<b>}"),
        ("\\textbf{(B) } <a>", "\\text{(A) or (C)}", "\\text{(A)}\\ C", "(A), (C)", "\\text{not (C)}",
         "\\text{(C) is wrong}", "(A)(C)", "<a>"),
    ),
    Family(
        "\\frac{\\pi}{<a>} + <b>\\pi k, k \\in \\mathbb{Z}",
        ("\\frac{\\pi}{<a>} + <b>\\pi k", "x = \\frac{\\pi}{<a>} + <b>k\\pi",
         "<b>\\pi k + \\frac{\\pi}{<a>},\\ k\\in\\mathbb{Z}", "\\frac{\\pi}{<a>} + <b>\\pi k \\text{ for any integer } k",
         "\\frac{\\pi}{<a>} + <b>\\pi k, \\text{ where } k \\in \\mathbb{Z}", "\\frac{\\pi}{<a>} + <b>\\pi k \\quad (k \u2208 \u2124)"),
        ("\\frac{\\pi}{<a>}", "\\frac{\\pi}{<a>} + \\pi k", "\\frac{\\pi}{<a>} + <c>\\pi k",
         "\\frac{\\pi}{<a>} + <b>\\pi k, k \\in \\mathbb{N}", "<b>\\pi k, k \\in \\mathbb{Z}", "k \\in \\mathbb{Z}"),
    ),
    Family(
        "\\frac{x + <a>}{x - <b>}",
        ("\\frac{x + <a>}{x - <b>}, x \\ne <b>", "\\frac{x + <a>}{x - <b>} \\quad (x \\neq <b>)",
         "\\frac{x + <a>}{x - <b>} \\text{ for } x \\ne <b>", "f(x) = \\frac{x + <a>}{x - <b>}"),
        ("\\frac{x - <a>}{x - <b>}, x \\ne <b>", "\\frac{x + <a>}{x - <b>}, y = <c>", "x \\ne <b>",
         "\\frac{x + <a>}{x - <b>} \\text{ or } x \\ne <b>"),
    ),
    Family(
        "(<a>, <b>)",
        ("\\begin{cases} x = <a> \\\\ y = <b> \\end{cases}", "\\begin{aligned} x &= <a> \\\\ y &= <b> \\end{aligned}",
         "\\left\\{\\begin{array}{l} x = <a> \\\\ y = <b> \\end{array}\\right.", "\\text{The point } (<a>, <b>)"),
        ("\\begin{cases} x = <b> \\\\ y = <a> \\end{cases}", "\\begin{aligned} x &= <a> \\\\ y &= <c> \\end{aligned}",
         "\\begin{aligned} x &= <a> \\\\ &= <b> \\end{aligned}", "\\text{The point } (<b>, <a>)"),
    ),
    Family(
        "\\text{no solution}",
        ("\\emptyset", "\\varnothing", "\\{\\}", "\\text{No real solutions}", "\\text{There is no solution}",
         "\u2205", "\\text{the empty set}"),
        ("0", "<a>", "\\{0\\}", "\\text{one solution}", "\\text{infinitely many solutions}", "\\text{no idea}"),
    ),
    Family("\\text{DNE}", ("\\text{does not exist}", "\\text{The limit does not exist}"), ("0", "\\infty", "\\text{exists}")),
    Family("y = <a>x + <b>", ("f(x) = <a>x + <b>", "<a>x + <b>", "y - <b> = <a>x"),
           ("f(x) = <b>x + <a>", "x = <a>y + <b>", "f(y) = <a>x - <b>")),
    Family("<a> \\pmod{<c>}", ("x \\equiv <a> \\pmod{<c>}", "n \\equiv <a> \\pmod{<c>}"),
           ("x \\equiv <b> \\pmod{<c>}", "x \\equiv <a> \\pmod{<b>}")),
    Family("\\binom{<b>}{7}", ("{}_{<b>}C_{7}", "^{<b>}C_7", "{<b> \\choose 7}"), ("{}_{<a>}C_{7}", "\\binom{<b>}{3}", "\\frac{<b>}{7}")),
    Family("\\sqrt[3]{<a>}", ("\u221b<a>", "cbrt(<a>)", "<a>^{1/3}"), ("\\sqrt{<a>}", "3\\sqrt{<a>}", "\u221b<b>")),
    Family("<a>^\\circ", ("<a>\u00b0", "<a> \\text{ degrees}"), ("<a>'", "<a>''", "<a> \\text{ radians}")),
    Family("<a>.5\\%", ("<a>,5\\%", "<a>{,}5\\%", "<a>.5 \\text{ percent}"), ("<a>5\\%", "<a>,05\\%")),
    Family("<a>234.5", ("<a>\u202f234,5", "<a>'234.5", "<a>.234,5", "<a> 234,5"), ("<a>.2345", "<a>,2345")),
    Family("|x - <a>|", ("\\abs{x - <a>}", "|<a> - x|", "\\lvert x - <a> \\rvert"), ("\\abs{x + <a>}", "x - <a>")),
    Family("\\mathbb{R}", ("\\mathbb R", "(-\\infty, \\infty)", "\u211d"), ("\\mathbb{Z}", "\\mathbb Q", "\\{<a>\\}")),
)  # fmt: skip
"""In a box or a tag."""
SENTENCES: Final = (
    Family(
        "<a>",
        ("Therefore, x = <a>.", "Hence, $x = <a>$.", "So the answer is **<a>**.", "**The answer is <a>.**",
         "The answer is <strong><a></strong>.",
         "Answer: <a> \u2705", "> **<a>**", "### <a>", "```\n<a>\n```", "The answer is <a>.</s>",
         "The answer is <a>.<|im_end|>", "Thus the value of $x$ is $<a>$.", "In total, the cost is <a> dollars.",
         "The total number of cups is <a>.", "\\text{Answer: }<a>", "Final answer\n\n**<a>**",
         "\\begin{align*} x &= <a> \\cdot 1 \\\\ &= <a> \\end{align*}"),
        ("The answer is <a> squared.", "The answer is <a> cubed.", "The answer is <a> factorial.",
         "Therefore, x = <b>.", "The answer is not <a>.", "Therefore, x \\ne <a>.", "So x > <a>.",
         "The answer is <a> thousand.", "Thus the value is at least <a>.", "So the answer is <a> or <b>."),
    ),
    Family(
        "\\frac{1}{3}",
        ("The answer is 0.333... = 1/3.", "The answer is 0.333... .", "The answer is 1/3 (0.333...).",
         "The answer is 0.333..., or 1/3.", "The answer is 0.3333\u2026 = 1/3."),
        ("The answer is 0.333... = 1/<a>.", "The answer is 0.333.", "The answer is 0.33... or 1/<a>."),
    ),
    Family(
        "x = <a>, x = <b>",
        ("The solutions are x = <a> and x = <b>.", "So $x = <a>$ or $x = <b>$.", "Solutions:\n- x = <a>\n- x = <b>",
         "**x = <a>** and **x = <b>**", "x\u2081 = <a>, x\u2082 = <b>", "$x_1 = <a>$ and $x_2 = <b>$"),
        ("The solution is x = <a>.", "So $x = <a>$ or $x = <c>$.", "Solutions:\n- x = <a>\n- x = <b>\n- x = <c>",
         "So x = <a> and y = <c>."),
    ),
    Family("\\frac{<a>}{<b>}", ("The answer is <a> out of <b>.", "The probability is <a>\u2044<b>."),
           ("The answer is <b> out of <a>.", "The answer is <a> out of <c>.")),
)  # fmt: skip
"""Whole responses."""
CARRIERS: Final = (
    "\\boxed{%s}",
    "So $$\\boxed{%s}.$$",
    "<answer>%s</answer>",
    "The answer is $%s$.",
)


def filled(text: str, values: tuple[int, int, int]) -> str:
    """`text` with numbers."""
    for name, value in zip("abc", values, strict=True):
        text = text.replace(f"<{name}>", str(value))
    return text


def carriers(text: str) -> tuple[str, ...]:
    """Where the text may stand; no sentence announces an answer twice."""
    return CARRIERS[:3] if "nswer" in text else CARRIERS


def values(rng: random.Random) -> tuple[int, int, int]:
    """Three numbers in rising order, none of which divides or ends another."""
    while True:
        a, b, c = sorted(rng.sample(range(12, 400), 3))
        if b % a and c % a and c % b and len({a % 10, b % 10, c % 10}) == 3 and a % 10:
            return a, b, c


def statement_case(rng: random.Random) -> Case:
    """An answer of one family, right or wrong."""
    is_sentence = rng.random() < 0.25
    family = rng.choice(SENTENCES if is_sentence else BOXED)
    is_right = rng.random() < 0.5
    drawn = values(rng)
    said = filled(rng.choice(family.right if is_right else family.wrong), drawn)
    return Case(
        pipeline="math",
        kind="statement",
        response=said if is_sentence else rng.choice(carriers(said)).replace("%s", said),
        reference={"answers": [filled(family.gold, drawn)]},
        expected=Expected.RIGHT if is_right else Expected.WRONG,
    )
