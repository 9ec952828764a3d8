"""Compares single elements: math-verify's equality on expressions parsed by latex2sympy.

Parse results are cached by text. The time of a comparison is bounded by a timer outside; here steps
are refused that no timer can interrupt. Who interrupts one calls `forget`.
"""

import math
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from latex2sympy2_extended import (
    NormalizationConfig,
    latex2sympy,
    normalize_latex,
)
from math_verify import verify  # type: ignore[import-untyped]  # ships no types
from math_verify.grader import should_treat_as_complex  # type: ignore[import-untyped]  # ships no types
from sympy import (  # type: ignore[import-untyped]  # ships no types
    Add,
    And,
    Basic,
    Derivative,
    Eq,
    Expr,
    Float,
    I,
    Integer,
    Integral,
    Limit,
    MatrixBase,
    Ne,
    Number,
    Pow,
    Product,
    Rational,
    Sum,
    Symbol,
    exp,
    log,
    simplify,
    solve,
)
from sympy.core.cache import clear_cache  # type: ignore[import-untyped]  # ships no types
from sympy.core.relational import Relational  # type: ignore[import-untyped]  # ships no types

from assay.verifiers.math import notation, numeric, sums
from assay.verifiers.math.definition import MathSettings
from assay.verifiers.math.memory import remembered

_NORMAL: Final = NormalizationConfig(
    basic_latex=True,
    units=False,
    malformed_operators=True,
    nits=True,
    boxed="none",
    equations=False,
)
_COMPLEX_DIGITS: Final = 30
_COMPLEX_ROUNDING: Final = 1e-20
_COMPLEX_POINTS: Final = 4
_NAMES_MAX: Final = 4
_EQUALS: Final = re.compile(r"(?a)(?<![\\<!>])=")
DEPTH_MAX: Final = 14
"""Maximum bracket depth; the parser's time grows fast with it."""
_PARSED_MAX: Final = 2_048
_POWER: Final = re.compile(r"(?a)\d+(?:\)?\s*\^[\s{(]*\d+)+")
_BASES: Final = re.compile(r"(?a)\d+")
_FACTORIAL: Final = re.compile(r"(?a)(?P<digits>\d+)[\s)}]*(?P<marks>!(?:[\s)}]*!)*)")
_FACTORIAL_MAX: Final = 99_999
_TWICE_MAX: Final = 8
"""`(8!)!` is computed, `(9!)!` is not."""
_GROUP_OF: Final = re.compile(r"\(([^()]{1,80})\)\s*!")
_BINOMIAL: Final = re.compile(
    r"\\binom\s?\{([^{}]{1,40}(?:\{[^{}]{1,20}\})?)\}\s?\{([^{}]{1,40}(?:\{[^{}]{1,20}\})?)\}"
)
_CHOSEN_MAX: Final = 20_000
_UP_TO: Final = re.compile(
    r"\\(?P<kind>sum|prod)(?:\\limits)?\s?_\s?\{[^{}]{1,40}\}\s?\^\s?"
    r"(?:\{(?P<high>[^{}]{1,40}(?:\{[^{}]{1,20}\})?)\}|\d)(?P<body>[^=]{0,200})"
)
_TERMS_MAX: Final = 10_000
_NO_POLYNOMIAL: Final = re.compile(r"\\(?!cdot|times|left|right)|/|\^\s?\{?\s?-")
_DIGITS_MAX: Final = 10**6
"""Maximum digits of an integer power; computing more is one step that no timer can interrupt."""
_EXPANDED_BYTES_MAX: Final = 2**24
"""Maximum estimated size of an expanded power of a sum: a comparison makes several of that size."""
_TERM_BYTES: Final = 256
_NOT_WORKED_OUT: Final = re.compile(r"\\(?:gcd|lcm)(?![A-Za-z])")
"""sympy takes `\\gcd(a, b)` for 1. Divisors of integers are worked out before (`letters`)."""
_WORKED_OUT: Final = (Derivative, Integral, Limit, Product, Sum)
_ADDS_CONSTANT: Final = re.compile(r"(?a)[+-]\s*C\s*$|^C\s*\+")
"""A reference that is an antiderivative."""
_CONSTANTS: Final = frozenset({"c", "k", "c_{1}", "c_1"})
"""How the parser calls the constant of integration, `C` or `K`."""
_IN_ORDER: Final = "_unsorted_args"
"""Where latex2sympy keeps the relations of a chain; sympy sorts them."""
_TINY_POWER: Final = -3
_SCALED_DIGITS: Final = 30
_ZERO_PLACES: Final = 9
"""Places of a constant that must be zero, beyond `float_rounding`."""


class Unreadable(Exception):
    """latex2sympy cannot parse the text."""


