r"""Bound names, bases, short decimals, divisors, percentages of fractions; and costly answers."""

import math
import time
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from assay.verifiers.math import algebra
from assay.verifiers.math.definition import ANSWER_CPU_S_MAX, MathSettings
from assay.verifiers.math.verify import UNDECIDED, judge, judge_in_time
from assay.verifiers.math.warm import modules

SETTINGS = MathSettings()
LETTERS = st.sampled_from("abkmnptuvwxyz")


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    modules.import_all()


def _passes(gold: str, answer: str) -> bool:
    return bool(judge((gold,), answer, SETTINGS).passed)


@given(LETTERS, LETTERS, st.integers(2, 9), st.integers(1, 9))
@settings(max_examples=30, deadline=None)
def test_the_argument_of_a_function_has_any_name(one: str, two: str, a: int, b: int) -> None:
    assume(one != two)
    gold = f"f({one})={one}^{a}+{b}"
    assert _passes(gold, f"f({two})={two}^{a}+{b}")
    assert not _passes(gold, f"f({two})={one}^{a}+{b}")
    assert not _passes(gold, f"f({one})={two}^{a}+{b}")
    assert not _passes(gold, f"f({two})={two}^{a}+{b + 1}")


def test_several_arguments_are_renamed_at_once() -> None:
    assert _passes("f(x,y)=x+2y", "f(a,b)=a+2b")
    assert _passes("f(x,y)=x+2y", "f(y,x)=y+2x")
    assert not _passes("f(x,y)=x+2y", "f(y,x)=x+2y")
    assert not _passes("f(x)=ax+b", "f(a)=a^2+b")
    assert _passes(r"f(n)=\sum_{k=1}^n k", r"f(m)=\sum_{k=1}^m k")
    assert not _passes(r"f(n)=\sum_{k=1}^n k", r"f(m)=\sum_{k=1}^n k")


@given(st.integers(10, 99))
def test_a_block_of_digits_that_is_shown_twice_is_a_period(block: int) -> None:
    exact = Fraction(block, 99)
    assume(block % 11)
    shown = f"0.{block}{block}..."
    assert _passes(rf"0.\overline{{{block}}}", shown)
    assert _passes(f"{exact.numerator}/{exact.denominator}", shown)
    assert not _passes(rf"0.\overline{{{block}}}", f"0.{block}{(block + 1) % 90 + 10}...")


@given(st.integers(1, 3), st.integers(31, 100), st.integers(1, 99), st.integers(11, 100))
def test_a_short_decimal_is_one_fraction(a: int, b: int, c: int, d: int) -> None:
    one, other = Fraction(a, b), Fraction(c, d)
    assume(one < Fraction(1, 10) and one != other)
    gold = f"{float(round(one, 4)):.4f}"
    assume(gold[-1] != "0" and abs(one * 10**4 - Fraction(gold) * 10**4) < Fraction(1, 2))
    assert _passes(gold, f"{one.numerator}/{one.denominator}")
    if abs(other - Fraction(gold)) > Fraction(6, 10**5):
        assert not _passes(gold, f"{other.numerator}/{other.denominator}")
    assert not _passes(gold, f"-{one.numerator}/{one.denominator}")


def test_only_a_fraction_is_meant_by_a_short_decimal() -> None:
    assert not _passes("0.0833", "0.08335")
    assert not _passes("0.0833", "0.083")
    assert not _passes("0.083", "1/12")
    assert not _passes("0.0833", "833/10001")
    assert _passes("0.0156", "1/64")
    assert not _passes("0.0156", "0.015625")


@given(st.integers(1, 12), st.integers(2, 12))
def test_a_fraction_is_no_percentage(top: int, below: int) -> None:
    assume(math.gcd(top, below) == 1)
    for sign in (r"\%", "%", " percent", r"\text{ percent}"):
        assert not _passes(rf"\frac{{{top}}}{{{below}}}", f"{top}/{below}{sign}")
        assert _passes(rf"\frac{{{top}}}{{{below}}}\%", f"{top}/{below}{sign}")
    assert _passes("28", r"28\%")


@given(st.integers(10, 9_999), st.integers(3, 36).filter(lambda base: base != 10))
def test_a_number_without_a_base_is_decimal(value: int, base: int) -> None:
    assert not _passes(str(value), f"{value}_{{{base}}}")
    assert _passes(str(value), f"{value}_{{10}}")


def test_bases_that_the_digits_tell() -> None:
    assert _passes("101", "101_2")
    assert _passes("FF_{16}", "0xFF")
    assert _passes("FF_{16}", "FF")
    assert not _passes("FF_{16}", "0xFE")
    assert not _passes("FF_{17}", "0xFF")


