"""Advantages of one group by the trainer that verl runs by default, from its TransferQueue.

`in_verl_v1.py [--colocated] TEXTS`: scores the responses by the adapter's function, puts them into
the queue as verl's agent loops do, and lets `PPOTrainer._compute_advantage` work there. With
`--colocated` it is the trainer that has them scored, as it does beside a reward model on its own
GPUs, by a reward manager that knows the label (verl hands none on there). Prints, as JSON, the
scores and advantages. `VERL_USE_EXTERNAL_MODULES` installs the baseline, as in a user's run.
"""

import asyncio
import json
import os
import sys
from types import SimpleNamespace
from typing import Any

os.environ["VERL_USE_EXTERNAL_MODULES"] = "assay.integrations.trainers.verl_baseline"

import ray
import torch
import transfer_queue as tq
from omegaconf import OmegaConf
from verl.experimental.reward_loop.reward_loop import RewardLoopManager
from verl.experimental.reward_loop.reward_manager import NaiveRewardManager
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


def row(text: str, found: dict[str, Any] | None) -> dict[str, Any]:
    """The columns of `AgentLoopOutput.as_dict` that the trainer reads; a token is a letter."""
    rewards = torch.zeros(len(text))
    if found is not None:
        rewards[-1] = found["score"]
    return {
        "uid": "g",
        "prompts": torch.tensor([1]),
        "responses": torch.tensor([ord(letter) for letter in text]),
        "raw_prompt": [{"role": "user", "content": "2 + 3?"}],
        "response_mask": torch.ones(len(text), dtype=torch.int64),
        "rm_scores": rewards,
        "rollout_log_probs": torch.zeros(len(text)),
        "old_log_probs": torch.zeros(len(text)),
        "extra_fields": {} if found is None else {"reward_extra_info": found},
    }


async def scored(texts: list[str]) -> list[dict[str, Any]]:
    options: dict[str, Any] = {"pipeline": "math", "step_size": len(texts)}
    ask = [compute_score(solution_str=text, ground_truth="5", **options) for text in texts]
    return list(await asyncio.gather(*ask))


@ray.remote
class Worker:
    """In place of `RewardLoopWorker`, which needs a model and its tokenizer."""

    def compute_score_batch(self, data: Any) -> list[dict[str, Any]]:
        rows = data.batch["responses"].tolist()
        texts = ["".join(chr(one) for one in row if one) for row in rows]
        found = asyncio.run(scored(texts))
        close()
        return [{"reward_score": one["score"], "reward_extra_info": one} for one in found]


def score_beside_a_model(trainer: Any, batch: Any) -> list[dict[str, Any]]:
    """As the step of the trainer does."""
    manager = object.__new__(RewardLoopManager)
    manager.reward_model_manager = None
    manager.reward_manager_cls = NaiveRewardManager
    manager.reward_loop_workers = [Worker.remote()]  # type: ignore[attr-defined]  # ray adds it
    trainer.reward_loop_manager = manager
    trainer.tokenizer = SimpleNamespace(pad_token_id=0)
    trainer._compute_reward_colocate(batch)
    back = tq.kv_batch_get(keys=batch.keys, partition_id="train", select_fields=["rm_scores"])
    return [{"score": float(one.sum())} for one in back["rm_scores"].unbind()]


def main(texts: list[str], *, colocated: bool) -> None:
    found: list[Any] = [None] * len(texts) if colocated else asyncio.run(scored(texts))
    close()
    ray.init(num_cpus=16, include_dashboard=False, log_to_driver=False)  # its storage asks for some
    tq.init(OmegaConf.create({}))
    keys = [f"g_{at}_0" for at in range(len(texts))]
    batch = tq.kv_batch_put(
        keys=keys,
        fields=list_of_dict_to_tensordict(list(map(row, texts, found))),
        tags=[{"status": "success"} for _ in keys],
        partition_id="train",
    )
    trainer = Trainer(len(texts))
    if colocated:
        found = score_beside_a_model(trainer, batch)
    trainer._compute_advantage(batch, {})
    back = tq.kv_batch_get(keys=keys, partition_id="train", select_fields=["advantages"])
    advantages = [float(one[0]) for one in back["advantages"].unbind()]
    tq.close()
    ray.shutdown()
    print(json.dumps({"scores": [one["score"] for one in found], "advantages": advantages}))


if __name__ == "__main__":
    given = sys.argv[1:]
    main([one for one in given if one != "--colocated"], colocated="--colocated" in given)
