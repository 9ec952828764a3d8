"""Tasks of verifiers v1 and episodes of rLLM, by their call shapes."""

import asyncio
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from tests.integrations.stand_in import ADVANTAGES, BASELINE, DEADLINE_S, LIMIT, Judge

from assay.core.errors import InvalidRequest
from assay.integrations.environments import verifiers
from assay.integrations.scorer import close
from assay.integrations.trainers import rllm


class Sum(verifiers.Scored):
    """As in the example."""

    assay_scoring: ClassVar = {"pipeline": "math", "step_size": 5, "deadline_s": DEADLINE_S}


def advantages(rewards: list[float]) -> list[float]:
    """Reward minus mean over the traces that are left."""
    mean = sum(rewards) / len(rewards)
    return [reward - mean for reward in rewards]


async def test_a_reply_that_was_not_judged_is_an_error_of_its_trace(judge: Judge) -> None:
    data = SimpleNamespace(answer="5", prompt_text="2 + 3?")
    found: list[Any] = await asyncio.gather(
        *(Sum().assay(data, SimpleNamespace(last_reply=text)) for text in (*BASELINE, LIMIT)),
        return_exceptions=True,
    )
    await asyncio.to_thread(close)
    assert isinstance(found.pop(1), verifiers.UnscoredError)
    assert found.pop() == 0.0, "a limit that the response broke is a reward"
    assert advantages(found) == pytest.approx(ADVANTAGES)
    assert len(judge.batches) == 1
    assert judge.budgets_s == {DEADLINE_S}
    with pytest.raises(InvalidRequest) as refused:
        await Sum().assay(SimpleNamespace(), SimpleNamespace(last_reply=""))
    assert refused.value.field == "answer"


def test_the_method_is_marked_as_verifiers_marks_rewards() -> None:
    method: Any = Sum().assay
    assert (method.reward, method.reward_priority, method._vf_weight) == (True, 0, 1.0)


def episode(text: str) -> Any:
    """An episode of one trajectory, by the fields of rLLM's types."""
    step = SimpleNamespace(model_response=text)
    return SimpleNamespace(trajectories=[SimpleNamespace(steps=[step], output=None)])


async def test_an_episode_that_was_not_judged_raises(judge: Judge) -> None:
    evaluator = rllm.Evaluator("math", step_size=4, deadline_s=DEADLINE_S)
    task = SimpleNamespace(id="t", metadata={"answer": "5"})
    found: list[Any] = await asyncio.gather(
        *(asyncio.to_thread(evaluator.reward, task, episode(text)) for text in BASELINE),
        return_exceptions=True,
    )
    await asyncio.to_thread(evaluator.scorer.close)
    assert isinstance(found.pop(1), rllm.UnscoredError)
    assert advantages(found) == pytest.approx(ADVANTAGES)
    assert len(judge.batches) == 1
    assert judge.budgets_s == {DEADLINE_S}
    assert rllm.last_response(SimpleNamespace(trajectories=[])) == ""
    steps = [SimpleNamespace(model_response=text) for text in ("a draft", "the last")]
    several = [SimpleNamespace(steps=steps, output=None), SimpleNamespace(steps=[], output=None)]
    assert rllm.last_response(SimpleNamespace(trajectories=several)) == "the last"
    with pytest.raises(InvalidRequest):
        evaluator.reward(SimpleNamespace(metadata={}), episode(""))
