"""Bare values behind an answer that take it back, or stand as another one beside it.

`The answer is 85. Actually, 5.` corrects it; `\\boxed{85} or 5` leaves both. Total, linear.
"""

import re
from typing import Final

from assay.verifiers.text import markers
from assay.verifiers.text.announcements.search import bare as without_marks
from assay.verifiers.text.announcements.search import is_value
from assay.verifiers.text.markers import Statement

_LEAD_CHARS_MAX: Final = 120
_CORRECTS: Final = (
    r"wait|hold[ ]on|nope|no|sorry|oops|actually|correction|corrected|edit|update|erratum|rather"
    r"|i[ ](?:mean|meant)|i[ ]was[ ]wrong|i[ ]made[ ]an?[ ](?:mistake|error)|make[ ]that"
    r"|(?:scratch|strike)[ ]that|my[ ](?:mistake|bad|apologies)|on[ ]second[ ]thought"
    r"|let[ ]me[ ]correct(?:[ ](?:that|myself))?"
    r"|that(?:'s|[ ]is|[ ]was)[ ](?:wrong|incorrect|not[ ]right|an?[ ](?:mistake|error))"
)
_JOINS: Final = (
    r"or|but|and|so|oh|hmm|it(?:'s|[ ](?:is|should[ ]be))|that[ ]should[ ]be|the|my|final|correct"
    r"|right|new|answer|result|value|is|should[ ]be"
)
_LEAD: Final = re.compile(
    r"(?:[\s.,;:!$*_)\]}\u2013\u2014]|\\[)\],;! ]|-(?=\s)|\((?=[A-Za-z])"
    rf"|(?<![A-Za-z])(?:{_CORRECTS}|{_JOINS})(?![A-Za-z]))*+",
    re.IGNORECASE,
)
_TAKES_BACK: Final = re.compile(rf"(?<![A-Za-z])(?:{_CORRECTS})(?![A-Za-z])", re.IGNORECASE)
_OR: Final = re.compile(r"[\s$*_)\]]{0,4}[.,;(]?\s{0,2}(?<![A-Za-z])or\s", re.IGNORECASE)
_BEGINS: Final = re.compile(
    r"[*_`]{0,4}(?:\$|\\(?:[(\[]|boxed|[dt]?frac|sqrt|pi)|\(?[-+\u2212]?\.?\d)"
)
_WORD: Final = re.compile(r"(?<![\\A-Za-z])[^\W\d_]{2,}")
_WITHIN: Final = re.compile(
    rf"[,;.!\u2013\u2014-]\s+(?:(?:or|but|oh),?\s+)?(?:{_CORRECTS})(?![A-Za-z])", re.IGNORECASE
)


def takes_back(text: str, end: int, start: int) -> bool:
    """Whether between two statements nothing is said but that the first one is wrong."""
    lead = _LEAD.match(text, end, min(start, end + _LEAD_CHARS_MAX))
    return lead is not None and lead.end() == start and _TAKES_BACK.search(lead[0]) is not None


def bare(text: str, end: int) -> Statement | None:
    """The bare value that directly follows an answer that ends at `end`."""
    lead = _LEAD.match(text, end, end + _LEAD_CHARS_MAX)
    if lead is None or not (_TAKES_BACK.search(lead[0]) or _OR.match(text, end, lead.end())):
        return None
    value = markers.sentence(markers.line_at(text, lead.end()))
    said = without_marks(value)
    return Statement(lead.end(), lead.end() + len(value), said) if _is_bare(said) else None


def corrected(text: str) -> str:
    """`85, I mean 5` is `5`."""
    found = _WITHIN.search(text[:_LEAD_CHARS_MAX])
    if found is None:
        return text
    last = bare(text, found.start())
    return text if last is None or last.end < len(text.rstrip(" .!")) else last.text


def _is_bare(text: str) -> bool:
    if _BEGINS.match(text) is None or "=" in text or not is_value(text):
        return False
    words = _WORD.findall(text)
    return len(words) <= 1 and "is" not in words
