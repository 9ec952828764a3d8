"""Numbers in English words: `twelve`, `three hundred and five`, `two thirds`, `2.5 million`."""

import re
from fractions import Fraction
from typing import Final

_SMALL: Final = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen"),
    *("eighteen", "nineteen"),
)
_ROUND: Final = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_ONES: Final = {word: value for value, word in enumerate(_SMALL)}
_TENS: Final = {word: 10 * value for value, word in enumerate(_ROUND, 2)}
_SCALES: Final = {
    "thousand": 10**3,
    "lakh": 10**5,
    "million": 10**6,
    "crore": 10**7,
    "billion": 10**9,
    "trillion": 10**12,
}
_PARTS: Final = {
    "half": 2,
    "halves": 2,
    "third": 3,
    "quarter": 4,
    "fourth": 4,
    "fifth": 5,
    "sixth": 6,
    "seventh": 7,
    "eighth": 8,
    "ninth": 9,
    "tenth": 10,
}
_WORDS_MAX: Final = 16
_SCALED: Final = re.compile(r"(?a)(-?\d{1,15}(?:,\d{3})*(?:\.\d{1,15})?)\s*([a-z]+)s?")


def number(text: str) -> Fraction | None:
    """The value of `text`; `None` if it is not a number in words."""
    said = text.strip().lower()
    scaled = _SCALED.fullmatch(said)
    if scaled and scaled[2].rstrip("s") in _SCALES:
        return Fraction(scaled[1].replace(",", "")) * _SCALES[scaled[2].rstrip("s")]
    words = [word for word in re.split(r"[\s-]+", said) if word]
    if not 0 < len(words) <= _WORDS_MAX:
        return None
    if words[0] in ("minus", "negative"):
        value = _unsigned(words[1:])
        return None if value is None else -value
    return _unsigned(words)


def _unsigned(words: list[str]) -> Fraction | None:
    part = _PARTS.get(words[-1].removesuffix("s")) or _PARTS.get(words[-1]) if words else None
    if part is None:
        whole = _whole(words)
        return None if whole is None else Fraction(whole)
    count = 1 if words[:-1] in (["a"], ["one"]) else _whole(words[:-1])
    return None if not count else Fraction(count, part)


def _whole(words: list[str]) -> int | None:
    """Thousands before hundreds before tens; `and` only after a hundred or a scale."""
    if not words or words[0] == "and" or words[-1] == "and":
        return None
    total, group, last = 0, 0, 10**18
    room = 1_000
    for word in words:
        if word == "and":
            continue
        if word in _ONES and (size := _ONES[word]) < room:
            group, room = group + size, 1
        elif word in _TENS and room >= 100:
            group, room = group + _TENS[word], 10
        elif word == "hundred" and 0 < group < 10:
            group, room = group * 100, 100
        elif word in _SCALES and group and _SCALES[word] < last:
            total, last = total + group * _SCALES[word], _SCALES[word]
            group, room = 0, 1_000
        else:
            return None
    return total + group
