"""Compares a program's output with the expected output, outside every box.

Total on any bytes. `referee/equality.py` compares the return values of functions.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from assay.verifiers.code.referee.equality import close

_NUMBER: Final = re.compile(
    r"[+-]?(?:[0-9]{1,300}(?:\.[0-9]{0,300})?|\.[0-9]{1,300})(?:[eE][+-]?[0-9]{1,3})?"
)
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,300}")
"""One for another is a wrong count, however near: only the absolute error is allowed."""


class OutputRule(StrEnum):
    """Which white space in a program's output matters."""

    TOKENS = "tokens"
    """Only as a separator between words, like the checkers of most contests. Expected outputs of
    public data sets contain padding that no program prints (CodeContests 1139_C)."""
    LINES = "lines"
    """All except at the ends of lines, and empty lines at the end."""
    EXACT = "exact"
    """Every byte counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputComparison:
    """How outputs are compared."""

    rule: OutputRule
    ignore_case: bool
    float_tolerance: float
    """Absolute or relative; one of them is enough. 0 compares digits as text."""


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
    if _INTEGER.fullmatch(one) and _INTEGER.fullmatch(other):
        return abs(int(one) - int(other)) <= tolerance
    return close(float(one), float(other), tolerance)
