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
    """`\\boxed{18}` or `\\fbox{18}` with balanced braces. Boxes that only `and`, commas and their
    like part are one answer with several parts: naming two values to be safe names both."""
    HASHES = "hashes"
    """`#### 18`, to the end of the line."""
    ANSWER_IS = "answer_is"
    """`The answer is 18`, to the end of the sentence."""
    ANSWER_COLON = "answer_colon"
    """A line `A: 18`, `Answer: 18` or `**Final answer:** 18`."""
    LAST_NUMBER = "last_number"
    """The last number of the text, wherever it stands."""
    TAIL = "tail"
    """The last lines (at most 500 characters), for a judge that looks for the answer by itself."""
    WHOLE = "whole"
    """The response as it is, without white space around it."""


class Extracted(NamedTuple):
    """An answer and the strategy that found it."""

    text: str
    strategy: Strategy
    boxes: tuple[str, ...] = ()
    """The parts of a boxed answer; `text` joins them with commas."""


class _Box(NamedTuple):
    start: int
    end: int
    content: str


TAIL_CHARS_MAX: Final = 500
_BOXES_MAX: Final = 16
_GAP_CHARS_MAX: Final = 60
_GAP: Final = re.compile(
    r"(?:[\s,;.$&]|\\[()\[\]\\,;!: ]|\\q?quad|\\(?:text|mbox)\s?\{[^{}]{0,40}\}|and|or)*"
)
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
        text = response if strategy is Strategy.BOXED else _FIND[strategy](response)
        boxes = _last_boxes(text) if text and strategy in _OPENED else ()
        if boxes:
            return Extracted(", ".join(boxes), strategy, boxes)
        if text and strategy is not Strategy.BOXED:
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
    return last.strip()


def _last_boxes(response: str) -> tuple[str, ...]:
    """Contents of the last box and of those that it continues; empty ones are none."""
    boxes = [box for box in _outer_boxes(response) if box.content]
    run = boxes[-1:]
    for earlier in reversed(boxes[:-1]):
        gap = response[earlier.end : run[0].start][: _GAP_CHARS_MAX + 1]
        if len(gap) > _GAP_CHARS_MAX or len(run) == _BOXES_MAX or not _GAP.fullmatch(gap):
            break
        run.insert(0, earlier)
    return tuple(box.content for box in run)


def _outer_boxes(response: str) -> list[_Box]:
    """One pass with a stack of open braces; a box inside a box is part of its content."""
    open_braces: list[tuple[int, int]] = []
    boxes: list[_Box] = []
    for match in _BRACES.finditer(response):
        brace = match[0]
        if brace == "{":
            open_braces.append((-1, -1))
        elif brace == "}":
            began_at, content_at = open_braces.pop() if open_braces else (-1, -1)
            if began_at >= 0:
                while boxes and boxes[-1].start > began_at:
                    boxes.pop()
                content = response[content_at : match.start()].strip()
                boxes.append(_Box(began_at, match.end(), content))
        elif brace.endswith("{") and len(brace) > 2:
            open_braces.append((match.start(), match.end()))
    return boxes


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


def _tail(response: str) -> str:
    """Whole lines where possible."""
    text = response.rstrip()
    if len(text) <= TAIL_CHARS_MAX:
        return text.strip()
    end = text[-TAIL_CHARS_MAX:]
    _, newline, lines = end.partition("\n")
    return (lines if newline else end).strip()


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    last = None
    for match in pattern.finditer(text):
        last = match
    return last


def _line_at(text: str, start: int) -> str:
    end = text.find("\n", start)
    return text[start : end if end >= 0 else len(text)].strip()


_OPENED: Final = (Strategy.BOXED, Strategy.TAG)
"""Where boxes are opened."""
_FIND: Final[dict[Strategy, Callable[[str], str | None]]] = {
    Strategy.TAG: _tag,
    Strategy.HASHES: _hashes,
    Strategy.ANSWER_IS: _answer_is,
    Strategy.ANSWER_COLON: _answer_colon,
    Strategy.LAST_NUMBER: _last_number,
    Strategy.TAIL: _tail,
    Strategy.WHOLE: str.strip,
}