@given(st.integers(1, 500), st.integers(1, 500))
@settings(deadline=None)
def test_divisors(a: int, b: int) -> None:
    assert _passes(str(math.gcd(a, b)), rf"\gcd({a}, {b})")
    assert _passes(str(math.lcm(a, b)), rf"\text{{lcm}}({b}, {a})")
    assert not _passes(str(math.gcd(a, b) + 1), rf"\gcd({a}, {b})")


def test_divisors_of_names_are_names() -> None:
    assert _passes(r"\gcd(a,b)", r"\gcd(b, a)")
    assert _passes(r"\frac{ab}{\gcd(a,b)}", r"\frac{ba}{\gcd(b,a)}")
    for wrong in (r"\gcd(a,b)", r"\gcd(2^{10}-1, 3^{10}-1)", r"\gcd((a), b)", r"\lcm(a, b)"):
        assert not _passes("1", wrong)
    assert not _passes(r"\gcd(a,b)", r"\text{lcm}(a,b)")


@given(st.permutations("ABCD"), st.permutations("ABCD"))
def test_labels_that_are_not_in_order_are_a_ranking(gold: list[str], answer: list[str]) -> None:
    assume(gold != sorted(gold))
    assert _passes("".join(gold), ", ".join(answer)) == (gold == answer)
    assert _passes("".join(gold), "".join(answer)) == (gold == answer)


@pytest.mark.parametrize(
    ("gold", "right", "wrong"),
    [
        (
            "x=1, y=2",
            ("x=1 and y=2", "y=2, x=1", "1, 2", r"x=1 \land y=2", "(1, 2)"),
            ("x=1 or y=2", r"x=1 \lor y=2", r"x=1 \text{ or } y=2", "1 or 2"),
        ),
        ("x=1 or y=2", (r"y=2 \lor x=1", "x=1, y=2"), ("x=1 and y=2", r"x=1 \land y=2")),
        ("(1, 2)", ("1, 2", "x=1 and y=2"), ("1 or 2", "x=1 or y=2")),
        ("(1, 2, 3)", ("1, 2, 3",), ("1, 2 or 3",)),
        ("x=1 or x=2", ("x=1, x=2", "1 or 2", "x=1 and x=2"), ("x=1 or x=3",)),
        ("x=y=3", ("x=3, y=3", "x=3 and y=3"), ("x=3 or y=3",)),
        ("a=1, b=2, c=3", ("c=3, a=1, and b=2",), ("a=1, b=2 or c=3",)),
        (
            "x=1, y=2 or x=3, y=4",
            ("x=3, y=4 or x=1, y=2", "y=2, x=1; y=4, x=3", "(3, 4), (1, 2)", "x=1, y=2, x=3, y=4"),
            ("x=1, y=4 or x=3, y=2", "(1, 4), (3, 2)", "x=1 or y=2, x=3 or y=4", "x=1, y=2"),
        ),
        ("(1, 2), (3, 4)", ("x=3, y=4 and x=1, y=2",), ("x=1, y=4 and x=3, y=2", "1, 2 or 3, 4")),
        (r"3 \text{ MHz}", ("3 mhz", "3 MHz"), ("3 mHz", r"3 \text{ mHz}")),
        ("2", ("2", "2 cm"), ("2'", "2''")),
        (
            "f(2)=5",
            ("5", "f(2)=5", "f(2)=2^2+1=5"),
            ("f(3)=5", "f(x)=5", "g(2)=5", "f'(2)=5", "6", "2"),
        ),
        ("5", ("f(2)=5", "f'(2)=5", "f^{-1}(2)=5", "P(5,1)=5"), ("f(5)=2", "f(2)=6")),
        ("f(2)=x+1", ("x+1", "f(2)=1+x"), ("f(3)=x+1",)),
        ("f(2)=5, f(3)=7", ("5, 7", "f(3)=7, f(2)=5"), ("7, 5", "f(3)=5, f(2)=7")),
        (
            r"\mathbb{Z}",
            (r"\text{all integers}", "every integer"),
            (r"\text{all real numbers}", r"\text{all positive integers}", "all even integers"),
        ),
        (r"\mathbb{Q}", ("all rational numbers",), ("all integers", "all complex numbers")),
        (
            r"150 \text{ cm}^3",
            ("150 cc", r"150 \text{ cc}", r"0.15 \text{ L}"),
            (r"15 \text{ cc}",),
        ),
        ("FF_{16}", ("ff_{16}", "0xff"), ("fe_{16}", "ff_{17}", "FF_{15}")),
        ("ff_{16}", ("FF_{16}",), ("FE_{16}",)),
        ("a_{16}", (), ("A_{16}",)),
        (
            "a_n = 2n+1",
            ("a_k = 2k+1", "a_{m}=1+2m", "2n+1"),
            ("a_k = 2n+1", "b_k = 2k+1", "a_k = 2k-1"),
        ),
        ("S_n = n a_n", ("S_m = m a_m",), ("S_m = m a_n",)),
        ("x_1 = 5", (), ("x_2 = 5",)),
        (
            r"30^\circ 15'",
            (r"30.25^\circ", "30\u00b015\u2032", r"30^{\circ} 15^{\prime}"),
            (r"30^\circ", r"30.15^\circ", r"30^\circ 15''", r"-30^\circ 15'"),
        ),
        (r"-30.26^\circ", (r"-30^\circ 15' 36''",), (r"30^\circ 15' 36''", r"-30^\circ 15'")),
        (
            r"5.5 \text{ feet}",
            ("5'6\"", "5' 6\"", "5\u2032 6\u2033", "5 feet 6 inches", "66 inches"),
            ("6'5\"", "5'5\"", "56 inches"),
        ),
        ("66", ("5'6\"",), ("5'5\"",)),
        ("even", ("even function", "an even function"), ("an odd function", "not even")),
        ("\u00a33.20", ("320 pence",), ("3.20 pence", "32 pence")),
        ("5", (), (r"\phantom{5}",)),
        ("0", (r"\sin\pi", "2-2"), ("0.0001", r"\sin 180")),
        (r"\frac{2}{3}", (r"\left.\frac{2}{3}\right.",), (r"\left.\frac{3}{2}\right.",)),
    ],
)
def test_examples(gold: str, right: tuple[str, ...], wrong: tuple[str, ...]) -> None:
    assert [one for one in right if not _passes(gold, one)] == []
    assert [one for one in wrong if _passes(gold, one)] == []


