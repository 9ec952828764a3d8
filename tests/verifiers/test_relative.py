"""Rewards that depend on the group: `math.concise`."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.verifiers.local import LocalPipelines
from assay.verifiers.relative.shaping import Spread, length_terms

GROUPS = st.lists(st.tuples(st.integers(0, 10**6), st.booleans()), min_size=1, max_size=64)
SPREADS = st.sampled_from(list(Spread))
PAPER = [(10, True, 0.5), (20, True, 0.0), (30, True, -0.5), (10, False, 0.0), (30, False, -0.5)]
"""Length, right or wrong, and the term by the formula of Kimi k1.5."""


def terms(group: list[tuple[int, bool]], spread: Spread) -> list[float]:
    return length_terms([length for length, _ in group], [right for _, right in group], spread)


def test_the_linear_term_is_that_of_the_paper() -> None:
    found = terms([(length, right) for length, right, _ in PAPER], Spread.LINEAR)
    assert found == [term for _, _, term in PAPER]


def test_by_rank_one_very_long_response_does_not_move_the_others_together() -> None:
    group = [(10, True), (20, True), (10**6, True)]
    assert terms(group, Spread.RANK) == [0.5, 0.0, -0.5]
    assert terms(group, Spread.LINEAR)[1] > 0.49


@given(group=GROUPS, spread=SPREADS)
def test_terms_are_bounded_and_no_wrong_answer_gains(
    group: list[tuple[int, bool]], spread: Spread
) -> None:
    for (_, right), term in zip(group, terms(group, spread), strict=True):
        assert -0.5 <= term <= (0.5 if right else 0.0)


@given(group=GROUPS, spread=SPREADS, data=st.data())
def test_the_order_of_a_group_does_not_matter(
    group: list[tuple[int, bool]], spread: Spread, data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(group))))
    before = terms(group, spread)
    after = terms([group[index] for index in order], spread)
    assert after == [before[index] for index in order]


@given(group=GROUPS, spread=SPREADS)
def test_of_two_right_answers_the_shorter_never_gets_less(
    group: list[tuple[int, bool]], spread: Spread
) -> None:
    right = sorted(
        (length, -term)
        for (length, passed), term in zip(group, terms(group, spread), strict=True)
        if passed
    )
    assert [term for _, term in right] == sorted(term for _, term in right)


@given(length=st.integers(0, 10**6), count=st.integers(1, 9), spread=SPREADS)
def test_equal_lengths_have_no_term(length: int, count: int, spread: Spread) -> None:
    assert terms([(length, True)] * count, spread) == [0.0] * count


def test_a_group_is_judged_together_and_says_of_what_its_rewards_are_made(tmp_path: Path) -> None:
    responses = ["\\boxed{2}", "so " * 20 + "\\boxed{2}", "\\boxed{3}"]
    with LocalPipelines(scratch=tmp_path) as pipelines:
        short, long, wrong = pipelines.judge_group("math.concise", responses, {"answers": ["2"]})
        with pytest.raises(ValueError, match="judge_group"):
            pipelines.judge("math.concise", responses[0], {"answers": ["2"]})
    assert [one.reward for one in (short, long, wrong)] == [1.25, 0.75, 0.0]
    assert [(part.name, part.value, part.weight) for part in short.components] == [
        ("right", 1.0, 1.0),
        ("length", 0.5, 0.5),
    ]
    assert not short.rescorable  # the others of its group decided too
