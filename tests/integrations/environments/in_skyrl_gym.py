"""Runs the example's environment, made by skyrl-gym's own registry.

Run as a program with the path of the example and the responses. Prints, as JSON, what the steps
returned, how skyrl-gym averages the metrics, and the advantages of the group.
"""

import asyncio
import importlib
import json
import math
import sys
from pathlib import Path
from typing import Any

import skyrl_gym
from skyrl_gym.envs import register

from assay.integrations.environments.skyrl import advantages_of
from assay.integrations.scorer import close

PROMPT = [{"role": "user", "content": "2 + 3?"}]
EXTRAS = {"reward_spec": {"method": "rule", "ground_truth": "5"}, "max_turns": 1}


def episode(text: str, size: int) -> tuple[Any, Any]:
    config = {"pipeline": "math", "step_size": size}
    environment = skyrl_gym.make("assay", env_config=config, extras=EXTRAS)
    environment.init(PROMPT)
    step = environment.step(text)
    environment.close()
    return step, environment.get_metrics()


async def main(path: str, *texts: str) -> None:
    sys.path.insert(0, str(Path(path).parent))
    environment_class = importlib.import_module("skyrl_environment").Environment
    register(id="assay", entry_point=environment_class)
    ended = await asyncio.gather(*(asyncio.to_thread(episode, one, len(texts)) for one in texts))
    close()
    steps, metrics = zip(*ended, strict=True)
    rewards = [step["reward"] for step in steps]
    found = {
        "rewards": [None if math.isnan(reward) else reward for reward in rewards],
        "done": [step["done"] for step in steps],
        "metrics": environment_class.aggregate_metrics(list(metrics)),
        "advantages": advantages_of(rewards, ["g"] * len(rewards), epsilon=None),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
