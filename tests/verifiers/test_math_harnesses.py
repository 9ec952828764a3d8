"""Golds and answers in the spellings of public data sets get the verdict that a person gives."""

import pytest
from tests.fuzz.verdicts.mathematics.equivalents import SAME_IN_OTHER_WORDS
from tests.fuzz.verdicts.mathematics.harnesses import PAIRS, response_of
from tests.fuzz.verdicts.mathematics.pairs import Pairs

from assay.verifiers.math.definition import MathSettings
from assay.verifiers.math.extract import final_answer
from assay.verifiers.math.verify import judge
from assay.verifiers.math.warm import modules

SETTINGS = MathSettings()


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    modules.import_all()


def _passes(gold: str, response: str) -> bool:
    found = final_answer(response, SETTINGS)
    return not isinstance(found, str) and bool(judge((gold,), found.text, SETTINGS).passed)


@pytest.mark.parametrize("pairs", PAIRS + SAME_IN_OTHER_WORDS, ids=lambda pairs: pairs.gold)
def test_right_answers_pass_and_wrong_ones_do_not(pairs: Pairs) -> None:
    refused = [one for one in pairs.right if not _passes(pairs.gold, response_of(one))]
    passed = [one for one in pairs.wrong if _passes(pairs.gold, response_of(one))]
    assert (refused, passed) == ([], [])
