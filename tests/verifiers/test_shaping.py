"""`shape`: format and length rewards, by the published formulas."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.errors import InvalidRequest
from assay.core.outcome import Outcome
from assay.verifiers.shaping.rules import (
    LengthUnit,
    ResponseForm,
    count,
    fault_of_form,
    overlong_penalty,
)


@pytest.mark.parametrize(
    ("length", "penalty"),
    [(0, 0.0), (16_384, 0.0), (16_385, -1 / 4_096), (18_432, -0.5), (20_480, -1.0), (10**9, -1.0)],
)
def test_the_penalty_is_that_of_dapo(length: int, penalty: float) -> None:
    """Expected length 16,384 and a cache of 4,096, as in the paper's section 4.1."""
    assert overlong_penalty(length, 20_480, 4_096) == pytest.approx(penalty)


@given(st.integers(0, 300), st.integers(1, 200), st.integers(0, 200))
def test_the_penalty_falls_with_length_and_stays_between_minus_one_and_zero(
    length: int, length_max: int, cache: int
) -> None:
    cache = min(cache, length_max)
    here, there = (overlong_penalty(n, length_max, cache) for n in (length, length + 1))
    assert -1.0 <= there <= here <= 0.0


@pytest.mark.parametrize(
    ("text", "form", "fault"),
    [
        ("<think>so</think>42", ResponseForm.THINK, ""),
        ("\n<think>\nso\n</think>\n\n42\n", ResponseForm.THINK, ""),
        ("so</think>42", ResponseForm.OPENED_THINK, ""),
        ("<think>so</think>42", ResponseForm.OPENED_THINK, "2 of <think>"),
        ("<think>so</think> <answer>42</answer>", ResponseForm.THINK_ANSWER, ""),
        ("42", ResponseForm.THINK, "0 of <think>"),
        ("<think>so</think>", ResponseForm.THINK, "no answer after </think>"),
        ("<think></think>42", ResponseForm.THINK, "no reasoning"),
        ("Well, <think>so</think>42", ResponseForm.THINK, "text before <think>"),
        ("<think>a</think><think>b</think>42", ResponseForm.THINK, "2 of <think>"),
        ("</think>so<think>42", ResponseForm.THINK, "tags in another order"),
        (
            "<think>a</think>b<answer>42</answer>",
            ResponseForm.THINK_ANSWER,
            "text between </think>",
        ),
        ("<think>a</think><answer>42</answer>c", ResponseForm.THINK_ANSWER, "text after </answer>"),
        ("<think>a</think><answer> </answer>", ResponseForm.THINK_ANSWER, "an empty answer"),
        ("\ufeff<think>a</think>\u200b<answer>b</answer>\x07", ResponseForm.THINK_ANSWER, ""),
    ],
)
def test_forms(text: str, form: ResponseForm, fault: str) -> None:
    found = fault_of_form(text, form)
    assert found.startswith(fault) if fault else found == ""


@pytest.mark.parametrize(
    "unseen",
    ["\u200b", "\u3164", "\x07", "\u202e\u202c", "\ufeff \n", "\u2800", "\ufe0f", "\U000e0041"],
)
def test_what_cannot_be_seen_is_neither_reasoning_nor_an_answer(unseen: str) -> None:
    assert fault_of_form(f"<think>{unseen}</think>42", ResponseForm.THINK) == "no reasoning"
    answer = fault_of_form(f"<think>so</think>{unseen}", ResponseForm.THINK)
    assert answer == "no answer after </think>"
    both = f"<think>so</think><answer>{unseen}</answer>"
    assert fault_of_form(both, ResponseForm.THINK_ANSWER) == "an empty answer"
    joined = f"<think>s{unseen}o</think>4{unseen}2"
    assert fault_of_form(joined, ResponseForm.THINK) == ""


@given(st.text(max_size=60) | st.lists(st.sampled_from(["<think>", "</think>", "a"])).map("".join))
def test_any_text_has_a_form_or_a_fault(text: str) -> None:
    for form in ResponseForm:
        fault_of_form(text, form)
    assert count(text, LengthUnit.WORDS) <= count(text, LengthUnit.CHARACTERS)


def test_form_and_length_are_components_of_one_reward(bench: Any) -> None:
    settings = {"form": "think", "length_max": 100, "length_cache": 50, "length_weight": 0.5}
    ended = bench.judge("shape", "<think>so</think>42", {"length": 75}, **settings)
    assert ended.reward == pytest.approx(1.0 - 0.25)
    assert [(one.name, one.value, one.weight) for one in ended.components] == [
        ("form", 1.0, 1.0),
        ("length", -0.5, 0.5),
    ]


def test_a_length_that_is_not_given_is_the_references_fault(bench: Any) -> None:
    ended = bench.judge("shape", "x", {}, length_max=100)
    assert ended.outcome is Outcome.REJECTED_INVALID
    assert "reference.length" in ended.evidence.error


@pytest.mark.parametrize(
    ("settings", "message"),
    [({}, "form, length_max"), ({"length_max": 1, "length_cache": 2}, "length_cache")],
)
def test_settings_that_say_nothing_or_too_much_are_refused(
    bench: Any, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message):
        bench.judge("shape", "x", {}, **settings)
