r"""What stands directly around a box and makes it a part of the answer: `3 + \boxed{5}`.

Signs of an operation (`8\boxed{5}`), words of arithmetic (`half of \boxed{5}`), relations to
something unknown (`x > \boxed{5}`), and brackets with other members (`[\boxed{5}, \infty)`). What
states the answer is the whole of it. Total; looks at a bounded number of characters on either side.
"""

import re
from typing import Final

from assay.verifiers.text.around import arithmetic, relations

_BEFORE_CHARS_MAX: Final = 60
_OPERATOR_BEFORE: Final = re.compile(
    r"(?:(?<![-\w\s])[-\u2212]|(?:^|[\s$(=])[-\u2212]|\\(?:cdot|times|div)(?:\s|\{\})*|[\w)}]\s?/\s?|\^\s?\{?"
    r"|\\(?:sqrt|d?frac|tfrac|log|ln|sin|cos|tan)\s?(?:\[\d\])?\s?\{|\u221a\s?)$"
)
_ADDED_BEFORE: Final = re.compile(
    r"(?:[\w)}\]|]\$?\s{0,3}(?:\+|\\(?:pm|mp)(?![a-z]))"
    r"|(?<![A-Za-z])[\d)}]\s{0,3}[-\u2212]\s?"
    r"|\d\$?\s(?:plus|minus|times|divided\sby)"
    r"|\\(?:[dtc]?frac|[dt]?binom)\s?\{(?:[^{}]|\{[^{}]*\})*\}\s?\{)\s{0,3}\$?\Z"
    r"|(?:\d|(?<!\d)0\.|\\pi\s?|\\sqrt\{[^{}]*\}\s?|(?<![A-Za-z\\])[fgh]\("
    r"|\\(?:lfloor|lceil|log|ln|sin|cos|tan|gcd|max|min)\s?\(?)\Z"
)
"""An operator with an operand before it."""
_ADDED_ENDS: Final = (
    *("+", "-", "\u2212", "{", "(", "}", ".", *"0123456789", "plus", "minus", "times", "by", "pi"),
    *("pm", "mp", "floor", "ceil", "log", "ln", "sin", "cos", "tan", "gcd", "max", "min"),
)
"""What it ends with."""
_NUMBERED: Final = re.compile(
    r"(?:\A|[\n.!?:])[\s*#]{0,9}(?!(?:so|thus|hence|then|therefore|is|are|get|gives?|equals?|answer|result|total|value"
    r"|sum|difference|compute|calculate|evaluate|subtract|from|take|and|or|plus|minus|times|of|sin|cos|tan|log|ln|sqrt|exp)\b)"
    r"(?:[A-Za-z][A-Za-z-]{1,20}|q)\.?\s?\d{1,3}(?:\.\d{1,2})?[*]{0,2}\s?[-\u2212]\s?[$*]{0,3}\Z",
    re.IGNORECASE,
)
"""A heading of a noun and its number, and a dash: `Step 3 - `, `Day 2 - `."""
_EQUATION: Final = re.compile(r"[^$\n]*=[^$\n]*$")
_GIVES: Final = re.compile(r"(?:^|\W)\\?[A-Za-z]\w{0,8}\s{0,3}=[^A-Za-z=]*$")
"""A name is equal to an expression of numbers."""
_OPERATOR_BEHIND: Final = re.compile(
    r"(?a)\.?\d|,\d{3}(?!\d)|[\u00b2\u00b3\u00b9\u2074-\u207f]"
    r"|\s{0,3}(?:\\(?:pm|mp)(?![a-z])|[\u00b1\u2213]|\s?[\u2013\u2014]\s?\d"
    r"|(?<!\n)[^\S\n]?\\(?:[dtc]?frac|sqrt|pi|ln|log|sin|cos|tan)(?![a-z])|e(?:\d|\^)|i(?![A-Za-z.]|\s[a-z])|\([a-z]\s?[-+]\s?\w"
    r"|\+\s{0,3}[\d\\a-z(]|(?<!\n)-\s{0,3}\d|-\s{0,3}(?:\\(?:sqrt|d?frac|pi)|[a-z](?![a-z]))|\*(?!\*)\s{0,3}[\d\\(]"
    r"|/\s{0,3}[\d\\({]|\^(?!\s{0,3}\{?\s{0,3}\\circ)|\\(?:cdot|times|div)(?![a-z])|(?<!\n)[xyznk](?![A-Za-z]))"
)
"""Directly beside a box, where it is no answer but an operand."""
_MARKS: Final = r"(?:\*\*|\$|\\[)\]]|\}){0,3}"
_WORDS_BEHIND: Final = re.compile(rf"(?a){_MARKS}\s{arithmetic.BEHIND}", re.IGNORECASE)
_WORDS_BEFORE: Final = re.compile(
    rf"(?<![A-Za-z]){arithmetic.BEFORE}\s(?:\*\*|\$|\\\()?\Z", re.IGNORECASE
)
_OPENERS: Final = " $*\\("


def is_operand(response: str, start: int, end: int) -> bool:
    r"""Whether the box in `[start, end)` is only a part of an expression.

    In `3 + \boxed{4} = 7` it is a place to fill in, and so it is in `y = 2x + \boxed{4}`.
    """
    if relations.is_side(response, start, end) or relations.is_member(response, start, end):
        return True
    before = response[max(0, start - _BEFORE_CHARS_MAX) : start]
    bare = before.rstrip(" $")
    if _NUMBERED.search(before):
        return False
    if bare.endswith(_ADDED_ENDS) and _ADDED_BEFORE.search(before):
        equation = _EQUATION.search(before)
        if equation is not None and not _GIVES.search(equation[0]):
            return False
    elif not (
        _OPERATOR_BEFORE.search(before)
        or _OPERATOR_BEHIND.match(response, end)
        or _WORDS_BEHIND.match(response, end)
        or _is_altered(before)
    ):
        return False
    line_end = response.find("\n", end)
    return "=" not in response[end : len(response) if line_end < 0 else line_end]


def _is_altered(before: str) -> bool:
    """Whether words make the number behind them another one."""
    is_likely = before.rstrip(_OPENERS).lower().endswith(arithmetic.BEFORE_ENDS)
    return is_likely and _WORDS_BEFORE.search(before) is not None
