"""OpenRLHF's function, rLLM's evaluator and OpenEnv's observation, called as their systems do."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import ClassVar

import pytest
from tests.integrations.stand_in import ADVANTAGES, BASELINE, DEADLINE_S, Judge

from assay.core.errors import InvalidRequest
from assay.integrations.environments import openenv
from assay.integrations.judgement import Judgement, unscored
from assay.integrations.scorer import close
from assay.integrations.trainers import openrlhf, rllm


def _centred(rewards: Sequence[float | None]) -> list[float]:
    """Reward minus mean, over those that are there."""
    judged = [reward for reward in rewards if reward is not None]
    return [reward - sum(judged) / len(judged) for reward in judged]


async def test_openrlhf_hears_of_no_score_where_nothing_was_judged(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists of one, each in a thread of its own, are one batch; so are longer ones."""
    monkeypatch.setenv("ASSAY_STEP_SIZE", "4")
    monkeypatch.setenv("ASSAY_DEADLINE_S", str(DEADLINE_S))
    queries = [f"2 + 3? {text}" for text in BASELINE]

    def alone(query: str) -> list[Judgement]:
        return openrlhf.judged([query], ["2 + 3? "], ["5"])

    found = [
        one
        for several in await asyncio.gather(*(asyncio.to_thread(alone, one) for one in queries))
        for one in several
    ]
    assert len(judge.batches) == 1
    together = await asyncio.to_thread(openrlhf.judged, queries, ["2 + 3? "] * 4, ["5"] * 4)
    await asyncio.to_thread(close)
    assert len(judge.batches) == 2
    assert judge.budgets_s == {DEADLINE_S}
    assert sorted({claim.response.decode() for claim in judge.claims}) == sorted(set(BASELINE))
    assert together == found
    answer = openrlhf.answer(found)
    assert answer["rewards"] == [1.0, 0.0, 0.0, 0.0]
    assert answer["extra_logs"]["infra_failed"] == [0.0, 1.0, 0.0, 0.0]
    assert not 0.0 < sum(answer["scores"]) / 4 < 1.0, "its dynamic filter drops the group"
    scores = [None if math.isnan(one) else one for one in answer["scores"]]
    assert _centred(scores) == pytest.approx(ADVANTAGES)


async def test_rllms_evaluator_raises_where_nothing_was_judged(judge: Judge) -> None:
    evaluator = rllm.Evaluator("math", step_size=4)
    task = SimpleNamespace(id="p1", metadata={"answer": "5"})

    def reward(text: str) -> float | None:
        step = SimpleNamespace(model_response=text)
        episode = SimpleNamespace(trajectories=[SimpleNamespace(steps=[step], output=None)])
        try:
            return evaluator.reward(task, episode)
        except rllm.UnscoredError:
            return None

    rewards = await asyncio.gather(*(asyncio.to_thread(reward, text) for text in BASELINE))
    with pytest.raises(InvalidRequest, match="no 'answer'"):
        evaluator.reward(SimpleNamespace(metadata={}), SimpleNamespace(trajectories=[]))
    await asyncio.to_thread(evaluator.scorer.close)
    assert rewards[1] is None
    assert _centred(rewards) == pytest.approx(ADVANTAGES)


async def test_openenvs_observation_has_no_reward_where_nothing_was_judged(judge: Judge) -> None:
    class Sums(openenv.Scored):
        assay_scoring: ClassVar[Mapping[str, object]] = {
            "pipeline": "math",
            "step_size": 4,
            "deadline_s": DEADLINE_S,
        }

    told = await asyncio.gather(*(Sums().assay(text, label="5", prompt="q") for text in BASELINE))
    ask = partial(Sums().assay_sync, label="5", prompt="q")
    by_threads = await asyncio.gather(*(asyncio.to_thread(ask, text) for text in BASELINE))
    assert by_threads == told
    await asyncio.to_thread(close)
    assert len(judge.batches) == 2
    assert judge.budgets_s == {DEADLINE_S}
    rewards = [one["reward"] for one in told]
    assert rewards[1] is None
    assert "INFRA_FAILED" in told[1]["metadata"]["error"]
    assert _centred(rewards) == pytest.approx(ADVANTAGES)
    assert openenv.told(unscored("EXPIRED"))["metadata"]["outcome"] == "EXPIRED"