@remembered(_PARSED_MAX)
def _parsed(text: str) -> Any:  # noqa: ANN401 - sympy's classes have no common type
    """The sympy object, or the exception's text if there is none."""
    try:
        return _parse(text)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - the parser may raise anything on text that it cannot read
        return f"{type(error).__name__}"


def forget() -> None:
    """Compute again what is asked from now on: what an interrupted step left behind may be wrong.

    sympy notes an assumption as unknown while it works it out.
    """
    _parsed.cache_clear()
    clear_cache()


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
    if _NOT_WORKED_OUT.search(text):
        message = "the common divisor or multiple of values that are not integers"
        raise Unreadable(message)
    if _is_huge(text):
        message = f"a number of more than {_DIGITS_MAX} digits"
        raise Unreadable(message)
    found = _parsed(text)
    if not isinstance(found, Basic | MatrixBase):
        message = f"cannot read {text[:80]!r}"
        raise Unreadable(message)
    if any(map(_is_wide, found.atoms(Pow))):
        message = "a power of a sum with too many terms"
        raise Unreadable(message)
    return found


def _is_wide(power: Any) -> bool:  # noqa: ANN401 - a sympy object
    """Whether the algebra would expand it to more than fits a worker: `(a + b + c)^{1000}` has half
    a million terms, and `(1 + i)^{100000}` coefficients of 100,000 digits."""
    if not (isinstance(power.base, Add) and isinstance(power.exp, Integer)):
        return False
    times, count = abs(int(power.exp)), len(power.base.args)
    if times > _EXPANDED_BYTES_MAX:
        return True
    bits = count
    for term in power.base.args:
        coefficient = term.as_coeff_Mul()[0]
        if isinstance(coefficient, Rational):
            bits += int(coefficient.p).bit_length() + int(coefficient.q).bit_length()
    size = _TERM_BYTES + times * bits // 8
    return math.comb(times + count - 1, count - 1) * size > _EXPANDED_BYTES_MAX


def _is_huge(text: str) -> bool:
    """Whether it has a number of too many digits, which the computer algebra would compute in one
    step that no timer interrupts: a power, a factorial, a binomial coefficient, a sum of them."""
    return (
        any(map(_is_huge_power, _POWER.findall(text)))
        or any(map(_is_huge_factorial, _FACTORIAL.finditer(text)))
        or any(_exceeds(group, _FACTORIAL_MAX) for group in _GROUP_OF.findall(text))
        or any(_is_huge_binomial(*pair) for pair in _BINOMIAL.findall(text))
        or any(map(_has_too_many_terms, _UP_TO.finditer(text)))
    )


def _is_huge_power(tower: str) -> bool:
    """`2^{3^4}`, from its top down."""
    *bases, top = _BASES.findall(tower)
    exponent = _log10(top)
    for base in reversed(bases):
        size = math.log10(max(2, int(base[:300]))) + max(0, len(base) - 300)
        digits = size * 10 ** min(exponent, 300)
        if digits > _DIGITS_MAX:
            return True
        exponent = digits
    return False


def _log10(digits: str) -> float:
    return math.log10(max(1, int(digits[:300]))) + max(0, len(digits) - 300)


def _is_huge_factorial(match: re.Match[str]) -> bool:
    most = _TWICE_MAX if match["marks"].count("!") > 1 else _FACTORIAL_MAX
    return len(match["digits"]) > 9 or int(match["digits"]) > most


def _is_huge_binomial(upper: str, lower: str) -> bool:
    n, k = numeric.approximate(upper), numeric.approximate(lower)
    return n is not None and k is not None and min(abs(k), abs(n - k)) > _CHOSEN_MAX


def _has_too_many_terms(match: re.Match[str]) -> bool:
    """The terms of a polynomial are added by a formula."""
    if not _exceeds(match["high"] or "", _TERMS_MAX):
        return False
    return match["kind"] == "prod" or _NO_POLYNOMIAL.search(match["body"]) is not None


def _exceeds(text: str, most: int) -> bool:
    value = numeric.approximate(text) if text else None
    return value is not None and value > most


def equal(gold: str, answer: str, settings: MathSettings) -> bool:
    """Whether they are equal as mathematics, gold first: the comparison is not symmetric.

    Raises:
        Unreadable: one of them cannot be read.
    """
    left, right = parsed(gold), parsed(answer)
    pairs = list(zip(_relations(left), _relations(right), strict=False))
    statements = [pair for pair in pairs if any(_is_statement(one) for one in pair)]
    equations = [pair for pair in pairs if pair not in statements]
    return (
        all(_sides_equal(*pair, settings) for pair in statements)
        and (
            _same_sum(left, right)
            or _same(left, right, settings)
            or _same_complex(left, right)
            or _same_multiple(left, right)
            or (_ADDS_CONSTANT.search(gold) is not None and _same_family(left, right, settings))
        )
        and all(_are_told_apart(*pair) for pair in equations)
    )


