"""Sentences about what is not so: `If x were 2, the answer would be 5` states no answer.

Only what grammar says: `would` (`could`, `might`) and a condition with `were` or `had been`, in
either order. `If there were 20 apples` and `If we had 20` repeat a problem, and `if I were to
choose` is said of oneself, so what follows them is an answer.
"""

import re
from typing import Final

CHARS_MAX: Final = 200
"""On either side of that word; a sentence that is longer states what it states."""
SENTENCES_MAX: Final = 64
"""The last ones; a response that has more is read as it stands."""
_WOULD: Final = re.compile(
    r"\b(?:would|could|might)\b|\b(?:it|that|I|you|we|they|one)['\u2019]d\b", re.IGNORECASE
)
_HINTS: Final = ("ould", "might", "'d", "\u2019d")
_ENDS: Final = re.compile(
    r"[.!?](?=[\s*_]|$)|[;\n]"
    r"|,?\s(?:but|so|since|because|however|hence|thus|therefore|which|though)\b",
    re.IGNORECASE,
)
"""What stands behind one of these, or before it, is said for itself."""
_SUBJECT: Final = r"(?!(?:I|he|she|one|there|they|we|you|these|those|both|all)\b)[^,]{1,60}?"
_IF: Final = (
    rf"(?:if|suppos(?:e|ing)|provided|unless|assuming)\s{_SUBJECT}\s(?:were(?:n['\u2019]t)?"
    r"|had(?:n['\u2019]t|\snot)?\s(?:\w+\s)?(?:been|\w+ed))\b"
)
_INVERTED: Final = rf"(?:had\s{_SUBJECT}\s(?:been|\w+ed)|(?:were|should)\s{_SUBJECT})\b"
_BEFORE: Final = re.compile(
    rf"[\s*_(]*(?:(?:and|or|then|now|even|as)\s)?(?:{_IF}|{_INVERTED})", re.IGNORECASE
)
_BEHIND: Final = re.compile(rf"\b{_IF}", re.IGNORECASE)


def without(text: str) -> str:
    """`text` with spaces in place of such sentences."""
    folded = text.lower()
    if not any(map(folded.__contains__, _HINTS)):
        return text
    for word in list(_WOULD.finditer(text))[-SENTENCES_MAX:]:
        begin, end = _sentence(text, word)
        before, behind = text[begin : word.start()], text[word.end() : end]
        if _BEFORE.match(before) or _BEHIND.search(behind):
            text = text[:begin] + " " * (end - begin) + text[end:]
    return text


def _sentence(text: str, word: re.Match[str]) -> tuple[int, int]:
    """Begin and end of the sentence around a word, or of as much of it as is looked at."""
    begin = max(0, word.start() - CHARS_MAX)
    for match in _ENDS.finditer(text, begin, word.start()):
        begin = match.end()
    last = min(len(text), word.end() + CHARS_MAX)
    ending = _ENDS.search(text, word.end(), last)
    return begin, ending.start() if ending else last
