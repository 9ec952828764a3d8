"""Scores a step by NeMo-RL's own `calculate_rewards`, with our environment as its Ray actor.

`in_nemo_rl.py PATH TEXTS`, with the path of the example that registers the environment. Prints, as
JSON, the rewards and GRPO's advantages; what NeMo-RL takes a response for that comes alone and is
not judged; and the advantages of a batch whose second sample NeMo-Gym masked.
"""

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import ray
import torch
from nemo_rl.algorithms.advantage_estimator import AdvEstimatorConfig, GRPOAdvantageEstimator
from nemo_rl.distributed.batched_data_dict import BatchedDataDict
from nemo_rl.environments.utils import create_env
from nemo_rl.experience.failures import classify_rollout_failure
from nemo_rl.experience.rollouts import calculate_rewards

PROMPT = "2 + 3?"


def step(texts: tuple[str, ...]) -> Any:
    """A batch as NeMo-RL's rollouts hand it over."""
    logs = [
        [
            {"role": "user", "content": PROMPT, "token_ids": torch.tensor([1, 2])},
            {"role": "assistant", "content": text, "token_ids": torch.tensor([3])},
        ]
        for text in texts
    ]
    return BatchedDataDict(
        {
            "message_log": logs,
            "task_name": ["assay"] * len(texts),
            "extra_env_info": [{"ground_truth": "5"}] * len(texts),
        }
    )


def advantages(rewards: torch.Tensor, **extra: Any) -> list[float]:
    """Of one group, by NeMo-RL's own estimator, with the group's mean as the baseline."""
    config = AdvEstimatorConfig(normalize_rewards=False, use_leave_one_out_baseline=False)
    count = len(rewards)
    found = GRPOAdvantageEstimator(config, None).compute_advantage(
        prompt_ids=torch.ones((count, 2), dtype=torch.long),
        rewards=rewards,
        mask=torch.ones((count, 1)),
        **extra,
    )
    return [float(one) for one in found[:, 0]]


def main(path: str, *texts: str) -> None:
    sys.path.insert(0, str(Path(path).parent))
    importlib.import_module(Path(path).stem)
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    try:
        options = {"pipeline": "math", "quiet_s": 0.1, "url": os.environ["ASSAY_URL"]}
        environments = {"assay": create_env("assay", options)}
        scored = calculate_rewards(step(texts), environments)
        alone = {}
        for text in texts[:2]:
            try:
                alone[text] = calculate_rewards(step((text,)), environments).rewards.tolist()
            except Exception as error:  # noqa: BLE001 - its class is what is asked for
                alone[text] = classify_rollout_failure(error).value
        masked = torch.tensor([1.0, *[0.0] * (len(texts) - 1)])
        batch = {"mask_sample": [at == 1 for at in range(len(texts))]}
        found = {
            "rewards": scored.rewards.tolist(),
            "ended": scored.terminateds.tolist(),
            "advantages": advantages(scored.rewards),
            "alone": list(alone.values()),
            "masked": advantages(masked, repeated_batch=batch),
        }
    finally:
        ray.shutdown()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
