"""Compares single elements: math-verify's equality on expressions parsed by latex2sympy.

Parse results are cached by text. The time of an expression is not bounded here; the worker bounds
it from outside.
"""

import math
import re
from functools import lru_cache
from typing import Any, Final

from latex2sympy2_extended import (  # type: ignore[import-untyped]  # ships no types
    NormalizationConfig,
    latex2sympy,
    normalize_latex,
)
from math_verify import verify  # type: ignore[import-untyped]  # ships no types
from math_verify.grader import should_treat_as_complex  # type: ignore[import-untyped]  # ships no types
from sympy import Basic, Float, MatrixBase, Number, Rational  # type: ignore[import-untyped]  # ships no types

from assay.verifiers.math import notation
from assay.verifiers.math.definition import MathSettings

_NORMAL: Final = NormalizationConfig(
    basic_latex=True,
    units=False,
    malformed_operators=True,
    nits=True,
    boxed="none",
    equations=False,
)
_EQUALS: Final = re.compile(r"(?a)(?<![\\<!>])=")
DEPTH_MAX: Final = 24
"""Maximum bracket depth; the parser's time grows fast with it."""
_PARSED_MAX: Final = 2_048
_POWER: Final = re.compile(
    r"(?a)(?P<base>\d+)\)?\s*\^[\s{(]*(?P<power>\d+)(?:\)?\s*\^[\s{(]*(?P<tower>\d+))?"
)
_FACTORIAL: Final = re.compile(r"(?a)(?P<digits>\d{6,})[\s)}]*!")
_DIGITS_MAX: Final = 10**7
"""Maximum digits of an integer power; computing more is one step that no timer can interrupt."""
_TINY: Final = 1e-3
_SCALED_DIGITS: Final = 30
_ZERO_PLACES: Final = 9
"""Places of a constant that must be zero, beyond `float_rounding`."""


class Unreadable(Exception):
    """latex2sympy cannot parse the text."""


@lru_cache(maxsize=_PARSED_MAX)
def _parsed(text: str) -> Any:  # noqa: ANN401 - sympy's classes have no common type
    """The sympy object, or the exception's text if there is none."""
    try:
        return _parse(text)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - the parser may raise anything on text that it cannot read
        return f"{type(error).__name__}"


def _parse(text: str) -> Any:  # noqa: ANN401 - a sympy object
    normal = normalize_latex(text, _NORMAL)
    try:
        return _sympy_of(normal)
    except MemoryError:
        raise
    except Exception:
        sides = _EQUALS.split(normal)
        if len(sides) < 3 or "," in normal or ";" in normal:
            raise
        return _sympy_of(sides[-1])  # the end of a chain is its result


def _sympy_of(latex: str) -> Any:  # noqa: ANN401 - a sympy object
    return latex2sympy(
        latex,
        is_real=not should_treat_as_complex(latex),
        convert_degrees=False,
        normalization_config=None,
    )


def parsed(text: str) -> Any:  # noqa: ANN401 - a sympy object
    """Read one element.

    Raises:
        Unreadable: the computer algebra system cannot read it.
    """
    if max((token.depth for token in notation.tokens(text)), default=0) > DEPTH_MAX:
        message = f"brackets nest deeper than {DEPTH_MAX}"
        raise Unreadable(message)
    if _is_huge(text):
        message = f"a number of more than {_DIGITS_MAX} digits"
        raise Unreadable(message)
    found = _parsed(text)
    if not isinstance(found, Basic | MatrixBase):
        message = f"cannot read {text[:80]!r}"
        raise Unreadable(message)
    return found


def _is_huge(text: str) -> bool:
    """Whether a power or a factorial of plain integers has too many digits to be computed."""
    return _FACTORIAL.search(text) is not None or any(
        _digits(match["base"], match["power"], match["tower"]) > _DIGITS_MAX
        for match in _POWER.finditer(text)
    )


def _digits(base: str, power: str, tower: str | None) -> float:
    """Approximate number of digits of `base^power^tower`."""
    size = math.log10(max(2, int(base[:300]))) + max(0, len(base) - 300)
    exponent = _log10(power) * (float(tower[:300]) if tower else 1)
    return size * 10 ** min(exponent, 300)


def _log10(digits: str) -> float:
    return math.log10(max(1, int(digits[:300]))) + max(0, len(digits) - 300)


def equal(gold: str, answer: str, settings: MathSettings) -> bool:
    """Whether they are equal as mathematics, gold first: the comparison is not symmetric.

    Raises:
        Unreadable: one of them cannot be read.
    """
    left, right = parsed(gold), parsed(answer)
    if _verified(left, right, settings):
        return True
    exact = _exact(left), _exact(right)
    return exact != (left, right) and _verified(*exact, settings)


def _verified(gold: Any, answer: Any, settings: MathSettings) -> bool:  # noqa: ANN401 - a sympy object
    left, right = _scaled(gold, answer)
    same: bool = verify(
        left,
        right,
        float_rounding=settings.float_rounding,
        numeric_precision=settings.numeric_precision,
        strict=settings.strict,
        allow_set_relation_comp=settings.allow_set_relation_comp,
        timeout_seconds=None,
        raise_on_error=True,
    )
    return same


def _scaled(gold: Any, answer: Any) -> tuple[Any, Any]:  # noqa: ANN401 - a sympy object
    """Compare numbers that rounding would make zero as multiples of the gold."""
    if not (_is_constant(gold) and _is_constant(answer)):
        return gold, answer
    size = _size(gold)
    if size is None or size >= _TINY:
        return gold, answer
    factor = Number(10) ** (_magnitude(size) if size else _ZERO_PLACES)
    return (gold * factor).evalf(_SCALED_DIGITS), (answer * factor).evalf(_SCALED_DIGITS)


def _exact(value: Any) -> Any:  # noqa: ANN401 - a sympy object
    """A constant with decimals in it (`12 \\cdot 7^{0.5}`) with fractions in their place."""
    if not _is_constant(value) or isinstance(value, Number):
        return value
    return value.xreplace({one: Rational(str(one)) for one in value.atoms(Float)})


def _is_constant(value: Any) -> bool:  # noqa: ANN401 - a sympy object
    return bool(getattr(value, "is_number", False))


def _size(value: Any) -> float | None:  # noqa: ANN401 - a sympy object
    try:
        return float(abs(value.evalf(20)))
    except (TypeError, ValueError, OverflowError, AttributeError):
        return None


def _magnitude(size: float) -> int:
    digits = 0
    while size < 1 and digits < 400:
        size *= 10
        digits += 1
    return digits
