"""A sentence behind a value comments on it, or takes it back; commas in it make no list."""

import time

import pytest

from assay.verifiers.math.definition import MathSettings
from assay.verifiers.math.extract import final_answer
from assay.verifiers.math.verify import judge
from assay.verifiers.text.around import following

LEADS = ("Answer: {}", "#### {}", "**Final answer:** {}", "\\boxed{{{}}}", "The answer is {}")
VALUES = {"85": "85", "3.5": "3.5", "$\\frac{1}{2}$": "1/2", "85 dollars": "85", "-4": "-4"}
COMMENTS = (
    "Also, it is unique.",
    "So, we are done.",
    "Thus, all is well",
    "Hope, this helps!",
    "No other solutions, of course, exist.",
    "Ten of them, in all, are red.",
    "First, we add, then we multiply.",
    "This is, as required, the largest.",
    "Actually, this is exact.",
    "Wait for it, please.",
    "Sorry, for the length.",
    "No more, no less.",
)
TAKES_BACK = (
    "Wait, no.",
    "Wait no.",
    "Not really.",
    "Or maybe more.",
    "Sorry, that is wrong.",
    "Hence, eighty-six.",
    "So the answer is eighty-six.",
    "I'm not sure, though.",
    "It could be more.",
    "I made a mistake.",
    "Maybe less.",
    "Nah.",
    "Hmm, wait.",
    "I take that back.",
    "I could be wrong.",
    "However, this is wrong.",
    "It is unlikely.",
)


def _passes(gold: str, response: str) -> bool:
    found = final_answer(response, MathSettings())
    return not isinstance(found, str) and judge((gold,), found.text, MathSettings()).passed is True


@pytest.mark.parametrize("lead", LEADS)
@pytest.mark.parametrize("said", COMMENTS)
def test_a_comment_leaves_the_value(lead: str, said: str) -> None:
    for value, gold in VALUES.items():
        assert _passes(gold, lead.format(f"{value}. {said}")), value


@pytest.mark.parametrize("lead", LEADS[:4])
@pytest.mark.parametrize("said", TAKES_BACK)
def test_what_takes_it_back_leaves_none(lead: str, said: str) -> None:
    for value, gold in VALUES.items():
        assert not _passes(gold, lead.format(f"{value}. {said}")), value


@pytest.mark.parametrize("said", ["Hence, 86.", "Done, or 86.", "So x = 86.", "Done, 86"])
def test_a_value_in_it_is_no_comment(said: str) -> None:
    for lead in LEADS[:3]:
        assert not _passes("85", lead.format(f"85. {said}")), lead


@pytest.mark.parametrize("text", ["85 p.m. Monday", "4.30 a.m.", "Dr. Who", "85. and more"])
def test_an_abbreviation_or_a_small_letter_begins_no_sentence(text: str) -> None:
    value, said = following.divided(text)
    assert said == "" or value != "85"


def test_long_texts_are_divided_in_linear_time() -> None:
    begun = time.process_time()
    for text in ("85. A " * 50, "85. Wait " * 33, "." * 300, "A. " * 100):
        for _ in range(1_000):
            following.takes_back(following.divided(text)[1])
            following.states(text)
    assert time.process_time() - begun < 2.0
