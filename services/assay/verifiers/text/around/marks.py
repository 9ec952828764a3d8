"""An answer without the marks around it, which say nothing: emphasis, quotes, fences, end points.

For answers that are compared word for word. Each mark is taken off by itself, so that an answer
with such marks of its own is found on the way. Total, linear.
"""

import re
from collections.abc import Iterator
from typing import Final

_LAYERS_MAX: Final = 8
_ENDS: Final = ".,;:"
_INVISIBLE: Final = "\u200b\u200c\u200d\u2060\ufeff\u00ad"
_PAIRS: Final = (
    *(("***", "***"), ("**", "**"), ("*", "*"), ("__", "__"), ("_", "_")),
    *(("``", "``"), ("`", "`"), ('"', '"'), ("'", "'"), ("\u201c", "\u201d"), ("\u2018", "\u2019")),
    *(("\u00ab", "\u00bb"), ("\u201e", "\u201c"), ("\u300c", "\u300d"), ("$$", "$$"), ("$", "$")),
    *(("\\(", "\\)"), ("\\[", "\\]")),
)
_COMMAND: Final = re.compile(
    r"\\(?:text(?:bf|it|rm|tt|sf|normal)?|math(?:bf|it|rm|tt|sf)|mbox|emph|underline|boxed|fbox)"
    r"\s?\{((?:[^{}]++|\{[^{}]*+\}|(?!))*+)\}"
)
_FENCE: Final = re.compile(r"(`{3,}|~{3,})[^\n`]{0,40}")
_ANNOUNCED: Final = re.compile(
    r"(?:(?:so|thus|hence|therefore),?\s)?(?:the\s|my\s)?(?:(?:final|correct|right)\s)?answer"
    r"(?:\s?:|\sis:?)\s{1,4}(?=\S)",
    re.IGNORECASE,
)
"""Within a tag or a box, which say already that it is the answer."""


def layers(text: str) -> Iterator[str]:
    """`text`, and what is left of it mark by mark."""
    text = text.strip()
    yield text
    for _ in range(_LAYERS_MAX):
        text, before = _without_mark(text), text
        if text == before or not text:
            return
        yield text


def _without_mark(text: str) -> str:
    bare = text.strip(_INVISIBLE).strip()
    if bare != text:
        return bare
    if (fenced := _unfenced(text)) is not None:
        return fenced
    for opening, closing in _PAIRS:
        inside = text[len(opening) : len(text) - len(closing)]
        if text.startswith(opening) and text.endswith(closing) and inside.strip():
            return text if opening in inside or closing in inside else inside.strip()
    if (command := _COMMAND.fullmatch(text)) is not None:
        return command[1].strip()
    if (text[-1:] and text[-1] in _ENDS) or (text[-1:] == "!" and text[-2:-1].isalpha()):
        return text[:-1].rstrip()
    announced = _ANNOUNCED.match(text)
    return text if announced is None else text[announced.end() :]


def _unfenced(text: str) -> str | None:
    """What is in the block, if all of `text` is one."""
    first, _, rest = text.partition("\n")
    fence = _FENCE.fullmatch(first.rstrip())
    inside, newline, last = rest.rpartition("\n")
    if fence is None or not newline or last.strip() != fence[1] or fence[1] in inside:
        return None
    return inside.strip()
