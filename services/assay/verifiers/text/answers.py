"""Finds the answer in a response.

Every strategy is one linear pass over the text, is total (any text has an answer or `None`) and
uses the *last* statement. Consecutive statements with only `and`, `or`, commas and similar words
between them are one answer with several parts: naming two values names both, not only the last. An
empty box, tag or `####` states nothing and is ignored, and so is a box or tag that the words before
it reject (`not \\boxed{5}`). An unclosed box, or a text that ends in repetition, has no answer;
callers check this with `unfinished` and `repeats`.
"""

import re
from collections import deque
from collections.abc import Callable, Sequence
from enum import StrEnum
from itertools import islice
from typing import Final, NamedTuple

from assay.verifiers.text import denials


class Strategy(StrEnum):
    """How an answer is marked."""

    TAG = "tag"
    """`<answer>18</answer>`; a `\\boxed{}` inside is unwrapped too."""
    BOXED = "boxed"
    """`\\boxed{18}` or `\\fbox{18}` with balanced braces. Boxes separated only by `and`, commas and
    similar words are one answer with several parts: naming two values to be safe names both."""
    HASHES = "hashes"
    """`#### 18`, to the end of the line."""
    ANSWER_IS = "answer_is"
    """`The answer is 18`, to the end of the sentence."""
    ANSWER_COLON = "answer_colon"
    """A line `A: 18`, `Answer: 18` or `**Final answer:** 18`."""
    LAST_NUMBER = "last_number"
    """The last number of the text, at any position."""
    TAIL = "tail"
    """The last lines (at most 500 characters), for a judge that searches for the answer itself."""
    WHOLE = "whole"
    """The whole response without surrounding white space."""


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


class _Statement(NamedTuple):
    start: int
    end: int
    text: str


