"""The family `custom` of IFBench: each constraint is of one prompt. Pure."""

import csv
import io
import re
import string
import unicodedata
from itertools import pairwise
from typing import Final

from assay.verifiers.instructions.arguments import Arguments, ConstraintFamily
from assay.verifiers.instructions.language import sentences, stripped, unpunctuated

_NUMBER: Final = re.compile(r"\d+")
_QUESTION: Final = re.compile(r"\n*Question \d+[.|):;]?\s*")
_OPTION: Final = re.compile(r"[A-Ea-e][.|)]\s*\w")
_DATE: Final = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_DAYS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_NAPOLEON: Final = range(1769, 1822)
_COUNTRIES_MIN: Final = 52
_CAPITALS: Final = (
    "Reykjavik Helsinki Oslo Tallinn Stockholm Riga Moscow Copenhagen Vilnius Minsk Dublin Berlin "
    "Amsterdam Warsaw London Brussels Prague Luxembourg Paris Vienna Bratislava Budapest Vaduz "
    "Chisinau Bern Ljubljana Zagreb"
)
"""By latitude, from the north to 45 degrees."""
_CITY: Final = ("ID", "Country", "City", "Year", "Count")
_PRODUCT: Final = ("ProductID", "Category", "Brand", "Price", "Stock")
_STUDENT: Final = ("StudentID", "Subject", "Grade", "Semester", "Score")


def _ascii(value: str) -> str:
    return unicodedata.normalize("NFKD", value).encode("ascii", "ignore").decode("ascii")


def _multiples(value: str, _given: Arguments) -> bool:
    return _NUMBER.findall(value) == [str(n) for n in range(14, 51, 7)]


def _questions(value: str, _given: Arguments) -> bool:
    """Four with five options each; the text before a question's first option grows."""
    if not value.startswith("Question"):
        return False
    sizes = []
    for question in filter(str.strip, _QUESTION.split(value)):
        rows = [line.strip() for line in question.strip().split("\n")]
        options = [at for at, line in enumerate(rows) if _OPTION.match(line)]
        if len(options) != 5:
            return False
        sizes.append(len(" ".join(rows[: options[0]]).strip()))
    return len(sizes) == 4 and all(one < other for one, other in pairwise(sizes))


def _reverse_countries(value: str, _given: Arguments) -> bool:
    names = [name for line in value.split("\n") if (name := stripped(line))]
    first = next((at for at, name in enumerate(names) if "Zimbabwe" in name), len(names))
    plain = [_ascii(name) for name in names[first:]]
    return len(plain) >= _COUNTRIES_MIN and plain == sorted(plain, reverse=True)


def _reverse_words(value: str, _given: Arguments) -> bool:
    turned = " ".join(reversed(unpunctuated(value.lower()).split()))
    return "bald eagle" in turned and sentences(turned) == [turned]


def _reverse_letters(value: str, _given: Arguments) -> bool:
    return "elgae dlab" in value.lower()


def _alphabet_story(value: str, _given: Arguments) -> bool:
    found = sentences(value)
    return "".join(one[0].lower() for one in found) == string.ascii_lowercase


def _capitals(value: str, _given: Arguments) -> bool:
    named = [name.strip() for name in _ascii(value).split(",") if name.strip()]
    return " ".join(named) == _CAPITALS


def _rows(value: str, delimiter: str, *, quoting: bool = True) -> list[list[str]]:
    """The rows of a table; without `quoting`, quotation marks stay with their fields."""
    try:
        if quoting:
            return list(csv.reader(io.StringIO(value), delimiter=delimiter))
        return list(csv.reader(io.StringIO(value), delimiter=delimiter, quoting=csv.QUOTE_NONE))
    except csv.Error:  # a field longer than the module takes
        return []


def _quoted(field: str) -> bool:
    bare = field.strip()
    return len(bare) >= 2 and bare[0] == bare[-1] == '"'


def _is_header(row: list[str], names: tuple[str, ...]) -> bool:
    bare = [field.strip() for field in row]
    plain = [field[1:-1] if _quoted(field) else field for field in bare]
    return tuple(plain) == names


def _city_table(value: str, _given: Arguments) -> bool:
    rows = _rows(value, ",")
    return len(rows) == 8 and tuple(rows[0]) == _CITY and all(len(row) == 5 for row in rows)


def _product_table(value: str, _given: Arguments) -> bool:
    """A special character is one that is neither a letter, a digit nor white space."""
    rows = _rows(value, ",")
    raw = re.findall(r'"([^"\n]*)"', value.partition("\n")[2])
    special = any(not (c.isalnum() or c.isspace() or c == "_") for field in raw for c in field)
    shaped = len(rows) == 15 and _is_header(rows[0], _PRODUCT)
    return shaped and special and all(len(row) == 5 for row in rows)


def _student_table(value: str, _given: Arguments) -> bool:
    rows = _rows(value, "\t", quoting=False)
    if len(rows) != 4 or not _is_header(rows[0], _STUDENT):
        return False
    return all(len(row) == 5 and all(map(_quoted, row)) for row in rows)


def _is_date(value: str) -> bool:
    found = _DATE.fullmatch(value)
    if found is None:
        return False
    year, month, day = map(int, found.groups())
    return year in _NAPOLEON and 1 <= month <= 12 and 1 <= day <= _DAYS[month - 1]


def _dates(value: str, _given: Arguments) -> bool:
    return all(_is_date(one.strip()) for one in value.split(","))


RULES: Final = {
    "custom:multiples": ConstraintFamily(_multiples),
    "custom:mcq_count_length": ConstraintFamily(_questions),
    "custom:reverse_newline": ConstraintFamily(_reverse_countries),
    "custom:word_reverse": ConstraintFamily(_reverse_words),
    "custom:character_reverse": ConstraintFamily(_reverse_letters),
    "custom:sentence_alphabet": ConstraintFamily(_alphabet_story),
    "custom:european_capitals_sort": ConstraintFamily(_capitals),
    "custom:csv_city": ConstraintFamily(_city_table),
    "custom:csv_special_character": ConstraintFamily(_product_table),
    "custom:csv_quotes": ConstraintFamily(_student_table),
    "custom:date_format_list": ConstraintFamily(_dates),
}
