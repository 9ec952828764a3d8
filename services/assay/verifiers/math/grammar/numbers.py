"""Plain numbers: decimals, fractions, mixed numbers, repeating decimals, words, bases."""

import re
from fractions import Fraction
from typing import Final

from assay.verifiers.math import notation
from assay.verifiers.math.grammar.quantities import read_unit
from assay.verifiers.math.grammar.tree import Answer, Based, Items, Number, Reader, Words
from assay.verifiers.math.grammar.words import words_form
from assay.verifiers.math.lexicon import spelled, units

_DIGITS_MAX: Final = 400
_EXPONENT_MAX: Final = 400
_PLAIN: Final = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d{1,3}(?:[ ]\d{3})+(?!\d)|\d+)?(?:\.\d+)?"
_NUMBER: Final = re.compile(
    rf"(?a)(?P<sign>[-+]?)\s*(?P<money>[{notation.CURRENCY}€£¥₹]\s*)?(?P<sign2>[-+]?)\s*(?P<plain>{_PLAIN})\.?"
    r"(?:\s*(?:\\times|\\cdot|\*|x)\s*10\s*\^\s*(?:\{\s*(?P<power>[-+]?\s*\d+)\s*\}|(?P<power1>-?\d+))"
    r"|[eE](?P<exponent>[-+]?\d+))?"
    r"(?P<percent>\s*\\?(?:%|\\%)|\s*(?:percent|percentage|pct)\b|\s*\\text\s*\{\s*(?:percent|percentage|pct)\s*\})?"
    r"(?P<rest>.*)",
    re.DOTALL,
)
_FRACTION: Final = re.compile(
    r"(?a)(?P<sign>[-+]?)\s*(?:(?P<whole>\d+)\s*(?=\\frac)|(?P<whole1>\d+)[ ]+(?=\d+\s*/))?"
    r"(?P<sign2>[-+]?)\s*(?:\\frac\s*(?:\{\s*(?P<n>-?\s*\d+)\s*\}|(?P<n1>\d))\s*(?:\{\s*(?P<d>-?\s*\d+)\s*\}|(?P<d1>\d))"
    r"|(?P<n2>\d+)\s*/\s*(?P<d2>\d+))"
    r"(?P<percent>\s*\\?%|\s*(?:percent|pct)\b|\s*\\text\s*\{\s*(?:percent|pct)\s*\})?(?P<rest>.*)",
    re.DOTALL,
)
_REPEATING: Final = re.compile(
    r"(?a)(?P<sign>-?)\s*(?P<whole>\d*)\.(?P<fixed>\d*)\s*\\overline\s*\{\s*(?P<block>\d+)\s*\}"
    r"(?P<percent>\s*\\?%)?(?P<rest>.*)",
    re.DOTALL,
)
_MIXED_AND: Final = re.compile(r"(?a)(-?\d+)\s+and\s+(\d+/\d+|\\frac\{\d+\}\{\d+\})")
_POINTS: Final = re.compile(r"(?a)-?[1-9]\d{0,2}(?:(?:\.\d{3})+,\d+|(?:\.\d{3}){2,})")
_BASED: Final = re.compile(
    r"(?a)(?:\\text\s*)?\{?\(?(?P<digits>[0-9A-Za-z]+)\)?\}?\s*(?:_\s*(?:\{\s*(?:\\text\s*\{)?\(?(?P<base>\d{1,2}|[a-z]{3,8})\)?\}?\s*\}|(?P<base1>\d))"
    r"|(?:\\text\s*\{)?\s*\(?(?:in )?base[ -](?:\})?\s*(?P<base2>\d{1,2}|[a-z]{3,8})\s*\)?\}?)"
)
_BEHIND_POWER: Final = re.compile(r"\s+[ACFHJKNTVW]\s*")
"""A symbol behind a power of ten is a unit: `1.6 \\times 10^{-19} C`."""
_RAISED_ENDING: Final = re.compile(r"(?a)(?<=\d)\s?\^\s?\{?\s?(st|nd|rd|th)(?:\s?\}|(?![A-Za-z]))")
_SPELLED_CHARS_MAX: Final = 80
_PERCENT: Final = re.compile(r"(?P<number>[A-Za-z][A-Za-z -]*?) (?:percent|per cent)")
_PREFIXED: Final = re.compile(r"(?a)0(?P<mark>[xXbBoO])(?P<digits>[0-9A-Fa-f]+)")
_HEXADECIMAL: Final = 16
_CAPITALS: Final = re.compile(r"(?a)[A-F][0-9A-F]")
_PREFIXES: Final = {"x": 16, "b": 2, "o": 8}


def read_number(text: str, _reader: Reader) -> Answer | None:
    """A plain number with its percent sign and unit."""
    return _repeating(text) or _fraction(text) or _decimal(text) or read_spelled(text, _reader)


