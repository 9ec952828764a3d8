"""What a reasoning model thinks aloud, which is no part of its answer. Pure, linear.

The marks are those that models are trained to write: `<think>` (DeepSeek-R1, Qwen3), `<thinking>`,
`<seed:think>` (Seed-OSS), `[THINK]` (Magistral), U+25C1 `think` U+25B7 (Kimi), `<|end_of_thought|>`
(OpenThinker), and the channels of gpt-oss. A chat template may have written the first of a pair.
"""

import re
from typing import Final

_ENDS: Final = re.compile(
    r"</(?:think|thinking|seed:think)>|\[/THINK\]|\u25c1/think\u25b7|<\|end_of_thought\|>"
    r"|<\|channel\|>final<\|message\|>"
)
_BEGINS: Final = re.compile(
    r"<(?:think|thinking|seed:think)>|\[THINK\]|\u25c1think\u25b7|<\|begin_of_thought\|>"
    r"|<\|channel\|>analysis<\|message\|>"
)


def behind_thoughts(response: str) -> str | None:
    """What stands behind the last end of a thought; `None`: no thought ends."""
    at = -1
    for match in _ENDS.finditer(response):
        at = match.end()
    return None if at < 0 else response[at:]


def begins_with_thought(response: str) -> bool:
    """Whether nothing stands before its first thought."""
    return _BEGINS.match(response.lstrip()) is not None


def answer_part(response: str) -> str:
    """The response without its thoughts; one that does not end hides the rest."""
    begin, end = answer_span(response)
    return response[begin:end]


def answer_span(response: str) -> tuple[int, int]:
    """Where that part begins and ends."""
    behind = behind_thoughts(response)
    begin = 0 if behind is None else len(response) - len(behind)
    begun = _BEGINS.search(response, begin)
    return begin, len(response) if begun is None else begun.start()


def end_of(told: str, chars_max: int) -> str:
    """The last `chars_max` characters at most, from the beginning of a line on if one is near.

    Models that reason without marks write as much as others think; their answer comes last.
    """
    if len(told) <= chars_max:
        return told
    end = told[-chars_max:]
    return end[end.find("\n", 0, chars_max // 2) + 1 :]
