"""The marks of chat templates at the end of a response are no part of it, in any pipeline."""

from collections.abc import Callable
from typing import Any

import pytest

from assay.core.verdict import Ended
from assay.verifiers.text.around.chat import unended

Judge = Callable[..., Ended]
MARKS = (
    *("<|im_end|>", "</s>", "<|eot_id|>\n", "\n<|endoftext|>", "<end_of_turn>\n<eos>"),
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
)
RIGHT: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "shape": (
        "<think>a</think><answer>b</answer>",
        {},
        {"form": "think_answer"},
    ),
    "instructions": (
        '"It ends. No more"',
        {"instructions": [{"id": "startend:quotation"}, {"id": "startend:end_checker",
                                                         "kwargs": {"end_phrase": "No more"}}]},
        {},
    ),
    "json_schema": ("[]", {"schema": {"type": "array"}}, {}),
    "exact": ("Answer: x", {"answers": ["x"]}, {"strategies": ["answer_colon"]}),
    "choice": ("Answer: B", {"answer": "B"}, {}),
    "math": ("Answer: 5", {"answers": ["5"]}, {}),
    "sql": ("SELECT 5", {"query": "SELECT 5"}, {}),
}  # fmt: skip


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("pipeline", RIGHT)
def test_a_mark_costs_no_right_response_its_reward(judge: Judge, pipeline: str, mark: str) -> None:
    response, reference, settings = RIGHT[pipeline]
    assert judge(pipeline, response + mark, reference, **settings).reward == 1.0


@pytest.mark.parametrize("mark", MARKS)
def test_a_mark_is_no_answer(judge: Judge, mark: str) -> None:
    assert judge("shape", f"<think>a</think>{mark}", {}, form="think").reward == 0.0


@pytest.mark.parametrize(
    "response", ["a <s>b</s>", "a</s> b", "x[INST]", "<|a|> b", "", "a|>", "<" * 400]
)
def test_what_only_looks_like_a_mark_stays(response: str) -> None:
    assert unended(response) == response