@given(
    st.integers(1, 99),
    st.sampled_from(["half of {}", "twice {}", "square root of {}", "{} less than x"]),
)
def test_a_value_that_words_alter_is_another_one(value: int, said: str) -> None:
    assert not _passes(str(value), said.format(value))


COSTLY = (
    r"\int e^{x^2}\sin(x^3)\ln(x+1) dx",
    "(a+b+c+d+e+f)^{200}",
    "(1+i)^{100000}",
    r"\frac{1}{1+" * 24 + "1" + "}" * 24,
    "3^{20000000}",
    "(10^{10})^{(10^{10})}",
)


@pytest.mark.parametrize("answer", COSTLY)
def test_a_costly_answer_is_judged_in_time(answer: str) -> None:
    began_s = time.process_time()
    said = judge_in_time(("1",), answer, SETTINGS)
    assert said.passed is False
    assert time.process_time() - began_s < ANSWER_CPU_S_MAX + 1
    assert judge_in_time((answer,), answer, SETTINGS).passed


def test_what_is_not_decided_in_time_leaves_nothing_behind() -> None:
    said = judge_in_time(("1",), COSTLY[0], SETTINGS)
    assert said.error == UNDECIDED
    assert algebra._parsed._known._weight == 0
    assert judge_in_time(("(a+b)^2",), "a^2+2ab+b^2", SETTINGS).passed


def test_a_costly_gold_takes_no_other_golds_answer() -> None:
    assert judge_in_time((COSTLY[0], "(x+1)^{2000}"), "(x+1)^{2000}", SETTINGS).passed


@pytest.mark.parametrize("power", ["(a+b+c+d+e+f)^{200}", "(1+i)^{100000}", "(2x+3y+1)^{-900}"])
def test_a_power_of_a_sum_with_too_many_terms_is_not_expanded(power: str) -> None:
    with pytest.raises(algebra.Unreadable, match="too many terms"):
        algebra.parsed(power)


def test_a_power_of_a_sum_with_some_terms_is_compared() -> None:
    assert _passes("(x+1)^{200}", "(1+x)^{199}(x+1)")
    assert not _passes("(x+1)^{200}", "(1+x)^{201}")
    assert _passes("(x+y+1)^{20}", "(1+x+y)^{19}(x+y+1)")


@pytest.mark.parametrize("value", ["x-2y+z-1=0", "85", "\\frac{1}{2}", "(1,2)", "3, 5"])
def test_a_whole_text_that_states_its_answer_twice_states_it(value: str) -> None:
    twice = "Then $0=1\\Rightarrow\\boxed{{{}}}$. Final Answer: The final answer is ${}$."
    assert _passes(value, twice.format(value, value))
    assert not _passes(value, twice.format(value, "7x"))
    assert not _passes(value, twice.format("7x", value))
