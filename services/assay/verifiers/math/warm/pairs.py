"""Answers that exercise every kind of comparison once, before the first response."""

from typing import Final

PAIRS: Final = (
    ("18", "18"),
    ("\\frac{1}{2}", "0.5"),
    ("x^2+2x+1", "(x+1)^2"),
    ("(1, 2)", "(1,2)"),
    ("\\{1, 2\\}", "\\{2, 1\\}"),
    ("(-\\infty, 2] \\cup [3, \\infty)", "x \\le 2 \\text{ or } x \\ge 3"),
    ("x = 5", "5"),
    ("x^2 = 4", "x^2 - 4 = 0"),
    ("\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}", "\\begin{pmatrix}1&2\\\\3&5\\end{pmatrix}"),
    ("\\sqrt{2}\\sin(\\pi/4)", "\\tan(\\pi/4)"),
    ("\\sum_{k=1}^{10} k", "\\prod_{k=1}^{2} k"),
    ("\\lim_{x\\to 0} \\frac{\\sin x}{x}", "1"),
    ("\\binom{5}{2}", "10"),
    ("5!", "120"),
    ("3+4i", "4i+3"),
    ("50\\%", "\\frac{\\sqrt{1}}{2}"),
    ("\\log_2 8", "3"),
    ("e^{i\\pi}", "-1"),
    ("|x|", "\\sqrt{x^2}"),
    ("\\lfloor 2.5 \\rfloor", "\\lceil \\sqrt{3} \\rceil"),
    ("f(x)=x+1", "f(x)=1+x"),
    ("90^\\circ", "\\frac{\\pi}{2}"),
    ("\\text{yes}", "\\text{no}"),
    ("3, x, 7", "7, 3, x"),
)
"""Gold and answer; one for each kind of comparison."""
FORMS: Final = (
    ("2e^{i\\theta}", "2\\cos\\theta + 2i\\sin\\theta"),
    ("1 < x < 2", "(1,2)"),
    ("\\int_0^1 x dx", "\\frac{\\sqrt{1}}{2}"),
)
"""Only the parser learns from these: to compare them again costs as much as the first time."""
