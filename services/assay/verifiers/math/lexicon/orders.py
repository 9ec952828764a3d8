r"""Texts that say in which order their items stand: `A, B, C in that order`, `A \to B \to C`.

Text to text: what is left is the list. Linear in the text, which is bounded.
"""

import re
from typing import Final

_CHARS_MAX: Final = 300
_ENDS: Final = (
    r"(?:[a-z]{2,14}est|least|most|left|right|top|bottom|front|back|first|last|low|high|start|end)"
)
_KIND: Final = (
    r"(?:that|this|the\s(?:given|same|following|right|correct|stated|above)"
    r"|(?:ascending|descending|increasing|decreasing|alphabetical|chronological|numerical))"
)
_SAID: Final = (
    rf"(?:(?:listed|written|arranged|ranked|sorted|given|ordered)\s)?"
    rf"(?:in\s(?:{_KIND}\s)?order(?:\sof\s[a-z ]{{1,40}})?|from\s{_ENDS}\sto\s{_ENDS})"
)
_BEHIND: Final = re.compile(
    rf"(?i)(?<![\s,;:(])[\s,;:(]{{1,6}}(?:\\text\s?\{{\s?)?\(?(?:{_SAID}|respectively)"
    r"\s?[)}. $]{0,6}$"
)
_BEFORE: Final = re.compile(rf"(?i)^{_SAID}\s?[,:]\s?")
_DENIED: Final = re.compile(r"(?i)(?<![a-z])(?:not|no|never|any|without)[\s,;:(]*$")
_TEXT: Final = re.compile(r"\\text\s?\{\s?([^{}]*)\}")
_ARROW: Final = re.compile(
    r"\s*(?:\\(?:to|(?:long)?rightarrow|Rightarrow)(?![A-Za-z])|[-=]+>|[\u2192\u27f6\u279c\u21d2])\s*"
)
_STEP: Final = re.compile(r"(?a)[A-Za-z][\w .'-]{0,40}|-?\d{1,18}(?:\.\d{1,9})?")
_FIRST: Final = re.compile(r"(?i)^first,?\s")
_THEN: Final = re.compile(r"(?i)[,;]?\s(?:and\s)?(?:then|finally|followed\sby)\s")
_WORDS: Final = re.compile(r"(?a)[A-Za-z][\w'-]{0,30}(?:\s[\w'-]{1,30}){0,2}")
_HINT: Final = re.compile(
    r"(?i)order|respectively|then|finally|followed|from\s|->|=>|\\(?:to|(?:long)?rightarrow)|[\u2192\u27f6\u279c\u21d2]"
)


def listed(text: str) -> str | None:
    """The items between commas, if `text` says that they stand in order; otherwise `None`."""
    if len(text) > _CHARS_MAX or not _HINT.search(text):
        return None
    text = " ".join(text.replace("$", " ").split()).rstrip(". ")
    for found in (_BEHIND.search(text), _BEFORE.match(text)):
        if found is None or _DENIED.search(text[: found.start()]):
            continue
        rest = (text[: found.start()] + text[found.end() :]).strip()
        if rest.count("{") - rest.count("}") == 1:
            rest += "}"
        return rest if len(rest) > 2 else None
    return _steps(text)


def _steps(text: str) -> str | None:
    """Three or more steps with arrows between them, or two or more with `then`."""
    plain = _TEXT.sub(r"\1", text)
    steps = [step.strip() for step in _ARROW.split(plain)]
    if len(steps) > 2 and all(map(_STEP.fullmatch, steps)):
        return ", ".join(steps)
    steps = [step.strip() for step in _THEN.split(_FIRST.sub("", plain.strip()))]
    return ", ".join(steps) if len(steps) > 1 and all(map(_WORDS.fullmatch, steps)) else None
