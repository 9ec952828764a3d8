"""Answers are read for what they say: in sentences, with labels, as regions, under conditions."""

import random

import pytest
from tests.fuzz.verdicts.mathematics.statements import (
    BOXED,
    SENTENCES,
    Family,
    carriers,
    filled,
    values,
)
from tests.verifiers.test_math_disguises import passes

DRAWS = 2


@pytest.mark.parametrize("family", BOXED, ids=[one.gold for one in BOXED])
def test_an_answer_in_a_box_is_right_in_each_of_its_spellings_and_no_other(family: Family) -> None:
    rng = random.Random(family.gold)
    for _ in range(DRAWS):
        drawn = values(rng)
        gold = filled(family.gold, drawn)
        for text in (family.gold, *family.right, *family.wrong):
            response = rng.choice(carriers(text)).replace("%s", filled(text, drawn))
            assert passes(gold, response) is (text not in family.wrong), (gold, response)


@pytest.mark.parametrize("family", SENTENCES, ids=[one.gold for one in SENTENCES])
def test_a_sentence_states_what_follows_the_words_that_announce_it(family: Family) -> None:
    rng = random.Random(family.gold)
    for _ in range(DRAWS):
        drawn = values(rng)
        gold = filled(family.gold, drawn)
        for text in (*family.right, *family.wrong):
            response = filled(text, drawn)
            assert passes(gold, response) is (text in family.right), (gold, response)


@pytest.mark.parametrize(
    "gold",
    [
        "The general solution is $(x, y) = (1, 2) + s(1, 0)$, or equivalently $(1 + s, 2)$.",
        "\\textbf{(C) } 5",
        "2n + 1 for n \\ge 4",
    ],
)
def test_a_gold_in_words_passes_for_itself(gold: str) -> None:
    for carrier in ("%s", "\\boxed{%s}", "<answer>%s</answer>"):
        assert passes(gold, carrier.replace("%s", gold)), carrier
