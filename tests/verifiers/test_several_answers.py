"""Answers stated beside each other in different ways are one answer with several parts: a guess
that another follows counts, however each of them is marked."""

import itertools
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assay.core.verdict import Ended
from assay.verifiers.math.definition import MathSettings
from assay.verifiers.math.extract import pack, unpack
from assay.verifiers.options import Strategy
from assay.verifiers.text.answers import Extracted, extract

Judge = Callable[..., Ended]

WAYS = (
    "The answer is {}.",
    "So my final answer is: {}",
    "answer = {}",
    "Answer: {}",
    "**Final answer:** {}",
    "Ans = {}",
    "#### {}",
    "\\boxed{{{}}}",
    "The answer is $\\boxed{{{}}}$.",
    "<answer>{}</answer>",
    "\u7b54\u6848\u662f {}\u3002",
    "\u041e\u0442\u0432\u0435\u0442: {}",
    "\uc815\ub2f5: {}",
)
BETWEEN = ("\n", "\n\n", "\n\nTherefore, ", "\n---\n", "\n\nIn summary:\n", "\n\nor\n")
VALUES = ("5", "85", "-3", "\\frac{1}{2}", "2\\sqrt{3}", "(1, 2)", "Monday")
PAIRS = list(itertools.product(WAYS, WAYS))


def test_every_pair_of_ways_names_both_values(judge: Judge) -> None:
    for number, (first, then) in enumerate(PAIRS):
        between = BETWEEN[number % len(BETWEEN)]
        guess, gold = "5", "85"
        for one, other in ((guess, gold), (gold, guess)):
            response = f"Some work.\n{first.format(one)}{between}{then.format(other)}"
            assert judge("math", response, {"answers": [gold]}).reward == 0.0, response


def test_every_pair_of_ways_may_state_a_value_again(judge: Judge) -> None:
    for number, (first, then) in enumerate(PAIRS):
        between = BETWEEN[number % (len(BETWEEN) - 1)]
        gold = VALUES[number % len(VALUES)]
        response = f"Some work.\n{first.format(gold)}{between}{then.format(gold)}"
        assert judge("math", response, {"answers": [gold]}).reward == 1.0, response


def test_two_parts_of_one_answer_may_be_stated_in_two_ways(judge: Judge) -> None:
    for first, then in PAIRS[::5]:
        response = f"{first.format(3)}\n{then.format(5)}"
        assert judge("math", response, {"answers": ["3, 5"]}).reward == 1.0, response


@pytest.mark.parametrize(
    "response",
    [
        "The answer is 5. Wait, that is wrong. Let me check again. The answer is 85.",
        "#### Solution\nThe answer is 85.",
        "#### Final answer\n85",
        "#### Adding them up\nThe answer is 85.",
        "#### Final Answer:\n\\boxed{85}",
        "The answer is as follows:\n#### 85",
        "\\boxed{85}. The answer is correct.",
        "The answer is 85. The answer is correct.",
        "The answer is 80 + 5 = 85.\n#### 85",
        "Answer: Jim has 85 apples left because he ate 3 of them.\n\\boxed{85}",
        "The answer is the number of apples, which is \\boxed{85}",
        "The answer is 85!\n#### 85",
        "Wrong answer: 5\nThe answer is 85.",
        "Most people think the answer is 5. The answer is 85.",
        "Most people think the answer is $\\boxed{5}$. The answer is $\\boxed{85}$.",
    ],
)
def test_what_is_no_other_answer_changes_nothing(judge: Judge, response: str) -> None:
    assert judge("math", response, {"answers": ["85"]}).reward == 1.0


@pytest.mark.parametrize(
    "response",
    [
        "Answer: 5. The answer is 85.",
        "Answer: The answer is 5.\nThe answer is $\\boxed{85}$",
        "The answer is 5 because the tree grows by two each year. The answer is 85.",
        "Answer: 5\nAnswer: 85\nThe answer is 85.",
        "The answer is either 85 dollars or 5 dollars, whatever they want.\nAnswer: 85",
        "The answer is 85, 5\nAnswer: 85",
    ],
)
def test_a_guess_may_be_wordy(judge: Judge, response: str) -> None:
    assert judge("math", response, {"answers": ["85"]}).reward == 0.0


def test_a_choice_that_is_named_beside_another_is_ambiguous(judge: Judge) -> None:
    reference = {"answer": "B", "choices": ["A", "B", "C", "D"]}
    for first, then in PAIRS:
        said = judge("choice", f"{first.format('A')}\n{then.format('B')}", reference)
        assert said.reward == 0.0, (first, then)
        again = judge("choice", f"{first.format('B')}\n{then.format('B')}", reference)
        assert again.reward == 1.0, (first, then)


@pytest.mark.parametrize(
    "options",
    ["A. Rome\nB. $x^2$", "**A.** 5\n\n**B.** 5\n- **C.** Rome", "A) 1\nB) 2\nC) 3\nD) 4"],
)
def test_options_behind_an_announcement_name_no_label(judge: Judge, options: str) -> None:
    reference = {"answer": "E", "choices": ["A", "B", "C", "D", "E"]}
    for way in WAYS:
        response = f"The answer is:\n{options}\n\n{way.format('E')}"
        assert judge("choice", response, reference).reward == 1.0, response


def test_exact_text_holds_for_all_that_is_stated(judge: Judge) -> None:
    ways = ["answer_is", "answer_colon"]
    for response, reward in (("Answer: x\nThe answer is y.", 0.0), ("Answer: y\nAnswer: y", 1.0)):
        assert judge("exact", response, {"answers": ["y"]}, strategies=ways).reward == reward
    said = "Answer: Y\nThe answer is y."
    assert judge("exact", said, {"answers": ["y"]}, strategies=ways, ignore_case=True).reward == 1.0


@example([("The answer is {}.", "5"), ("Answer: {}", "(1, 2)")], "\n\nor\n")
@given(
    st.lists(st.tuples(st.sampled_from(WAYS), st.sampled_from(VALUES)), min_size=1, max_size=6),
    st.sampled_from(BETWEEN),
)
def test_nothing_that_is_stated_is_left_out(said: list[tuple[str, str]], between: str) -> None:
    response = between.join(way.format(value) for way, value in said)
    found = extract(response, MathSettings().strategies)
    assert found is not None
    assert all(value in found.text for _, value in said)


@given(st.text(), st.sampled_from(Strategy), st.lists(st.text(min_size=1), max_size=4))
def test_the_artifact_keeps_what_is_found(text: str, strategy: Strategy, parts: list[str]) -> None:
    found = unpack(pack(Extracted(text, strategy, tuple(parts))))
    as_bytes = [said.encode("utf-8", "replace").decode() for said in (text, *parts)]
    assert [found.text, *found.parts] == as_bytes
    assert found.strategy is strategy
