"""Units behind a number or an expression."""

import re
from fractions import Fraction
from typing import Final

from assay.verifiers.math import notation
from assay.verifiers.math.grammar.tree import Answer, Element, Number, Reader
from assay.verifiers.math.lexicon import units

_UNIT_COMMANDS: Final = re.compile(r"\\text\s*\{(?:[^{}]|\{[^{}]{1,3}\})*\}|\\circ|\\cdot|\\%")
_WORDS: Final = re.compile(r"[a-z']+")
_UNIT_CHARS: Final = re.compile(r"(?a)[A-Za-z.°/ ^{}\d-]*|'{1,2}")
_UNIT_PART: Final = rf"(?:\\text ?\{{[^{{}}]*\}}|{notation.CURRENCY})(?: ?\^ ?\{{? ?-?\d ?\}}?)?"
_TRAILING_TEXT: Final = re.compile(
    rf"(?a)(?P<core>.*?[^\s\\({{\[,=:+*/^_-]) ?(?P<unit>{_UNIT_PART}(?: ?/? ?{_UNIT_PART}){{0,4}})",
    re.DOTALL,
)
_UNIT_FRACTION: Final = re.compile(
    rf"\\frac ?\{{ ?(?P<value>-?[\d.]* ?)(?P<top>{_UNIT_PART}) ?\}}"
    rf" ?\{{ ?(?P<below>{_UNIT_PART}) ?\}}$"
)
_NUMBER_WITHIN: Final = re.compile(r"(?a)(?<![\^\da-z])(?<!\^[{-])(?<!\^\{-)\d|\s-\s")
"""A number that is no power of a unit: `2 pairs of 3`, `10 to 1`."""
_SAYS_TEXT: Final = re.compile(r"\\text\s*\{[^{}]*\}|\\[a-z]+")
_LOOSE_LETTER: Final = re.compile(r"(?a)(?<![A-Za-z])[A-Za-z](?![A-Za-z])")
"""Behind words a letter is a name: `\\frac12 \\text{ of } x`."""
_POWER: Final = re.compile(r"(?a)\^\s?\{?\s?-?\d")
_HALVES: Final = frozenset({"am", "pm", "a.m", "p.m"})
"""Of the day."""
_SPACES: Final = re.compile(r"\s+")
_MINUTES: Final = frozenset({"'", "''"})
_DEGREES: Final = re.compile(r"(?a)\s*\^\s*(?:\{\s*\\circ\s*\}|\\circ)\s*$")
_TRAILING_WORD: Final = re.compile(
    r"(?a)(?P<core>.*[\d})\]])\s+"
    r"(?P<unit>(?:(?:[Ss]quare|[Cc]ubic|sq\.?|cu\.?)\s+)?[A-Za-z]{2,}(?:\s?\^\s?\{?\s?[23]\s?\}?)?)$",
    re.DOTALL,
)


_PRIME: Final = r"\s?(?:'|\^\s?\{?\s?\\prime\s?\}?)"
_TWO_PRIMES: Final = r"\s?(?:''|\"|\u2033|\^\s?\{?\s?\\prime\s?\\prime\s?\}?)"
_TURN: Final = re.compile(
    rf"(?a)(?P<sign>-?)\s?(?P<degrees>\d{{1,9}})\s?\^\s?\{{?\s?\\circ\s?\}}?\s?(?P<minutes>\d{{1,2}}(?:\.\d{{1,9}})?){_PRIME}"
    rf"(?:\s?(?P<seconds>\d{{1,2}}(?:\.\d{{1,9}})?){_TWO_PRIMES})?"
)
_TURN_IN_WORDS: Final = re.compile(
    r"(?ai)(?P<sign>-?)\s?(?P<degrees>\d{1,9})\s?degrees?,?\s(?:and\s)?"
    r"(?P<minutes>\d{1,2}(?:\.\d{1,9})?)\s?(?:arc)?min(?:ute)?s?"
    r"(?:,?\s(?:and\s)?(?P<seconds>\d{1,2}(?:\.\d{1,9})?)\s?(?:arc)?sec(?:ond)?s?)?"
)
_FEET: Final = re.compile(
    rf"(?a)(?P<feet>\d{{1,9}}){_PRIME}\s?(?P<inches>\d{{1,2}}(?:\.\d{{1,9}})?){_TWO_PRIMES}"
)
_SPACED_UNIT: Final = re.compile(
    r"(?a)\s+(?:[cdmk]?m\s?\^\s?\{?[23]\}?|[JWV]|[TGMkhdcmnp](?:[JWVNAL]|Hz|Pa|eV))\s*"
)
"""Symbols that stand apart from the number, with a power or in the upper case."""

_POWER_IN_TEXT: Final = re.compile(r"(?a)\^\s?\{\s?(-?\d)\s?\}(?=[^{}]*\})")
_POWERS_MAX: Final = 8


