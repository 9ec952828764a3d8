"""What stands behind a value that is stated: a comment, another part, a result, a doubt.

`answers_in_prose.txt` has a gold per line. Behind it `=` and `!` stand before right and wrong
answers, `+` and `-` before whole responses (`⏎` is a line feed). All were judged before the rules
were asked. The templates say of two different values which one is stated, if any.
"""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzz.verdicts.mathematics.several.comments import CARRIERS, CONCLUDED, NEITHER, STATED

from assay.verifiers.math.definition import MathSettings
from assay.verifiers.math.extract import final_answer
from assay.verifiers.math.verify import judge_in_time

SETTINGS: Final = MathSettings()
TABLE: Final = Path(__file__).with_name("answers_in_prose.txt")
FEW: Final = settings(max_examples=60, deadline=None)
PAIRS: Final = st.tuples(st.integers(12, 999), st.integers(12, 999)).filter(
    lambda pair: pair[0] != pair[1] and pair[0] * 10 != pair[1] and pair[1] * 10 != pair[0]
)


def _passes(gold: str, response: str) -> bool:
    said = final_answer(response, SETTINGS, (gold,))
    return not isinstance(said, str) and judge_in_time((gold,), said.text, SETTINGS).passed is True


def _entries() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    gold, cases = "", list[tuple[str, str]]()
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):
            cases.append((line[2], line[4:].replace("⏎", "\n")))
            continue
        if gold:
            yield gold, cases
        gold, cases = line, []
    yield gold, cases


ENTRIES: Final = tuple(_entries())


@pytest.mark.parametrize("at", range(0, len(ENTRIES), 10))
def test_answers_and_responses_of_the_table(at: int) -> None:
    for gold, cases in ENTRIES[at : at + 10]:
        whole = [
            (mark, f"The answer is $\\boxed{{{said}}}$.") for mark, said in cases if mark in "=!"
        ]
        whole += [(mark, said) for mark, said in cases if mark in "+-"]
        untrue = [one for mark, one in whole if _passes(gold, one) is (mark in "!-")]
        assert not untrue, gold


def test_the_table_has_all_kinds() -> None:
    marks = [mark for _, cases in ENTRIES for mark, _ in cases]
    assert {mark: marks.count(mark) > 60 for mark in "=!+-"} == dict.fromkeys("=!+-", True)


def _said(template: str, carrier: str, pair: tuple[int, int]) -> str:
    filled = template.replace("{v}", str(pair[0])).replace("{w}", str(pair[1]))
    return carrier.replace("%s", filled)


@FEW
@given(st.sampled_from(STATED), st.sampled_from(CARRIERS), PAIRS)
def test_a_comment_changes_no_value(template: str, carrier: str, pair: tuple[int, int]) -> None:
    response = _said(template, carrier, pair)
    assert _passes(str(pair[0]), response)
    assert not _passes(str(pair[1]), response)


@FEW
@given(st.sampled_from(NEITHER), st.sampled_from(CARRIERS), PAIRS)
def test_a_part_or_a_case_is_no_answer(template: str, carrier: str, pair: tuple[int, int]) -> None:
    response = _said(template, carrier, pair)
    assert not _passes(str(pair[0]), response)
    assert not _passes(str(pair[1]), response)


@FEW
@given(st.sampled_from(CONCLUDED), st.sampled_from(CARRIERS), PAIRS)
def test_a_result_at_the_end_is_the_answer(
    template: str, carrier: str, pair: tuple[int, int]
) -> None:
    response = _said(template, carrier, pair)
    assert _passes(str(pair[1]), response)
    assert not _passes(str(pair[0]), response)


CONDITIONED: Final = (
    "{v}, but many get {w} for n = {n}",
    "{v}, although with x = {n} it seems to be {w}",
    "{v} [confidence: {w}% at t = {n}]",
    "{v} because {w} is too small when k = {n}",
)
"""The sign in the comment is that of a condition, and announces no result."""


