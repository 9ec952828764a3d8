r"""Units of one kind and classes of integers, generated: equal ones pass, others do not."""

import string
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.verifiers.math.definition import MathSettings
from assay.verifiers.math.equality import residues
from assay.verifiers.math.equality.comparison import Comparison
from assay.verifiers.math.lexicon import measures
from assay.verifiers.math.reading import read_answer, read_gold

POWERS = {"G": 9, "M": 6, "k": 3, "": 0, "c": -2, "m": -3, "n": -9}
UNITS = st.sampled_from(["J", "W", "V", "A", "N", "Hz", "Pa", "g", "m", "s", "L"])
PREFIXES = st.sampled_from(sorted(POWERS))


def _passes(gold: str, answer: str) -> bool:
    read = read_gold(gold)
    assert read is not None
    return Comparison(MathSettings()).equal(read.answer, read_answer(answer).answer)


def _is_another(prefix: str, unit: str) -> bool:
    """`mHz` is read as `MHz`."""
    return (prefix, unit) == ("m", "Hz")


@given(st.integers(1, 999), PREFIXES, PREFIXES, UNITS, UNITS, st.integers(-2, 2))
def test_units_are_converted_exactly(
    value: int, one: str, two: str, unit: str, other: str, off: int
) -> None:
    if _is_another(one, unit) or _is_another(two, unit):
        return
    same = Fraction(value) * Fraction(10) ** (POWERS[one] - POWERS[two] + off)
    said = f"\\frac{{{same.numerator}}}{{{same.denominator}}} \\text{{ {two}{unit}}}"
    gold = f"{value} \\text{{ {one}{unit}}}"
    assert _passes(gold, said) == (off == 0)
    if other != unit and not _is_another(one, other):
        assert not _passes(gold, f"{value} \\text{{ {one}{other}}}")


@given(st.sampled_from(["m", "g", "j", "mi", "ft", "s", "h", "l", "cent"]), st.integers(2, 3))
def test_squares_and_cubes_are_converted_by_powers(unit: str, power: int) -> None:
    base = measures.measure(unit)
    raised = measures.measure(f"{unit}^{power}")
    assert base is not None
    assert raised is not None
    assert raised.size == base.size**power
    assert measures.scaled(Fraction(1), unit, f"{unit}^{power}") is None


SPELLINGS = (
    "{x} \\equiv {a} \\pmod{{{m}}}",
    "{x} \\equiv {a} \\pmod {m}",
    "{x}\\equiv {a} (mod {m})",
    "{a} \\bmod {m}",
    "{x} \\equiv {a} \\ (\\text{{mod }} {m})",
    "{x} \\equiv {a} \\mod {m}",
)
LINEAR = ("{m}{k} + {a}", "{x} = {m}{k} + {a}", "{a} + {m}{k}", "{x} = {a} - {m}{k}")
NAMES = st.sampled_from([one for one in string.ascii_lowercase if one not in "eijo"])


@given(
    st.integers(2, 10**6), st.integers(0, 10**6), st.integers(-5, 5), st.integers(0, 10**6),
    NAMES, NAMES, st.sampled_from(SPELLINGS), st.sampled_from(SPELLINGS + LINEAR),
)  # fmt: skip
def test_classes_are_equal_with_the_same_modulus_and_remainder(
    modulus: int, value: int, times: int, off: int, x: str, k: str, one: str, two: str
) -> None:
    if x == k:
        return
    gold = read_gold(one.format(x=x, a=value, m=modulus))
    shifted = value + times * modulus + off
    if two in LINEAR:
        shifted %= modulus
    answer = read_answer(two.format(x=x, k=k, a=shifted, m=modulus))
    assert gold is not None
    assert residues.same(gold, answer) == (off % modulus == 0)
    other = read_answer(two.format(x=x, k=k, a=shifted, m=modulus + 1))
    assert not residues.same(gold, other)


@pytest.mark.parametrize("said", ["7k + 3", "3k", "x + 3", "10 \\pmod 0", "3"])
def test_what_is_no_class_is_compared_otherwise(said: str) -> None:
    gold = read_gold(said)
    assert gold is not None
    assert residues.same(gold, read_answer("7n + 3")) is None
