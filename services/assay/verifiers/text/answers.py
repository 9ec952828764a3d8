"""Where in a response the answer stands.

Every strategy is one linear pass over the text, is total (any text gives an answer or `None`) and
takes the *last* match: a response that names several answers is judged by the one it ends with.
"""

import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple


class Strategy(StrEnum):
    """How an answer is marked."""

    TAG = "tag"
    """`<answer>18</answer>`; a `\\boxed{}` inside is opened too."""
    BOXED = "boxed"
    """`\\boxed{18}` or `\\fbox{18}` with balanced braces."""
    HASHES = "hashes"
    """`#### 18`, to the end of the line."""
    ANSWER_IS = "answer_is"
    """`The answer is 18`, to the end of the sentence."""
    ANSWER_COLON = "answer_colon"
    """A line `A: 18`, `Answer: 18` or `**Final answer:** 18`."""
    LAST_NUMBER = "last_number"
    """The last number of the text, wherever it stands."""
    WHOLE = "whole"
    """The response as it is, without white space around it."""


class Extracted(NamedTuple):
    """An answer and the strategy that found it."""

    text: str
    strategy: Strategy


_TAG: Final = re.compile(r"<(/?)answer>", re.IGNORECASE)
_BRACES: Final = re.compile(r"\\(?:boxed|fbox)[ ]{0,4}\{|\\.|[{}]", re.DOTALL)
_ANSWER_IS: Final = re.compile(r"\banswer\s{1,4}is\b[ \t]{0,4}:?", re.IGNORECASE)
_ANSWER_COLON: Final = re.compile(
    r"^[ \t*_>#-]{0,12}(?:final[ ])?(?:answer|ans|a)[ \t*_]{0,4}:[*_]{0,4}",
    re.IGNORECASE | re.MULTILINE,
)
_NUMBER: Final = re.compile(
    r"(?:(?<![0-9A-Za-z)])[-\u2212])?(?:[0-9][0-9,]*(?:\.[0-9]+)?|\.[0-9]+)%?"
)
_SENTENCE_END: Final = re.compile(r"\.(?=\s|$)")


def extract(response: str, strategies: Sequence[Strategy]) -> Extracted | None:
    """Return the answer by the first strategy that finds a non-empty one."""
    for strategy in strategies:
        text = _FIND[strategy](response)
        if text:
            return Extracted(text, strategy)
    return None


def _tag(response: str) -> str | None:
    opened_at: int | None = None
    last: str | None = None
    for match in _TAG.finditer(response):
        if not match[1]:
            opened_at = match.end()
        elif opened_at is not None:
            last = response[opened_at : match.start()]
            opened_at = None
    if last is None:
        return None
    return _boxed(last) or last.strip()


def _boxed(response: str) -> str | None:
    """One pass with a stack of open braces; the box that closes last wins."""
    open_braces: list[int] = []
    last: str | None = None
    for match in _BRACES.finditer(response):
        brace = match[0]
        if brace == "{":
            open_braces.append(-1)
        elif brace == "}":
            began_at = open_braces.pop() if open_braces else -1
            if began_at >= 0:
                last = response[began_at : match.start()]
        elif brace.endswith("{") and len(brace) > 2:
            open_braces.append(match.end())
    return last.strip() if last is not None else None


def _hashes(response: str) -> str | None:
    at = response.rfind("####")
    return None if at < 0 else _line_at(response, at + 4)


def _answer_is(response: str) -> str | None:
    last = _last(_ANSWER_IS, response)
    if last is None:
        return None
    line = _line_at(response, last.end())
    end = _SENTENCE_END.search(line)
    return line[: end.start()] if end else line


def _answer_colon(response: str) -> str | None:
    last = _last(_ANSWER_COLON, response)
    return None if last is None else _line_at(response, last.end()).rstrip("*_ ")


def _last_number(response: str) -> str | None:
    last = _last(_NUMBER, response)
    return None if last is None else last[0].rstrip(",").replace("\u2212", "-")


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    last = None
    for match in pattern.finditer(text):
        last = match
    return last


def _line_at(text: str, start: int) -> str:
    end = text.find("\n", start)
    return text[start : end if end >= 0 else len(text)].strip()


_FIND: Final[dict[Strategy, Callable[[str], str | None]]] = {
    Strategy.TAG: _tag,
    Strategy.BOXED: _boxed,
    Strategy.HASHES: _hashes,
    Strategy.ANSWER_IS: _answer_is,
    Strategy.ANSWER_COLON: _answer_colon,
    Strategy.LAST_NUMBER: _last_number,
    Strategy.WHOLE: str.strip,
}
