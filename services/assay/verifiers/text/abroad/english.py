r"""Sentences of other languages that take back what was said, in English.

`Moment, das ist falsch.` is read as `Wait, that is wrong.`, so each rule about such sentences is
written once, in English, and holds in every language of the tables. Only whole clauses at the
beginning of a sentence are put into English: a question, a condition and a quotation stay as they
are, and so does everything else. Total and linear; a pattern is compiled when it is first needed.
"""

import re
from functools import cache, partial
from typing import Final

from assay.verifiers.text.abroad import eastern, western
from assay.verifiers.text.abroad.tongue import ANY_NOUNS, CLAUSES, Tongue, announcement, pattern

_LANGUAGES: Final = (
    *(western.GERMAN, western.FRENCH, western.SPANISH, western.PORTUGUESE, western.ITALIAN),
    *(western.DUTCH, eastern.POLISH, eastern.RUSSIAN, eastern.TURKISH, eastern.INDONESIAN),
    *(eastern.VIETNAMESE, eastern.CHINESE, eastern.JAPANESE, eastern.KOREAN),
)
_VERDICT_CHARS_MIN: Final = 4
_CALLED_WRONG: Final = ("false", "wrong", "incorrect", "invalid", "not ", "untrue")
_ANSWERS: Final = tuple(
    tuple(word for word in one.nouns if one.nouns[word] in {"answer", "solution"})
    if one.answers
    else ()
    for one in _LANGUAGES
)
_MARKS: Final = {
    "\u3002": ".",
    "\uff01": "!",
    "\uff1f": "?",
    "\uff1b": ";",
    "\uff1a": ":",
    "\uff0c": ",",
    "\u3001": ",",
}
_SAYS: Final = {
    "drops_named": "ignore the above {noun}",
    "named": "the above {noun} is wrong",
    "drops": "ignore that",
    "erred": "I made a mistake",
    "wrong": "that is wrong",
    "short": "that is wrong",
    "again": "let me recheck",
    "right": "it is correct",
}


def in_english(text: str, *, affirms: bool = False, bare: bool = True) -> str:
    """`text` with such sentences in English.

    Args:
        text: any text.
        affirms: whether sentences that affirm are put into English, too: they may be an answer.
        bare: whether `that is wrong` counts without a word such as `wait` before it: it may be one.
    """
    folded = text.casefold()
    if not folded or folded.isspace():  # around most programs there is nothing else
        return text
    is_ascii = text.isascii()
    for at, language in enumerate(_LANGUAGES):
        if any(map(folded.__contains__, _hints(at, is_ascii=is_ascii))):
            say = partial(_said, language=language, affirms=affirms, bare=bare)
            text = _pattern(at).sub(say, text)
    return text


def is_a_verdict(word: str) -> bool:
    """Whether a word may be part of `that is wrong` in any language: `falsch`, `faux`, `false`."""
    return word.strip().casefold().startswith(_verdicts())


def announced_in_english(text: str) -> str:
    """`text` with `The answer is` in place of `Die richtige Antwort lautet`."""
    folded = text.casefold()
    for at in range(len(_LANGUAGES)):
        if any(map(folded.__contains__, _ANSWERS[at])):
            text = _announcement(at).sub("The answer is", text)
    return text


@cache
def _verdicts() -> tuple[str, ...]:
    """What such a word begins with."""
    every = (hint for at in range(len(_LANGUAGES)) for hint in _hints(at, is_ascii=False))
    telling = (hint for hint in every if len(hint) >= _VERDICT_CHARS_MIN or not hint.isascii())
    return (*_CALLED_WRONG, *telling)


@cache
def _announcement(at: int) -> re.Pattern[str]:
    return announcement(_LANGUAGES[at])


@cache
def _pattern(at: int) -> re.Pattern[str]:
    return pattern(_LANGUAGES[at])


@cache
def _hints(at: int, *, is_ascii: bool) -> tuple[str, ...]:
    hints = tuple(hint.casefold() for hint in _LANGUAGES[at].hints.split("|"))
    return tuple(hint for hint in hints if hint.isascii()) if is_ascii else hints


def _said(said: re.Match[str], language: Tongue, *, affirms: bool, bare: bool) -> str:
    begin = said["start"]
    if begin[:1] in _MARKS:
        begin = f"{_MARKS[begin[0]]} {begin[1:]}"
    if said["waits"]:
        return f"{begin}Wait{_mark(said)}"
    if said["corrects"]:
        return f"{begin}Correction{_mark(said)}"
    name = next(one for one in CLAUSES if said[one])
    if (name == "right" and not affirms) or (name == "wrong" and not (bare or said["lead"])):
        return said[0]
    if name == "short" and not said["lead"]:
        return said[0]
    lead = "Wait, " if said["lead"] and name != "right" else ""
    clause = _SAYS[name].replace("{noun}", _noun(said[name], language))
    return f"{begin}{lead}{clause}{_mark(said)}"


def _mark(said: re.Match[str]) -> str:
    return f"{_MARKS[said['mark']]} " if said["mark"] else ""


def _noun(said: str, language: Tongue) -> str:
    folded = said.casefold()
    for word, english in (*language.nouns.items(), *ANY_NOUNS.items()):
        if word in folded:
            return english
    return "answer"
