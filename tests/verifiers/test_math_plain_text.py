r"""Answers in plain text and numbers beyond floats: `v0t`, `1/2004!`, `x > 0, x \ne 1`, towers.

Each class is generated; what is right passes, what differs by a sign, a digit or a part does not.
"""

import random
import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.verifiers.math import audit
from assay.verifiers.math.controls import mutants
from assay.verifiers.math.definition import MathReference, MathSettings
from assay.verifiers.math.equality import letters
from assay.verifiers.math.extract import final_answer
from assay.verifiers.math.lexicon.regions import written_out
from assay.verifiers.math.verify import judge
from assay.verifiers.math.warm import modules

SETTINGS = MathSettings()
NAMES = st.sampled_from("abcdfghmnpqrtuvwyzEIT")
DIGITS = st.integers(0, 99).map(str)


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    modules.import_all()


def _passes(gold: str, answer: str) -> bool:
    return judge((gold,), answer, SETTINGS).passed is True


@given(NAMES, DIGITS, st.integers(2, 9))
@settings(max_examples=40, deadline=None)
def test_digits_behind_a_letter_are_its_index(name: str, index: str, factor: int) -> None:
    gold = f"{name}{index}/{factor}"
    assert _passes(gold, rf"\frac{{{name}_{{{index}}}}}{{{factor}}}")
    assert not _passes(gold, "0")
    assert not _passes(gold, f"-{gold}")
    assert not _passes(gold, f"{name}{index}/{factor + 1}")
    assert not _passes(gold, f"{name}{int(index) + 1}/{factor}")


@pytest.mark.parametrize(
    "text",
    ["1e5", "2x3", "10C3", "i2", r"k2\pi", r"\frac{x}{2}", "log2", r"\text{a1}", "x^n2", "x2.5"],
)
def test_what_is_no_index_stays_as_it_is(text: str) -> None:
    assert letters.indexed(text) == text


@given(st.sampled_from("23579"), st.integers(200, 2_000))
@settings(max_examples=25, deadline=None)
def test_numbers_below_the_least_float_are_told_apart(base: str, power: int) -> None:
    gold = f"{base}^{{-{power}}}"
    assert _passes(gold, rf"\frac{{1}}{{{base}^{{{power}}}}}")
    for wrong in (f"-{gold}", f"2 \\cdot {gold}", f"{base}^{{-{power + 1}}}", "0"):
        assert not _passes(gold, wrong)
    assert not _passes("0", rf"\frac{{1}}{{{base}^{{{power}}}}}")
    assert _passes("0", rf"\frac{{0}}{{{base}^{{{power}}}}}")


@given(
    st.integers(-9, 9),
    st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True),
    st.sampled_from([">", r"\ge", r"\geq"]),
    st.randoms(use_true_random=False),
)
def test_bounds_with_exclusions_are_the_union(
    low: int, steps: list[int], sign: str, draw: random.Random
) -> None:
    outs = [low + step for step in sorted(steps)]
    parts = [f"x {sign} {low}", *(rf"x \ne {out}" for out in outs)]
    draw.shuffle(parts)
    first = f"{'(' if sign == '>' else '['}{low}"
    begins = [first, *[f"({out}" for out in outs]]
    ends = [*[f"{out})" for out in outs], r"\infty)"]
    pairs = zip(begins, ends, strict=True)
    union = r" \cup ".join(f"{begin}, {end}" for begin, end in pairs)
    assert written_out(", ".join(parts)) == rf"x \in {union}"
    assert _passes(union, ", ".join(parts))
    assert not _passes(union, f"x {sign} {low}")
    outside = ", ".join([f"x {sign} {low}", rf"x \ne {low - 1}"])
    assert written_out(outside) == outside


@given(st.integers(1, 999), st.sampled_from(["km/h", "m/s", "m/s^2", "g/cm^3", "kg/m^3"]))
@settings(max_examples=30, deadline=None)
def test_a_fraction_of_units_in_plain_letters(value: int, unit: str) -> None:
    above, below = unit.split("/")
    gold = rf"{value} \text{{ {unit}}}"
    assert _passes(gold, rf"{value} \frac{{{above}}}{{{below}}}")
    assert not _passes(gold, rf"{value} \frac{{{below}}}{{{above}}}")
    assert not _passes(gold, rf"{value + 1} \frac{{{above}}}{{{below}}}")


@given(st.integers(1, 99), st.sampled_from(["m", "cm", "ft", "km", "in"]))
@settings(max_examples=30, deadline=None)
def test_square_units_behind_numbers_and_expressions(value: int, unit: str) -> None:
    assert _passes(f"{value} {unit}^2", f"{value} sq {unit}")
    assert not _passes(f"{value} {unit}^3", f"{value} sq {unit}")
    if unit not in ("m", "in"):
        assert _passes(rf"{value}\sqrt{{3}} \text{{ {unit}}}^2", rf"{value}\sqrt{{3}} {unit}^2")
        assert not _passes(rf"{value}\sqrt{{3}} \text{{ {unit}}}^2", rf"{value}\sqrt{{3}} {unit}^3")


