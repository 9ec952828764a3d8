"""Finds an unmarked answer in sentences: the last run of mathematics.

Values with only separators between them are one run, so one answer with several parts.
"""

import re
from typing import Final

from assay.verifiers.math import grammar, notation
from assay.verifiers.math.grammar import Answer, Prose
from assay.verifiers.text import denials

_SPAN: Final = re.compile(
    r"(?a)(?<!\\)\$\$(?P<a>.+?)(?<!\\)\$\$|(?<![\\$])\$(?P<b>(?:\\.|[^$\\\n])+?)\$(?!\$)"
    r"|\\\((?P<c>.+?)\\\)|\\\[(?P<d>.+?)\\\]",
    re.DOTALL,
)
_SPANS_MAX: Final = 16
_CHARS_MAX: Final = 4_000
"""Characters from the end that are searched."""
_GAP: Final = re.compile(r"(?a)(?:[\s,;]|\\?%|and|or|\\text\{\s*(?:and|or)\s*\})*", re.IGNORECASE)
_GAP_CHARS_MAX: Final = 24
_PERCENT_BEHIND: Final = re.compile(r"(?a)\s*(?:\\?%|percent|pct)")
_ONE: Final = (
    r"(?:(?<![\w.,)])[-\u2212][ ]?)?[$€£]?[-\u2212]?"
    r"(?:\d{1,3}(?:[ ,]\d{3})+(?![\d])(?:\.\d+)?|\d+[.,]\d+|\d+|\.\d+)"
    r"(?:\s*/\s*\d+|:\d+)?(?:\s*(?:%|percent|pct)|\s*(?:thousand|lakh|million|crore|billion|trillion)s?\b)?"
)
_PARTING: Final = rf"(?:\s*[,;(]?\s*(?:{notation.JOINERS})\s+|\s*[,;]\s*|[ ]+)"
_RUN: Final = re.compile(
    rf"(?a)(?<![\w.]){_ONE}(?:{_PARTING}{_ONE}){{0,64}}",
    re.IGNORECASE,
)
_SAID: Final = rf"(?:\$[^$]{{1,99}}\$|\\\([^()]{{1,99}}\\\)|{_ONE})"
_WHOLE_SAID: Final = rf"(?<!\d){_SAID}"
"""Where a search begins with a value: it starts once per number, so long ones cost linear time."""
_BETWEEN: Final = (
    r"(?:\s+(?:the|an?|equal|to|exactly|just|only|even|answer|value|number|is))*[\s({*_\"'`:]*"
)
_UNEQUAL: Final = r"(?:^|[$({\[:,]|(?<![\\A-Za-z])[A-Za-z]{2,40})\s{0,9}(?:\\neq?(?![A-Za-z])|!=)"
"""The sign rejects what follows if it has no left side of its own: `x \\neq 3` is an answer."""
_REJECTED: Final = re.compile(
    r"(?a)(?:^|[\s(\[{,:])(?:not|never|neither|nor|unlike|except(?: for)?|without"
    r"|(?:any|every)\w* but|all but|other than|instead of|rather than|dne"
    r"|(?:is|are|was|were|does|do)n't)"
    rf"{_BETWEEN}{_SAID}|(?:^|[\n.!?;,(])[\s*_]{{0,9}}{denials.HEADING}[*_]*{_BETWEEN}{_SAID}"
    rf"|{denials.CLAUSE}{_BETWEEN}{_SAID}|{_UNEQUAL}{_BETWEEN}{_SAID}|{_WHOLE_SAID}[\s$)}}*_\"'`,]*(?:[A-Za-z]{{1,20}}\s+){{0,2}}"
    r"(?:(?:is|are|was|were)\s+(?:\w{1,20}\s+)?(?:not|wrong|incorrect|false|impossible|excluded)"
    r"|(?:is|was|are|were)n't|\(?(?:wrong|incorrect|false|rejected)\b"
    r"|\(?not\s+(?:the\s+|an?\s+)?(?:final\s+)?(?:answer|correct|right|true|valid)\b)",
    re.IGNORECASE,
)
"""A value with words directly before or after it that reject it."""
_ALTERED: Final = re.compile(
    rf"(?a){_WHOLE_SAID}\s+(?:squared|cubed|factorial|tenths?|hundredths?|thousandths?|halves)(?![A-Za-z])"
    rf"|\b(?:half|twice|thrice|double|triple|(?:third|quarter|square|cube|root|reciprocal)\s+of)\s+(?:of\s+)?{_SAID}"
    rf"|{_WHOLE_SAID}\s+(?:less|more|fewer|greater)\s+than\s+(?:[a-z]\b|{_SAID})",
    re.IGNORECASE,
)
"""A value that the words beside it make another one: `4 squared`, `half of 4`, `4 less than x`."""
_BOUND: Final = re.compile(
    r"(?a)[\s({$\\]*(?:text\s*\{\s*)?"
    r"(?:(?:no )?(?:more|less|greater|fewer|larger|smaller|higher|lower)"
    rf" than|at least|at most|up to|above|below|before|after){_BETWEEN}\}}?\s*{_SAID}",
    re.IGNORECASE,
)
"""A whole answer that is a bound. In a sentence a bound may be the answer: `sell at least 40`."""
_BOX: Final = re.compile(r"\\(?:boxed|fbox)\s?(?=\{)|</?answer>", re.IGNORECASE)
_DENIED_CHARS_MAX: Final = 120


