"""Advantages of one group by the trainer that verl runs by default, from its TransferQueue.

`in_verl_v1.py TEXTS`: scores the responses by the adapter's function, puts them into the queue as
verl's agent loops do, and lets `PPOTrainer._compute_advantage` work there. Prints, as JSON, the
scores and advantages. `VERL_USE_EXTERNAL_MODULES` installs the baseline, as in a user's run.
"""

import asyncio
import json
import os
import sys
from typing import Any

os.environ["VERL_USE_EXTERNAL_MODULES"] = "assay.integrations.trainers.verl_baseline"

import ray
import torch
import transfer_queue as tq
from omegaconf import OmegaConf
from verl.trainer.ppo.v1.trainer_base import PPOTrainer
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from assay.integrations.scorer import close
from assay.integrations.trainers.verl import compute_score

ALGORITHM = {
    "adv_estimator": "grpo",
    "gamma": 1.0,
    "lam": 1.0,
    "norm_adv_by_std_in_grpo": False,
    "use_kl_in_reward": False,
}


class Trainer(PPOTrainer):  # type: ignore[misc]  # verl has no types
    """Without workers, data and a model."""

    def __init__(self, count: int) -> None:
        rollout = {"rollout": {"n": count}}
        self.config = OmegaConf.create({"algorithm": ALGORITHM, "actor_rollout_ref": rollout})


Trainer.__abstractmethods__ = frozenset()


def row(found: dict[str, Any], length: int) -> dict[str, Any]:
    """The columns of `AgentLoopOutput.as_dict` that the trainer reads."""
    rewards = torch.zeros(length)
    rewards[-1] = found["score"]
    return {
        "uid": "g",
        "response_mask": torch.ones(length, dtype=torch.int64),
        "rm_scores": rewards,
        "rollout_log_probs": torch.zeros(length),
        "old_log_probs": torch.zeros(length),
        "extra_fields": {"reward_extra_info": found},
    }


async def scored(texts: list[str]) -> list[dict[str, Any]]:
    options: dict[str, Any] = {"pipeline": "math", "step_size": len(texts)}
    ask = [compute_score(solution_str=text, ground_truth="5", **options) for text in texts]
    return list(await asyncio.gather(*ask))


def main(texts: list[str]) -> None:
    found = asyncio.run(scored(texts))
    close()
    ray.init(num_cpus=16, include_dashboard=False, log_to_driver=False)  # its storage asks for some
    tq.init(OmegaConf.create({}))
    keys = [f"g_{at}_0" for at in range(len(texts))]
    rows = [row(one, 2 + at % 2) for at, one in enumerate(found)]
    batch = tq.kv_batch_put(
        keys=keys,
        fields=list_of_dict_to_tensordict(rows),
        tags=[{"status": "success"} for _ in keys],
        partition_id="train",
    )
    Trainer(len(texts))._compute_advantage(batch, {})
    back = tq.kv_batch_get(keys=keys, partition_id="train", select_fields=["advantages"])
    advantages = [float(one[0]) for one in back["advantages"].unbind()]
    tq.close()
    ray.shutdown()
    print(json.dumps({"scores": [one["score"] for one in found], "advantages": advantages}))


if __name__ == "__main__":
    main(sys.argv[1:])
