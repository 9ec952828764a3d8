"""Headings and words that call a value a wrong answer, generated: it never passes, and the value
beside it does."""

import itertools

import pytest

from assay.verifiers.math.definition import MathSettings
from assay.verifiers.math.extract import final_answer
from assay.verifiers.math.verify import judge
from assay.verifiers.text.choice import read_choice
from assay.verifiers.text.definition import ChoiceSettings

WRONG = ("Wrong", "Incorrect", "The wrong", "A common wrong", "My first (wrong)", "Bad", "False")
NOUNS = ("answer", "final answer", "choice", "answers", "option")
STATES = (":", " is", " =", ":**")
HEADINGS = [
    *("".join(parts) for parts in itertools.product((f"{one} " for one in WRONG), NOUNS, STATES)),
    *("Wrong:", "Incorrect:", "Not the answer:", "Do not choose:", "Don't pick:", "Distractor:"),
    *(
        "Answer (wrong):",
        "Trap:",
        "Not the right answer:",
        "Discarded option:",
        "A tempting answer:",
    ),
]
VALUES = ("{}", "({})", "\\boxed{{{}}}", "**{}**", "$\\boxed{{{}}}$", "<answer>{}</answer>", "{}.")
BEHIND = (
    "{} is wrong",
    "{} is incorrect.",
    "{} (wrong)",
    "{} is the wrong answer",
    "{} is not the answer",
)
CLAUSES = (
    "I doubt the answer is {}", "It is false that the answer is {}.",
    "No one thinks the answer is {}",
    "The answer cannot be {}", "The answer can't be {}.", "I do not believe that the answer is {}",
)  # fmt: skip
RIGHT = (
    "Wrong answers: {y}. Correct answer: {x}", "Wrong answer: {y}\nRight answer: {x}",
    "The wrong answer is \\boxed{{{y}}}. Right answer: \\boxed{{{x}}}",
    "There is no wrong answer: \\boxed{{{x}}}", "Ruling out wrong answers: \\boxed{{{x}}}",
    "Without the wrong options: {x}", "Eliminating bad choices: {x}", "Correct answer: {x}",
    "Wrong answer: {y}. The answer is {x}.", "\\boxed{{{y}}} is wrong, \\boxed{{{x}}} is right",
)  # fmt: skip
STRATEGIES = ChoiceSettings().strategies
SETTINGS = MathSettings()


def _chooses(response: str) -> list[str]:
    return sorted(read_choice(response, ("A", "B", "C", "D"), STRATEGIES).labels)


def _passes(gold: str, response: str) -> bool:
    found = final_answer(response, SETTINGS)
    return not isinstance(found, str) and judge((gold,), found.text, SETTINGS).passed is True


@pytest.mark.parametrize("value", VALUES)
def test_what_a_heading_calls_wrong_is_no_answer(value: str) -> None:
    for heading in HEADINGS:
        assert _chooses(f"{heading} {value.format('B')}") != ["B"], heading
        assert not _passes("7", f"{heading} {value.format(7)}"), heading


@pytest.mark.parametrize("said", [*BEHIND, *CLAUSES])
def test_what_other_words_call_wrong_is_no_answer(said: str) -> None:
    for value in ("{}", "\\boxed{{{}}}"):
        assert _chooses(said.format(value.format("B"))) != ["B"]
        assert not _passes("7", said.format(value.format(7)))


@pytest.mark.parametrize("said", RIGHT)
def test_the_value_beside_it_passes(said: str) -> None:
    assert _chooses(said.format(x="B", y="A")) == ["B"]
    assert _passes("7", said.format(x=7, y=4))


@pytest.mark.parametrize(
    "said",
    [
        "Wrong answers: A, C, D. Correct answer: B", "Initial answer: A. Final answer: B",
        "Previous answer: A. New answer: B", "Distractors: A, C, D. Answer: B",
        "False statement: B", "Incorrect statement: B", "Least likely option: B",
    ],
)  # fmt: skip
def test_what_a_question_may_ask_for_is_chosen(said: str) -> None:
    assert _chooses(said) == ["B"]
