"""Words around a value that call it a wrong answer: `Wrong answer: 5`, `\\boxed{5} is incorrect`.

For all readers of responses. A heading begins its clause, so `ruling out wrong answers: B` denies
nothing. What a question may ask for is no wrong answer: `Incorrect statement: B`, `Least likely
option: B`.
"""

import re
from typing import Final

from assay.verifiers.text.around import foreign

CHARS_MAX: Final = 60
"""Of a heading, with the words before it that decide."""
_WRONG: Final = (
    r"(?:wrong|incorrect|false|bad|worst|invalid|mistaken|erroneous|discarded|eliminated|rejected"
    r"|excluded|dismissed|tempting|misleading)"
)
_ANSWER: Final = r"(?:answers?|ans|options?|choices?|guess(?:es)?|picks?|selections?|results?)"
_WORDS: Final = (
    r"(?:(?:the|an?|my|your|one|another|some|other|obvious(?:ly)?|clear(?:ly)?|common|typical"
    r"|popular|usual|first|most|very|all)\s+){0,4}"
)
_NAMES: Final = (
    rf"{_WORDS}(?:\(?{_WRONG}\)?\s+(?:(?:final|first|common)\s+)?{_ANSWER}"
    rf"|{_ANSWER}\s*\(\s*{_WRONG}\s*\)|(?:distractor|trap|decoy)s?)"
)
_MARKS: Final = r"[\s*_$\\(\[{]*"
_PARTS: Final = (
    *("wrong", "ncorrect", "false", "bad", "worst", "nval", "stake", "erroneous", "scard", "nated"),
    *("reject", "exclud", "ssed", "tempt", "slead", "stractor", "trap", "decoy", "not", "never"),
    *("n't", "answer", "error", "fool", "some", "many", "most", "other", "people", "student"),
    "nners",
    *foreign.PARTS,
)
"""Each heading has one of these in it; without the letter i, which has forms of its own that count
as equal when case does not."""
_STATES: Final = r"(?:[*_]*\s*(?::|=|\u2192|->)|\s+(?:is|are|was|were|would\s+be))"
HEADING: Final = (
    rf"(?:{_NAMES}{_STATES}"
    rf"|{_NAMES}(?=[*_\s]*(?:<answer>|\\boxed|\\fbox))"
    rf"|{_WRONG}[*_]*\s*:"
    r"|(?:not|never)\s+(?:(?:the|an?|my)\s+)?(?:(?:right|correct|final)\s+)?"
    rf"{_ANSWER}[*_]*\s*:"
    r"|(?:do\s+not|don't|never)\s+(?:choose|pick|select|go\s+with|answer)[*_]*\s*:?)"
)
"""As part of a regular expression, without regard to case."""
_DENIES: Final = (
    r"(?:(?<![A-Za-z])|(?=n't))(?:doubt|deny|denies|false|untrue|incorrect|wrong|no\s?(?:body|one)\s+\w+"
    r"|(?:not|n't)\s+(?:think|believe|true|say|mean|agree|clear|conclude))(?:\s+that)?"
    r"\s+(?:the|my)\s+(?:final\s+|correct\s+|right\s+)?"
)
_OTHERS: Final = (
    r"\b(?:some|many|most|others|people|students|beginners)\s+(?:(?!(?:we|i|you|one|it)\b)\w+\s+){0,3}?"
    r"(?:gets?|got|says?|said|thinks?|thought|claim(?:s|ed)?|believe[sd]?|answer(?:s|ed)?|guess(?:es|ed)?"
    r"|expect(?:s|ed)?|writes?|wrote|choose|chose|find|found)(?:\s+(?:that\s+)?(?:it\s+is|the\s+answer\s+is))?"
)
_MISTAKES: Final = (
    r"(?<!not\s)\b(?:wrong|incorrect|false|mistaken|tempting|foolish|(?:a|the)\s+mistake|an\s+error)\s+to\s+"
    r"(?:say|think|answer|conclude|claim|believe|write|guess|assume|state|give|put|choose|report)"
)
_IF: Final = (
    r"\b(?:if|suppose|supposing|assume|assuming|imagine|whether|unless)\s+(?:that\s+)?"
    r"(?:the|my|our)\s+(?:(?:final|correct|right)\s+)?"
)
CLAUSE: Final = (
    r"(?:\b(?:cannot|can't|won't|couldn't|mustn't|wouldn't|shouldn't"
    r"|(?:can|will|would|could|should|may|must)\s+(?:not|never))\s+(?:ever\s+)?be"
    rf"|{_IF}answer\s+(?:is|was|were|be|would\s+be|equals)"
    rf"|{_DENIES}answer\s+is|{_MISTAKES}(?:\s+(?:that\s+)?(?:it\s+is|the\s+answer\s+is))?)"
)
"""As part of a regular expression, too."""
_BEFORE: Final = re.compile(
    rf"(?:(?:^|[\n.!?;,(\u2014>])[\s*_#>(-]*{HEADING}|{CLAUSE}|{_OTHERS}"
    rf"|{foreign.WRONG_ANSWER}{foreign.STATES}|{foreign.NOT_BEFORE}){_MARKS}$",
    re.IGNORECASE,
)
_BEGINS: Final = re.compile(rf"[\s*_#>($-]*{HEADING}", re.IGNORECASE)
IS_A_MISTAKE: Final = (
    r"(?:(?:is|was)\s+(?:an?|the)\s+(?:(?:common|typical|frequent|usual|popular|classic|likely)\s+)?"
    r"(?:mistake|error|trap|misconception|pitfall|distractor)|by\s+mistake|mistakenly|in\s+error)\b"
)
"""Behind a value, as part of a regular expression."""
_BEHIND: Final = re.compile(
    rf"(?:[*_$]|\\[)\]]){{0,4}}{foreign.NOT_BEHIND}"
    r"|(?:[\s$*_]|\\[)\]]){0,6}(?:,?\s*(?:which|that|this|it)\s+)?(?:(?:is|was)\s+(?:\w+ly\s+)?(?:(?:the|an?)\s+)?"
    rf"(?:{_WRONG}\b(?!\s+(?:unless|if|only))"
    r"|not\s+(?:(?:the|a)\s+)?(?:(?:final|correct|right|true)\s+)*(?:answer|correct|right)\b)"
    rf"|\(\s*{_WRONG}(?:\s+{_ANSWER})?[!.]?\s*\)"
    rf"|(?:\s|[*_$]|\\[)\]]){{0,6}}{IS_A_MISTAKE})",
    re.IGNORECASE,
)
_OF_ANSWER: Final = re.compile(
    rf"(?:\b{_WRONG}\)?\s+(?:final\s+|first\s+)?|{_DENIES}|{_IF}|{_MISTAKES}\s+(?:that\s+)?(?:the|my)\s+)$",
    re.IGNORECASE,
)
_STRUCK: Final = re.compile(
    r"(?<![^\s(*_])~~(?=\S)(?:[^~\n]|~(?!~)){1,400}(?<=\S)~~(?![^\s.,;:!?)*_])"
    r"|<(s|del|strike)>[^<]{0,400}</\1>|<!--[^<]{0,2000}?-->",
    re.IGNORECASE | re.DOTALL,
)


