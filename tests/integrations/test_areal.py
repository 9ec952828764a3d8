"""AReaL's workflow, called as AReaL calls it; with a stand-in for its `RLVRWorkflow`."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.integrations.stand_in import ADVANTAGES, BASELINE, DEADLINE_S, Judge

from assay.core.errors import InvalidRequest
from assay.integrations.trainers.areal import Scored, whole_group


class RLVRWorkflow:
    """What `areal.workflow.rlvr.RLVRWorkflow` does with its reward; the engine writes text."""

    def __init__(self, reward_fn: Callable[..., float], gconfig: object) -> None:
        self.gconfig = gconfig
        self.async_reward_fn: Callable[..., Any] = reward_fn

    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> dict[str, list[float]]:
        text = next(engine)
        return {"rewards": [await self.async_reward_fn("2+3?", text, [1], [2], **data)]}


class Workflow(Scored, RLVRWorkflow):
    """As in the example."""


async def test_an_unscored_episode_is_rejected(judge: Judge) -> None:
    workflow = Workflow(
        gconfig=None, scoring="math", options={"step_size": 4, "deadline_s": DEADLINE_S}
    )
    engine, row = iter(BASELINE), {"messages": [], "answer": "5"}
    episodes = await asyncio.gather(*(workflow.arun_episode(engine, row) for _ in BASELINE))
    with pytest.raises(InvalidRequest, match="no column 'answer'"):
        await workflow.arun_episode(iter(BASELINE), {"messages": []})
    await asyncio.to_thread(workflow.scorer.close)
    assert episodes[1] is None
    # As AReaL joins the episodes of a group: those that are not None.
    rewards = [reward for one in episodes if one is not None for reward in one["rewards"]]
    mean = sum(rewards) / len(rewards)
    assert [reward - mean for reward in rewards] == pytest.approx(ADVANTAGES)
    assert len(judge.batches) == 1
    assert judge.budgets_s == {DEADLINE_S}
    assert whole_group(3)({"rewards": rewards})
    assert not whole_group(4)({"rewards": rewards})
