"""Whether a response ends at all: what was cut off, or repeats one phrase, has no answer.

Every function is linear and total.
"""

import re
from typing import Final

from assay.verifiers.text import markers

REPEATED_MIN: Final = 12
"""Number of repetitions of a phrase at the end after which a response has no answer."""
_REPEATED_CHARS_MIN: Final = 120
_REPETITION_CHARS_MAX: Final = 12_000
_ITEMS_MIN: Final = 3
_ITEM_CHARS_MIN: Final = 20
"""A shorter one is a value of a list."""
_CUT: Final = re.compile(
    r"(?:[=+/^({\[]|[\s\d)}]-|"
    r"\\(?:frac|dfrac|tfrac|sqrt|times|cdot|div|leq?|geq?|pm|cup|cap|in|text|boxed|left|begin|to))$"
)
_OPEN_INTERVAL: Final = re.compile(r"[\[\]][^\[\](){}=]{1,60}[,;][^\[\](){}=]{1,60}\[\Z")
"""`[0, 8[`, whose last bracket closes it."""
_DISPLAYS: Final = tuple(
    (re.compile(rf"(?<!\\)\\{start}"), re.compile(rf"(?<!\\)\\{end}"))
    for start, end in ((r"\[", r"\]"), (r"\(", r"\)"))
)
_FENCE: Final = re.compile(r"^[ \t]{0,3}```", re.MULTILINE)
_LEADS_ON: Final = re.compile(r"(?i)(?<![a-z\\])(?:the|an|of|and|or|is|which|because|than|if)$")
_DIGITS: Final = re.compile(r"(?a)\d+")
_ITEM_END: Final = re.compile(r"[*_`$]*(?:[.,!?;][*_`]*\s|\s*\n|[.!?;]?$)")


def unfinished(response: str) -> bool:
    """Whether the marker of the answer opens and does not close: the response was cut off."""
    opened = [match for match in markers.TAG.finditer(response) if not match[1]]
    if opened and not re.search(r"</answer>", response[opened[-1].end() :], re.IGNORECASE):
        return True
    closed, open_at = markers.all_boxes(response)
    return open_at >= 0 and all(box.end <= open_at for box in closed)


def is_cut(text: str) -> bool:
    """Whether `text` ends in the middle of an expression."""
    text = text.rstrip()
    return _CUT.search(text) is not None and _OPEN_INTERVAL.search(text) is None


def repeats(response: str) -> bool:
    """Whether the response ends in one phrase that is repeated."""
    text = response.rstrip()[-_REPETITION_CHARS_MAX:][::-1]
    if len(text) < _REPEATED_CHARS_MIN:
        return False
    for size in (len(text), len(text) // 4, len(text) // 16):
        part = text[:size]
        if size < _REPEATED_CHARS_MIN:
            continue
        longest = size // REPEATED_MIN
        # So much of it is found again that far behind, or it has no such period.
        again = part.find(part[: size - longest], 1)
        if 0 < again <= longest and _period(part) <= longest:
            return any(letter.isalnum() for letter in part)
    return False


def breaks_off(response: str) -> bool:
    """Whether the response stops where no text ends: in a formula or code, at a word that another
    must follow, or within an item of a list whose items it had finished before."""
    text = response.rstrip()
    opened = any(len(start.findall(text)) > len(end.findall(text)) for start, end in _DISPLAYS)
    if opened or text.count("$$") % 2 or len(_FENCE.findall(text)) % 2:
        return True
    return _LEADS_ON.search(text) is not None or _ends_within_item(text)


def _ends_within_item(text: str) -> bool:
    """Items are alike but for their numbers."""
    said = _DIGITS.sub("0", text[-_REPETITION_CHARS_MAX:])
    for size in (len(said), len(said) // 2, len(said) // 4, len(said) // 8):
        if size < _ITEMS_MIN * _ITEM_CHARS_MIN:
            break
        period = _period(said[len(said) - size :][::-1])
        if _ITEM_CHARS_MIN <= period <= size // _ITEMS_MIN:
            ended_before = said[len(said) - period :]
            return _ITEM_END.match(ended_before) is None
    return False


def _period(text: str) -> int:
    """Shortest period of `text`: `text` is a prefix of its repetition (Knuth, Morris and Pratt's
    failure function; linear)."""
    border = [0] * len(text)
    length = 0
    for at in range(1, len(text)):
        while length and text[at] != text[length]:
            length = border[length - 1]
        length += text[at] == text[length]
        border[at] = length
    return len(text) - border[-1]