def _same_complex(gold: Any, answer: Any) -> bool:  # noqa: ANN401 - a sympy object
    """Whether they are one complex number, exactly: `i` is read as a name like any other, and is
    the imaginary unit where no other name is near, or where both sides have it or one has it in an
    exponent of e (`2e^{i\\theta}`). Decided by the first digits, at some points."""
    if not (isinstance(gold, Expr) and isinstance(answer, Expr)):
        return False
    names = sorted({one.name for one in gold.free_symbols | answer.free_symbols} - {"i"})
    have_unit = [_has_unit(side) for side in (gold, answer)]
    if not any(have_unit):
        return False
    gold, answer = _without_decimals(gold), _without_decimals(answer)
    if names and (len(names) > _NAMES_MAX or not (all(have_unit) or _has_phase(gold, answer))):
        return False
    draw = random.Random(len(names))  # noqa: S311 - points, not secrets
    return all(
        _near_at(gold, answer, {name: Rational(draw.randint(-97, 97), 41) for name in names})
        for _ in range(_COMPLEX_POINTS if names else 1)
    )


def _same_multiple(gold: Any, answer: Any) -> bool:  # noqa: ANN401 - a sympy object
    """Whether one equation is the other times a number, as `2x - 4y = 6` is `x - 2y = 3`: at some
    points the difference of its sides is the same multiple."""
    if not (isinstance(gold, Eq) and isinstance(answer, Eq)):
        return False
    for name, value in ((gold.lhs, gold.rhs), (gold.rhs, gold.lhs)):
        if isinstance(name, Symbol) and not value.free_symbols:
            return False  # the value is the answer: `x = 5`, and not `2x = 10`
    names = sorted(gold.free_symbols, key=str)
    if not 0 < len(names) <= _NAMES_MAX or answer.free_symbols != gold.free_symbols:
        return False
    draw = random.Random(len(names))  # noqa: S311 - points, not secrets
    ratios: list[Any] = []
    for _ in range(_COMPLEX_POINTS):
        at = {name: Rational(draw.randint(1, 97), 41) for name in names}
        one, two = (
            (side.lhs - side.rhs).subs(at).evalf(_COMPLEX_DIGITS) for side in (gold, answer)
        )
        if not (one.is_number and two.is_number and one.is_nonzero and two.is_nonzero):
            return False
        ratios.append(two / one)
    return all(abs(ratio / ratios[0] - 1) < _COMPLEX_ROUNDING for ratio in ratios)


def _has_unit(value: Any) -> bool:  # noqa: ANN401 - a sympy object
    return value.has(I) or any(name.name == "i" for name in value.free_symbols)


def _has_phase(*values: Any) -> bool:  # noqa: ANN401 - sympy objects
    powers = (power for value in values for power in value.atoms(exp, Pow))
    return any(
        _has_unit(power.exp) and (isinstance(power, exp) or str(power.base) in ("e", "E"))
        for power in powers
    )


def _near_at(gold: Any, answer: Any, at: Mapping[str, Any]) -> bool:  # noqa: ANN401 - sympy objects
    points = {
        name: I if name.name == "i" else at[name.name]
        for name in gold.free_symbols | answer.free_symbols
    }
    left, right = gold.subs(points), answer.subs(points)
    try:
        apart = complex((left - right).evalf(_COMPLEX_DIGITS, maxn=2 * _COMPLEX_DIGITS))
        size = complex(left.evalf(_COMPLEX_DIGITS, maxn=2 * _COMPLEX_DIGITS))
    except (TypeError, ValueError, ArithmeticError):
        return False
    return abs(apart) <= _COMPLEX_ROUNDING * max(1.0, abs(size))


def _same_sum(gold: Any, answer: Any) -> bool:  # noqa: ANN401 - a sympy object
    return (sums.has_sum(gold) or sums.has_sum(answer)) and sums.same(gold, answer)


def _same_family(gold: Any, answer: Any, settings: MathSettings) -> bool:  # noqa: ANN401 - a sympy object
    """Whether both are antiderivatives of one function, each with its constant of integration."""
    one, two = _without_constant(gold), _without_constant(answer)
    if one is None or two is None or len(one.free_symbols | two.free_symbols) != 1:
        return False
    (name,) = one.free_symbols | two.free_symbols
    return _same(one.diff(name), two.diff(name), settings)


