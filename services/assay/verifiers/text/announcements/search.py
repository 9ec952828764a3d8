"""Finds announcements that no strategy reads: `Answer - 5`, `Result: 5`, `| Answer | 5 |`.

They only count beside another statement, as one more answer, so a response whose only answer is
announced in such words is read as before. Total; linear in the length of the text.
"""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from assay.verifiers.text import denials, markers
from assay.verifiers.text.announcements.words import (
    ANSWERS,
    CLAUSE_BEGINS,
    JOINT,
    LEAD,
    OPTIONS,
    RESULTS,
)
from assay.verifiers.text.markers import Statement


def _one_of(*words: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """For any text, and for one of ASCII."""
    longest_first = sorted(words, key=len, reverse=True)
    return re.compile("|".join(longest_first)), re.compile(
        "|".join(filter(str.isascii, longest_first))
    )


_WORDS: Final = _one_of(*ANSWERS, *RESULTS)
_WORDS_AND_OPTIONS: Final = _one_of(*ANSWERS, *RESULTS, *OPTIONS)
_BARE_ONLY: Final = frozenset({*RESULTS, *OPTIONS})
_FOUND_MAX: Final = 32
"""Words, from the end of the text."""
_LEAD_CHARS_MAX: Final = 80
_VALUE_CHARS_MAX: Final = 80
_WORDS_MAX: Final = 2
"""Beside the value: `5 red apples`."""
_LONG_WORD: Final = re.compile(r"(?<![\\A-Za-z])[^\W\d_]{3,}")
_MATHEMATICS: Final = re.compile(r"\d|\\[a-z]|\$\s*[^\s$]|[\u00bd\u221a\u03c0\u221e]|\W*[A-Z]\W*\Z")
_HEDGES: Final = re.compile(
    r"(?i)(?<![a-z])(?:between|close(?:st|r)?|near|nearest|around)(?![a-z])"
)
_BEGINS_WITH_NUMBER: Final = re.compile(r"[\s*_`$\\(\[{-]{0,8}\d")
_ENDS: Final = re.compile("[\n|<\"']|[.\u3002](?:\\s|$)")
"""What an announcement may end with before another statement."""
_SOLVES: Final = re.compile(r"=|,\s|;|\(|\\\{|(?<![a-z])(?:and|or)(?![a-z])")
_FINAL: Final = re.compile(r"(?i)\b(?:final|correct)\W|\u6700[\u7ec8\u7d42]|\u6b63\u786e")
_IS_THE_ANSWER: Final = re.compile(
    r"\$?\s(?:is|are|must\sbe|would\sbe|will\sbe|should\sbe|has\sto\sbe)\s(?:(?:then|thus|therefore)\s)?"
    r"(?:(?:the|my|our)\s(?:(?:final|correct|right|exact|required|desired|only)\s){0,2}answers?"
    r"|what\s(?:we|you)\s(?:want|need|(?:are|were)\s(?:asked|looking)\sfor))"
    r"(?:\sto\s(?:the|this|your)\s(?:question|problem))?(?=[*_$)\s]*(?:[.!,;]|\n|\Z))",
    re.IGNORECASE,
)
_CONCLUDES: Final = re.compile(
    r"\A[\s*_>#-]{0,9}(?:(?:and|so|thus|hence|therefore|then|finally|now|consequently|i\.e\.|this\smeans"
    r"|it\sfollows)(?:\sthat)?[,:]?\s){0,3}",
    re.IGNORECASE,
)
_IS_CALLED: Final = re.compile(r"[-+\u2212(\[{$\\.]*\s?(?:\d|\\[a-z{]|[a-z]\s?=|[a-z]\^|[A-Z]\Z)")
_CELL_END: Final = re.compile(r"\s*\|")
_TAG_END: Final = re.compile(r"\s*</\w{1,20}>?")
_TAG_CHARS_MAX: Final = 20
_QUOTED_END: Final = re.compile(r"[\"']?\s*(?:[,}\]](?=\s*(?:[\"'}\]]|$))|$)")
_MINUTES: Final = re.compile(r"(?a)\d'(?!')")
_MARKS: Final = "*_`\"' \t"


def announced(
    text: str, but: tuple[int, int] = (0, 0), *, with_options: bool = False
) -> list[Statement]:
    """All of them, in their order; those that words deny are left out.

    Args:
        but: begin and end of a statement that is known; what leads to it or is in it is left out.
        with_options: `Option 1: 5` counts, too.
    """
    lowered = text.lower().replace("_", " ")
    if len(lowered) != len(text):  # the positions would differ
        lowered = text
    begin, end = but
    words = (_WORDS_AND_OPTIONS if with_options else _WORDS)[text.isascii()].finditer(lowered)
    found = [
        _behind(text, word)
        for word in deque(words, maxlen=_FOUND_MAX)
        if not begin <= word.start() < end
        if word.end() > begin or _ENDS.search(text, word.end(), begin) is not None
    ]
    called = _called(text) if "answer" in lowered or "what" in lowered else ()
    return sorted([*(one for one in found if one is not None), *called])


def _called(text: str) -> Iterator[Statement]:
    """`So 5 is the answer.`"""
    for match in deque(_IS_THE_ANSWER.finditer(text), maxlen=_FOUND_MAX):
        clause, _ = _clause(text, match.start())
        said = _CONCLUDES.sub("", clause)
        value = bare(said.strip())
        if _IS_CALLED.match(value) and is_value(value):
            yield Statement(match.start() - len(said), match.end(), value)


def is_value(text: str) -> bool:
    """Whether `text` is a value with at most some words beside it."""
    if _HEDGES.search(text) is not None:
        return False
    few_words = len(_LONG_WORD.findall(text[:_VALUE_CHARS_MAX])) <= _WORDS_MAX
    return len(text) <= _VALUE_CHARS_MAX and few_words and _MATHEMATICS.search(text) is not None


def _behind(text: str, word: re.Match[str]) -> Statement | None:
    """What the word announces."""
    begin, end = word.span()
    joint = JOINT.match(text, end)
    if joint is None or _is_part_of_word(text, begin):
        return None
    clause, begins_line = _clause(text, begin)
    leads = LEAD.fullmatch(clause) is not None
    if not _may_announce(word[0], joint, clause if leads else None, begins_line=begins_line):
        return None
    start = begin - len(clause) if leads else begin
    if joint["close"]:
        start = text.rfind("<", max(0, begin - _TAG_CHARS_MAX), begin)
    said, stop = _said(text, joint, is_quoted=text[begin - 1 : begin] in {'"', "'", "_"})
    denied = denials.of_answer(text, begin) or denials.before(text, joint.end())
    if start < 0 or denied or markers.is_rejected(text, start, stop) or markers.is_comment(said):
        return None
    states = _states_result(said) if word[0] in _BARE_ONLY else _states_answer(said, joint)
    return Statement(start, stop, said) if states else None


def _states_result(said: str) -> bool:
    """A derivation names what it arrives at: `x = 5`, and `1 and 2` are no answer to a question
    about them."""
    return _SOLVES.search(said) is None and is_value(said)


def _states_answer(said: str, joint: re.Match[str]) -> bool:
    if is_value(said) or (_BEGINS_WITH_NUMBER.match(said) and not _needs_line(joint)):
        return True
    words = _LONG_WORD.findall(said[:_VALUE_CHARS_MAX])
    is_brief = 1 < len(said) <= _VALUE_CHARS_MAX and len(words) <= _WORDS_MAX
    return (
        is_brief
        and any(map(str.isalpha, said))
        and joint["modal"] is None
        and _HEDGES.search(said) is None
    )


def _needs_line(joint: re.Match[str]) -> bool:
    return bool(joint["dash"] or joint["cell"] or joint["heading"] is not None)


def _may_announce(word: str, joint: re.Match[str], leads: str | None, *, begins_line: bool) -> bool:
    """Whether it announces where it stands; `leads` is what begins its clause, if that leads."""
    if _needs_line(joint):
        return begins_line and leads is not None
    if word not in _BARE_ONLY:
        return True
    is_sentence = bool(joint["verb"] or joint["unspaced"])
    return leads is not None and (not is_sentence or _FINAL.search(leads + word) is not None)


def _said(text: str, joint: re.Match[str], *, is_quoted: bool) -> tuple[str, int]:
    """The value, and where it ends: with the cell, the tag, the string or the sentence."""
    lines = markers.lines_at(text, joint.end())
    at = text.find(lines, joint.end()) if lines else len(text)
    in_cell = joint["cell"] or (joint["heading"] is not None and "|" in joint["heading"])
    end = _CELL_END if in_cell else _TAG_END if joint["close"] else None
    if end is None and is_quoted:
        end = _QUOTED_END
    stops = end.finditer(lines) if end is not None else ()
    pairs = ("{}", "[]") if end is _QUOTED_END else ("{}",)
    stop = next((one for one in stops if _is_balanced(lines[: one.start()], pairs)), None)
    if stop is None:
        said = "" if joint["close"] else markers.sentence(lines)
        return bare(said), at + len(said)
    return bare(lines[: stop.start()]), at + (stop.end() if joint["close"] else stop.start())


def _is_balanced(said: str, pairs: Sequence[str]) -> bool:
    return all(said.count(pair[0]) == said.count(pair[1]) for pair in pairs)


def bare(said: str) -> str:
    """Without marks around it, and without the end of a bracket that began before it."""
    text = said.lstrip("}" + _MARKS).rstrip(_MARKS)
    if _MINUTES.match(said, len(said.rstrip(_MARKS)) - 1):  # a unit, and no end of a quotation
        text += "'" * (said.lstrip(_MARKS.replace("'", ""))[:1] != "'")
    if text.count("$") % 2:
        text = text.strip("$")
    return text if "(" in text or "[" in text else text.rstrip(")]*_")


def _is_part_of_word(text: str, at: int) -> bool:
    """Scripts without spaces write words together."""
    before = text[at - 1 : at]
    return before.isascii() and (before.isalnum() or before in {"\\", "-"}) and before != ""


def _clause(text: str, at: int) -> tuple[str, bool]:
    """What stands before `at` in its clause, and whether that begins the line."""
    begin = max(0, at - _LEAD_CHARS_MAX)
    line = text.rfind("\n", begin, at)
    begins_line = line >= 0 or begin == 0
    begin = line + 1 if line >= 0 else begin
    for match in CLAUSE_BEGINS.finditer(text, begin, at):
        begin, begins_line = match.end(), False
    return text[begin:at], begins_line