@given(st.integers(-99, 99), st.integers(1, 99), st.sampled_from([2, 4, 5, 8, 10]))
@settings(max_examples=40, deadline=None)
def test_complex_numbers_in_decimals(real: int, imaginary: int, below: int) -> None:
    gold = rf"\frac{{{real}}}{{{below}}} + \frac{{{imaginary}}}{{{below}}}i"
    decimals = [float(Fraction(one, below)) for one in (real, imaginary)]
    assert _passes(gold, f"{decimals[0]} + {decimals[1]}i")
    assert not _passes(gold, f"{decimals[0]} - {decimals[1]}i")
    assert not _passes(gold, f"{decimals[0]} + {decimals[1] + 0.5}i")


@given(st.lists(st.integers(1, 99), min_size=2, max_size=5))
@settings(max_examples=40, deadline=None)
def test_dots_and_repeated_items_are_part_of_the_answer(values: list[int]) -> None:
    said = ", ".join(map(str, values))
    assert not _passes(f"{said}, ...", said)
    assert not _passes(said, f"{said}, ...")
    twice = f"{values[0]}, {said}"
    assert _passes(twice, twice)
    if len(set(values)) > 1:
        assert not _passes(twice, said)


@pytest.mark.parametrize(
    ("gold", "right", "wrong"),
    [
        ("Wednesday", ("It is Wednesday", "on Wednesday", "Wed"), ("It is not Wednesday", "Tue")),
        ("even", ("it is even",), ("it is not even", "it is odd")),
        (r"\frac{E_0}{2}", ("0.5E_0", "E0/2"), ("0.5E_1", "0", r"-\frac{E_0}{2}")),
        (r"(-1,2) \cup (3,4)", (r"(-1,2) \text{ U } (3,4)", "(-1,2) U (3,4)"), ("(-1,2)",)),
        (r"x < -\sqrt{2} \text{ or } x > \sqrt{2}", (r"|x| > \sqrt{2}",), (r"|x| > 2",)),
        ("0.333...", ("1/3", "0.333..."), ("0.333", "0.3")),
        ("(A) and (B) both in the same way.", (), ("A", "B")),
    ],
)
def test_classes_in_examples(gold: str, right: tuple[str, ...], wrong: tuple[str, ...]) -> None:
    assert [one for one in right if not _passes(gold, one)] == []
    assert [one for one in wrong if _passes(gold, one)] == []


@given(
    st.sampled_from(["Cr3", "NH4", "m^2 + x", "C", "2"]),
    st.sampled_from(["+", "-", "++", "=", "/"]),
)
def test_what_the_reference_says_is_not_cut_off(begins: str, mark: str) -> None:
    gold = begins + mark
    for response in (gold, f"The answer is {gold}.", f"#### {gold}"):
        assert not isinstance(final_answer(response, SETTINGS, (gold,)), str)
    cut = final_answer(f"{gold}", SETTINGS, ("5",))
    assert isinstance(cut, str) or mark in ("-", "/")


RATIOS = st.lists(st.integers(0, 9).map(str), min_size=2, max_size=4).map(":".join)


@given(st.lists(RATIOS, min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_the_mutants_of_ratios_of_any_lengths(ratios: list[str]) -> None:
    gold = ", ".join(ratios)
    for _, mutant in mutants(gold, SETTINGS):
        assert mutant != gold


def test_a_reference_whose_test_fails_is_at_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> object:
        raise ValueError

    monkeypatch.setattr(audit, "controls", broken)
    audits = audit.Audits(lambda *_: True)
    assert "ValueError" in audits.fault(MathReference(answers=("5",)), SETTINGS, "some")


HUGE = st.one_of(
    st.lists(st.integers(2, 9), min_size=5, max_size=8).map(
        lambda levels: "^{".join(map(str, levels)) + "}" * (len(levels) - 1)
    ),
    st.integers(100_000, 10**12).map(lambda n: f"{n}!"),
    st.integers(6, 30).map(lambda n: f"(10^{{{n}}})!"),
    st.integers(9, 99_999).map(lambda n: f"({n}!)!"),
    st.integers(9, 99_999).map(lambda n: f"{n}!!"),
    st.integers(50_000, 10**9).map(lambda n: rf"\binom{{{2 * n}}}{{{n}}}"),
    st.integers(5, 30).map(lambda n: rf"\sum_{{k=1}}^{{10^{{{n}}}}} \frac{{1}}{{k}}"),
    st.integers(5, 30).map(lambda n: rf"\prod_{{k=1}}^{{10^{{{n}}}}} k"),
    st.integers(15, 60).map(lambda n: r"\frac{1}{" * n + "2" + "}" * n),
    st.integers(15, 60).map(lambda n: "(" * n + "x" + ")" * n),
)


@given(HUGE, st.sampled_from(["42", "x^2+1", r"\frac{1}{2}", "n!"]))
@settings(max_examples=40, deadline=None)
def test_what_no_timer_interrupts_is_not_computed(text: str, gold: str) -> None:
    began_s = time.process_time()
    assert not _passes(gold, text)
    assert time.process_time() - began_s < 2
    assert _passes(text, text)
