"""Letters that a problem uses, and that no response chooses: `P(B)`, `Let B be the midpoint`."""

import re
from typing import Final

_SEARCHED_CHARS_MAX: Final = 60
"""Characters before a letter that are searched for what it is."""
_QUANTITY_BEFORE: Final = re.compile(
    r"\bP\($|\b(?:probability|chances?|odds|likelihood|value|area|volume|length|distance|measure|size"
    r"|radius|mass|weight|height|speed|age|price|cost|event|matrix|set|point|vector)\b[^.!?;,:\n]{0,24}$",
    re.IGNORECASE,
)
_VALUE_AFTER: Final = re.compile(
    r"[^.!?;,\n]{0,20}?(?:\b(?:is|was|equals?|has|be)\b|=)[^.!?;,\n]{0,20}?(?:[(\[]?-?\.?\d|\\frac"
    r"|\b(?:zero|one|two|three|half|empty)\b)",
    re.IGNORECASE,
)
_INTRODUCED: Final = re.compile(
    r"\b(?:let|define|denote(?:\s+by)?)\s+(?:[A-Z]\w?'?(?:\s*,\s*|\s+and\s+)){0,4}$", re.IGNORECASE
)
"""`Let A and B be points`, and not `Let me pick B`."""
_DEFINED_AFTER: Final = re.compile(
    r"\s*=\s*(?:[(\[|-]\s*)*(?:\d|\.\d|\\(?!text)[A-Za-z]|[A-Za-z](?![\w']))"
    r"|\s+(?:is|are|be)\s+(?:an?|the)\s+(?:[\w-]+\s+){0,2}?"
    r"(?:matri(?:x|ces)|(?:sub)?sets?|(?:mid)?points?|events?|vectors?|functions?|numbers?|integers?"
    r"|constants?|variables?|angles?|verte(?:x|ces)|circles?|lines?|segments?|planes?|sequences?"
    r"|polynomials?|cent(?:er|re)s?|(?:in|circum|ortho)cent(?:er|re)|foot|roots?|groups?|rings?"
    r"|digits?|coefficients?|amplitude|length|area|radius|intersection)\b",
    re.IGNORECASE,
)
"""`B = 0.5`, `B is a matrix`; not `B = correct`, `B is the best answer`."""
_OPTION_BEFORE: Final = re.compile(
    r"\b(?:options?|choices?|answers?|letter)\b[^.!?\n]{0,20}$", re.I
)


def is_a_quantity(text: str, start: int, end: int) -> bool:
    """`The probability of B is 0.5`: a letter that the problem uses, and no choice."""
    before = text[max(0, start - _SEARCHED_CHARS_MAX) : start]
    if _OPTION_BEFORE.search(before) is not None:
        return False
    if _INTRODUCED.search(before) or _DEFINED_AFTER.match(text, end):
        return True
    has_quantity = _QUANTITY_BEFORE.search(before) is not None
    return has_quantity and _VALUE_AFTER.match(text, end) is not None
