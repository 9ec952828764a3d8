"""Scores three responses in verl: its own loader of reward functions, its own reward manager.

Run as a program with the path of the example, so that nothing of verl reaches the tests' process.
Prints the results as JSON.
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


async def main(path: str, *texts: str) -> None:
    function = {"path": path, "name": "compute_score"}
    config = OmegaConf.create({"reward": {"custom_reward_function": function}})
    manager = NaiveRewardManager(config, Characters(), get_custom_reward_fn(config))
    results = await asyncio.gather(*(manager.run_single(one_response(text)) for text in texts))
    print(json.dumps([[one["reward_score"], one["reward_extra_info"]] for one in results]))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
