"""The stage `extract`: finds the answer in the response, in linear time.

What is thought aloud is no part of it. A response that was cut off or that ends in repetition has
no answer. `pack` makes the artifact of it.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from assay.core.verdict import Ended, Evidence, HandedOver, StageVerdict
from assay.verifiers.math.definition import MathReference, MathSettings
from assay.verifiers.options import Strategy
from assay.verifiers.port import HandlerContext, Work, resource_limited, scored
from assay.verifiers.text import denials
from assay.verifiers.text.abroad.english import announced_in_english, in_english
from assay.verifiers.text.answers import Extracted, extract, stated, states
from assay.verifiers.text.around import layout, unreal, withdrawn
from assay.verifiers.text.endings import breaks_off, is_cut, repeats, unfinished
from assay.verifiers.text.markers import Statement
from assay.verifiers.text.thoughts import answer_part, end_of

_UNBOUNDED: Final = frozenset({Strategy.WHOLE})
_END_MARKS: Final = " \t\r\n."
_SENTENCES: Final = re.compile(r"\n|[.:;]\s")
_DECORATION: Final = " \t\n:*_$"
_BARE: Final = f"{_DECORATION}.,;"
_ANNOUNCED: Final = re.compile(r"(?:\banswer(?:\s+is)?\s*:?|####)\s*$", re.IGNORECASE)
_ANNOUNCEMENT_CHARS_MAX: Final = 40
_ENDS_WITH_RESPONSE: Final = frozenset(
    {Strategy.HASHES, Strategy.ANSWER_IS, Strategy.ANSWER_COLON, Strategy.TAIL}
)


CARRIERS: Final = {
    Strategy.TAG: "<answer>{}</answer>",
    Strategy.BOXED: "\\boxed{{{}}}",
    Strategy.HASHES: "#### {}",
    Strategy.ANSWER_IS: "The answer is {}.",
    Strategy.ANSWER_COLON: "Answer: {}",
    Strategy.TAIL: "{}",
    Strategy.WHOLE: "{}",
}
"""How a response marks its answer, by the strategy that finds it."""


class ExtractHandler:
    """Hands over the answer as UTF-8, or ends the request if there is none."""

    def __init__(self, context: HandlerContext) -> None:
        """Read the operator's bound on the length of a response."""
        self._response_chars_max = context.verifiers.response_chars_max

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        """Extract the answer of each response."""
        return [self._one(work) for work in works]

    def trusted(self, work: Work) -> Work:
        """See `TrustingHandler.trusted`: one in the form that the first strategy finds."""
        settings: MathSettings = work.settings
        carrier = CARRIERS.get(settings.strategies[0], "{}")
        return replace(work, response=carrier.format("0"), messages=())

    def close(self) -> None:
        """Nothing to release."""

    def _one(self, work: Work) -> StageVerdict:
        settings: MathSettings = work.settings
        told = end_of(answer_part(work.response), self._response_chars_max)
        reference: MathReference = work.reference
        quoted = quoted_answer(told, reference.answers, settings.strategies)
        if quoted is not None:
            return HandedOver(artifact=pack(quoted))
        found = final_answer(told, settings, reference.answers)
        if isinstance(found, str):
            evidence = Evidence(verdict="no_answer", error=found)
            return scored(passed=False, settings=settings, evidence=evidence)
        if len(found.text) > settings.answer_chars_max and found.strategy not in _UNBOUNDED:
            return _too_long(settings, f"answer has {len(found.text)} characters")
        return HandedOver(artifact=pack(found))


def quoted_answer(
    response: str, references: Sequence[str], strategies: Sequence[Strategy]
) -> Extracted | None:
    """A reference of several sentences or lines that the response ends with, word for word.

    What announces an answer announces one sentence, so such a reference is found no other way. What
    the strategies find has to be its beginning: anything else is another answer.
    """
    said = response.rstrip(_END_MARKS)
    for text in references:
        wanted = text.strip().rstrip(_END_MARKS)
        if not _SENTENCES.search(wanted) or not said.endswith(wanted):
            continue
        head = said[: len(said) - len(wanted)]
        if not all(_says(head, one, wanted) for one in stated(head, strategies)):
            continue  # several answers are guesses
        if not head.strip():
            return Extracted(text, Strategy.WHOLE)
        found = extract(response, strategies)
        parts = () if found is None else found.parts or (found.text,)
        begins = all(_begins(one, wanted) for one in parts) or _spells(parts, wanted)
        if begins and _ANNOUNCED.search(head[-_ANNOUNCEMENT_CHARS_MAX:]):
            return Extracted(text, Strategy.WHOLE)
    return None


def _begins(text: str, wanted: str) -> bool:
    return wanted.lstrip(_DECORATION).startswith(text.strip(_BARE))


def _spells(parts: Sequence[str], wanted: str) -> bool:
    """Whether the parts, one after the other, are the beginning of it: a bound on each line."""
    rest = wanted
    for part in parts:
        rest = rest.lstrip(_DECORATION + _END_MARKS)
        said = part.strip(_BARE)
        if not rest.startswith(said):
            return False
        rest = rest[len(said) :]
    return True


def _says(head: str, statement: Statement, wanted: str) -> bool:
    """Whether all of `wanted` stands where `statement` states something."""
    at = head.index(statement.text, statement.start)
    return head[at:].lstrip(_DECORATION).startswith(wanted)


def final_answer(
    response: str, settings: MathSettings, references: Sequence[str] = ()
) -> Extracted | str:
    """The answer that the response ends with, or why it has none.

    What is struck through, or would be so if something else were, is not said. What a reference
    says letter by letter is not cut off: `Cr3+`, `C++`.
    """
    response = unreal.without(denials.without_struck(layout.plain(answer_part(response))))
    marked = states(response, settings.strategies)
    if (told := in_english(response, bare=marked)) != response:
        response = announced_in_english(told)
    if repeats(response):
        return "the response ends in one phrase repeated many times"
    if unfinished(response):
        return "the response was cut off inside its answer"
    if withdrawn.is_withdrawn(response, states=marked):
        return withdrawn.TAKEN_BACK
    found = extract(response, settings.strategies)
    if found is None:
        return "no strategy found an answer"
    said = found.text.strip(_END_MARKS)
    if _is_cut(found, response) and all(said != one.strip(_END_MARKS) for one in references):
        return "the response was cut off inside an expression"
    return found


def _is_cut(found: Extracted, response: str) -> bool:
    if found.strategy in _ENDS_WITH_RESPONSE and is_cut(found.text):
        return True
    return found.strategy is Strategy.TAIL and breaks_off(response)


def pack(found: Extracted) -> bytes:
    """The artifact for `math.verify`.

    One line with the strategy and, if there are several parts, the number of characters of each;
    then the answer and its parts.
    """
    head = "\t".join((found.strategy, *(str(len(part)) for part in found.parts)))
    return "\n".join((head, found.text + "".join(found.parts))).encode("utf-8", "replace")


def unpack(artifact: bytes) -> Extracted:
    """Decode the result of `pack`."""
    head, _, text = artifact.decode("utf-8").partition("\n")
    strategy, *lengths = head.split("\t")
    parts: list[str] = []
    for length in reversed([int(length) for length in lengths]):
        parts.insert(0, text[len(text) - length :])
        text = text[: len(text) - length]
    return Extracted(text, Strategy(strategy), tuple(parts))


def _too_long(settings: MathSettings, error: str) -> Ended:
    return resource_limited(settings=settings, evidence=Evidence(verdict="too_long", error=error))
