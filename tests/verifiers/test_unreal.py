"""A sentence about what is not so states no answer, in any order, and hides no other."""

import time

import pytest

from assay.verifiers.math.definition import MathSettings
from assay.verifiers.math.extract import final_answer
from assay.verifiers.math.verify import judge
from assay.verifiers.text.around import unreal
from assay.verifiers.text.choice import read_choice
from assay.verifiers.text.definition import ChoiceSettings

CONDITIONS = (
    "if n were odd",
    "if the angle weren't right",
    "if the first option were true",
    "if the box had been full",
    "if the rate had not changed",
    "supposing n were odd",
    "unless n were even",
)
INVERTED = ("were n odd", "had the box been full", "should n be odd", "Had the train stopped")
STATES = (
    "the answer would be {}",
    "the correct answer would be {}",
    "it would be {}",
    "I'd choose {}",
)
REAL = (
    "If there were 20 apples, the answer would be {}.",
    "If they had walked on, the answer would be {}.",
    "If each box holds 3, the answer would be {}.",
    "The answer would be {}.",
    "If I were to choose, the answer would be {}.",
    "The answer would be {}, and the others were wrong.",
    "It would be nice if the rule were simple, but the answer is {}.",
    "The answer is {}, since n would be odd if it were prime.",
)


def unreal_sentences() -> list[str]:
    """Each condition with each statement, in each order."""
    found = [
        f"{one[0].upper()}{one[1:]}, {said}" for one in (*CONDITIONS, *INVERTED) for said in STATES
    ]
    return found + [f"{said[0].upper()}{said[1:]} {one}" for one in CONDITIONS for said in STATES]


def _passes(gold: str, response: str) -> bool:
    found = final_answer(response, MathSettings())
    return not isinstance(found, str) and judge((gold,), found.text, MathSettings()).passed is True


def _chosen(response: str) -> list[str]:
    return sorted(read_choice(response, ("A", "B", "C", "D"), ChoiceSettings().strategies).labels)


@pytest.mark.parametrize("sentence", unreal_sentences())
def test_it_states_nothing(sentence: str) -> None:
    assert _chosen(f"{sentence.format('B')}.") == []
    assert not _passes("5", f"{sentence.format('5')}.")


@pytest.mark.parametrize(
    "then", [". The answer is {}.", "; but the answer is {}.", ".\n\n\\boxed{{{}}}"]
)
def test_what_follows_it_is_the_answer(then: str) -> None:
    for sentence in unreal_sentences():
        assert _chosen(sentence.format("B") + then.format("C")) == ["C"], sentence
        both = sentence.format("5") + then.format("7")
        assert _passes("7", both), sentence
        assert not _passes("5", both), sentence


@pytest.mark.parametrize("sentence", REAL)
def test_a_problem_that_is_repeated_and_what_is_said_of_oneself_are_no_such_sentence(
    sentence: str,
) -> None:
    assert _chosen(sentence.format("B")) == ["B"]
    assert unreal.without(sentence).strip() != ""


@pytest.mark.parametrize("text", ["would ", "if x were ", "it'd if a were b, ", "would if x had "])
def test_long_texts_are_read_in_linear_time(text: str) -> None:
    whole = text * (200_000 // len(text))
    begun = time.process_time()
    assert len(unreal.without(whole)) == len(whole)
    assert time.process_time() - begun < 2.0
