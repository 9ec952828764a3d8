"""Problems of the Tinker cookbook, with a stand-in for its `ProblemEnv` and its group rollout."""

import asyncio
import pickle
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from tests.integrations.stand_in import ADVANTAGES, BASELINE, DEADLINE_S, LIMIT, Judge

from assay.integrations.environments.tinker import Scored, UnscoredError
from assay.integrations.scorer import close


class Renderer:
    """Parses an action, which is the text here, into a message with parts."""

    def parse_response(self, action: str) -> tuple[dict[str, Any], object]:
        parts = [{"type": "thinking", "thinking": "5?"}, {"type": "text", "text": action}]
        return {"role": "assistant", "content": parts}, object()


class ProblemEnv:
    """What `tinker_cookbook.rl.problem_env.ProblemEnv` makes of a response."""

    def __init__(self, renderer: Renderer, format_coef: float = 0.1) -> None:
        self.renderer, self.format_coef = renderer, format_coef

    async def step(self, action: str, *, extra: object = None) -> SimpleNamespace:
        own: Any = self
        correct_format = float(own.check_format(action))
        correct_answer = float(own.check_answer(action))
        reward = self.format_coef * (correct_format - 1) + correct_answer
        return SimpleNamespace(reward=reward, metrics={"correct": correct_answer}, extra=extra)


class Problem(Scored, ProblemEnv):
    """As in the example."""


async def test_a_response_that_was_not_judged_leaves_its_group(judge: Judge) -> None:
    scoring = {"pipeline": "math", "step_size": 5, "deadline_s": DEADLINE_S}
    make = partial(Problem, Renderer(), "2 + 3?", "5", scoring=scoring)
    assert make().get_question() == "2 + 3?"
    pickle.loads(pickle.dumps(make))  # the cookbook sends builders to other processes
    texts = [*BASELINE, LIMIT]
    ended = await asyncio.gather(
        *(make().step(text, extra={"stop_reason": "stop"}) for text in texts),
        return_exceptions=True,
    )
    await asyncio.to_thread(close)
    assert [isinstance(one, UnscoredError) for one in ended] == [False, True, False, False, False]
    assert "INFRA_FAILED" in str(ended[1])
    rewards = [one.reward for one in ended if isinstance(one, SimpleNamespace)]
    assert rewards.pop() == 0.0, "a limit that the response broke is a reward"
    # As the cookbook's `MinViableGroup` and `compute_advantages` do it.
    mean = sum(rewards) / len(rewards)
    assert [reward - mean for reward in rewards] == pytest.approx(ADVANTAGES)
    assert len(judge.batches) == 1
    assert judge.budgets_s == {DEADLINE_S}
    assert judge.claims[0].response.decode() in texts
