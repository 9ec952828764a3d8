"""Letters that name things of a problem (`Train B leaves at noon`) choose nothing.

`letters_of_things.txt` has sentences that mention the letter B, and sentences that choose it, as
judged by hand. Which of several things a lone sentence means is not known, so none is chosen.
"""

import re
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.verifiers.text.choice import read_choice
from assay.verifiers.text.definition import ChoiceSettings

CHOICES: Final = ("A", "B", "C", "D", "E")
STRATEGIES: Final = ChoiceSettings().strategies
TABLE: Final = Path(__file__).with_name("letters_of_things.txt")
MENTIONS, ANSWERS = (
    part.strip("\n").split("\n")
    for part in re.split(r"^(?:mention|answer)\n", TABLE.read_text(encoding="utf-8"), flags=re.M)[
        1:
    ]
)
THINGS: Final = st.sampled_from(
    [
        "Point",
        "Train",
        "The box",
        "Vertex",
        "Line",
        "The set",
        "Angle",
        "City",
        "Worker",
        "Solution",
    ]
)
VERBS: Final = st.sampled_from(
    [
        "lies on the line",
        "leaves at noon",
        "contains 3 balls",
        "meets the circle",
        "moves to the left",
    ]
)
LABEL: Final = st.sampled_from(["B", "C", "D", "E"])
STARTS: Final = st.sampled_from(["", "Note: ", "It is clear that ", "So ", "Since 3 > 2, "])


def _read(response: str) -> set[str]:
    return set(read_choice(response, CHOICES, STRATEGIES).labels)


@pytest.mark.parametrize("said", MENTIONS)
def test_a_mention_of_a_thing_is_no_choice(said: str) -> None:
    for label in ("B", "D", "E"):
        text = re.sub(r"\bB\b", label, said.strip())
        assert len(_read(text)) != 1, text


@pytest.mark.parametrize("said", ANSWERS)
def test_a_choice_is_read_beside_mentions(said: str) -> None:
    assert _read(said.strip()) == {"B"}


@given(STARTS, THINGS, LABEL, VERBS, LABEL)
def test_what_a_thing_does_is_no_choice(
    start: str, thing: str, label: str, verb: str, other: str
) -> None:
    sentence = f"{start}{thing} {label} {verb}."
    assert _read(sentence) == set()
    assert _read(f"{sentence} The answer is {other}.") == {other}
    assert _read(f"The answer is {other}. {sentence}") == {other}
    assert _read(f"{sentence} So it must be {other}.") == {other}


@given(LABEL, VERBS, st.sampled_from(["option", "choice", "answer", "letter"]))
def test_what_an_option_does_is_a_choice(label: str, verb: str, noun: str) -> None:
    assert _read(f"Only {noun} {label} {verb}.") == {label}