@FEW
@given(st.sampled_from(CONDITIONED), st.sampled_from(CARRIERS), PAIRS, st.integers(2, 9))
def test_a_condition_in_a_comment_is_no_result(
    template: str, carrier: str, pair: tuple[int, int], case: int
) -> None:
    response = _said(template.replace("{n}", str(case)), carrier, pair)
    assert _passes(str(pair[0]), response)
    assert not _passes(str(pair[1]), response)
    assert not _passes(str(case), response)


@FEW
@given(
    st.integers(12, 99),
    st.sampled_from(("hundred", "squared", "cubed", "factorial", "fifths", "hundredths")),
    st.sampled_from(("The answer is {0}.", "So there are {0} in the box.", "In all it is {0}.")),
)
def test_a_value_that_the_next_word_changes_is_not_stated(
    value: int, word: str, sentence: str
) -> None:
    assert not _passes(str(value), sentence.format(f"{value} {word}"))


@FEW
@given(
    PAIRS,
    st.sampled_from(
        (
            "Many get {w}",
            "Some students say {w}",
            "{w} is a common error",
            "Most people think the answer is {w}",
            "{w} by mistake",
        )
    ),
)
def test_a_box_that_others_get_is_none(pair: tuple[int, int], others: str) -> None:
    right, wrong = (f"\\boxed{{{value}}}" for value in pair)
    said = others.replace("{w}", wrong)
    for response in (f"The answer is {right}. {said}.", f"{said}. The answer is {right}."):
        assert _passes(str(pair[0]), response)
        assert not _passes(str(pair[1]), response)


@FEW
@given(
    st.lists(
        st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=2, max_size=4, unique=True
    ),
    st.randoms(),
)
def test_points_with_names_are_compared_by_name(
    points: list[tuple[int, int]], rng: random.Random
) -> None:
    names = "PQST"[: len(points)]
    gold = ", ".join(f"{name}{point}" for name, point in zip(names, points, strict=True))
    shuffled = rng.sample(list(zip(names, points, strict=True)), len(points))
    assert _passes(gold, f"\\boxed{{{', '.join(f'{name}{point}' for name, point in shuffled)}}}")
    assert _passes(gold, f"\\boxed{{{', '.join(f'{name} = {point}' for name, point in shuffled)}}}")
    turned = zip(names, [*points[1:], points[0]], strict=True)
    assert not _passes(gold, f"\\boxed{{{', '.join(f'{name}{point}' for name, point in turned)}}}")


BOXES: Final = (
    ("-24", "The answer is -\\boxed{24}."),
    ("48", "The answer is $2 \\cdot \\boxed{24}$."),
    ("4", "$3 + \\boxed{4} = 7$"),
    ("4", "$\\boxed{4} + 3 = 7$"),
    ("4", "$3 \\cdot \\boxed{4} = 12$, as it was asked."),
    ("24", "$12 \\cdot 2 = \\boxed{24}$"),
    ("24", "$\\boxed{24}^\\circ$"),
    ("24", "- \\boxed{24}"),
    ("24", "Answer - \\boxed{24}"),
    ("24", "**\\boxed{24}**"),
    ("24", "$\\boxed{24}$ - done"),
    ("24", "x = \\boxed{24} \\\\"),
    ("24", "Therefore -- \\boxed{24}"),
    ("24", "$n=\\boxed{24}$, so $n+1=25$"),
    ("24", "\\frac{48}{2}=\\boxed{24}"),
    ("50\\%", "\\boxed{50}\\%"),
)
OPERANDS: Final = (
    "-%s", "$-%s$", "2 \\cdot %s", "\\sqrt{%s}", "x^{%s}", "%s + 1", "%s x", "%s/2",
    "%s \\cdot 3", "%s^2", "1/%s", "\\frac{%s}{5}",
)  # fmt: skip


@pytest.mark.parametrize(("gold", "response"), BOXES)
def test_a_box_with_marks_beside_it_is_an_answer(gold: str, response: str) -> None:
    assert _passes(gold, response)


@FEW
@given(st.integers(12, 999), st.sampled_from(OPERANDS), st.booleans())
def test_a_box_that_is_an_operand_is_none(value: int, shape: str, is_announced: bool) -> None:
    said = shape.replace("%s", f"\\boxed{{{value}}}")
    assert not _passes(str(value), f"The answer is {said}." if is_announced else said)
