"""The reward functions and the environment of TRL, called as TRL 1.16 calls them."""

import asyncio
import pickle
from typing import Any

import pytest
from tests.integrations.stand_in import ADVANTAGES, BASELINE, DEADLINE_S, FAILS, RIGHT, WRONG, Judge

from assay.core.errors import InvalidRequest
from assay.integrations import group_advantages
from assay.integrations.trainers.trl import AsyncReward, Reward, SubmitEnvironments


def short(completions: list[Any], **_columns: Any) -> list[float | None]:
    return [0.1 * len(completion) for completion in completions]


async def called(reward: Reward, completions: list[Any], **columns: Any) -> list[float | None]:
    arguments: dict[str, Any] = {
        "prompts": ["2 + 3?"] * len(completions),
        "completions": completions,
        "completion_ids": [[1]] * len(completions),
        "answer": ["5"] * len(completions),
        "trainer_state": None,
        "log_extra": None,
        **columns,
    }
    if isinstance(reward, AsyncReward):
        return await reward(**arguments)
    return await asyncio.to_thread(reward, **arguments)


@pytest.mark.parametrize("kind", [Reward, AsyncReward])
async def test_the_unscored_are_none_in_one_batch(judge: Judge, kind: type[Reward]) -> None:
    metrics: dict[str, float] = {}
    reward = pickle.loads(pickle.dumps(kind("math", deadline_s=DEADLINE_S)))
    rewards = await called(reward, list(BASELINE), log_metric=metrics.__setitem__)
    await asyncio.to_thread(reward.scorer.close)
    assert rewards == [1.0, None, 0.0, 0.0]
    fair = [one for one in group_advantages(rewards, ["g"] * 4) if one is not None]
    assert fair == pytest.approx(ADVANTAGES)
    assert metrics["assay/unscored_share"] == metrics["assay/unscored_share/INFRA_FAILED"] == 0.25
    assert len(judge.batches) == 1
    assert judge.budgets_s == {DEADLINE_S}
    assert len(judge.groups) == 1


@pytest.mark.parametrize("kind", [Reward, AsyncReward])
async def test_another_reward_gives_an_unscored_sample_no_value(
    judge: Judge, kind: type[Reward]
) -> None:
    reward = kind("math", reference=lambda row: row["answer"], also=[(short, 0.5)])
    chat = [[{"role": "assistant", "content": text}] for text in (RIGHT, FAILS)]
    assert await called(reward, chat) == [pytest.approx(1.05), None]
    missing = kind("math", reference="gold")
    with pytest.raises(InvalidRequest, match="gold"):
        await called(missing, chat)
    await asyncio.to_thread(reward.scorer.close)


async def test_environments_own_their_reward_and_share_the_batch(judge: Judge) -> None:
    make = pickle.loads(
        pickle.dumps(SubmitEnvironments("math", step_size=4, deadline_s=DEADLINE_S))
    )
    environments = [make() for _ in range(4)]
    for environment, text in zip(environments, [RIGHT, WRONG, FAILS, None], strict=True):
        environment.reset(prompt="2 + 3?", answer="5")
        if text is not None:
            environment.submit(text)
            environment.submit(RIGHT)  # changes nothing
    found = [await asyncio.to_thread(environment.get_reward) for environment in environments]
    # Without a submission the empty answer is judged: the model's fault is a reward.
    assert found == [1.0, 0.0, None, 0.0]
    assert len(judge.batches) == 1
    assert judge.budgets_s == {DEADLINE_S}
    await asyncio.to_thread(make.scorer.close)
