"""Words and marks directly beside a box: they make its value another one, or say nothing about it.

Families, not cases: each ending is tried behind each form of box.
"""

import pytest

from assay.verifiers.local import LocalPipelines

BOXES = (
    r"\boxed{85}",
    r"$\boxed{85}$",
    r"\[\boxed{85}\]",
    r"**\boxed{85}**",
    r"So $x = \boxed{85}$",
)
PLAIN = BOXES[:2]
OPERATORS = (
    *(
        " minus 5",
        " plus 5",
        " times 2",
        " divided by 5",
        " multiplied by 2",
        " less 5",
        " choose 5",
    ),
    *(" moins 5", " menos 5", " mal 5", " added to 5", " subtracted from 90"),
    *(" to the power of 2", " raised to the power 2", " raised to 2"),
    *(" squared", " cubed", " doubled", " tripled", " halved", " factorial", " and a half"),
    *(" and two thirds", " doubled.", " squared and that is it"),
)
FACTORS = (r"\frac12", r" \sqrt{2}", r" \pi", r"\pi", "e3", "e^2", "i", r"\ln 2", "(x+1)")
BEFORE = (
    *("half of ", "Half ", "twice ", "double ", "minus ", "negative ", "the square of "),
    *("the square root of ", "the reciprocal of ", "the negative of ", "5 less than "),
    *("three more than ",),
)
SAYS_NOTHING = (
    *(" squared units", " cubic inches", " in total", " less than expected", " minus the tip"),
    *(" times", " times as many", " mod 100", " and a check confirms it", " i.e. eighty-five"),
    *(" i am sure", " (see a+b above)", " added to the list", " over 5 days", " per day"),
    *(", half of 170", ", the square of which is 7225", "!", r" \quad \checkmark"),
    *(
        " [1]",
        "[1].",
        ".[1]",
        " [^1]",
        " [^note]",
        " [1][2]",
        "\n\n[1] A note.",
        " [1]\n\n[1]: a source",
    ),
    *(" [3]\n\n[3] A source.", " (5/5)", "\n5/5", "\n\n10/10", "\n**5/5**"),
)
LEADS = (
    *("Half of 170 is ", "Twice 42.5 is ", "The negative of -85 is ", "It is not negative: "),
    *("five less than 90: ", "Its double is 170 and it is "),
)
OTHERS = (" [86]", " (86)", "\n86", "\n5/6", " [7]", "\n85/5", " (4/5)")


@pytest.mark.parametrize("ending", [*OPERATORS, *FACTORS])
def test_a_box_with_an_operation_behind_it_is_no_answer(bench: LocalPipelines, ending: str) -> None:
    for box in PLAIN if ending in OPERATORS else PLAIN[:1]:
        assert bench.judge("math", box + ending, {"answers": ["85"]}).reward == 0.0, box


@pytest.mark.parametrize("beginning", BEFORE)
def test_a_box_with_an_operation_before_it_is_no_answer(
    bench: LocalPipelines, beginning: str
) -> None:
    for box in PLAIN:
        assert bench.judge("math", beginning + box, {"answers": ["85"]}).reward == 0.0, box


@pytest.mark.parametrize("ending", SAYS_NOTHING)
def test_what_says_nothing_about_a_box_costs_nothing(bench: LocalPipelines, ending: str) -> None:
    for box in BOXES:
        assert bench.judge("math", box + ending, {"answers": ["85"]}).reward == 1.0, box


@pytest.mark.parametrize("lead", LEADS)
def test_operations_that_arrive_at_a_box_are_no_part_of_it(
    bench: LocalPipelines, lead: str
) -> None:
    for box in BOXES:
        assert bench.judge("math", lead + box, {"answers": ["85"]}).reward == 1.0, box


@pytest.mark.parametrize("ending", OTHERS)
def test_another_value_beside_a_box_is_no_mark(bench: LocalPipelines, ending: str) -> None:
    """A note that no text has, or a share of points that is not whole, may be another answer."""
    assert bench.judge("math", BOXES[0] + ending, {"answers": ["85"]}).reward == 0.0


@pytest.mark.parametrize(
    "said", ["85 doubled", "85 squared", "the negative of 85", "85 less 5", "85 raised to 2"]
)
def test_a_statement_with_an_operation_is_not_its_operand(bench: LocalPipelines, said: str) -> None:
    for text in (f"The answer is {said}.", f"<answer>{said}</answer>", f"#### {said}"):
        assert bench.judge("math", text, {"answers": ["85"]}).reward == 0.0, text