def find(text: str) -> Answer | None:
    """Read the last run of mathematics in `text`; `None` if there is none."""
    text = text[-_CHARS_MAX:]
    found = _last_spans(text) or _last_numbers(text)
    if found is None:
        return None
    answer = grammar.read(found)
    return None if isinstance(answer, Prose) else answer


def find_affirmed(text: str) -> Answer | None:
    """The last run that the text does not reject: 5 in `5, not 4`, nothing in `5, not 5`."""
    text = _BOX.sub("", text[-_CHARS_MAX:])
    rejected: list[Answer] = []

    def withdrawn(match: re.Match[str]) -> str:
        rejected.extend(grammar.read(one[0]) for one in _RUN.finditer(match[0]))
        return " ; "

    found = find(_REJECTED.sub(withdrawn, _ALTERED.sub(" ; ", text)))
    if found is None or any(grammar.are_same(found, one) for one in rejected):
        return None
    return found


def is_denied(text: str) -> bool:
    """Whether a short `text` states one value, and rejects it or only bounds it."""
    text = _BOX.sub("", text)
    if len(text) > _DENIED_CHARS_MAX:
        return False
    values = _SPAN.findall(text) or _RUN.findall(text)
    if len(values) != 1:
        return False
    return _REJECTED.search(text) is not None or _BOUND.match(text) is not None


def _last_spans(text: str) -> str | None:
    """`$...$` and similar; several with only separators between them belong together."""
    spans = list(_SPAN.finditer(text))
    if not spans:
        return None
    last = spans[-1]
    behind = _PERCENT_BEHIND.match(text, last.end())
    if _RUN.search(notation.tidy(text[behind.end() if behind else last.end() :])):
        return None
    run = [_content(last) + ("\\%" if behind else "")]
    start = last.start()
    for earlier in reversed(spans[:-1]):
        gap = text[earlier.end() : start]
        if len(gap) > _GAP_CHARS_MAX or len(run) == _SPANS_MAX or not _GAP.fullmatch(gap):
            break
        run.insert(0, _content(earlier))
        start = earlier.start()
    return ", ".join(run)


def _content(match: re.Match[str]) -> str:
    content = next(group for group in match.groups() if group is not None)
    return content.strip().rstrip(".,")


def _last_numbers(text: str) -> str | None:
    last = None
    for match in _RUN.finditer(text):
        last = match
    return None if last is None else last[0]
