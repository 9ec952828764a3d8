"""Results of the client -> rewards or causes; the baseline over them."""

import math

import pytest
from tests.integrations.stand_in import injected

from assay.client import Evidence, Outcome, ResourceUse, Result
from assay.core.advantages import Estimator
from assay.core.tools.labels import row_label
from assay.integrations import (
    Judgement,
    group_advantages,
    judgements,
    reference_of,
    response_text,
    unscored_share,
)


def result(name: str, outcome: Outcome, reward: float | None = None, error: str = "") -> Result:
    return Result(
        request_id=name,
        group_id="",
        outcome=outcome,
        reward=reward,
        evidence=Evidence(error=error),
        resource_use=ResourceUse(),
        stages=(),
        attempts=1,
    )


@pytest.mark.parametrize("outcome", list(Outcome))
def test_only_a_judged_response_has_a_reward(outcome: Outcome) -> None:
    # A zero arrives with each outcome: it counts where the response was judged and nowhere else.
    (judged,) = judgements(["a"], [result("a", outcome, 0.0, "why")])
    if outcome in {Outcome.SCORED, Outcome.RESOURCE_LIMIT}:
        assert (judged.reward, judged.cause) == (0.0, "")
    else:
        assert (judged.reward, judged.cause) == (None, f"{outcome.value}: why")


def test_what_is_missing_or_no_number_is_unscored_and_a_later_result_counts() -> None:
    results = [
        result("nan", Outcome.SCORED, math.nan),
        result("again", Outcome.INFRA_FAILED),
        result("again", Outcome.SCORED, 0.5),
    ]
    judged = judgements(["again", "nan", "lost"], results)
    assert [one.reward for one in judged] == [0.5, None, None]
    assert judged[2].outcome == "UNREACHABLE"
    assert unscored_share(judged) == {
        "unscored_share": pytest.approx(2 / 3),
        "unscored_share/SCORED": pytest.approx(1 / 3),
        "unscored_share/UNREACHABLE": pytest.approx(1 / 3),
    }
    with pytest.raises(ValueError, match="cause"):
        Judgement(reward=None)
    with pytest.raises(ValueError, match="finite"):
        Judgement(reward=math.inf)


def test_the_unscored_have_no_vote_in_the_baseline() -> None:
    found = group_advantages([1.0, None, 0.0, 0.0, 1.0, 1.0], ["a"] * 4 + ["b"] * 2)
    assert found == [pytest.approx(2 / 3), None, *[pytest.approx(-1 / 3)] * 2, 0.0, 0.0]


def test_injected_failures_bias_no_advantage() -> None:
    """The mean over what was judged estimates the group's mean; a fake zero pulls it down."""
    with_zeros = biased = 0.0
    for texts in injected(groups=200, size=8, share=0.1):
        rewards = [None if "fails" in one else float("5" in one) for one in texts]
        fair = group_advantages(rewards, ["g"] * 8, Estimator.DR_GRPO)
        assert math.fsum(one for one in fair if one is not None) == pytest.approx(0.0, abs=1e-12)
        zeros = group_advantages([reward or 0.0 for reward in rewards], ["g"] * 8)
        for right, wrong in zip(fair, zeros, strict=True):
            if right is not None and wrong is not None:
                with_zeros += wrong
                biased += right
    assert biased == pytest.approx(0.0, abs=1e-9)
    assert with_zeros > 50  # 1,600 samples, each pushed up by about 0.05


class Array:
    """What numpy's arrays and scalars, torch's tensors and pandas' series have in common."""

    def __init__(self, values: object) -> None:
        self._values = values

    def tolist(self) -> object:
        return self._values


class Unavailable:
    """As pandas' NA."""

    def __ne__(self, other: object) -> bool:
        raise TypeError("the truth of NA is not known")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("missing", [None, math.nan, Unavailable(), Array(math.nan)])
def test_a_missing_label_is_none_in_all_forms_of_data_frames(missing: object) -> None:
    # As a gold answer "nan" it would give each response of the row a reward of 0.
    assert reference_of(missing) == reference_of([missing]) == reference_of([]) == {}
    assert reference_of(["5", missing]) == {"answers": ["5"]}


def test_a_row_has_the_first_label_that_is_not_missing() -> None:
    assert row_label({"reference": math.nan, "expected_answer": None, "answer": "5"}) == "5"


def test_labels_of_arrays_and_bytes_are_their_members_and_text() -> None:
    assert reference_of(Array(["5", "6"])) == reference_of(("5", "6")) == {"answers": ["5", "6"]}
    assert reference_of(Array(5)) == reference_of(b"5") == reference_of({"5"}) == {"answers": ["5"]}
    nested = {"tests": Array([{"stdin": Array("1"), "stdout": b"2"}])}
    assert reference_of(nested) == {"tests": [{"stdin": "1", "stdout": "2"}]}


def test_labels_and_responses_in_the_forms_of_trainers() -> None:
    assert reference_of(5) == reference_of("5") == reference_of(["5"]) == {"answers": ["5"]}
    assert reference_of('{"tests": []}') == reference_of({"tests": []}) == {"tests": []}
    assert reference_of("{1, 2}") == {"answers": ["{1, 2}"]}
    assert response_text("x") == response_text([{"role": "assistant", "content": "x"}]) == "x"
    assert response_text([{"content": [{"type": "text", "text": "x"}]}]) == "x"
    assert response_text([{"role": "assistant", "content": None, "tool_calls": []}]) == ""
