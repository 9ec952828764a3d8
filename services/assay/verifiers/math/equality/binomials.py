r"""Spellings of a binomial coefficient: `C(2n, n)`, `C_{2n}^n`, `{}_{2n}C_n`, `10C3`.

`C(2, 1)` is also a point, so a text is only read as a coefficient where the other side cannot be
one. Linear in the length of the text, which is bounded.
"""

import re
from typing import Final

_CHARS_MAX: Final = 400
_FLAT: Final = r"[^(),{}$=]{1,40}"
_TERM: Final = rf"(?:{_FLAT}|[^(),{{}}$=]{{0,20}}\({_FLAT}\)[^(),{{}}$=]{{0,20}})"
_INDEX: Final = r"(?:\{([^{}]{1,40})\}|([\dA-Za-z]))"
_C: Final = r"(?:\\(?:text|mathrm|mathbf|operatorname|rm)\s?)?\{?\s?C\s?\}?"
_CALLED: Final = re.compile(
    rf"(?a)(?<![A-Za-z\\])(?:{_C}|(?:\\(?:text|mathrm|operatorname)\s?\{{)?"
    r"(?i:nCr|comb|binom(?:ial)?|choose)\}?)"
    rf"\s?\\?(?:left)?\(\s?({_TERM}),\s?({_TERM})\\?(?:right)?\)"
)
_POINT: Final = re.compile(rf"(?a){_C}\s?\\?(?:left)?\([^()]{{1,80}}\\?(?:right)?\)")
_LOW_HIGH: Final = re.compile(rf"(?a)(?<![A-Za-z\\}}\d]){_C}\s?_\s?{_INDEX}\s?\^\s?{_INDEX}")
_HIGH_LOW: Final = re.compile(rf"(?a)(?<![A-Za-z\\}}\d]){_C}\s?\^\s?{_INDEX}\s?_\s?{_INDEX}")
_AROUND: Final = re.compile(
    rf"(?a)(?:\{{\s?\}}\s?|(?<![\w)\]}}])(?<![\w)\]}}]\s))[_^]\s?{_INDEX}\s?{_C}\s?_\s?{_INDEX}"
)
_INFIX: Final = re.compile(r"(?a)(?<![\w\\])(\d{1,4})C(\d{1,4})(?!\w)")


def stated(text: str) -> str:
    r"""`text` with each coefficient as `\binom{n}{k}`; `text` itself if it has none."""
    if len(text) > _CHARS_MAX or ("C" not in text and "c" not in text):
        return text
    found = _CALLED.sub(lambda m: _binomial(m[1], m[2]), text)
    found = _AROUND.sub(lambda m: _binomial(m[1] or m[2], m[3] or m[4]), found)
    found = _LOW_HIGH.sub(lambda m: _binomial(m[1] or m[2], m[3] or m[4]), found)
    found = _HIGH_LOW.sub(lambda m: _binomial(m[1] or m[2], m[3] or m[4]), found)
    return _INFIX.sub(lambda m: _binomial(m[1], m[2]), found)


def is_point(text: str) -> bool:
    """Whether it is one name with coordinates, and nothing else."""
    return _POINT.fullmatch(text.strip(" $.")) is not None


def _binomial(above: str, below: str) -> str:
    return f"\\binom{{{above.strip()}}}{{{below.strip()}}}"
