"""Finds the answer in a response.

Every strategy is one linear pass over the text, is total (any text has an answer or `None`) and
uses the *last* statement. Consecutive statements with only `and`, `or`, commas and similar words
between them are one answer with several parts: naming two values names both, not only the last.
That holds between strategies too: `Answer: 5`, then `The answer is 85.` states both, and so does
`Result: 5` (`assay.verifiers.text.announcements`). An unclosed box, or a text that ends in
repetition, has no answer (`assay.verifiers.text.endings`).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from assay.verifiers.options import Strategy
from assay.verifiers.text import markers
from assay.verifiers.text.announcements import alternatives, corrections, lines, objects
from assay.verifiers.text.announcements.search import announced, is_value
from assay.verifiers.text.markers import Statement


class Extracted(NamedTuple):
    """An answer and the strategy that found it."""

    text: str
    strategy: Strategy
    parts: tuple[str, ...] = ()
    """What is stated, in order, where that is more than one: all parts of one answer, or one value
    again; `text` joins them with commas, or is the list that they stand in."""


TAIL_CHARS_MAX: Final = 500
_DENIED_CHARS_MAX: Final = 2 * TAIL_CHARS_MAX
_RUN_MAX: Final = 16
_BRIEF_WORDS_MAX: Final = 2
_NEAR_CHARS_MAX: Final = 500
_ANNOUNCED_CHARS_MAX: Final = 250
_GAP_CHARS_MAX: Final = 60
_GAP: Final = re.compile(
    r"(?:\s{0,3}[A-Za-z]{2,20}(?=\s{1,3}(?:and|or)\b))?"  # the counted noun: `\boxed{1} cups and`
    r"(?:[\s,;.:!?$&*+|]|\\[()\[\]\\,;!: ]|\\q?quad|"
    r"\\(?:text|mbox|textbf|mathrm)\s?\{[^{}]{0,40}\}|"
    r"\\?[A-Za-z](?:_\{?\w{1,8}\}?)?\s{0,3}=|(?:(?<=\n)|(?<=\n[-*][ ])|(?<=\n\*\*))"
    r"(?:\d{1,2}[.)]|(?:part[ ])?\(?(?:[a-h]|i{1,3}|\d)\))(?=[ :*])|"
    rf"(?<![A-Za-z])(?:{markers.FILLER})(?![A-Za-z]))*",
    re.IGNORECASE,
)
_HINT: Final = re.compile(r"[Aa][Nn][Ss]|[Aa][ \t*_]*:|####|\\boxed|\\fbox|<ANSWER|[^\x00-\x7f]")
"""There is no statement without it."""
_FINAL: Final = re.compile(r"\bfinal\s{1,4}answer(?:\s{1,4}is\b|[*_ ]{0,4}:)", re.IGNORECASE)
_NUMBER: Final = re.compile(
    r"(?:(?<![0-9A-Za-z)])[-\u2212])?(?:[0-9][0-9,]*(?:\.[0-9]+)?|\.[0-9]+)%?"
)
_MEMBERS: Final = re.compile(
    r"[\"']?(?:\s{0,9},\s{0,9}[\"'][\w -]{1,40}[\"']\s?:\s?"
    r"(?:\"(?:[^\"\\\n]|\\.){0,200}\"|'(?:[^'\\\n]|\\.){0,200}'|-?\d{1,18}(?:\.\d{1,18})?|[Tt]rue|[Ff]alse|null|None"
    r"|\[[^\[\]]{0,200}\]|\{[^{}]{0,200}\}))"
    r"{1,8}\s{0,9}\}"
)
"""`, "confidence": 0.9}` behind the member that is the answer."""
_OR: Final = re.compile(r"\bor\b", re.IGNORECASE)
_LONG_WORD: Final = re.compile(r"[A-Za-z]{3,}")


def extract(response: str, strategies: Sequence[Strategy]) -> Extracted | None:
    """Return the answer of the first strategy that finds a non-empty one.

    Boxes before a later `final answer is` are intermediate results if a strategy for that statement
    is listed too.
    """
    for strategy in strategies:
        if strategy is Strategy.BOXED and _stated_after_boxes(response, strategies):
            continue
        if strategy in _UNMARKED:
            record = objects.last(response) if _reads_words(strategies) else None
            if record is not None:
                return Extracted(record.text, strategy, record.parts)
            text = _UNMARKED[strategy](response)
            announcements = _stated_last(response, strategies) if text else []
            if text:
                return _extracted(announcements or [text], strategy)
            continue
        run = _last_run(response, strategy)
        if run and markers.is_comment(run[-1].text) and states(response, strategies):
            continue  # it is said of what another strategy finds
        if run and not _is_title(response, run, strategies):
            return _extracted(_with_neighbours(response, run, strategy, strategies), strategy)
    return None


def states(response: str, strategies: Sequence[Strategy]) -> bool:
    """Whether anything is marked as an answer."""
    return any(True for _ in stated(response, strategies))


def stated(response: str, strategies: Sequence[Strategy]) -> Iterator[Statement]:
    """All that is marked as an answer, wherever it stands, by one strategy after the other."""
    return (
        one
        for kind in strategies
        if kind in _MARKED_BESIDE
        for one in _MARKED_BESIDE[kind](response)
        if one.text and not markers.is_comment(one.text)
    )


def _extracted(texts: Sequence[str], strategy: Strategy) -> Extracted:
    parts = tuple(dict.fromkeys(texts))
    return Extracted(", ".join(parts), strategy, parts if len(parts) > 1 else ())


def _texts(run: Sequence[Statement], strategy: Strategy) -> list[str]:
    texts = [statement.text for statement in run]
    if strategy is Strategy.BOXED:
        return texts
    if strategy is Strategy.TAG:
        boxes = _last_run(", ".join(dict.fromkeys(texts)), Strategy.BOXED)
        return [box.text for box in boxes] or texts
    return [corrections.corrected(markers.unboxed(text)) for text in texts]


def _last_run(response: str, strategy: Strategy) -> list[Statement]:
    """The last statement together with those that it continues."""
    marked = _MARKED[strategy](response)
    found = [one for one in marked if not markers.is_comment(one.text)] or marked
    if not found or not found[-1].text:  # cut off behind its marker
        return []
    run = found[-1:]
    for earlier in reversed(found[:-1]):
        gap = response[earlier.end : run[0].start][: _GAP_CHARS_MAX + 1]
        if len(run) == _RUN_MAX or len(gap) > _GAP_CHARS_MAX or not _GAP.fullmatch(gap):
            break
        if strategy is Strategy.ANSWER_IS and not _is_brief(earlier.text):
            break
        run.insert(0, earlier)
    return run


def _is_title(response: str, run: Sequence[Statement], strategies: Sequence[Strategy]) -> bool:
    """Whether it is words behind `####`, as above a section, and a value is stated before."""
    return _is_titled(response, run[-1]) and any(
        is_value(one.text) for one in stated(response[: run[0].start], strategies)
    )


def _is_titled(response: str, statement: Statement) -> bool:
    return response.startswith("####", statement.start) and markers.is_words(statement.text)


def _is_brief(text: str) -> bool:
    return len(text) <= _GAP_CHARS_MAX and len(_LONG_WORD.findall(text)) <= _BRIEF_WORDS_MAX


def is_sentence_with(text: str, values: Sequence[str]) -> bool:
    """Whether `text` is no value but a sentence, and one of these numbers is the first in it."""
    number = _NUMBER.search(text)
    is_sentence = not _is_brief(text) and _OR.search(text) is None
    return is_sentence and number is not None and number[0].rstrip(",") in values


def is_decimal(text: str) -> bool:
    """Whether the only number in `text` is a decimal: `about 0.333`."""
    numbers = _NUMBER.findall(text[:_GAP_CHARS_MAX])
    return len(numbers) == 1 and "." in numbers[0].strip(".")


def _with_neighbours(
    response: str, run: Sequence[Statement], strategy: Strategy, strategies: Sequence[Strategy]
) -> list[str]:
    """What `run` says, with the other statements that directly precede and follow it.

    What is corrected directly behind it is not said any more.
    """
    said = _texts(run, strategy)
    response = alternatives.without_asides(response, run[-1].end)
    near = _near(response, run[0].start, run[-1].end, strategies)
    if any(map(is_value, said)):
        near = [one for one in near if not _is_titled(response, one)]
    last, value = run[-1].end, ""
    if strategy not in _BRACKETED:
        last, value = _value_first(response, run[-1], said[-1])
    other = alternatives.alternative(response, run[-1].start, last, value)
    if other is not None and value:
        said[-1] = value
    if other is not None:
        said[-1:] = [one + other.unit for one in said[-1:]]
    said = [*_before(response, run[0].start, near), *said]
    earlier = alternatives.before(response, run[0].start, run[0].end)
    if earlier is not None:
        said.insert(0, earlier.text)
    if other is None:
        last = run[-1].end
    for _ in range(_RUN_MAX):
        begun = [one for one in near if one.start >= last]
        bare = corrections.bare(response, last) if other is None else other.statement
        if not begun and bare is None:
            break
        candidates = begun if bare is None else [*begun, bare]
        nearest = min(candidates, key=lambda one: one.start) if other is None else other.statement
        if corrections.takes_back(response, last, nearest.start):
            said = []
        elif nearest is not bare and not markers.adjoin(response, last, nearest.start):
            break
        said.append(markers.unboxed(nearest.text))
        last, other = nearest.end, None
    return said


def _value_first(response: str, statement: Statement, said: str) -> tuple[int, str]:
    """Where the first sentence of a statement in words ends, and that sentence."""
    value = markers.sentence(said)
    if value == said or value not in response[statement.start : statement.end]:
        return statement.end, said
    return response.index(value, statement.start) + len(value), value


def _before(response: str, first: int, near: Sequence[Statement]) -> list[str]:
    said: list[str] = []
    while ended := [one for one in near if one.end <= first]:
        nearest = max(ended, key=lambda one: one.end)
        if len(said) == _RUN_MAX or not markers.adjoin(response, nearest.end, first):
            break
        said.insert(0, markers.unboxed(nearest.text))
        first = nearest.start
    return said


def _near(response: str, first: int, last: int, strategies: Sequence[Strategy]) -> list[Statement]:
    """Statements around `[first, last)`; those that are cut off by the bounds are left out."""
    begin, end = _bounds(response, first, last, _NEAR_CHARS_MAX)
    found: list[Statement] = []
    if _HINT.search(response, begin, first) or _HINT.search(response, last, end):
        found = [
            _first_sentence(response, _moved(one, begin))
            for one in stated(response[begin:end], strategies)
        ]
    if _reads_words(strategies):
        begin, end = _bounds(response, first, last, _ANNOUNCED_CHARS_MAX)
        found += [
            _moved(one, begin)
            for one in announced(response[begin:end], (first - begin, last - begin))
        ]
    return [one for one in found if one.end < end or end == len(response)]


def _bounds(response: str, first: int, last: int, chars_max: int) -> tuple[int, int]:
    """From the beginning of a line."""
    begin, end = max(0, first - chars_max), min(len(response), last + chars_max)
    return (response.find("\n", begin, first) + 1 or begin if begin else 0), end


def _moved(one: Statement, by: int) -> Statement:
    return Statement(by + one.start, by + one.end, one.text)


def _reads_words(strategies: Sequence[Strategy]) -> bool:
    return Strategy.ANSWER_IS in strategies or Strategy.ANSWER_COLON in strategies


def _stated_last(response: str, strategies: Sequence[Strategy]) -> list[str]:
    """What a response states at its end that marks no answer."""
    if not _reads_words(strategies):
        return []
    return _announced_last(response, strategies) or lines.values(response)


def _announced_last(response: str, strategies: Sequence[Strategy]) -> list[str]:
    begin, _ = _bounds(response, len(response), len(response), _ANNOUNCED_CHARS_MAX)
    found = [_moved(one, begin) for one in announced(response[begin:], with_options=True)]
    if not found:
        return []
    last = found[-1]
    other = alternatives.alternative(response, last.start, last.end, last.text)
    if not _ends_at(response, last.end if other is None else other.statement.end):
        return []
    offered = [] if other is None else [markers.unboxed(other.statement.text)]
    near = [*_near(response, last.start, last.end, strategies), *found[:-1]]
    return [*_before(response, last.start, near), markers.unboxed(last.text), *offered]


def _ends_at(response: str, end: int) -> bool:
    """Whether nothing that counts follows: words, or other members of an object of JSON."""
    rest = _MEMBERS.match(response, end)
    return markers.adjoin(response, rest.end() if rest else end, len(response))


def _first_sentence(response: str, statement: Statement) -> Statement:
    """Behind it another answer may be stated on the same line."""
    text = markers.sentence(statement.text)
    if text == statement.text:
        return statement
    return Statement(statement.start, response.index(text, statement.start) + len(text), text)


def _stated_after_boxes(response: str, strategies: Sequence[Strategy]) -> bool:
    """Whether a final answer, or one for a box that is taken back, is stated in plain words after
    the last box."""
    words = {Strategy.ANSWER_IS, Strategy.ANSWER_COLON} & set(strategies)
    box_at = max(response.rfind("\\boxed"), response.rfind("\\fbox")) if words else -1
    if box_at < 0:
        return False
    last = _last(_FINAL, response, box_at)
    if last is not None:
        return re.search(r"\d|\\|\$", markers.line_at(response, last.end())) is not None
    again = corrections.looks_again(response, box_at)
    return again >= 0 and any(is_value(one.text) for one in stated(response[again:], list(words)))


def _last_number(response: str) -> str | None:
    last = _last(_NUMBER, response)
    return None if last is None else last[0].rstrip(",").replace("\u2212", "-")


def _tail(response: str) -> str:
    """The tail of the text, in whole lines if possible."""
    text = response.rstrip()
    text = text[:-_DENIED_CHARS_MAX] + markers.without_denied(text[-_DENIED_CHARS_MAX:])
    text = text.rstrip()
    if len(text) <= TAIL_CHARS_MAX:
        return text.strip()
    end = text[-TAIL_CHARS_MAX:]
    _, newline, lines = end.partition("\n")
    return (lines if newline else end).strip()


def _last(pattern: re.Pattern[str], text: str, start: int = 0) -> re.Match[str] | None:
    last = None
    for match in pattern.finditer(text, start):
        last = match
    return last


_MARKED: Final[dict[Strategy, Callable[[str], list[Statement]]]] = {
    Strategy.TAG: markers.tags,
    Strategy.BOXED: markers.boxes,
    Strategy.HASHES: markers.hashes,
    Strategy.ANSWER_IS: markers.answers_is,
    Strategy.ANSWER_COLON: markers.answers_colon,
}
_BRACKETED: Final = frozenset({Strategy.BOXED, Strategy.TAG})
_MARKED_BESIDE: Final = _MARKED | {Strategy.HASHES: markers.hash_lines}
"""Text below makes a line with `####` a heading, but not another statement."""
_UNMARKED: Final[dict[Strategy, Callable[[str], str | None]]] = {
    Strategy.LAST_NUMBER: _last_number,
    Strategy.TAIL: _tail,
    Strategy.WHOLE: str.strip,
}
