"""Ways to write an answer: all of them equal their gold, and none of the others does."""

import random

import pytest
from tests.fuzz.verdicts.mathematics.notations import CARRIERS, NOTATIONS, Notation
from tests.fuzz.verdicts.mathematics.spellings import SPELLINGS, Spellings

from assay.verifiers.math.definition import MathSettings
from assay.verifiers.math.extract import final_answer
from assay.verifiers.math.verify import judge

SETTINGS = MathSettings()
DRAWS = 3


@pytest.mark.parametrize("drawn", SPELLINGS, ids=[one.gold for one in SPELLINGS])
def test_an_answer_equals_its_other_spellings_and_nothing_else(drawn: Spellings) -> None:
    for text in (drawn.gold, *drawn.same):
        assert judge((drawn.gold,), text, SETTINGS).passed, text
    for text in drawn.other:
        assert not judge((drawn.gold,), text, SETTINGS).passed, text


@pytest.mark.parametrize("notation", NOTATIONS, ids=[one.__name__ for one in NOTATIONS])
def test_a_drawn_value_equals_its_notations_in_every_carrier(notation: Notation) -> None:
    rng = random.Random(notation.__name__)
    for _ in range(DRAWS):
        drawn = notation(rng)
        for text in (drawn.gold, *drawn.same):
            assert _passes(drawn.gold, text, rng), (drawn.gold, text)
        for text in drawn.other:
            assert not _passes(drawn.gold, text, rng), (drawn.gold, text)


def _passes(gold: str, text: str, rng: random.Random) -> bool:
    carrier = CARRIERS[0] if "$" in text else rng.choice(CARRIERS)
    found = final_answer(carrier.replace("%s", text), SETTINGS)
    assert not isinstance(found, str), found
    return bool(judge((gold,), found.text, SETTINGS).passed)
