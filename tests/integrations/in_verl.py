"""Scores responses in verl: its own loader of reward functions, its own reward manager and GRPO.

Run as a program with the path of the example, so that nothing of verl reaches the tests' process.
Prints, as JSON, the results and the advantages of the responses as one group.
"""

import asyncio
import json
import sys

import numpy as np
import torch
from omegaconf import OmegaConf
from verl import DataProto
from verl.experimental.reward_loop.reward_manager.naive import NaiveRewardManager
from verl.trainer.ppo.reward import get_custom_reward_fn

WIDTH = 64


class Characters:
    """A tokenizer whose ids are code points."""

    def decode(self, ids: torch.Tensor, **_: object) -> str:
        return "".join(map(chr, ids.tolist()))


def one_response(text: str) -> DataProto:
    """A batch of one response, as the rollout workers hand it to the reward manager."""
    ids = torch.zeros((1, WIDTH), dtype=torch.long)
    ids[0, : len(text)] = torch.tensor([ord(letter) for letter in text])
    columns = {
        "data_source": np.array(["gsm8k"], dtype=object),
        "reward_model": np.array([{"ground_truth": "5"}], dtype=object),
        "extra_info": np.array([{}], dtype=object),
    }
    mask = (ids > 0).long()
    return DataProto.from_dict(
        tensors={"responses": ids, "attention_mask": mask}, non_tensors=columns
    )


def advantages(scores: list[float], infra_failed: list[float]) -> list[float]:
    """One group's advantages, by what verl's trainers call once the baseline is installed."""
    from assay.integrations.trainers.verl import install_baseline

    install_baseline()
    from verl.trainer.ppo.ray_trainer import AdvantageEstimator, compute_advantage

    count = len(scores)
    rewards = torch.zeros((count, 3))
    rewards[:, 1] = torch.tensor(scores)
    data = DataProto.from_dict(
        tensors={
            "token_level_rewards": rewards,
            "response_mask": torch.tensor([[1, 1, 0]] * count),
        },
        non_tensors={
            "uid": np.array(["g"] * count, dtype=object),
            "infra_failed": np.array(infra_failed),
        },
    )
    found = compute_advantage(
        data, adv_estimator=AdvantageEstimator.GRPO, norm_adv_by_std_in_grpo=False
    )
    return list(found.batch["advantages"][:, 0].tolist())


async def main(path: str, *texts: str) -> None:
    function = {"path": path, "name": "compute_score"}
    config = OmegaConf.create({"reward": {"custom_reward_function": function}})
    manager = NaiveRewardManager(config, Characters(), get_custom_reward_fn(config))
    results = await asyncio.gather(*(manager.run_single(one_response(text)) for text in texts))
    scores = [float(one["reward_score"]) for one in results]
    failed = [one["reward_extra_info"]["infra_failed"] for one in results]
    print(
        json.dumps({"scores": scores, "failed": failed, "advantages": advantages(scores, failed)})
    )


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
