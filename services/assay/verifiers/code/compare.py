"""Is what a program gave what was expected? Decided here, outside every box.

Both comparisons are total and know only exact builtin types: nothing of the program's takes part.
"""

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final

_NUMBER: Final = re.compile(
    r"[+-]?(?:[0-9]{1,300}(?:\.[0-9]{0,300})?|\.[0-9]{1,300})(?:[eE][+-]?[0-9]{1,3})?"
)


class OutputRule(StrEnum):
    """What of white space in a program's output counts."""

    TOKENS = "tokens"
    """Only that there is some between words, as the checkers of most contests have it. Expected
    outputs of public data sets hold padding that no program prints (CodeContests 1139_C)."""
    LINES = "lines"
    """All but that at the ends of lines, and empty lines at the end."""
    EXACT = "exact"
    """Every byte counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputComparison:
    """How outputs are compared."""

    rule: OutputRule
    ignore_case: bool
    float_tolerance: float
    """Absolute or relative, whichever is met; 0 = digits are text."""


def output_equal(actual: bytes, expected: str, comparison: OutputComparison) -> bool:
    """Tell whether a program's output is the expected one."""
    if comparison.rule is OutputRule.EXACT:
        return actual == expected.encode("utf-8", "surrogatepass")
    given = actual.decode("utf-8", "surrogateescape")
    wanted = expected
    if comparison.ignore_case:
        given, wanted = given.casefold(), wanted.casefold()
    if comparison.rule is OutputRule.TOKENS:
        return _tokens_equal(given.split(), wanted.split(), comparison.float_tolerance)
    given_lines, wanted_lines = _lines(given), _lines(wanted)
    if len(given_lines) != len(wanted_lines):
        return False
    if not comparison.float_tolerance:
        return given_lines == wanted_lines
    return all(
        one == other or _tokens_equal(one.split(), other.split(), comparison.float_tolerance)
        for one, other in zip(given_lines, wanted_lines, strict=True)
    )


def value_equal(actual: object, expected: object, float_tolerance: float) -> bool:
    """Tell whether a returned value is the expected one, which came as JSON.

    Types are kept apart as Python keeps them, with three allowances for what JSON cannot say: a
    tuple may stand for a list, an int for a float of the same value and the other way round (never
    a bool), and a key that is no string for its JSON form.
    """
    waiting = [(actual, expected)]
    while waiting:
        one, other = waiting.pop()
        if type(other) is list:
            if not isinstance(one, (list, tuple)) or len(one) != len(other):
                return False
            waiting.extend(zip(one, other, strict=True))
        elif type(other) is dict:
            keyed = _with_text_keys(one)
            if keyed is None or keyed.keys() != other.keys():
                return False
            waiting.extend((keyed[key], value) for key, value in other.items())
        elif not _scalar_equal(one, other, float_tolerance):
            return False
    return True


def _scalar_equal(one: object, other: object, float_tolerance: float) -> bool:
    if type(other) in (int, float) and type(one) in (int, float):
        return _number_equal(one, other, float_tolerance)  # type: ignore[arg-type]
    return type(one) is type(other) and type(other) in (str, bool, type(None)) and one == other


def _number_equal(one: float, other: float, float_tolerance: float) -> bool:
    """Two integers are compared exactly, whatever the tolerance."""
    if one == other:
        return True
    if type(one) is int and type(other) is int:
        return False
    return _close(one, other, float_tolerance)


def _close(one: float, other: float, tolerance: float) -> bool:
    if not tolerance or not (_is_finite(one) and _is_finite(other)):
        return False
    exact, wanted = Fraction(one), Fraction(other)
    scale = max(Fraction(1), abs(exact), abs(wanted))
    return abs(exact - wanted) <= Fraction(tolerance) * scale


def _is_finite(number: float) -> bool:
    return type(number) is int or math.isfinite(number)


def _with_text_keys(value: object) -> dict[str, object] | None:
    """The dict with its keys as JSON would write them; `None` where two would become one."""
    if type(value) is not dict:
        return None
    found: dict[str, object] = {}
    for key, child in value.items():
        if type(key) is str:
            found[key] = child
        elif type(key) in _JSON_KEYS and _is_short(key):
            found[_JSON_WORDS.get(repr(key), repr(key))] = child
        else:
            return None
    return found if len(found) == len(value) else None


def _is_short(key: object) -> bool:
    """False for an integer too long to be written out."""
    return type(key) is not int or key.bit_length() < _KEY_BITS_MAX


_KEY_BITS_MAX: Final = 4_096
_JSON_KEYS: Final = (int, float, bool, type(None))
_JSON_WORDS: Final = {"True": "true", "False": "false", "None": "null"}


def _lines(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _tokens_equal(given: list[str], wanted: list[str], float_tolerance: float) -> bool:
    return len(given) == len(wanted) and all(
        one == other or _token_close(one, other, float_tolerance)
        for one, other in zip(given, wanted, strict=True)
    )


def _token_close(one: str, other: str, tolerance: float) -> bool:
    if not tolerance or not (_NUMBER.fullmatch(one) and _NUMBER.fullmatch(other)):
        return False
    return _close(float(one), float(other), tolerance)