def read_spelled(text: str, _reader: Reader) -> Answer | None:
    """`twelve`, `three quarters`, `2.5 million`, `2 hours 15 minutes`, `two hours`, `fourth`."""
    said = _RAISED_ENDING.sub(r"\1", notation.words_of(text))
    form = notation.form(text)
    value = spelled.number(said)
    if value is not None:
        return Number(value=value, form=form)
    share = _PERCENT.fullmatch(said) if len(said) <= _SPELLED_CHARS_MAX else None
    value = spelled.number(share["number"]) if share is not None else None
    if value is not None:
        return Number(value=value, is_percent=True, form=form)
    found = units.compound(text) or units.compound(spelled.in_digits(said))
    if found is not None:
        return Number(value=found.value, unit=found.unit, form=form, is_compound=True)
    if len(said) > _SPELLED_CHARS_MAX:
        return None
    place = spelled.ordinal(said)
    if place is not None:
        return Number(value=Fraction(place), unit="th", form=form, is_spelled=True)
    if (stood := spelled.placed(said)) is not None:
        return Words(text=f"{stood[0]}th {words_form(f'x {stood[1]}')[2:]}", form=form)
    counted = spelled.counted(said)
    unit = read_unit(f"\\text{{{counted[1]}}}") if counted is not None else None
    if counted is None or not unit or not (units.is_known_unit(unit) or counted[1].endswith("s")):
        return None
    return Number(value=counted[0], unit=unit, form=form, is_spelled=True)


def _repeating(text: str) -> Answer | None:
    """`0.1\\overline{6}`, exactly."""
    match = _REPEATING.fullmatch(text)
    unit = read_unit(match["rest"]) if match else None
    if match is None or unit is None or len(match[0]) > _DIGITS_MAX:
        return None
    whole, fixed, block = match["whole"] or "0", match["fixed"], match["block"]
    nines = 10 ** len(block) - 1
    value = Fraction(int(whole + fixed) * nines + int(block), nines * 10 ** len(fixed))
    return Number(
        value=-value if match["sign"] else value,
        is_percent=bool(match["percent"]),
        unit=unit,
        form=notation.form(text),
    )


def _fraction(text: str) -> Answer | None:
    match = _FRACTION.fullmatch(text)
    if match is None or (match["sign"] and match["sign2"]):
        return None
    whole = match["whole"] or match["whole1"] or "0"
    top = (match["n"] or match["n1"] or match["n2"]).replace(" ", "")
    below = (match["d"] or match["d1"] or match["d2"]).replace(" ", "")
    unit = read_unit(match["rest"])
    too_long = max(len(whole), len(top), len(below)) > _DIGITS_MAX
    if unit is None or too_long or int(below) == 0 or (int(whole) and match["sign2"]):
        return None
    value = int(whole) + Fraction(int(top), int(below))
    if "-" in (match["sign"], match["sign2"]):
        value = -value
    return Number(
        value=value, is_percent=bool(match["percent"]), unit=unit, form=notation.form(text)
    )


def _decimal(text: str) -> Answer | None:
    match = _NUMBER.fullmatch(text)
    if match is None or not match["plain"] or match["plain"] == ".":
        return None
    if match["sign"] and match["sign2"]:
        return None
    digits = match["plain"].replace(",", "").replace(" ", "")
    power = (match["power"] or match["power1"] or match["exponent"] or "0").replace(" ", "")
    if len(digits) > _DIGITS_MAX or len(power) > 4 or abs(int(power)) > _EXPONENT_MAX:
        return None
    unit = read_unit(match["rest"])
    if unit is None and power != "0" and _BEHIND_POWER.fullmatch(match["rest"]):
        unit = units.unit_form(match["rest"])
    if unit is None:
        return None
    value = Fraction(digits) * Fraction(10) ** int(power)
    if "-" in (match["sign"], match["sign2"]):
        value = -value
    if match["money"]:
        unit = unit or match["money"].strip().replace(notation.CURRENCY, "$")
    return Number(
        value=value,
        is_decimal="." in digits or bool(match["exponent"]) or power.startswith("-"),
        is_percent=bool(match["percent"]),
        unit=unit,
        form=notation.form(text),
    )


def read_mixed(text: str, _reader: Reader) -> Answer | None:
    """`2 and 3/4`, which may also be two values."""
    match = _MIXED_AND.fullmatch(text)
    whole, part = (_decimal(match[1]), _fraction(match[2])) if match else (None, None)
    if match is None or not isinstance(whole, Number) or not isinstance(part, Number):
        return None
    both = _fraction(f"{match[1]} {match[2]}")
    mixed = both if isinstance(both, Number) and 0 < part.value < 1 else None
    return Items("list", (whole, part), form=f"{whole.form}, {part.form}", decimal=mixed)


def read_foreign_decimal(text: str, _reader: Reader) -> Answer | None:
    """`1.234.567` and `1.234,5`: no other form has two points, or a comma after one."""
    if not _POINTS.fullmatch(text):
        return None
    return _decimal(text.replace(".", "").replace(",", "."))


def read_based(text: str, _reader: Reader) -> Answer | None:
    """Digits with their base as a subscript."""
    prefixed = _PREFIXED.fullmatch(text)
    if prefixed:
        base = _PREFIXES[prefixed["mark"].lower()]
        digits = prefixed["digits"].upper()
        if len(digits) > _DIGITS_MAX or any(int(digit, 36) >= base for digit in digits):
            return None
        return Based(
            digits=digits.lstrip("0") or "0", base=base, form=notation.form(text), is_prefixed=True
        )
    match = _BASED.fullmatch(text)
    if match is None:
        return None
    base = _base(match["base"] or match["base1"] or match["base2"])
    digits = match["digits"].upper()
    if not 2 <= base <= 36 or len(digits) > _DIGITS_MAX:
        return None
    if not (digits[0].isdigit() or (base == _HEXADECIMAL and _CAPITALS.match(match["digits"]))):
        return None  # `a_{12}` is a name
    if any(int(digit, 36) >= base for digit in digits):
        return None
    return Based(digits=digits.lstrip("0") or "0", base=base, form=notation.form(text))


def _base(said: str) -> int:
    value = Fraction(said) if said.isdigit() else spelled.number(said)
    return int(value) if value is not None else 0
