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
    "dozen": 12,
    "thousand": 10**3,
    "lakh": 10**5,
    "million": 10**6,
    "crore": 10**7,
    "billion": 10**9,
    "trillion": 10**12,
}
_SCALES_OF_DIGITS: Final = {"hundred": 100, **_SCALES}
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
_ORDINALS: Final = {
    "first": 1,
    "second": 2,
    "third": 3,
    "fifth": 5,
    "eighth": 8,
    "ninth": 9,
    "twelfth": 12,
    **{f"{_SMALL[value]}th": value for value in (4, 6, 7, 10, 11, *range(13, 20))},
    **{f"{word[:-1]}ieth": value for word, value in _TENS.items()},
    "hundredth": 100,
    "thousandth": 1_000,
}
_ORDINAL: Final = re.compile(
    r"(?a)(?P<digits>\d{1,9})\s?(?:(?P<st>st)|(?P<nd>nd)|(?P<rd>rd)|(?P<th>th))"
)
_ROMAN: Final = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii")
_NUMBERED: Final = re.compile(
    r"(?!option|choice|answer|letter|part|only)(?P<noun>[a-z]{4,12}) "
    rf"(?P<roman>{'|'.join(_ROMAN)})"
)
_NOUN: Final = re.compile(r"[a-z]{3,15}(?: [a-z]{2,15}){0,3}")
_APART: Final = frozenset(
    [
        *("and", "or", "nor", "but", "not", "then", "with", "without", "than", "more", "less"),
        *("fewer", "is", "are", "was", "were", "out", "to", "by", "from", "if", "unless"),
        *_ONES,
        *_TENS,
    ]
)
"""Words that say more than what is counted."""
_BREAK: Final = re.compile(r"[\s-]+")
_HALF_OF: Final = re.compile(r"(?P<part>half|quarter) (?:of )?an? ")
_AND_A_HALF: Final = re.compile(r"an? (?P<unit>[a-z]{3,12}) and an? (?P<part>half|quarter)")
_SCALED: Final = re.compile(r"(?a)(-?\d{1,15}(?:,\d{3})*(?:\.\d{1,15})?)\s*([a-z]+)s?")


def number(text: str) -> Fraction | None:
    """The value of `text`; `None` if it is not a number in words."""
    said = text.strip().lower()
    scaled = _SCALED.fullmatch(said)
    if scaled and scaled[2].rstrip("s") in _SCALES_OF_DIGITS:
        return Fraction(scaled[1].replace(",", "")) * _SCALES_OF_DIGITS[scaled[2].rstrip("s")]
    words = [word for word in re.split(r"[\s-]+", said) if word]
    if not 0 < len(words) <= _WORDS_MAX:
        return None
    if words in (["half", "a", "dozen"], ["a", "half", "dozen"]):
        return Fraction(6)
    if words[0] == "a" and words[1:2] and (words[1] in _SCALES or words[1] == "hundred"):
        words = ["one", *words[1:]]
    if words[0] in ("minus", "negative"):
        value = _unsigned(words[1:])
        return None if value is None else -value
    return _unsigned(words)


def ordinal(text: str) -> int | None:
    """The place that `text` names, as `fourth`, `4th` and `twenty-first` do."""
    said = text.strip().lower().removeprefix("the ")
    match = _ORDINAL.fullmatch(said)
    if match is not None:
        return int(match["digits"]) if said.endswith(_ending(int(match["digits"]))) else None
    *words, last = [word for word in _BREAK.split(said) if word] or [""]
    place = _ORDINALS.get(last)
    if words[-1:] == ["and"] and words[-2:-1] and words[-2] in ("hundred", *_SCALES):
        words = words[:-1]
    if place is None or len(words) >= _WORDS_MAX or words[-1:] == ["and"]:
        return None
    if not words:
        return place
    if place >= 100:
        whole = _whole([*words, last.removesuffix("th")])
        return whole if words[-1:] != ["a"] else None
    before = _whole(words)
    step = 10 if place < 10 else 100
    return before + place if before and before % step == 0 else None


def placed(text: str) -> tuple[int, str] | None:
    """A place and what stands there, in small letters: `fourth quadrant`, `4th quadrant`,
    `Quadrant IV`."""
    said = " ".join(text.lower().split()).removeprefix("the ")
    match = _NUMBERED.fullmatch(said)
    if match is not None:
        return _ROMAN.index(match["roman"]) + 1, match["noun"]
    first, _, rest = said.partition(" ")
    place = ordinal(first)
    is_noun = _NOUN.fullmatch(rest) is not None and _APART.isdisjoint(rest.split())
    return (place, rest) if place is not None and is_noun else None


def in_digits(text: str) -> str:
    """`two hours fifteen minutes` as `2 hours 15 minutes`; other texts as they are."""
    words = text.split()
    if not 4 <= len(words) <= _WORDS_MAX or number(words[0].lower()) is None:
        return text
    found: list[str] = []
    while words:
        ends = range(min(len(words), 4), 0, -1)
        said = ((end, number(" ".join(words[:end]))) for end in ends if words[0] != "and")
        end, value = next(((end, one) for end, one in said if one is not None), (1, None))
        found.append(words[0] if value is None or value.denominator > 1 else str(value))
        del words[:end]
    return " ".join(found)


def _ending(place: int) -> str:
    if place % 100 in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")


def counted(text: str) -> tuple[Fraction, str] | None:
    """The number in words that begins `text`, and what it counts: `two hours`, `half an hour`."""
    said = " ".join(text.split())
    low = said.lower()
    if (half := _AND_A_HALF.fullmatch(low)) is not None:
        return 1 + Fraction(1, _PARTS[half["part"]]), half["unit"]
    if (half := _HALF_OF.match(low)) is not None:
        return Fraction(1, _PARTS[half["part"]]), said[half.end() :]
    words = said.split(" ")
    for length in range(min(len(words) - 1, _WORDS_MAX), 0, -1):
        is_said = words[0][:1].isalpha() or words[1] == "and"
        value = number(" ".join(words[:length])) if is_said else None
        if value is not None:
            rest = words[length:]
            is_counted = _APART.isdisjoint(word.lower() for word in rest)
            return (value, " ".join(rest)) if is_counted else None
    return None


def _unsigned(words: list[str]) -> Fraction | None:
    """`two thirds`, `two and a half`, `three`."""
    if "and" in words:
        at = len(words) - 1 - words[::-1].index("and")
        is_digits = at == 1 and words[0].isdecimal() and len(words[0]) < 16
        part, whole = _fraction(words[at + 1 :]), int(words[0]) if is_digits else _whole(words[:at])
        if part is not None and whole is not None and part < 1:
            return whole + part
    part = _fraction(words)
    if part is not None:
        return part
    whole = _whole(words)
    return None if whole is None else Fraction(whole)


def _fraction(words: list[str]) -> Fraction | None:
    part = _PARTS.get(words[-1].removesuffix("s")) or _PARTS.get(words[-1]) if words else None
    if part is None:
        return None
    count = 1 if words[:-1] in (["a"], ["one"]) else _whole(words[:-1])
    is_place = words[-1] in _ORDINALS and count and count >= 20 and count % 10 == 0
    return Fraction(count, part) if count and not is_place else None


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
