"""Relations that math-verify cannot tell apart by their solutions: identities, contradictions, and
equations without real solutions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.verifiers.math import grammar
from assay.verifiers.math.definition import MathSettings
from assay.verifiers.math.equality.comparison import Comparison

SETTINGS = MathSettings()


def passes(gold: str, answer: str) -> bool:
    return Comparison(SETTINGS).equal(grammar.read(gold), grammar.read(answer))


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("2+2=4", "2+2=5"),
        ("2+2=4", "1=1"),
        ("x=x+1", "x=x+2"),
        ("1<2", "1<3"),
        ("(x+1)^2=x^2+2x+1", "(x+1)^2=x^2+2x+2"),
        ("\\sin^2 x+\\cos^2 x=1", "\\sin^2 x+\\cos^2 x=2"),
        ("\\sum_{i=1}^3 i=6", "\\sum_{i=1}^3 i=7"),
        ("\\sum_{i=1}^{n} i=\\frac{n(n+1)}{2}", "\\sum_{i=1}^{n} i=\\frac{n(n+1)}{3}"),
        ("\\int_0^1 x dx=\\frac12", "\\int_0^1 x dx=\\frac13"),
        ("f(x)=\\int_0^x t dt", "f(x)=\\int_0^x 2u du"),
        ("\\frac{dy}{dx}=2x", "\\frac{dy}{dx}=3x"),
        ("i^{304}=(i^4)^{76}=1^{76}=1", "i^{304}=(i^4)^{76}=1^{76}=2"),
        ("x^2+1=0", "x^2+4=0"),
        ("x^2+y^2=-1", "x^2+y^2=-2"),
        ("e^x=-1", "e^x=-2"),
        ("\\sqrt{x}=-1", "\\sqrt{x}=-2"),
        ("|x|=-1", "|x|=-3"),
    ],
)
def test_statements_that_differ(gold: str, answer: str) -> None:
    assert passes(gold, gold)
    assert not passes(gold, answer)
    assert not passes(answer, gold)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("2+2=4", "4=2+2"),
        ("1<2", "2>1"),
        ("\\sum_{i=1}^3 i=6", "1+2+3=6"),
        ("(a+b)^2=a^2+2ab+b^2", "(b+a)^2=b^2+2ab+a^2"),
        ("f(x)=\\int_0^x t dt", "f(x)=\\int_0^x u du"),
        ("x^2+1=0", "2x^2+2=0"),
        ("x^2+1=0", "x^2=-1"),
        ("x^2=4", "(x-2)(x+2)=0"),
        ("x+y=3", "2x+2y=6"),
        ("y=2x+1", "2x-y+1=0"),
        ("\\frac{x^2}{4}+\\frac{y^2}{9}=1", "9x^2+4y^2=36"),
    ],
)
def test_the_same_said_otherwise(gold: str, answer: str) -> None:
    assert passes(gold, answer)


@settings(max_examples=25, deadline=None)
@given(b=st.integers(1, 9), c=st.integers(30, 90), other=st.integers(30, 90), by=st.integers(2, 9))
def test_quadratics_without_real_roots_pass_for_their_multiples_alone(
    b: int, c: int, other: int, by: int
) -> None:
    gold = f"x^2+{b}x+{c}=0"
    assert passes(gold, f"{by}x^2+{by * b}x+{by * c}=0")
    assert passes(gold, f"x^2+{b}x+{other}=0") == (c == other)


SAME_SYSTEM = [
    ("a = b = c", "b = a = c"),
    ("a=b=c", "a=b, b=c"),
    ("a=b=c=d", "d=a=c=b"),
    ("x = y = 3", "x = 3, y = 3"),
    ("x = y = 3", "3 = x = y"),
    ("x = y = 3", "x = y = \\frac{6}{2} = 3"),
    ("x=y=z=1", "(1, 1, 1)"),
    ("x = y = 3", "3"),
    ("(1,1,1)", "x=y=z=1"),
    ("AB = BC = CA", "BC = CA = AB"),
    ("3x = 2y = z", "z = 2y = 3x"),
    ("\\frac{x}{2}=\\frac{y}{3}=\\frac{z}{4}", "\\frac{y}{3}=\\frac{x}{2}=\\frac{z}{4}"),
    ("\\frac{x}{2}=\\frac{y}{3}=\\frac{z}{4}", "\\frac{x}{4}=\\frac{y}{6}=\\frac{z}{8}"),
    ("1 < x < 3", "1 < x and x < 3"),
    ("1 < x < 3", "x > 1, x < 3"),
    ("a < b < c", "a < b, b < c"),
]
OTHER_SYSTEM = [
    ("a = b = c", "a = c"),
    ("a = b = c", "a = b"),
    ("a=b=c", "a=b=d"),
    ("a=b=c", "a=d=c"),
    ("a=b=c=d", "a=b=c"),
    ("a=b=c", "a=b=c=d"),
    ("a=b=c", "a=b=c, d=q"),
    ("a=b=c=d", "a=b, c=d"),
    ("a=b, c=d", "a=b=c=d"),
    ("x = y = 3", "x = 3"),
    ("x = y = 3", "x = y = 4"),
    ("x = y = 3", "4"),
    ("x=y=z=1", "(1, 1)"),
    ("x=3, y=4", "x=y=3"),
    ("AB = BC = CA", "AB = CA"),
    ("\\angle A = \\angle B = \\angle C", "\\angle A = \\angle C"),
    ("\\frac{x}{2}=\\frac{y}{3}=\\frac{z}{4}", "\\frac{x}{2}=\\frac{z}{4}"),
    ("\\frac{x}{2}=\\frac{y}{3}=\\frac{z}{4}", "\\frac{x}{2}=\\frac{y}{3}=\\frac{z}{5}"),
    ("a \\equiv b \\equiv c", "a \\equiv c"),
    ("1 < x < 3", "1 < x"),
    ("1 < x < 3", "1 < x, y < 3"),
    ("a < b < c", "a < c"),
    ("x < 1, x > 3", "3 < x < 1"),
]


@pytest.mark.parametrize(("gold", "answer"), SAME_SYSTEM)
def test_a_chain_about_several_things_says_that_all_its_sides_are_equal(
    gold: str, answer: str
) -> None:
    assert passes(gold, answer)


@pytest.mark.parametrize(("gold", "answer"), OTHER_SYSTEM)
def test_a_part_of_a_chain_says_less(gold: str, answer: str) -> None:
    assert passes(gold, gold)
    assert not passes(gold, answer)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("S = \\pi r^2 = 25\\pi", "25\\pi"),
        ("x = \\sqrt{12} = 2\\sqrt{3}", "x = 2\\sqrt{3}"),
        ("y = f(x) = 2x + 1", "y = 2x + 1"),
        ("y = 2x+1", "y = x + x + 1 = 2x + 1"),
        ("3", "3 = x"),
        ("AB = 3", "AB = BC = 3"),
    ],
)
def test_a_derivation_names_one_thing(gold: str, answer: str) -> None:
    assert passes(gold, answer)


@settings(max_examples=60, deadline=None)
@given(st.permutations("abcdx"), st.data())
def test_any_spanning_set_of_equations_is_the_chain_and_no_smaller_one_is(
    names: list[str], data: st.DataObject
) -> None:
    sides = names[: data.draw(st.integers(3, 5))]
    chain = " = ".join(sides)
    tree = [(side, data.draw(st.sampled_from(sides[:at]))) for at, side in enumerate(sides) if at]
    said = [f"{one} = {two}" for one, two in data.draw(st.permutations(tree))]
    assert passes(chain, ", ".join(said))
    assert not passes(chain, ", ".join(said[:-1]))
    assert not passes(chain, ", ".join([*said[:-1], f"{sides[0]} = q"]))
