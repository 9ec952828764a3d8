r"""Vectors in another typeface: `\mathbf{a}` for `\vec{a}`. Text to text, linear.

A bold letter is no vector by itself, so it is read as one only where the other text has the same
letters with arrows or in bold, and neither text uses both.
"""

import re
from typing import Final

_LETTER: Final = r"(?:\{\s?(?P<a>[A-Za-z](?:_\{?\w\}?)?)\s?\}|\s(?P<b>[A-Za-z])(?![A-Za-z]))"
_ARROW: Final = re.compile(rf"(?a)\\(?:vec|overrightarrow){_LETTER}")
_BOLD: Final = re.compile(rf"(?a)\\(?:mathbf|boldsymbol|bm|pmb|textbf|bf){_LETTER}")
_CHARS_MAX: Final = 400


def alike(gold: str, answer: str) -> tuple[str, str] | None:
    """Both texts with an arrow over the letters that one of them sets in bold; `None` if they are
    not such a pair."""
    if "\\" not in gold or "\\" not in answer or len(gold) + len(answer) > _CHARS_MAX:
        return None
    arrows = [_letters(_ARROW, text) for text in (gold, answer)]
    bold = [_letters(_BOLD, text) for text in (gold, answer)]
    if any(one and other for one, other in zip(arrows, bold, strict=True)) or not any(bold):
        return None
    if arrows[0] | bold[0] != arrows[1] | bold[1]:
        return None
    return _BOLD.sub(_arrow, gold), _BOLD.sub(_arrow, answer)


def _letters(pattern: re.Pattern[str], text: str) -> set[str]:
    return {match["a"] or match["b"] for match in pattern.finditer(text)}


def _arrow(match: re.Match[str]) -> str:
    return f"\\vec{{{match['a'] or match['b']}}}"
