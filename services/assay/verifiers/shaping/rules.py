"""Rewards for the form and the length of a response. Pure, one linear pass over the text.

Length: the soft overlong punishment of DAPO (arXiv:2503.14476, equation 13). Form: reasoning in one
`<think>` block before an answer, as DeepSeek-R1-Zero's format reward asks for
(arXiv:2501.12948, section 2.2.2).
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from assay.verifiers.text.around import chat

_WORD: Final = re.compile(r"\S+")
_BLANK: Final = re.compile(
    "[\\s\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]*"
)
"""White space, control characters and what Unicode says has no appearance
(`Default_Ignorable_Code_Point`)."""


class LengthUnit(StrEnum):
    """What a length counts."""

    GIVEN = "given"
    """The number that the reference gives: tokens, as the trainer counted them."""
    CHARACTERS = "characters"
    WORDS = "words"


class ResponseForm(StrEnum):
    """Which form a response must have."""

    NONE = "none"
    THINK = "think"
    """`<think>...</think>` and then an answer."""
    THINK_ANSWER = "think_answer"
    """`<think>...</think>` and then `<answer>...</answer>`, with nothing else around them."""
    OPENED_THINK = "opened_think"
    """As `think`, where the prompt already ends with `<think>`."""


def overlong_penalty(length: int, length_max: int, cache: int) -> float:
    """DAPO's term: 0 up to `length_max - cache`, then falling to -1 at `length_max`."""
    free = length_max - cache
    if length <= free:
        return 0.0
    if length >= length_max:
        return -1.0
    return (free - length) / cache


def count(text: str, unit: LengthUnit) -> int:
    """The length of a text in characters or words."""
    return len(text) if unit is LengthUnit.CHARACTERS else sum(1 for _ in _WORD.finditer(text))


def fault_of_form(text: str, form: ResponseForm) -> str:
    """What is wrong with the form of a text; empty if nothing. The marks of a chat template at its
    end are no part of it: neither an answer nor text behind one."""
    if form is ResponseForm.NONE:
        return ""
    text = chat.unended(text)
    text = f"<think>{text}" if form is ResponseForm.OPENED_THINK else text
    tags = ["<think>", "</think>"]
    if form is ResponseForm.THINK_ANSWER:
        tags += ["<answer>", "</answer>"]
    for tag in tags:
        if text.count(tag) != 1:
            return f"{text.count(tag)} of {tag}"
    places = [text.index(tag) for tag in tags]
    if places != sorted(places):
        return "tags in another order"
    return _fault_of_parts(_parts(text, tags), form)


def _parts(text: str, tags: Sequence[str]) -> list[str]:
    """The text before, between and after the tags; empty where nothing of it can be seen."""
    parts, rest = [], text
    for tag in tags:
        before, _, rest = rest.partition(tag)
        parts.append(before)
    return ["" if _BLANK.fullmatch(part) else part for part in (*parts, rest)]


def _fault_of_parts(parts: Sequence[str], form: ResponseForm) -> str:
    if parts[0]:
        return "text before <think>"
    if not parts[1]:
        return "no reasoning"
    if form is not ResponseForm.THINK_ANSWER:
        return "" if parts[2] else "no answer after </think>"
    if parts[2]:
        return "text between </think> and <answer>"
    if not parts[3]:
        return "an empty answer"
    return "text after </answer>" if parts[4] else ""
