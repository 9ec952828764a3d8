"""SkyRL-gym's environment as SkyRL's generator calls it, and its advantages."""

import asyncio
import math
from types import SimpleNamespace
from typing import Any

import pytest
from tests.integrations.stand_in import (
    ADVANTAGES,
    BASELINE,
    DEADLINE_S,
    Judge,
    honest_advantages,
    injected,
)

from assay.core.errors import InvalidRequest
from assay.integrations.environments.skyrl import Scored, advantages_of
from assay.integrations.scorer import close

PROMPT = [{"role": "user", "content": "2 + 3?"}]
ROW = {"reward_spec": {"ground_truth": "5"}, "max_turns": 1}


class BaseTextEnv:
    """What `skyrl_gym.envs.base_text_env.BaseTextEnv` does at its construction."""

    def __init__(self) -> None:
        self.turns, self.max_turns = 0, 1


class Environment(Scored, BaseTextEnv):
    """As in the example."""


def episode(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """One response, as `SkyRLGymGenerator.agent_loop` handles it, in a thread."""
    config = SimpleNamespace(pipeline="math", step_size=len(BASELINE), deadline_s=DEADLINE_S)
    environment = Environment(env_config=config, extras=ROW)
    prompt, _ = environment.init(PROMPT)
    assert prompt == PROMPT
    return environment.step(text), environment.get_metrics()


async def test_a_response_that_was_not_judged_has_no_vote(judge: Judge) -> None:
    ended = await asyncio.gather(*(asyncio.to_thread(episode, text) for text in BASELINE))
    await asyncio.to_thread(close)
    steps, metrics = zip(*ended, strict=True)
    assert all(step["done"] and step["observations"] == [] for step in steps)
    rewards = [step["reward"] for step in steps]
    assert math.isnan(rewards[1])
    assert [one["infra_failed"] for one in metrics] == [0.0, 1.0, 0.0, 0.0]
    assert "INFRA_FAILED" in steps[1]["metadata"]["cause"]
    assert len(judge.batches) == 1
    assert judge.budgets_s == {DEADLINE_S}

    found = advantages_of(rewards, ["g"] * 4, epsilon=None)
    assert [found[0], *found[2:]] == pytest.approx(ADVANTAGES)
    assert found[1] == 0.0
    scaled = advantages_of(rewards, ["g"] * 4, epsilon=1e-6)
    assert [one / scaled[0] for one in scaled] == pytest.approx([1.0, 0.0, -0.5, -0.5])


def test_ten_percent_failures_bias_no_advantage() -> None:
    groups = injected(200, 8, 0.1)
    scores = [
        math.nan if honest is None else float("5" in text)
        for texts in groups
        for text, honest in zip(texts, honest_advantages(texts), strict=True)
    ]
    index = [number for number, texts in enumerate(groups) for _ in texts]
    honest = [one or 0.0 for texts in groups for one in honest_advantages(texts)]
    assert advantages_of(scores, index, epsilon=None) == pytest.approx(honest)


def test_groups_of_one_and_groups_with_one_judgement() -> None:
    assert advantages_of([1.0], ["a"], epsilon=None) == [1.0], "as SkyRL does it"
    assert advantages_of([1.0, math.nan], ["a", "a"], epsilon=1e-6) == [0.0, 0.0]
    assert advantages_of([math.nan, math.nan], ["a", "a"], epsilon=1e-6) == [0.0, 0.0]


def test_the_estimator_has_the_form_that_skyrl_calls() -> None:
    torch = pytest.importorskip("torch", reason="SkyRL's tensors")
    from assay.integrations.environments.skyrl import judged_grpo

    mask = torch.tensor([[1.0, 1.0], [1.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    rewards = torch.tensor([[0.0, 1.0], [0.0, math.nan], [0.0, 0.0], [0.0, 0.0]])
    advantages, returns = judged_grpo(
        token_level_rewards=rewards,
        response_mask=mask,
        index=["g"] * 4,
        values=None,
        config=None,
        gamma=1.0,
        lambd=1.0,
        grpo_norm_by_std=False,
    )
    wanted = torch.tensor([[2 / 3, 2 / 3], [0.0, 0.0], [-1 / 3, 0.0], [-1 / 3, -1 / 3]])
    assert torch.allclose(advantages, wanted)
    assert returns is advantages


def test_a_row_without_a_label_is_named() -> None:
    with pytest.raises(InvalidRequest, match=r"reward_spec\.ground_truth"):
        Environment(extras={"reward_spec": {}})
