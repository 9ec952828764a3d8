"""Times of day, durations and dates."""

import re
from typing import Final

from assay.verifiers.math import notation
from assay.verifiers.math.grammar.tree import Answer, Date, Reader, Time

_MONTHS: Final = {
    name: number
    for number, names in enumerate(
        [
            "january jan",
            "february feb",
            "march mar",
            "april apr",
            "may",
            "june jun",
            "july jul",
            "august aug",
            "september sep sept",
            "october oct",
            "november nov",
            "december dec",
        ],
        1,
    )
    for name in names.split()
}
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
_DATE: Final = re.compile(
    r"(?a)(?:(?P<month>[A-Za-z]{3,9})\.?\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?(?:\s*,?\s+(?P<year>\d{4}))?"
    r"|(?:the\s+)?(?P<day1>\d{1,2})(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<month1>[A-Za-z]{3,9})\.?(?:\s*,?\s+(?P<year1>\d{4}))?"
    r"|(?P<year2>\d{4})(?P<mark>[-/])(?P<month2>\d{2})(?P=mark)(?P<day2>\d{2}))"
)


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


def read_date(text: str, _reader: Reader) -> Answer | None:
    """A day with the month in words, or in ISO 8601."""
    match = _DATE.fullmatch(notation.words_of(text).strip())
    if match is None:
        return None
    month_said = match["month"] or match["month1"] or match["month2"]
    month = int(month_said) if month_said.isdigit() else _MONTHS.get(month_said.lower(), 0)
    day = int(match["day"] or match["day1"] or match["day2"])
    year = int(match["year"] or match["year1"] or match["year2"] or 0)
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    return Date(year=year, month=month, day=day, form=notation.form(text))
