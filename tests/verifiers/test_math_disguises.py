"""Hedges, denials, floods and disguises of a gold are wrong; adornments of it are right."""

import random

import pytest
from tests.fuzz.verdicts.mathematics.disguises import (
    CARRIERS,
    FLOODS,
    SHAPES,
    filled,
    fits,
    three_values,
)

from assay.verifiers.math.definition import MathSettings
from assay.verifiers.math.extract import final_answer
from assay.verifiers.math.verify import judge

SETTINGS = MathSettings()
DENIED = {
    r"\frac{3}{7}": (r"not $\frac{3}{7}$", r"\neq \frac{3}{7}", "at least 3/7"),
    "x^2+1": ("not $x^2+1$", "anything but $x^2+1$", r"x^2+1 \text{ is wrong}"),
    "3, 5": ("not 3, 5", "3, 5 is wrong", "3 or 5 maybe 7"),
    "(1, 2)": ("not (1, 2)", "all but (1, 2)"),
    "12 cm": ("not 12 cm", "more than 12 cm", "12 cm is wrong", "at most 12 cm"),
    "50%": ("not 50%", "more than 50%", "50% or 60%"),
    "4:30": ("not 4:30", "before 4:30", "4:30 is wrong"),
    "Monday": ("not Monday", "any day but Monday", "Monday or Tuesday"),
}
SAID = {
    "5": ("5 people were there", "it is not 4, it is 5", "10/2 = 5", r"20\% \text{ of } 25 = 5"),
    "40": ("He must sell at least 40 cups.", "It takes more than 30, so 40."),
    "0.28": (r"28\% = 0.28", "7/25 = 0.28"),
    "180 minutes": (r"3 \text{ hours} = 180 \text{ minutes}",),
    "15 m/s": (r"15~\frac{\text{m}}{\text{s}}", r"15 \frac{ \text{m} }{ \text{s} }"),
}


def passes(gold: str, response: str) -> bool:
    found = final_answer(response, SETTINGS)
    return not isinstance(found, str) and bool(judge((gold,), found.text, SETTINGS).passed)


@pytest.mark.parametrize("kind", SHAPES)
def test_an_adorned_gold_is_right_and_a_disguised_one_is_wrong(kind: str) -> None:
    rng = random.Random(kind)
    for shape in SHAPES[kind]:
        x, y, z = three_values(rng)
        able = [carrier for carrier in CARRIERS if fits(shape, carrier)]
        response = rng.choice(able).replace("%s", filled(shape, x, y, z))
        assert passes(str(x), response) is (kind == "adornment"), response


def test_a_flood_is_no_answer() -> None:
    for flood in FLOODS:
        text = flood(417, random.Random(1))
        too_long = len(text) > SETTINGS.answer_chars_max
        assert too_long or not passes("417", f"\\boxed{{{text}}}"), text[:200]


@pytest.mark.parametrize("gold", DENIED)
def test_a_gold_that_the_answer_rejects_or_bounds_is_wrong(gold: str) -> None:
    for text in DENIED[gold]:
        for carrier in ("\\boxed{%s}", "<answer>%s</answer>", "The answer is %s.", "%s"):
            assert not passes(gold, carrier.replace("%s", text)), (carrier, text)


def test_a_contradiction_inside_brackets_has_no_value() -> None:
    inside = (
        ("\\{3, 5\\}", "\\{3, 4=5\\}"),
        ("(1, 2)", "(1, 3=2)"),
        ("[0, 2]", "[0, 1=2]"),
        ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{pmatrix}1\\\\3=2\\end{pmatrix}"),
    )
    for gold, text in inside:
        assert passes(gold, f"\\boxed{{{gold}}}")
        assert not passes(gold, f"\\boxed{{{text}}}"), text


def test_two_marked_values_with_a_word_of_doubt_between_them_are_two() -> None:
    for word in ("maybe", "perhaps", "possibly", "alternatively", "versus", "vs"):
        for response in (f"It is $5$ {word} $7$.", f"It is \\(5\\) {word} \\(7\\)."):
            assert not passes("7", response), response


@pytest.mark.parametrize("gold", SAID)
def test_words_around_a_value_do_not_reject_it(gold: str) -> None:
    for text in SAID[gold]:
        for carrier in ("\\boxed{%s}", "<answer>%s</answer>", "%s"):
            assert passes(gold, carrier.replace("%s", text)), (carrier, text)
