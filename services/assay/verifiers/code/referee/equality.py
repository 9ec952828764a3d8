"""Compares a returned value with the expected one, which was given as JSON or as a Python literal.

Total on the output of `Decoder`. It handles exact types only, so no code of the program runs.
"""

from __future__ import annotations

import math
from collections import deque
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from assay.verifiers.code.referee.values import Linked, Record, type_of

if TYPE_CHECKING:
    from collections.abc import Callable

_LISTS: Final = (list, tuple, Record)
_SAME: Final[dict[type, tuple[type, ...]]] = {
    list: (list,),
    tuple: (tuple, Record),
    deque: (deque,),
}
"""Type of an expected value -> types that may equal it."""
_NUMBERS: Final = (int, float, Fraction, Decimal)
_DIGITS_MAX: Final = 5_000
"""Bound on a Decimal that is compared; its exponent could cost more than its text."""
_KEY_BITS_MAX: Final = 4_096
_JSON_WORDS: Final = {"True": "true", "False": "false", "None": "null"}
_JSON_KEYS: Final = (int, float, bool, type(None))


def value_equal(actual: object, expected: object, float_tolerance: float) -> bool:
    """Tell whether a returned value is the expected one.

    Types are distinguished as in Python, with three allowances for what JSON cannot express: a
    tuple matches a list, a number matches one of the same value but another type (never a bool),
    and a key that is not a string matches its JSON form. An expected integer needs an equal number;
    the tolerance applies to expected floats only.
    """
    waiting: list[tuple[Any, Any]] = [(actual, expected)]
    while waiting:
        one, other = waiting.pop()
        if type_of(other) is list:
            if type_of(one) not in _LISTS or len(one) != len(other):
                return False
            waiting.extend(zip(one, other, strict=True))
        elif type_of(other) is dict:
            keyed = _with_text_keys(one)
            if keyed is None or keyed.keys() != other.keys():
                return False
            waiting.extend((keyed[key], value) for key, value in other.items())
        elif not _scalar_equal(one, other, float_tolerance):
            return False
    return True


def python_equal(
    actual: object,
    expected: object,
    float_tolerance: float,
    listed: Callable[[object, str], object],
) -> bool:
    """Tell whether a returned value equals the expected one as in Python: `(1,) != [1]`.

    The tolerance applies to expected floats, in lists, tuples and values of dicts too. `nan` equals
    `nan`. Items of sets and keys of dicts are compared exactly. For linked nodes, `listed(result,
    kind)` returns their values.
    """
    waiting: list[tuple[Any, Any]] = [(actual, expected)]
    while waiting:
        one, other = waiting.pop()
        if type_of(other) is Linked:
            one, other = listed(one, other.kind), other.items
        if type_of(other) in (list, tuple, deque):
            if type_of(one) not in _SAME[type_of(other)] or len(one) != len(other):
                return False
            waiting.extend(zip(one, other, strict=True))
        elif issubclass(type_of(other), dict):
            if not issubclass(type_of(one), dict) or one.keys() != other.keys():
                return False
            waiting.extend((one[key], value) for key, value in other.items())
        elif not _python_scalar_equal(one, other, float_tolerance):
            return False
    return True


def _python_scalar_equal(one: Any, other: Any, float_tolerance: float) -> bool:  # noqa: ANN401 - any value
    if bool(one == other):
        return True
    if type_of(other) is complex and type_of(one) in (complex, *_NUMBERS):
        return _python_scalar_equal(one.real, other.real, float_tolerance) and _python_scalar_equal(
            one.imag, other.imag, float_tolerance
        )
    if type_of(other) is not float or type_of(one) not in _NUMBERS:
        return False
    both_nan = type_of(one) is float and math.isnan(one) and math.isnan(other)
    return both_nan or _number_equal(one, other, float_tolerance)


def close(one: float | Fraction, other: float | Fraction, tolerance: float) -> bool:
    """Tell whether two numbers differ by at most `tolerance`, absolute or relative."""
    if not tolerance or not (_is_finite(one) and _is_finite(other)):
        return False
    exact, wanted = Fraction(one), Fraction(other)
    scale = max(Fraction(1), abs(exact), abs(wanted))
    return abs(exact - wanted) <= Fraction(tolerance) * scale


def _scalar_equal(one: Any, other: Any, float_tolerance: float) -> bool:  # noqa: ANN401 - any value
    if type_of(other) in (int, float) and type_of(one) in _NUMBERS:
        return _number_equal(one, other, float_tolerance)
    kinds = (str, bool, type(None))
    return type_of(one) is type_of(other) and type_of(other) in kinds and bool(one == other)


def _number_equal(one: Any, other: float, float_tolerance: float) -> bool:  # noqa: ANN401 - any number
    number = _plain_number(one)
    if number is None:
        return False
    if number == other:
        return True
    return type_of(other) is float and close(number, other, float_tolerance)


def _plain_number(value: Any) -> float | Fraction | None:  # noqa: ANN401 - any number
    if type_of(value) is not Decimal:
        found: float | Fraction = value
        return found
    if not value.is_finite() or abs(value.adjusted()) > _DIGITS_MAX:
        return None
    return Fraction(value)


def _is_finite(number: float | Fraction) -> bool:
    return type_of(number) is not float or math.isfinite(number)


def _with_text_keys(value: Any) -> dict[str, Any] | None:  # noqa: ANN401 - any value
    """The dict with its keys in JSON form; `None` if two keys would become the same."""
    if not issubclass(type_of(value), dict):
        return None
    found: dict[str, Any] = {}
    for key, child in dict.items(value):
        if type_of(key) is str:
            found[key] = child
        elif type_of(key) in _JSON_KEYS and _is_short(key):
            found[_JSON_WORDS.get(repr(key), repr(key))] = child
        else:
            return None
    return found if len(found) == len(value) else None


def _is_short(key: Any) -> bool:  # noqa: ANN401 - any key
    """False for an integer that is too long to convert to text."""
    return type_of(key) is not int or int(key).bit_length() < _KEY_BITS_MAX
