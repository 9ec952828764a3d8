"""Times of day, durations and dates."""

import re
from collections.abc import Mapping
from datetime import date
from typing import Final

from assay.verifiers.math import notation
from assay.verifiers.math.grammar.tree import Answer, Date, Reader, Time
from assay.verifiers.math.lexicon.months import MONTHS, WEEKDAYS

_DATE_CHARS_MAX: Final = 60
_LEAP_YEAR: Final = 2000
"""Has every day that a date without a year may mean."""
_MONTHS_MAX: Final = 12
_YEARS: Final = ("year", "year1", "year2", "year3", "year4")
_MONTHS: Final = ("month", "month1", "month2", "month3")
_DAYS: Final = ("day", "day1", "day2", "day3")

_TIME: Final = re.compile(
    r"(?a)(?P<h>\d{1,2})\s*:\s*(?P<m>[0-5]\d)(?:\s*:\s*(?P<s>[0-5]\d))?"
    r"\s*(?:\\text\s*\{\s*)?(?P<half>[aApP]\.?\s*[mM]\.?|o'clock)?\s*\}?"
)
_CLOCK: Final = re.compile(
    r"(?a)(?P<h>\d{1,2})\s*(?:\\text\s*\{\s*)?(?P<half>[aApP]\.?\s*[mM]\.?)\s*\}?"
)
_DOTTED_CLOCK: Final = re.compile(
    r"(?a)\d{1,2}\.[0-5]\d\s*(?:\\text\s*\{\s*)?[aApP]\.?\s*[mM]\.?\s*\}?"
)
_MIDDAY: Final = re.compile(
    r"(?ai)(?:\\text\s*\{\s*)?(?:12(?::00)?\s*)?(?P<said>noon|midnight)\s*\}?"
)
_HOURS: Final = re.compile(
    r"(?a)(?P<h>\d{1,3})\s?(?:\\text\s?\{\s?)?(?:h|hr|hrs)\s?\}?\s?(?P<m>[0-5]\d)"
    r"(?:\s?(?:\\text\s?\{\s?)?(?:m|min|mins)\s?\}?)?"
)
"""`14h30`, of the day or of hours."""
_WORD: Final = r"[A-Za-z\u00c0-\u00ff]"
_WEEKDAY: Final = rf"(?:(?P<weekday>{'|'.join(WEEKDAYS)})\.?,?\s+)?"
_DATE: Final = re.compile(
    rf"(?ai){_WEEKDAY}(?:(?P<month>{_WORD}{{3,10}})\.?\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:\s*,?\s+(?P<year>\d{{4}}))?"
    rf"|(?:(?:the|le|el|il|am|den)\s+)?(?P<day1>\d{{1,2}})(?:st|nd|rd|th|er|\.)?[\s-]+(?:(?:of|de|di)\s+)?(?P<month1>{_WORD}{{3,10}})\.?"
    r"(?:(?:\s*,?\s+(?:de\s+|del\s+)?|-)(?P<year1>\d{4}))?"
    r"|(?P<year2>1[5-9]\d\d|2[01]\d\d)(?P<mark>[-/.])(?P<month2>\d{1,2})(?P=mark)(?P<day2>\d{1,2})"
    r"|(?:(?P<year3>\d{4})\s?\u5e74\s?)?(?P<month3>\d{1,2})\s?\u6708\s?(?P<day3>\d{1,2})\s?[\u65e5\u53f7]"
    r"|(?P<one>\d{1,2})(?P<mark1>[-/.])(?P<two>\d{1,2})(?P=mark1)(?P<year4>1[5-9]\d\d|2[01]\d\d))"
)
"""`(?P<one>`: day and month in one of two orders."""


def read_time(text: str, _reader: Reader) -> Answer | None:
    """`4:30`, `4:30 pm`, `4 pm`, `4.30 pm`, `1:02:03`."""
    match = _TIME.fullmatch(text)
    if match:
        half = _half(match["half"])
        hours, minutes = int(match["h"]), int(match["m"])
        seconds = int(match["s"] or 0)
        if hours <= 24 and (not half or 1 <= hours <= 12):
            terms: tuple[int, ...] = (hours, minutes)
            if match["s"] is not None:
                terms = (hours, minutes, seconds)
            if match["m"].startswith("0"):  # no ratio is written `2:05`
                terms = ()
            return Time(
                seconds=(hours * 60 + minutes) * 60 + seconds,
                half=half,
                terms=() if match["half"] else terms,
                form=notation.form(text),
            )
    midday = _MIDDAY.fullmatch(text)
    if midday:
        half = "pm" if midday["said"].lower() == "noon" else "am"
        return Time(seconds=12 * 3600, half=half, form=notation.form(text))
    match = _CLOCK.fullmatch(text)
    if match is None and _DOTTED_CLOCK.fullmatch(text):
        return read_time(text.replace(".", ":", 1), _reader)
    if match and 1 <= int(match["h"]) <= 12:
        return Time(
            seconds=int(match["h"]) * 3600, half=_half(match["half"]), form=notation.form(text)
        )
    return None


def _half(said: str | None) -> str:
    letter = (said or "")[:1].lower()
    return f"{letter}m" if letter in {"a", "p"} else ""


def read_hours(text: str, _reader: Reader) -> Answer | None:
    """`14h30`, which is also a duration."""
    match = _HOURS.fullmatch(text)
    if match is None:
        return None
    seconds = (int(match["h"]) * 60 + int(match["m"])) * 60
    return Time(seconds=seconds, is_duration=True, form=notation.form(text))


def read_date(text: str, _reader: Reader) -> Answer | None:
    """A day: the month in words, the year first, or numbers of which only one can be the month."""
    if len(text) > _DATE_CHARS_MAX or not any(map(str.isdecimal, text)):
        return None
    match = _DATE.fullmatch(notation.words_of(text).strip())
    if match is None:
        return None
    found = match.groupdict()
    day, month = _day_and_month(found)
    year = int(next(filter(None, (found[name] for name in _YEARS)), 0))
    try:
        date(year or _LEAP_YEAR, month, day)
    except ValueError:
        return None
    said = WEEKDAYS.get((found["weekday"] or "").lower(), -1)
    return Date(year=year, month=month, day=day, weekday=said, form=notation.form(text))


def _day_and_month(found: Mapping[str, str | None]) -> tuple[int, int]:
    """Zeros if the order is unknown, or the word is no month."""
    if found["one"] is not None:
        one, two = int(found["one"]), int(found["two"] or 0)
        if one == two or one > _MONTHS_MAX >= two:
            return one, two
        return (two, one) if two > _MONTHS_MAX >= one else (0, 0)
    month = next(filter(None, (found[name] for name in _MONTHS)), "")
    day = next(filter(None, (found[name] for name in _DAYS)), "0")
    return int(day), int(month) if month.isdecimal() else MONTHS.get(month.lower(), 0)
