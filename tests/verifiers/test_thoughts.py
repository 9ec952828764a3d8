"""What a model thinks aloud is no part of its answer, whatever the model marks it with."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.outcome import Outcome
from assay.core.verdict import Ended
from assay.verifiers.code.source.choices import BlockChoice, Extraction
from assay.verifiers.code.source.programs import program_of
from assay.verifiers.math.definition import MathSettings
from assay.verifiers.math.extract import final_answer
from assay.verifiers.options import Strategy
from assay.verifiers.text.choice import read_choice
from assay.verifiers.text.thoughts import answer_part, behind_thoughts, end_of

MARKS = {
    "think": ("<think>", "</think>"),
    "thinking": ("<thinking>", "</thinking>"),
    "seed": ("<seed:think>", "</seed:think>"),
    "magistral": ("[THINK]", "[/THINK]"),
    "kimi": ("\u25c1think\u25b7", "\u25c1/think\u25b7"),
    "open thoughts": ("<|begin_of_thought|>", "<|end_of_thought|>"),
    "channels": (
        "<|channel|>analysis<|message|>",
        "<|end|><|start|>assistant<|channel|>final<|message|>",
    ),
}
THOUGHTS = st.sampled_from(
    [
        "",
        "\\boxed{41}",
        "So the answer is 41.",
        "<answer>41</answer>",
        "#### 41",
        "Final answer: 41",
        "\\boxed{4",
        "```python\nx = 41\n```",
        "hm. " * 100,
        "<answer>B</answer> The answer is B.",
    ]
)
ANSWERS = st.sampled_from(
    ["The answer is 42.", "\\boxed{42}", "#### 42", "<answer>42</answer>", "42"]
)
STRATEGIES = (Strategy.TAG, Strategy.BOXED, Strategy.ANSWER_IS, Strategy.ANSWER_COLON)


@given(st.sampled_from(sorted(MARKS)), st.lists(THOUGHTS, max_size=4), ANSWERS, st.booleans())
def test_an_answer_is_read_as_if_nothing_had_been_thought(
    kind: str, thoughts: list[str], answer: str, by_template: bool
) -> None:
    begin, end = MARKS[kind]
    thought = "\n".join(thoughts)
    response = f"{'' if by_template else begin}{thought}{end}\n\n{answer}"
    assert answer_part(response).strip() == answer
    assert final_answer(response, MathSettings()) == final_answer(answer, MathSettings())


@given(st.sampled_from(sorted(MARKS)), THOUGHTS)
def test_a_thought_without_an_end_hides_the_rest(kind: str, thought: str) -> None:
    response = f"{MARKS[kind][0]}{thought} \\boxed{{42}}"
    assert answer_part(response) == ""
    assert isinstance(final_answer(response, MathSettings()), str)


@given(st.text(), st.lists(st.sampled_from([m for pair in MARKS.values() for m in pair])))
def test_the_answer_part_has_no_marks_and_is_its_own_answer_part(
    text: str, marks: list[str]
) -> None:
    part = answer_part(text.join(["", *marks, ""]))
    assert answer_part(part) == part
    assert behind_thoughts(part) is None


@pytest.mark.parametrize("kind", MARKS)
def test_labels_and_programs_are_those_behind_the_thought(kind: str) -> None:
    begin, end = MARKS[kind]
    chosen = read_choice(f"{begin}The answer is B.{end}The answer is A.", ("A", "B"), STRATEGIES)
    assert chosen.labels == {"A"}
    program = program_of(
        f"{begin}\n```python\nx = 1\n```\n{end}\n```python\nx = 2\n```",
        Extraction.AUTO,
        BlockChoice.FIRST,
        frozenset({"python"}),
    )
    assert program == "x = 2\n"


@pytest.mark.parametrize(
    ("pipeline", "reference", "settings", "right", "wrong"),
    [
        ("math", {"answers": ["10"]}, {}, "\\boxed{10}", "\\boxed{11}"),
        ("choice", {"answer": "B"}, {}, "Answer: B", "Answer: A"),
        ("exact", {"answers": ["x"]}, {"strategies": ["answer_colon"]}, "Answer: x", "Answer: y"),
        ("json_schema", {"schema": {"type": "array"}}, {}, "[]", "{}"),
    ],
)
def test_thoughts_of_any_length_cost_no_answer_its_reward(
    judge: Callable[..., Ended],
    pipeline: str,
    reference: dict[str, object],
    settings: dict[str, object],
    right: str,
    wrong: str,
) -> None:
    thought = "<think>" + "maybe [1] or A, so 11. " * 10_000
    for said, reward in ((f"</think>{right}", 1.0), (f"</think>{wrong}", 0.0), ("", 0.0)):
        ended = judge(pipeline, thought + said, reference, **settings)
        assert (ended.outcome, ended.reward) == (Outcome.SCORED, reward)


@pytest.mark.parametrize(
    ("pipeline", "reference", "settings", "right", "wrong"),
    [
        ("math", {"answers": ["10"]}, {}, "\\boxed{10}", "\\boxed{11}"),
        ("choice", {"answer": "B"}, {}, "Answer: B", "Answer: A"),
        ("exact", {"answers": ["x"]}, {"strategies": ["answer_colon"]}, "Answer: x", "Answer: y"),
    ],
)
@pytest.mark.parametrize("line", ["First we add. ", "So we go on.\n", "Let $x$ be {1}.\n\n"])
def test_of_longer_reasoning_without_marks_the_end_is_read(
    judge: Callable[..., Ended],
    pipeline: str,
    reference: dict[str, object],
    settings: dict[str, object],
    right: str,
    wrong: str,
    line: str,
) -> None:
    reasoning = line * (60_000 // len(line))
    ended = judge(pipeline, f"{reasoning}\n\n{right}", reference, **settings)
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, 1.0)
    for said in (f"{reasoning}\n\n{wrong}", f"{right}\n\n{reasoning}", reasoning):
        ended = judge(pipeline, said, reference, **settings)
        assert (ended.outcome, ended.reward) == (Outcome.SCORED, 0.0)


@given(st.text("ab\n", max_size=40), st.integers(1, 30))
def test_the_end_is_the_end_and_holds_at_least_half_of_what_may_be_read(
    text: str, chars_max: int
) -> None:
    end = end_of(text, chars_max)
    assert text.endswith(end)
    assert min(len(text), chars_max - chars_max // 2) <= len(end) <= chars_max