TAIL_CHARS_MAX: Final = 500
REPEATED_MIN: Final = 12
"""Number of repetitions of a phrase at the end after which a response has no answer."""
_REPEATED_CHARS_MIN: Final = 120
_REPETITION_CHARS_MAX: Final = 12_000
_BOXES_MAX: Final = 16
_STATEMENTS_MAX: Final = 16
_STATEMENT_LINES_MAX: Final = 40
_SENTENCES_MAX: Final = 16
_AFTER_HASHES_MAX: Final = 2
_SHOWN_CHARS_MAX: Final = 50
_GAP_CHARS_MAX: Final = 60
_ITEMS_MIN: Final = 3
_ITEM_CHARS_MIN: Final = 20
"""A shorter one is a value of a list."""
_FILLER: Final = (
    r"and|or|also|either|maybe|perhaps|possibly|alternatively|again|the|final|so|thus|hence|"
    r"therefore|then|another|other|second|third|correct|is|it"
)
_GAP: Final = re.compile(
    r"(?:\s{0,3}[A-Za-z]{2,20}(?=\s{1,3}(?:and|or)\b))?"  # the counted noun: `\boxed{1} cups and`
    r"(?:[\s,;.:!?$&*+|]|\\[()\[\]\\,;!: ]|\\q?quad|"
    r"\\(?:text|mbox|textbf|mathrm)\s?\{[^{}]{0,40}\}|"
    r"\\?[A-Za-z](?:_\{?\w{1,8}\}?)?\s{0,3}=|"
    rf"(?<![A-Za-z])(?:{_FILLER})(?![A-Za-z]))*",
    re.IGNORECASE,
)
_BLANK: Final = re.compile(
    r"(?:[\s?_~.]|\\(?:[_ ,;:!]|$)|\\(?:q?quad|square|Box|textbackslash)(?![A-Za-z])|\{\}"
    r"|\\(?:h?phantom|hspace)\*?\s?\{[^{}]*\}|\\(?:text|mathrm|mbox)\s?\{[\s?_.~]*\})*"
)
_TAG: Final = re.compile(r"<(/?)answer>", re.IGNORECASE)
_BRACES: Final = re.compile(r"\\(?:boxed|fbox)[ ]{0,4}\{|\\.|[{}]", re.DOTALL)
_ANSWER_IS: Final = re.compile(
    r"\banswer\s{1,4}is\b[ \t]{0,4}:?"
    r"|\u7b54\u6848\s{0,4}(?:(?:\u5e94\u8be5|\u5e94)?(?:\u662f|\u4e3a)|(?=[:\uff1a]))\s{0,4}[:\uff1a]?"
    r"|(?<![\u4e0d\u80fd\u53ef\u8981\u8be5])\u9009\s{0,4}[:\uff1a]?\s{0,4}(?=[(\uff08]?[A-J])"
    r"|(?<!\w)\u7b54\s{0,4}[:\uff1a]"
    r"|\u7b54\u3048\s{0,4}(?:\u306f|[:\uff1a])\s{0,4}"  # Japanese
    r"|\u0627\u0644\u0625\u062c\u0627\u0628\u0629\s{1,4}"  # Arabic, the answer (the final) is
    r"(?:\u0627\u0644\u0646\u0647\u0627\u0626\u064a\u0629\s{1,4})?\u0647\u064a\b\s{0,4}:?"
    r"|(?<!\w)(?:\uc815)?\ub2f5\uc740\s{1,4}"  # Korean, the answer is
    r"|(?<!\w)(?:\u043e\u0442\u0432\u0435\u0442|(?:\uc815)?\ub2f5)"  # Russian, Korean
    r"\s{0,4}[:\uff1a]\s{0,4}",
    re.IGNORECASE,
)
_ANSWER_COLON: Final = re.compile(
    r"^(?:_|[^\w\n()\[\]{}<$\\]){0,12}"  # marks, also bytes that are not text, but not words
    r"(?:final[ ])?(?:answer|ans|a)[ \t*_]{0,4}:[*_]{0,4}",
    re.IGNORECASE | re.MULTILINE,
)
_FINAL: Final = re.compile(r"\bfinal\s{1,4}answer(?:\s{1,4}is\b|[*_ ]{0,4}:)", re.IGNORECASE)
_HASHES: Final = re.compile(r"####")
_NUMBER: Final = re.compile(
    r"(?:(?<![0-9A-Za-z)])[-\u2212])?(?:[0-9][0-9,]*(?:\.[0-9]+)?|\.[0-9]+)%?"
)
_SENTENCE_END: Final = re.compile(
    r"\u3002|(?<![ap]\.m)(?<!i\.e)(?<!approx)\.(?=[*_`]*(?:\s|$))"
    r"(?!(?:(?<=\bRs\.)|(?<=\bSept\.)|(?<=\b(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\.))\s*\d)"
)
"""Not the point of an abbreviation that a number follows."""
_SHOWN_DIGITS: Final = re.compile(r"(?a)\d?\.\d{1,40}\s?\.\.$")
"""Before the last of three dots of a decimal, which ends no sentence."""
_LEAD_IN: Final = re.compile(
    rf"(?:[\s.,;:!?*]|(?<![A-Za-z])(?:{_FILLER}|my|possible)(?![A-Za-z]))*$", re.IGNORECASE
)
_REJECTS: Final = re.compile(
    r"(?<![A-Za-z])(?:(?:is|was|are|were)n't|not|never|rather than|instead of)"
    r"(?:\s+(?:the|an?|equal|to|just|simply|answer|is))*[\s$\\(\[{:*_]*$",
    re.IGNORECASE,
)
"""Words that end directly before the answer that they reject; a comma ends them."""
_REJECTS_CHARS_MAX: Final = 60
_OPERATOR_BEFORE: Final = re.compile(
    r"(?:(?<![-\w\s])[-\u2212]|(?:^|[\s$(=])[-\u2212]|\\(?:cdot|times|div)(?:\s|\{\})*|[\w)}]\s?/\s?|\^\s?\{?"
    r"|\\(?:sqrt|d?frac|tfrac|log|ln|sin|cos|tan)\s?(?:\[\d\])?\s?\{)$"
)
_OPERATOR_BEHIND: Final = re.compile(
    r"(?a)\s{0,3}(?:\+\s{0,3}[\d\\a-z(]|-\s{0,3}(?:\d|\\(?:sqrt|d?frac|pi)|[a-z](?![a-z]))|\*(?!\*)\s{0,3}[\d\\(]"
    r"|/\s{0,3}[\d\\({]|\^(?!\s{0,3}\{?\s{0,3}\\circ)|\\(?:cdot|times|div)(?![a-z])|[xyznk](?![A-Za-z]))"
)
"""Directly beside a box, where it is no answer but an operand."""
_LONG_WORD: Final = re.compile(r"[A-Za-z]{3,}")
_CUT: Final = re.compile(
    r"(?:[=+/^({\[]|[\s\d)}]-|"
    r"\\(?:frac|dfrac|tfrac|sqrt|times|cdot|div|leq?|geq?|pm|cup|cap|in|text|boxed|left|begin|to))$"
)
_DISPLAYS: Final = tuple(
    (re.compile(rf"(?<!\\)\\{start}"), re.compile(rf"(?<!\\)\\{end}"))
    for start, end in ((r"\[", r"\]"), (r"\(", r"\)"))
)
_FENCE: Final = re.compile(r"^[ \t]{0,3}```", re.MULTILINE)
_LEADS_ON: Final = re.compile(r"(?i)(?<![a-z\\])(?:the|an|of|and|or|is|which|because|than|if)$")
_DIGITS: Final = re.compile(r"(?a)\d+")
_ITEM_END: Final = re.compile(r"[*_`$]*(?:[.,!?;][*_`]*\s|\s*\n|[.!?;]?$)")


