r"""Units of one kind and classes of integers, generated: equal ones pass, others do not."""

import string
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.verifiers.math.definition import MathSettings
from assay.verifiers.math.equality import residues
from assay.verifiers.math.equality.comparison import Comparison
from assay.verifiers.math.lexicon import measures
from assay.verifiers.math.reading import read_answer, read_gold
from assay.verifiers.math.verify import judge

POWERS = {"G": 9, "M": 6, "k": 3, "": 0, "c": -2, "m": -3, "n": -9}
UNITS = st.sampled_from(["J", "W", "V", "A", "N", "Hz", "Pa", "g", "m", "s", "L"])
PREFIXES = st.sampled_from(sorted(POWERS))


def _passes(gold: str, answer: str) -> bool:
    read = read_gold(gold)
    assert read is not None
    return Comparison(MathSettings()).equal(read.answer, read_answer(answer).answer)


@given(st.integers(1, 999), PREFIXES, PREFIXES, UNITS, UNITS, st.integers(-2, 2))
def test_units_are_converted_exactly(
    value: int, one: str, two: str, unit: str, other: str, off: int
) -> None:
    same = Fraction(value) * Fraction(10) ** (POWERS[one] - POWERS[two] + off)
    said = f"\\frac{{{same.numerator}}}{{{same.denominator}}} \\text{{ {two}{unit}}}"
    gold = f"{value} \\text{{ {one}{unit}}}"
    assert _passes(gold, said) == (off == 0)
    if other != unit:
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


FEW = settings(max_examples=8)
FREE = st.just("k")
SAID = st.sampled_from("klmnt")
PERIODS = st.sampled_from(["7{}", "12{}", "2{}\\pi", "\\frac{{ {}\\pi}}{{3}}", "180^\\circ {}"])


def _is_right(gold: str, answer: str) -> bool:
    return judge((gold,), answer, MathSettings()).passed is True


@FEW
@given(PERIODS, PERIODS, st.integers(1, 6), st.integers(0, 1), FREE, SAID)
def test_the_name_of_a_free_integer_does_not_matter(
    period: str, other: str, start: int, off: int, free: str, said: str
) -> None:
    gold = f"{period.format(free)} + {start}"
    assert _is_right(gold, f"{start + off} + {period.format(said)}") == (off == 0)
    assert _is_right(gold, f"{other.format(said)} + {start}") == (period == other)


@FEW
@given(st.integers(2, 40), st.integers(0, 99), st.integers(-4, 4), FREE, SAID)
def test_a_family_may_begin_elsewhere(step: int, at: int, times: int, free: str, said: str) -> None:
    shifted = f"{step}{said} + {at + times * step}"
    same_name = free == said and times != 0
    assert _is_right(f"{step}{free} + {at}", shifted) != same_name
    assert _is_right(f"{step}{free} + {at}, {free} \\in \\mathbb{{Z}}", shifted)
    assert not _is_right(f"{step}{free} + {at}", f"{step}{said} + {at + times * step + 1}")


GIVEN = ("{}({}+1)/2", "2^{}", "{}!", "\\frac{{1}}{{{}}}", "\\sqrt{{{}}}", "{}^2", "{}", "{}+1")


@FEW
@given(st.sampled_from(GIVEN), st.sampled_from("kmn"), st.sampled_from("jlxt"))
def test_a_function_of_what_is_given_is_none_of_another_name(form: str, one: str, two: str) -> None:
    assert not _is_right(form.replace("{}", one), form.replace("{}", two))


@FEW
@given(st.integers(2, 9), st.integers(1, 9), st.sampled_from("nxt"), st.sampled_from("km"))
def test_a_name_that_may_be_given_is_kept(step: int, at: int, given_name: str, said: str) -> None:
    assert not _is_right(f"{step}{given_name} + {at}", f"{step}{said} + {at}")
    assert _is_right(f"a_{said} = {step}{said} + {at}", f"a_n = {step}n + {at}")
    assert not _is_right(f"a_{said} = {step}{said} + {at}", f"a_n = {step}{said} + {at}")


ABOVE = st.sampled_from(["2n", "n+k-1", "10", "n"])
BELOW = st.sampled_from(["k", "3", "n-1"])
COMBINATIONS = (
    "C({}, {})", "C_{{{}}}^{{{}}}", "\\mathrm{{C}}_{{{}}}^{{{}}}", "{{}}_{{{}}}C_{{{}}}",
    "{{}}^{{{}}}C_{{{}}}", "nCr({}, {})", "({} choose {})", "\\text{{C}}({},{})",
)  # fmt: skip
AROUND = ("{}", "\\frac{{1}}{{n+1}} {}", "2^n {}", "{} - 1")


@FEW
@given(ABOVE, BELOW, BELOW, st.sampled_from(COMBINATIONS), st.sampled_from(AROUND))
def test_a_binomial_coefficient_has_many_spellings(
    above: str, below: str, other: str, spelling: str, around: str
) -> None:
    gold = around.format(f"\\binom{{{above}}}{{{below}}}")
    assert _is_right(gold, around.format(spelling.format(above, below)))
    is_mirrored = above == "n+k-1" and {below, other} == {"k", "n-1"}
    if below != other and not is_mirrored:
        assert not _is_right(gold, around.format(spelling.format(above, other)))


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("C(3, 2)", "3"), ("C(3, 2)", "C(3, 1)"), ("(2n, n)", "C(2n, n-1)"), ("2", "2n choose n"),
        ("2", "2nCn"), ("\\binom{2n}{n}", "(2n, n)"), ("\\binom{2n}{n}", "P(2n, n)"),
        ("10", "10C3"),
    ],
)  # fmt: skip
def test_a_point_is_no_binomial_coefficient(gold: str, answer: str) -> None:
    assert not _is_right(gold, answer)
