"""Headings and words that call a value a wrong answer, generated: it never passes, and the value
beside it does."""

import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from assay.verifiers.math.definition import MathSettings
from assay.verifiers.math.extract import final_answer
from assay.verifiers.math.verify import judge
from assay.verifiers.text import choice, denials
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


WORDS = (
    *("wrong", "WRONG", "incorrect", "\u0130ncorrect", "\u0131ncorrect", "fal\u017fe", "answer"),
    *("answers", "is", "the", ":", " ", "  ", "\n", "(", ")", "$", "*", "{", ",", ".", "->", "="),
    *("not", "never", "cannot", "be", "some", "\u017fome", "students", "think", "get", "it is"),
    *(
        "distractor",
        "trap",
        "don't",
        "choose",
        "if the",
        "false to",
        "say",
        "mistake to",
        "an error to",
    ),
    *(
        "dismissed",
        "options",
        "misleading",
        "A",
        "B",
        "although",
        "ALTHOUGH",
        "even  if",
        "despite",
    ),
    *("previou\u017fly", "prev\u0131ously", "though", "formerly"),
)
TEXTS = st.lists(st.sampled_from(WORDS), max_size=10).flatmap(
    lambda words: st.sampled_from(("", " ")).map(lambda space: space.join(words))
)


@settings(max_examples=1_000)
@given(TEXTS)
@example("Wrong answer: ")
@example("Some students think ")
def test_what_is_looked_for_first_misses_no_heading(text: str) -> None:
    """Most windows are passed over without the search, for what each heading has in it."""
    window = text[-denials.CHARS_MAX :]
    assert denials.before(text, len(text)) == (denials._BEFORE.search(window) is not None)
    concession = choice._CONCESSION.split(text, 1)[0]
    assert choice._before_concession(text) == concession


ADJECTIVES = [
    "wrong",
    "incorrect",
    "false",
    "bad",
    "worst",
    "invalid",
    "mistaken",
    "erroneous",
    "discarded",
    "eliminated",
    "rejected",
    "excluded",
    "dismissed",
    "tempting",
    "misleading",
]
EACH = (
    *(f"{word} options: " for word in ADJECTIVES),
    *(f"{name}: " for name in ("distractor", "trap", "decoys")),
    *("It cannot be ", "It can't be ", "It will not be ", "It could never be "),
    *("If the answer is ", "I doubt the answer is ", "foolish to say ", "an error to say "),
    *(
        f"{who} get "
        for who in ["some", "many", "most", "others", "people", "students", "beginners"]
    ),
)


@pytest.mark.parametrize("heading", EACH)
def test_each_word_of_a_heading_is_looked_for(heading: str) -> None:
    assert denials.before(heading, len(heading))
    assert denials.before(heading.upper().replace("N'T", "n't"), len(heading))
