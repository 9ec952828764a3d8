"""Where the answer stands: the last match of each strategy, in linear time, on any text."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.verifiers.options import Strategy
from assay.verifiers.text.answers import extract

FOUND = [
    (Strategy.BOXED, r"so \boxed{1} or rather \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
    (Strategy.BOXED, r"\boxed{a\}b}", r"a\}b"),
    (Strategy.BOXED, r"\boxed{\boxed{3}}", r"\boxed{3}"),
    (Strategy.BOXED, r"\boxed{7} and then \boxed{8", "7"),
    (Strategy.BOXED, r"\fbox {9}", "9"),
    (Strategy.BOXED, r"$\boxed{1}$ and \(\boxed{2}\), \boxed{3}", "1, 2, 3"),
    (Strategy.BOXED, r"\boxed{1} \quad \text{or} \quad \boxed{2}\boxed{}", "1, 2"),
    (Strategy.BOXED, r"first \boxed{1} apples, so \boxed{2}", "2"),
    (Strategy.BOXED, r"\boxed{5}. It stands in \boxed{}, as asked.", "5"),
    (Strategy.TAG, "<answer>5</answer> It stands between <answer></answer>, as asked.", "5"),
    (Strategy.HASHES, "#### 5\n####", "5"),
    (Strategy.TAIL, "1\n" + "x" * 494 + "\nlast", "x" * 494 + "\nlast"),
    (Strategy.TAIL, "1\n" + "x" * 500, "x" * 500),
    (Strategy.HASHES, "2+2\n#### 4\n", "4"),
    (Strategy.HASHES, "#### 3\n####   1,234  \nbye", "3, 1,234"),
    (Strategy.ANSWER_IS, "The answer is 3. No: the final answer is: 12. I hope", "12"),
    (Strategy.ANSWER_IS, "the answer is 3.5", "3.5"),
    (Strategy.ANSWER_COLON, "so\nA: 18", "18"),
    (Strategy.ANSWER_COLON, "**Final answer:** 42\n", "42"),
    (Strategy.ANSWER_COLON, "**Answer: 42**", "42"),
    (Strategy.TAG, "<answer>1</answer> but <ANSWER> 2 </ANSWER>", "2"),
    (Strategy.TAG, "<answer>1</answer> or <ANSWER> 2 </ANSWER>", "1, 2"),
    (Strategy.TAG, r"<answer>it is \boxed{5}</answer>", "5"),
    (Strategy.LAST_NUMBER, "from 3 to -12,000.50 dollars", "-12,000.50"),
    (Strategy.LAST_NUMBER, "7 - 3, that is 5-4", "4"),
    (Strategy.LAST_NUMBER, "it is \N{MINUS SIGN}5", "-5"),
    (Strategy.WHOLE, "  x  ", "x"),
]


@pytest.mark.parametrize(("strategy", "response", "answer"), FOUND)
def test_a_strategy_takes_the_last_match(strategy: Strategy, response: str, answer: str) -> None:
    found = extract(response, [strategy])
    assert found is not None
    assert found[:2] == (answer, strategy)


@pytest.mark.parametrize("strategy", Strategy)
def test_nothing_is_found_in_nothing(strategy: Strategy) -> None:
    assert extract(" \n", [strategy]) is None


def test_strategies_are_tried_in_order() -> None:
    response = "\\boxed{1} is the first step.\n#### 2"
    found = extract(response, [Strategy.TAG, Strategy.HASHES, Strategy.BOXED])
    assert found is not None
    assert found[:2] == ("2", "hashes")


@given(st.text() | st.text(alphabet="\\boxed{}<answer>/# \nAans:is0.-,"), st.sampled_from(Strategy))
def test_any_text_gives_a_part_of_itself_or_nothing(response: str, strategy: Strategy) -> None:
    found = extract(response, [strategy])
    if found is not None:
        assert found.text
    if found is not None and not found.parts:
        assert found.text.replace("-", "") in response.replace("\N{MINUS SIGN}", "").replace(
            "-", ""
        )


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize(
    "unit",
    [
        "\\boxed{",
        "{",
        "}",
        "\\",
        "<answer>",
        "</answer>",
        "#",
        "answer ",
        "answer is ",
        " ",
        "a:",
        "\n",
        r"\boxed{1},",
        r"\boxed{1}\text{",
        "1,",
        "1",
        "-",
        "*",
        "A:\n",
        ".",
    ],
)
def test_extraction_is_linear(strategy: Strategy, unit: str) -> None:
    response = unit * (400_000 // len(unit))
    began_s = time.thread_time()
    extract(response, [strategy])
    assert time.thread_time() - began_s < 3.0
