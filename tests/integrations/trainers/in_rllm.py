"""Runs episodes of one task by rLLM's own AgentFlowEngine, scored by the example's evaluator.

`in_rllm.py PATH TEXTS`. In place of rLLM's gateway to an inference engine, responses are given.
Prints, as JSON, the rewards and advantages of the group that rLLM's transformation makes, and the
attempts.
"""

import asyncio
import importlib
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from rllm.engine.agentflow_engine import AgentFlowEngine
from rllm.trainer.algorithms.advantage import collect_reward_and_advantage_from_trajectory_groups
from rllm.trainer.algorithms.config import AlgorithmConfig, CompactFilteringConfig, TransformConfig
from rllm.trainer.algorithms.transform import transform_episodes_to_trajectory_groups
from rllm.types import Episode, Step, Task, Trajectory

from assay.integrations.scorer import close


class Gateway:
    """No inference engine, so no traces: rLLM then takes the flow's own steps."""

    def get_session_url(self, uid: str, **_: object) -> str:
        return f"http://127.0.0.1:9/{uid}"

    async def aget_traces(self, _uid: str) -> list[Any]:
        return []

    async def adelete_session(self, _uid: str) -> None:
        pass

    async def adelete_sessions(self, _uids: list[str]) -> None:
        pass


class Flow:
    """Says the text of the rollout's number."""

    name = "solver"

    def __init__(self, texts: tuple[str, ...]) -> None:
        self.texts = texts
        self.attempts: Counter[int] = Counter()

    async def arun(self, task: Task, config: Any) -> Episode:
        at = int(config.session_uid.rpartition(":")[2])
        self.attempts[at] += 1
        step = Step(model_response=self.texts[at])
        return Episode(task=task.metadata, trajectories=[Trajectory(name=self.name, steps=[step])])


def main(path: str, *texts: str) -> None:
    sys.path.insert(0, str(Path(path).parent))
    evaluator = importlib.import_module(Path(path).stem).evaluator
    flow = Flow(texts)
    engine = AgentFlowEngine(
        flow, evaluator, Gateway(), "given", retry_limit=2, raise_on_error=False
    )
    task = Task(id="t", instruction="2 + 3?", metadata={"ground_truth": "5"})
    count = len(texts)
    episodes = asyncio.run(engine.execute_tasks([task] * count, ["t"] * count))
    engine.shutdown()
    evaluator.scorer.close()
    close()
    groups, _ = transform_episodes_to_trajectory_groups(
        episodes, TransformConfig(), CompactFilteringConfig()
    )
    algorithm = AlgorithmConfig(norm_adv_by_std_in_grpo=False)
    collect_reward_and_advantage_from_trajectory_groups(groups, algorithm)
    print(
        json.dumps(
            {
                "rewards": [[one.reward for one in group.trajectories] for group in groups],
                "advantages": [
                    [one.steps[0].advantage for one in group.trajectories] for group in groups
                ],
                "attempts": [flow.attempts[at] for at in range(count)],
                "ended": [str(one.termination_reason.value) for one in episodes],
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
