"""Scores responses in verl, by its own loaders, its `AgentLoopOutput` and its GRPO.

`in_verl.py PATH TEXTS`: by verl's manager `naive` with the function of the example at `PATH`; by
Assay's manager where `PATH` is `manager`, by its agent loop where it is `loop`. Prints, as JSON,
the results and the advantages of the responses as one group.
"""

import asyncio
import json
import sys
from typing import Any

import numpy as np
import torch
from omegaconf import OmegaConf
from verl import DataProto
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput
from verl.trainer.ppo.reward import load_reward_manager

from assay.integrations.trainers.verl import Scored

WIDTH = 64


class Characters:
    """A tokenizer whose ids are code points."""

    def decode(self, ids: torch.Tensor | list[int], **_: object) -> str:
        return "".join(map(chr, ids))


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


def configuration(path: str, size: int) -> Any:
    """What the flags of the page set, and verl's defaults beside them."""
    kwargs = {"pipeline": "math", "step_size": size}
    function: dict[str, Any] = {"path": path, "name": "compute_score", "reward_kwargs": kwargs}
    manager: dict[str, Any] = {"source": "register", "name": "naive", "module": None}
    if path == "manager":
        function["path"] = None
        module = {"path": "pkg://assay.integrations.trainers.verl_manager"}
        manager = {"source": "importlib", "name": "RewardManager", "module": module}
    return OmegaConf.create(
        {"reward": {"custom_reward_function": function, "reward_manager": manager}}
    )


async def by_manager(path: str, texts: tuple[str, ...]) -> list[dict[str, Any]]:
    manager = load_reward_manager(configuration(path, len(texts)), Characters())
    return list(await asyncio.gather(*(manager.run_single(one_response(text)) for text in texts)))


class Says:
    """In place of a loop that asks a server: its output is verl's own."""

    tokenizer = Characters()

    async def run(self, _sampling_params: Any, *, text: str, **_: Any) -> AgentLoopOutput:
        return AgentLoopOutput(
            prompt_ids=[1],
            response_ids=[ord(letter) for letter in text],
            response_mask=[1] * len(text),
            metrics=AgentLoopMetrics(),
        )


async def by_loop(texts: tuple[str, ...]) -> list[dict[str, Any]]:
    options = {"pipeline": "math", "step_size": len(texts)}
    loop = type("Loop", (Scored, Says), {"assay_scoring": options})()
    row = {"data_source": "gsm8k", "reward_model": {"ground_truth": "5"}, "extra_info": {}}
    outputs = await asyncio.gather(*(loop.run({}, text=text, **row) for text in texts))
    for output in outputs:  # what the trainer reads
        assert output.as_dict()["rm_scores"][-1] == output.reward_score
    return [
        {
            "reward_score": output.reward_score,
            "reward_extra_info": output.extra_fields["reward_extra_info"],
        }
        for output in outputs
    ]


async def main(path: str, *texts: str) -> None:
    results = await by_loop(texts) if path == "loop" else await by_manager(path, texts)
    scores = [float(one["reward_score"]) for one in results]
    failed = [one["reward_extra_info"]["infra_failed"] for one in results]
    print(
        json.dumps({"scores": scores, "failed": failed, "advantages": advantages(scores, failed)})
    )


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