def _without_constant(value: Any) -> Any | None:  # noqa: ANN401 - a sympy object
    """A sum without its term that is a constant's name and stands nowhere else."""
    if not isinstance(value, Add):
        return None
    found = [term for term in value.args if isinstance(term, Symbol) and term.name in _CONSTANTS]
    if len(found) != 1:
        return None
    rest = value - found[0]
    return None if any(name.name == found[0].name for name in rest.free_symbols) else rest


# math-verify compares relations by their solutions. Those without any are all alike to it:
# `2 + 2 = 4` and `2 + 2 = 5`, or `x^2 + 1 = 0` and `x^2 + 4 = 0` for real x.


def _relations(value: Any) -> Sequence[Any]:  # noqa: ANN401 - a sympy object
    """The relation of two expressions, or those of a chain in its order."""
    found = getattr(value, _IN_ORDER, value.args) if isinstance(value, And) else (value,)
    return found if all(_relates_expressions(one) for one in found) else ()


def _relates_expressions(value: Any) -> bool:  # noqa: ANN401 - a sympy object
    """Whether both sides are expressions, not sets as in `x \\in (3, \\infty)`."""
    return isinstance(value, Relational) and all(isinstance(side, Expr) for side in value.args)


def _is_statement(relation: Any) -> bool:  # noqa: ANN401 - a sympy object
    """It always holds, or never; or its sides are to be worked out, as an integral is."""
    if relation.has(*_WORKED_OUT):
        return True
    try:
        is_constant = (relation.lhs - relation.rhs).is_constant(simplify=False)
    except (TypeError, ValueError, ArithmeticError, AttributeError, NotImplementedError):
        return True
    return is_constant is not False


def _sides_equal(gold: Any, answer: Any, settings: MathSettings) -> bool:  # noqa: ANN401 - a sympy object
    return any(
        type(gold) is type(turned)
        and _same(gold.lhs, turned.lhs, settings)
        and _same(gold.rhs, turned.rhs, settings)
        for turned in (answer, answer.reversed)
    )


def _are_told_apart(gold: Any, answer: Any) -> bool:  # noqa: ANN401 - a sympy object
    """Whether having the same solutions makes them the same: there are some, or both sides of one
    are the same multiple of those of the other."""
    if not (isinstance(gold, Eq) and isinstance(answer, Eq)) or _has_solutions(gold):
        return True
    ratio = simplify((gold.lhs - gold.rhs) / (answer.lhs - answer.rhs))
    return bool(ratio.is_number and ratio.is_nonzero)


def _has_solutions(equation: Any) -> bool:  # noqa: ANN401 - a sympy object
    try:
        return bool(solve(equation, equation.free_symbols))
    except (NotImplementedError, TypeError, ValueError, ArithmeticError):
        return False


def _same(gold: Any, answer: Any, settings: MathSettings) -> bool:  # noqa: ANN401 - a sympy object
    if _verified(gold, answer, settings):
        return True
    exact = _exact(gold), _exact(answer)
    return exact != (gold, answer) and _verified(*exact, settings)


def _verified(gold: Any, answer: Any, settings: MathSettings) -> bool:  # noqa: ANN401 - a sympy object
    if isinstance(gold, Ne) and isinstance(answer, Ne):  # math-verify knows no sides of these
        gold, answer = (Eq(*one.args, evaluate=False) for one in (gold, answer))
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
    if not gold and answer.is_zero:
        return Number(0), Number(0)  # `\\sin\\pi`, of which evaluation leaves a rest
    if not gold and answer.is_zero is False and not answer.has(Float):
        return Number(0), Number(1)  # not zero, however small
    places = _zeros(gold)
    if places is None:
        return gold, answer
    factor = Float(10, 2 * _SCALED_DIGITS) ** places  # of any exponent, which a float has not
    return (gold * factor).evalf(_SCALED_DIGITS), (answer * factor).evalf(_SCALED_DIGITS)


def _exact(value: Any) -> Any:  # noqa: ANN401 - a sympy object
    """A constant with decimals in it (`12 \\cdot 7^{0.5}`) with fractions in their place."""
    if not _is_constant(value) or isinstance(value, Number):
        return value
    return _without_decimals(value)


def _without_decimals(value: Any) -> Any:  # noqa: ANN401 - a sympy object
    return value.xreplace({one: Rational(str(one)) for one in value.atoms(Float)})


def _is_constant(value: Any) -> bool:  # noqa: ANN401 - a sympy object
    return bool(getattr(value, "is_number", False))


def _zeros(value: Any) -> int | None:  # noqa: ANN401 - a sympy object
    """Places up to the first digit of a tiny number that is not 0; `None` if it is not tiny."""
    try:
        size = abs(value.evalf(20))
        if not size:
            return _ZERO_PLACES
        power = float(log(size) / log(10))
    except (TypeError, ValueError, OverflowError, AttributeError):
        return None
    return math.ceil(-power) if power < _TINY_POWER else None
