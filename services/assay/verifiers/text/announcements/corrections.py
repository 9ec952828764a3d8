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
PHRASES: Final = (
    r"hold[ ]on|i[ ](?:mean|meant)|i[ ]was[ ]wrong|i[ ]made[ ]an?[ ](?:mistake|error)|make[ ]that"
    r"|(?:scratch|strike)[ ]that|my[ ](?:mistake|bad|apologies)|on[ ]second[ ]thought"
    r"|let[ ]me[ ]correct(?:[ ](?:that|myself))?"
    r"|that(?:'s|[ ]is|[ ]was)[ ](?:wrong|incorrect|not[ ]right|an?[ ](?:mistake|error))"
)
_CORRECTS: Final = (
    r"wait|nope|no|sorry|oops|actually|correction|corrected|edit|update|erratum|rather"
    rf"|{PHRASES}"
)
_JOINS: Final = (
    r"or|but|and|so|oh|hmm|it(?:'s|[ ](?:is|should[ ]be))|that[ ]should[ ]be|the|my|final|correct"
    r"|right|new|answer|result|value|is|should[ ]be|maybe|perhaps|possibly|also|either|else"
    r"|alternatively|vs|versus|to"
)
_LEAD: Final = re.compile(
    r"(?:[\s.,;:!$*_)\]}\u2013\u2014]|\\[)\],;! ]|(?<=\s)-(?=\s)|\((?=[A-Za-z])"
    rf"|(?<![A-Za-z])(?:{_CORRECTS}|{_JOINS})(?![A-Za-z])|(?!))*+",
    re.IGNORECASE,
)
TAKES_BACK: Final = re.compile(rf"(?<![A-Za-z])(?:{_CORRECTS})(?![A-Za-z])", re.IGNORECASE)
_LOOKS_AGAIN: Final = re.compile(
    rf"(?:[.!?]\s|\n)[\s*_$]{{0,4}}(?:but\s|oh,?\s|hmm,?\s)?(?:{_CORRECTS})(?![A-Za-z])",
    re.IGNORECASE,
)
_OR: Final = re.compile(
    r"[\s$*_)\]]{0,4}[.,;(]?\s{0,2}(?<![A-Za-z])(?:or|alternatively)\s", re.IGNORECASE
)
_AND: Final = re.compile(r"[ $*_)\]]{0,4}(?:[,;\n]|(?:and|vs\.?|versus|to)\s)", re.IGNORECASE)
_END_MARKS: Final = " .!$*_`)"
_ITEM: Final = re.compile(r"\d{1,2}[.)]")
"""The number of an item of a list."""
_ITEM_BEGINS: Final = re.compile(r"\d{1,2}[.)][ \t]{1,3}(?=\S)")
_BEGINS: Final = re.compile(
    r"[*_`]{0,4}(?:\$|\\(?:[(\[]|boxed|[dt]?frac|sqrt|pi)|\(?[-+\u2212]?\.?\d)"
)
_WORD: Final = re.compile(r"(?<![\\A-Za-z])[^\W\d_]{2,}")
_INSTEAD_WORDS_MAX: Final = 4
_SAYS_MORE: Final = (
    r"(?:that|this|these|those|i|let|we|you|he|she|they|there|is|are|was|were|yes|also|all|more|because|since"
    r"|check|see|really|right|correct|sure|fine|ok|okay|done|nothing|thanks|doubt|problem|wonder|matter|need|as|in"
    r"|on|at|for|from|with|by|if|when|not|please|ignore|never|after|before|wait|what|why|how|both|none|hmm+|hold)"
)
_NO_VERB: Final = r"(?!(?:no|edit|update)\s(?![\u2013\u2014-]))"
"""`No, Oslo.` corrects; `No rounding is needed.` and `Update the table.` go on."""
_INSTEAD: Final = re.compile(
    rf"(?:[.!?;]|\n)\s{{1,4}}(?:(?:oh|but|hmm+|well|no|sorry|oops),?\s)?{_NO_VERB}(?:{_CORRECTS}),?:?\s"
    r"(?:(?:it(?:'s|\sis)|make\sthat|the\s(?:final\s)?answer\sis|i\smean)\s)?"
    rf"(?!{_SAYS_MORE}(?![A-Za-z]))(?P<words>[^.!?\n;:,]{{1,60}})[.!]?\Z",
    re.IGNORECASE,
)
_WITHIN: Final = re.compile(
    rf"[,;.!\u2013\u2014-]\s+(?:(?:or|but|oh),?\s+)?(?:{_CORRECTS})(?![A-Za-z])", re.IGNORECASE
)


def takes_back(text: str, end: int, start: int) -> bool:
    """Whether between two statements nothing is said but that the first one is wrong."""
    lead = _LEAD.match(text, end, min(start, end + _LEAD_CHARS_MAX))
    return lead is not None and lead.end() == start and TAKES_BACK.search(lead[0]) is not None


def bare(text: str, end: int) -> Statement | None:
    """The bare value that directly follows an answer that ends at `end`."""
    lead = _LEAD.match(text, end, end + _LEAD_CHARS_MAX)
    if lead is None or lead.end() == end:
        return None
    words_max = 1 if TAKES_BACK.search(lead[0]) or _OR.match(lead[0]) else 0
    if not words_max and _AND.match(lead[0]) is None:
        return None
    begin = lead.end()
    if "\n" in lead[0] and (item := _ITEM_BEGINS.match(text, begin)):
        begin = item.end()
    line = markers.line_at(text, begin)
    value = markers.sentence(line) if words_max else line.rstrip(_END_MARKS)
    said = without_marks(value)
    is_bare = _is_bare(said, words_max=words_max) and not (
        "\n" in lead[0] and _ITEM.fullmatch(line)
    )
    return Statement(begin, begin + len(value), said) if is_bare else None


def words_instead(text: str) -> str | None:
    """The words that a last sentence puts in place of an answer: `Answer: Rome. Wait, Oslo.`"""
    end = text.rstrip()[-_LEAD_CHARS_MAX:]
    found = _INSTEAD.search(end)
    if found is None or len(found["words"].split()) > _INSTEAD_WORDS_MAX:
        return None
    return found["words"]


def looks_again(text: str, start: int) -> int:
    """Where a sentence from `start` on takes back what was said, or -1."""
    found = _LOOKS_AGAIN.search(text, start)
    return -1 if found is None else found.end()


def corrected(text: str) -> str:
    """`85, I mean 5` is `5`."""
    found = _WITHIN.search(text[:_LEAD_CHARS_MAX])
    if found is None:
        return text
    last = bare(text, found.start())
    return text if last is None or last.end < len(text.rstrip(" .!")) else last.text


def _is_bare(text: str, *, words_max: int) -> bool:
    if _BEGINS.match(text) is None or "=" in text or not is_value(text):
        return False
    words = _WORD.findall(text)
    return len(words) <= words_max and "is" not in words
