"""Golds and answers are read as published data sets spell them: by parts, by cases, with labels."""

import random

import pytest
from tests.fuzz.verdicts.mathematics.published import CARRIERS, FAMILIES
from tests.fuzz.verdicts.mathematics.statements import Family, filled, values
from tests.verifiers.test_math_disguises import passes

DRAWS = 2


@pytest.mark.parametrize("family", FAMILIES, ids=[one.gold for one in FAMILIES])
def test_an_answer_is_right_in_each_of_its_spellings_and_no_other(family: Family) -> None:
    rng = random.Random(family.gold)
    wrong = []
    for _ in range(DRAWS):
        drawn = values(rng)
        gold = filled(family.gold, drawn)
        for text in (family.gold, *family.right, *family.wrong):
            response = rng.choice(CARRIERS).replace("%s", filled(text, drawn))
            if passes(gold, response) is (text in family.wrong):
                wrong.append(response)
    assert not wrong, gold


@pytest.mark.parametrize(
    ("response", "passed"),
    [
        ("The answer is Oct. 27, 2070. It was a Monday.", True),
        ("The answer is $Oct. 27, 2070$.", True),
        ("The answer is Oct. 28, 2070. Oct. 27, 2070 is too early.", False),
    ],
)
def test_the_point_of_an_abbreviated_month_ends_no_sentence(response: str, passed: bool) -> None:
    assert passes("October 27, 2070", response) is passed