def extract(response: str, strategies: Sequence[Strategy]) -> Extracted | None:
    """Return the answer of the first strategy that finds a non-empty one.

    Boxes before a later `final answer is` are intermediate results if a strategy for that statement
    is listed too.
    """
    for strategy in strategies:
        if strategy is Strategy.BOXED and _stated_after_boxes(response, strategies):
            continue
        text = response if strategy is Strategy.BOXED else _FIND[strategy](response)
        boxes = _last_boxes(text) if text and strategy in _OPENED else ()
        if boxes:
            return Extracted(", ".join(boxes), strategy, boxes)
        if text and strategy is not Strategy.BOXED:
            return Extracted(text, strategy)
    return None


def unfinished(response: str) -> bool:
    """Whether the marker of the answer opens and does not close: the response was cut off."""
    opened = [match for match in _TAG.finditer(response) if not match[1]]
    if opened and not re.search(r"</answer>", response[opened[-1].end() :], re.IGNORECASE):
        return True
    closed, open_at = _boxes(response)
    return open_at >= 0 and all(box.end <= open_at for box in closed)


def is_cut(text: str) -> bool:
    """Whether `text` ends in the middle of an expression."""
    return _CUT.search(text.rstrip()) is not None


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


def _tag(response: str) -> str | None:
    opened: re.Match[str] | None = None
    found: list[_Statement] = []
    for match in _TAG.finditer(response):
        if not match[1]:
            opened = match
        elif opened is not None:
            text = response[opened.end() : match.start()].strip()
            if text and not _is_rejected(response, opened.start(), match.end()):
                found.append(_Statement(opened.start(), match.end(), text))
            opened = None
    return _joined(response, found)


def _joined(response: str, statements: Sequence[_Statement]) -> str | None:
    """The last statement together with those that it continues."""
    if not statements:
        return None
    run = [statements[-1]]
    for earlier in reversed(statements[:-1]):
        gap = response[earlier.end : run[0].start]
        if len(run) == _STATEMENTS_MAX or len(gap) > _GAP_CHARS_MAX or not _GAP.fullmatch(gap):
            break
        run.insert(0, earlier)
    texts = dict.fromkeys(statement.text for statement in run if statement.text)
    return ", ".join(texts)


def _stated_after_boxes(response: str, strategies: Sequence[Strategy]) -> bool:
    """Whether a final answer is stated in plain words after the last box."""
    if not {Strategy.ANSWER_IS, Strategy.ANSWER_COLON} & set(strategies):
        return False
    last = _last(_FINAL, response)
    if last is None:
        return False
    stated = _line_at(response, last.end())
    return (
        "\\boxed" not in response[last.end() :]
        and "\\fbox" not in response[last.end() :]
        and re.search(r"\d|\\|\$", stated) is not None
    )


def is_blank(content: str) -> bool:
    """Whether a box is one to fill in, as in the question: `\\frac{6}{\\boxed{?}}`."""
    return _BLANK.fullmatch(content) is not None


def _last_boxes(response: str) -> tuple[str, ...]:
    """Contents of the last box and of those that it continues, without empty ones."""
    found = _boxes(response)[0]
    boxes = [
        box
        for box in found
        if not is_blank(box.content) and not _is_rejected(response, box.start, box.end)
        if not _is_an_operand(response, box.start, box.end)
    ]
    run = boxes[-1:]
    for earlier in reversed(boxes[:-1]):
        gap = response[earlier.end : run[0].start][: _GAP_CHARS_MAX + 1]
        if len(gap) > _GAP_CHARS_MAX or len(run) == _BOXES_MAX or not _GAP.fullmatch(gap):
            break
        run.insert(0, earlier)
    return tuple(dict.fromkeys(box.content for box in run))


def _is_rejected(response: str, start: int, end: int) -> bool:
    """Whether the words around a box or tag say that it is not the answer."""
    rejects = _REJECTS.search(response[max(0, start - _REJECTS_CHARS_MAX) : start])
    return rejects is not None or denials.before(response, start) or denials.behind(response, end)


def _is_an_operand(response: str, start: int, end: int) -> bool:
    """Whether a box is only a part of an expression: `-\\boxed{5}`, `\\sqrt{\\boxed{5}}`.

    In `3 + \\boxed{4} = 7` it is a place to fill in.
    """
    if not (
        _OPERATOR_BEFORE.search(response[max(0, start - _REJECTS_CHARS_MAX) : start])
        or _OPERATOR_BEHIND.match(response, end)
    ):
        return False
    line_end = response.find("\n", end)
    return "=" not in response[end : len(response) if line_end < 0 else line_end]