def without_braced_powers(text: str) -> str:
    """`\\text{m^2}` for `\\text{m^{2}}`; the last power first."""
    for _ in range(_POWERS_MAX):
        text, found = _POWER_IN_TEXT.subn(r"^\1", text)
        if not found:
            break
    return text


def read_unit(text: str) -> str | None:
    """The normalised unit of `text`; "" for no unit, `None` if it is something else."""
    apart, text = text, without_braced_powers(text).strip()
    if not text:
        return ""
    if _SPACED_UNIT.fullmatch(apart):
        return units.unit_form(text)
    is_plain = "\\text" in text or units.is_plain(text.lower())
    if apart[:1].isspace() and not is_plain and (compound := units.plain_compound(text)):
        return compound
    if units.is_counter(notation.words_of(text).strip()):
        return units.unit_form(notation.words_of(text).strip())
    if _DEGREES.fullmatch(text):
        return "°"
    if _POWER.match(text):  # of the number
        return None
    if text.strip("{} ") == "\u00a2":
        return "cent"
    if text.strip("{} ") in {notation.CURRENCY, "€", "£", "¥"}:
        return text.strip("{} ").replace(notation.CURRENCY, "$")
    if not _UNIT_CHARS.fullmatch(_UNIT_COMMANDS.sub("", text)):
        return None
    return _unit_in_letters(text)


def _unit_in_letters(text: str) -> str | None:
    """As `read_unit`, for letters and words, inside `\\text` or not."""
    in_text = "\\text" in text
    written = notation.words_of(text).strip().rstrip(".")
    said = written.lower()
    if (
        said in _HALVES
        or not units.NOT_UNITS.isdisjoint(_WORDS.findall(said))
        or _NUMBER_WITHIN.search(said)
    ):
        return None
    if in_text and _LOOSE_LETTER.search(_SAYS_TEXT.sub("", text)):
        return None
    if said in _MINUTES:
        return said
    if not in_text and not units.is_plain(said):
        short = any(len(word) < 3 for word in re.findall(r"[a-z]+", said))
        if short or re.search(r"(?a)[\d^{}_\\]", said):
            return None
    if in_text and (compound := units.compound_form(written)):
        return compound
    if len(said.split()) > 4 or not re.search(r"[a-z°']", said):
        return None if said else ""
    return units.unit_form(written)


def read_marks(text: str, _reader: Reader) -> Answer | None:
    """`30^\\circ 15'`, and feet with inches: `5'6"`."""
    turn = _TURN.fullmatch(text)
    if turn is None and "egree" in text:
        turn = _TURN_IN_WORDS.fullmatch(_SPACES.sub(" ", notation.words_of(text)).strip())
    if turn is not None:
        value = Fraction(turn["degrees"]) + Fraction(turn["minutes"]) / 60
        value += Fraction(turn["seconds"] or 0) / 3_600
        value = -value if turn["sign"] else value
        return Number(value, unit="°", form=notation.form(text), is_compound=True)
    if (said := _FEET.fullmatch(text)) is not None:
        value = 12 * Fraction(said["feet"]) + Fraction(said["inches"])
        return Number(value, unit="in", form=notation.form(text), is_compound=True)
    return None


def read_quantity(text: str, reader: Reader) -> Answer | None:
    """An expression followed by a unit."""
    text = without_braced_powers(text)
    in_line = _UNIT_FRACTION.sub(r"\g<value>\g<top>/\g<below>", text)
    match = _TRAILING_TEXT.fullmatch(in_line)
    if match is None:
        match = _TRAILING_WORD.fullmatch(text)
        if match is not None and not units.is_plain(match["unit"].lower()):
            match = None
    if match is not None and re.search(r"(?a)\d|\\", match["core"]):
        unit = read_unit(match["unit"])
        if unit is not None:
            core = _plain_core(match["core"], reader)
            if core is not None:
                return _with_unit(core, unit, text)
    degrees = _DEGREES.search(text)
    if degrees:
        core = _plain_core(text[: degrees.start()], reader)
        if core is not None:
            return _with_unit(core, "°", text)
    if text.startswith((notation.CURRENCY, "-" + notation.CURRENCY)):
        core = _plain_core(text.replace(notation.CURRENCY, "", 1), reader)
        if core is not None:
            return _with_unit(core, "$", text)
    return None


def _plain_core(text: str, reader: Reader) -> Number | Element | None:
    core = reader.part(text.strip())
    return core if isinstance(core, Number | Element) and not core.unit else None


def _with_unit(core: Number | Element, unit: str, text: str) -> Answer:
    form = notation.form(text)
    if isinstance(core, Number):
        return Number(core.value, core.is_decimal, core.is_percent, unit, form)
    return Element(text=core.text, unit=unit, form=form)
