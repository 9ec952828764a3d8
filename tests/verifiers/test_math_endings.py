"""An answer that nothing marks: where a text ends, and where it was cut off."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.verdict import Ended
from assay.verifiers.text.endings import breaks_off

Judge = Callable[..., Ended]

WEEKS = "".join(f"Week {week}: {week} times 2 is {2 * week} dollars.\n" for week in range(1, 9))
ENDED = [
    "so she makes 18",
    "So she makes $18 in total",
    "**18**",
    r"\[ x = 18 \]",
    r"The matrix \begin{pmatrix}3\\[2pt]3\end{pmatrix} has the squared norm 18",
    "```python\nprint(9 * 2)\n```\n18",
    "```\n18\n```",
    "x = 18 in",
    "18 is what we need",
    "18 people were there",
    WEEKS + "Week 9: 9 times 2 is 18 dollars.",
    WEEKS + "Week 9: 9 times 2 is 18 dollars",
    "3, 6, 9, 12, 15, 18 are the multiples, the largest is 18",
]
CUT = [
    r"So we get \[ x = 18",
    r"So we get \( x = 18",
    "So we get $$ x = 18",
    "```python\ntotal = 18",
    "There are 18 apples and",
    "There are 18 channels because",
    WEEKS + "Week 18",
    WEEKS + "Week 9: 18",
    WEEKS + "Week 9: 9 times 2 is 18 dol",
    "The input has 3 channels and the output has 18.\n\nThe kernel is 3 x 3, so 18 filters.\n\n" * 4
    + "The input has 3 channels and",
]


@pytest.mark.parametrize("response", ENDED)
def test_an_unmarked_answer_counts_at_the_end_of_a_text(judge: Judge, response: str) -> None:
    assert judge("math", response, {"answers": ["18"]}).reward == 1.0


@pytest.mark.parametrize("response", CUT)
def test_a_text_that_was_cut_off_has_no_unmarked_answer(judge: Judge, response: str) -> None:
    ended = judge("math", response, {"answers": ["18"]})
    assert (ended.reward, ended.evidence.verdict) == (0.0, "no_answer")


@pytest.mark.parametrize("response", CUT[:4])
def test_a_marked_answer_counts_also_in_what_was_cut_off_later(judge: Judge, response: str) -> None:
    marked = rf"Thus \boxed{{10 / 2}}. To verify: {response}"
    assert judge("math", marked, {"answers": ["5"]}).reward == 1.0


WORDS = st.lists(st.sampled_from(["Case", "gives", "sum", "per", "day", "it"]), min_size=5)


@given(words=WORDS, numbers=st.lists(st.integers(0, 9999), min_size=4, max_size=30), data=st.data())
def test_items_of_a_list_end_at_their_ends_only(
    words: list[str], numbers: list[int], data: st.DataObject
) -> None:
    items = [f"{number}. {' '.join(words)} {number}.\n" for number in numbers]
    whole = "".join(items)
    assert not breaks_off(whole)
    last = items[-1].rstrip()
    within = data.draw(st.integers(last.index(" ") + 1, len(last) - len(str(numbers[-1])) - 2))
    assert breaks_off("".join(items[:-1]) + last[:within])


@pytest.mark.parametrize(
    ("gold", "right", "wrong"),
    [
        ("True", "The answer is Yes.", "The answer is No."),
        ("False", "No, they are not isomorphic.", "Yes, they are."),
        ("yes", r"\boxed{\text{True}}", r"\boxed{\text{False}}"),
        ("no", "The answer is (B) no.", "The answer is (B) yes."),
        ("no", "(B) **No**", "(A) yes or (B) no"),
        ("yes", "(A) Yes, he has enough money.", "(A) Yes, or (B) No."),
        ("B", "(B) no", "(C) no"),
        ("C", "(C) 5", "(C) no value is 5"),
    ],
)
def test_yes_is_true_also_behind_a_label(judge: Judge, gold: str, right: str, wrong: str) -> None:
    assert judge("math", right, {"answers": [gold]}).reward == 1.0
    assert judge("math", wrong, {"answers": [gold]}).reward == 0.0


@pytest.mark.parametrize(
    "blank", ["?", "", " ", "??", r"\ ", r"\quad", r"\phantom{00}", r"\square", r"\text{ ? }", "__"]
)
def test_a_box_to_fill_in_is_no_answer(judge: Judge, blank: str) -> None:
    said = rf"We solve $\frac{{6}}{{\boxed{{{blank}}}}} = \frac{{9}}{{12}}$."
    for ending in ("So it is 8.", r"Thus $\boxed{8}$.", "The answer is 8."):
        assert judge("math", f"{said} {ending}", {"answers": ["8"]}).reward == 1.0
    assert judge("math", rf"\boxed{{8}} fits. {said}", {"answers": ["8"]}).reward == 1.0


@pytest.mark.parametrize("gold", [r"\emptyset", ">", "+", ".5", r"\{\}", "()"])
def test_signs_are_answers_in_a_box(judge: Judge, gold: str) -> None:
    assert judge("math", rf"so $\boxed{{{gold}}}$", {"answers": [gold]}).reward == 1.0
    assert judge("math", rf"so $\boxed{{{gold}}}$", {"answers": ["8"]}).reward == 0.0


@pytest.mark.parametrize("gold", ["Evelyn", "85", r"\frac{1}{2}", "x + 1"])
@pytest.mark.parametrize("marks", ["`{}`", "``{}``", "**`{}`**", "``**{}**``"])
def test_marks_of_code_around_an_answer_are_no_part_of_it(
    judge: Judge, gold: str, marks: str
) -> None:
    said = marks.format(gold)
    for response in (f"The answer is {said}.", f"<answer>{said}</answer>", f"\\boxed{{{said}}}"):
        assert judge("math", response, {"answers": [gold]}).reward == 1.0, response
        assert judge("math", response, {"answers": ["86"]}).reward == 0.0, response


@pytest.mark.parametrize("gold", ["Evelyn", "85", r"\frac{1}{2}"])
@pytest.mark.parametrize(
    "marks",
    [
        "'{}'",
        '"{}"',
        "``{}''",
        "`{}'",
        "**{}**",
        "\u00ab{}\u00bb",
        "\u201e{}\u201c",
        "\u300c{}\u300d",
    ],
)
@pytest.mark.parametrize("face", ["text", "textbf", "mathbf", "textsc", "underline"])
def test_quotes_in_a_typeface_are_no_part_of_an_answer(
    judge: Judge, gold: str, marks: str, face: str
) -> None:
    response = f"\\boxed{{\\{face}{{{marks.format(gold)}}}}}"
    assert judge("math", response, {"answers": [gold]}).reward == 1.0, response
    assert judge("math", response, {"answers": ["86"]}).reward == 0.0, response