def _boxes(response: str) -> tuple[list[_Box], int]:
    """Outer boxes, and the position of an unclosed one (-1 if none).

    One pass with a stack of open braces; a box inside a box is part of its content.
    """
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
    return boxes, max((began_at for began_at, _ in open_braces), default=-1)


def _hashes(response: str) -> str | None:
    """A line in the form of a heading with text below it is a heading."""
    found = [
        _Statement(match.start(), response.index(text, match.end()) + len(text), text.strip("# \t"))
        for match in _few_last(_HASHES, response)
        for text in [_lines_at(response, match.end())]
    ]
    found = [statement for statement in found if statement.text]
    if not found:
        return None
    below = [line for line in response[found[-1].end :].split("\n", 12) if line.strip()]
    return None if len(below) > _AFTER_HASHES_MAX else _joined(response, found)


def _answer_is(response: str) -> str | None:
    matches = [
        match
        for match in _few_last(_ANSWER_IS, response)
        if not denials.of_answer(response, match.start())
    ]
    if not matches:
        return None
    texts: list[str] = []
    for at in range(len(matches) - 1, -1, -1):
        if at == len(matches) - 1:
            texts.append(_sentence(_lines_at(response, matches[at].end())).strip("*_ "))
            continue
        between = response[matches[at].end() : matches[at + 1].start()]
        text = (
            _LEAD_IN.sub("", between[: _GAP_CHARS_MAX + 1])
            if len(between) <= _GAP_CHARS_MAX
            else ""
        )
        text = text.strip(" .,;\n")
        if (
            not text
            or _SENTENCE_END.search(text)
            or len(_LONG_WORD.findall(text)) > 2
            or len(texts) == _STATEMENTS_MAX
        ):
            break
        texts.insert(0, text)
    return ", ".join(dict.fromkeys(text for text in texts if text))


def _sentence(text: str) -> str:
    """The first sentence; a full stop in `$$...$$` or `\\(...\\)` does not end it.

    A single `$` may be money.
    """
    for end in islice(_SENTENCE_END.finditer(text), _SENTENCES_MAX):
        sentence = text[: end.start()]
        if _SHOWN_DIGITS.search(sentence[-_SHOWN_CHARS_MAX:]):
            continue
        if not sentence.count("$$") % 2 and sentence.count("\\(") <= sentence.count("\\)"):
            return sentence
    return text


def _answer_colon(response: str) -> str | None:
    found = [
        _Statement(match.start(), response.index(text, match.end()) + len(text), text.strip("*_ "))
        for match in _few_last(_ANSWER_COLON, response)
        for text in [_lines_at(response, match.end())]
    ]
    return _joined(response, found)


def _last_number(response: str) -> str | None:
    last = _last(_NUMBER, response)
    return None if last is None else last[0].rstrip(",").replace("\u2212", "-")


def _tail(response: str) -> str:
    """The tail of the text, in whole lines if possible."""
    text = response.rstrip()
    if len(text) <= TAIL_CHARS_MAX:
        return text.strip()
    end = text[-TAIL_CHARS_MAX:]
    _, newline, lines = end.partition("\n")
    return (lines if newline else end).strip()


def _few_last(pattern: re.Pattern[str], text: str) -> list[re.Match[str]]:
    return list(deque(pattern.finditer(text), maxlen=_STATEMENTS_MAX))


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    last = None
    for match in pattern.finditer(text):
        last = match
    return last


def _line_at(text: str, start: int) -> str:
    end = text.find("\n", start)
    return text[start : end if end >= 0 else len(text)].strip()


def _lines_at(text: str, start: int) -> str:
    """The rest of the line, or the next line if that is empty; more while brackets are open."""
    end = start
    said = ""
    for _ in range(_STATEMENT_LINES_MAX):
        newline = text.find("\n", end)
        stop = newline if newline >= 0 else len(text)
        said = text[start:stop].strip()
        if newline < 0 or (said and _is_closed(said)):
            return said
        end = newline + 1
    return _line_at(text, start)


def _is_closed(text: str) -> bool:
    if text in {"$$", "\\["}:
        return False
    return (
        text.count("{") - text.count("\\{") <= text.count("}") - text.count("\\}")
        and text.count("\\begin") <= text.count("\\end")
        and text.count("\\[") <= text.count("\\]")
        and text.count("$$") % 2 == 0
    )


_OPENED: Final = (Strategy.BOXED, Strategy.TAG)
"""Positions at which boxes open."""
_FIND: Final[dict[Strategy, Callable[[str], str | None]]] = {
    Strategy.TAG: _tag,
    Strategy.HASHES: _hashes,
    Strategy.ANSWER_IS: _answer_is,
    Strategy.ANSWER_COLON: _answer_colon,
    Strategy.LAST_NUMBER: _last_number,
    Strategy.TAIL: _tail,
    Strategy.WHOLE: str.strip,
}