_STRIKES: Final = re.compile(r"\\(?:[bx]?cancel|sout|st|h?phantom)\s?\{")
_STRIKES_MAX: Final = 64
_STRUCK_CHARS_MAX: Final = 400
_HAS_BOX: Final = re.compile(r"\\f?box(?:ed)?\s?\{")
_BRACE: Final = re.compile(r"\\.|[{}]", re.DOTALL)


def without_struck(text: str) -> str:
    """`text` with spaces in place of what is struck through or hidden."""
    if "~~" in text or "</" in text or "<!--" in text:
        text = _STRUCK.sub(lambda match: " " * len(match[0]), text)
    if not _HAS_BOX.search(text):
        return text
    for opened in list(_STRIKES.finditer(text))[-_STRIKES_MAX:]:
        end = _closes(text, opened.end())
        if end > 0 and _HAS_BOX.search(text, opened.end(), end):
            text = text[: opened.start()] + " " * (end - opened.start()) + text[end:]
    return text


def _closes(text: str, start: int) -> int:
    """Where the brace before `start` closes; -1: not near."""
    depth = 1
    for brace in _BRACE.finditer(text, start, start + _STRUCK_CHARS_MAX):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if not depth:
            return brace.end()
    return -1


def before(text: str, at: int) -> bool:
    """Whether a heading of wrong answers ends at `at`."""
    window = text[max(0, at - CHARS_MAX) : at]
    return may_be_inside(window) and _BEFORE.search(window) is not None


def may_be_inside(text: str) -> bool:
    """Whether some heading of wrong answers may be in `text`; a search takes ten times as long."""
    return any(map(text.casefold().__contains__, _PARTS))


def begins(text: str) -> bool:
    """Whether `text` begins with a heading of wrong answers."""
    return _BEGINS.match(text) is not None


def behind(text: str, at: int) -> bool:
    """Whether the words from `at` on call what ends there wrong."""
    return _BEHIND.match(text, at) is not None


def of_answer(text: str, at: int) -> bool:
    """Whether the words that end at `at`, where `answer is` begins, deny it."""
    return _OF_ANSWER.search(text[max(0, at - CHARS_MAX) : at]) is not None
