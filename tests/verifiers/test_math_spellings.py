"""Ways to write an answer: all of them equal their gold, and none of the others does."""

import pytest
from tests.fuzz.verdicts.spellings import SPELLINGS, Spellings

from assay.verifiers.math.definition import MathSettings
from assay.verifiers.math.verify import judge


@pytest.mark.parametrize("drawn", SPELLINGS, ids=[one.gold for one in SPELLINGS])
def test_an_answer_equals_its_other_spellings_and_nothing_else(drawn: Spellings) -> None:
    settings = MathSettings()
    for text in (drawn.gold, *drawn.same):
        assert judge((drawn.gold,), text, settings).passed, text
    for text in drawn.other:
        assert not judge((drawn.gold,), text, settings).passed, text
