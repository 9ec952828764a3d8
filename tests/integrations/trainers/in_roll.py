"""Scores a batch by our worker as ROLL's own class, and normalises by ROLL's pipeline.

`in_roll.py TEXTS`. The worker runs in this process beside a local Ray, with a tokenizer whose ids
are code points. Prints, as JSON, its rewards and scores, what ROLL's `reward_postprocess` makes of
them as one group, and which responses are left in the loss. Run by `without_gpu.py`.
"""

import json
import math
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import ray
import torch
from roll.configs.worker_config import WorkerConfig
from roll.distributed.scheduler.protocol import DataProto
from roll.pipeline.rlvr import rlvr_pipeline
from roll.utils.constants import RAY_NAMESPACE

from assay.integrations.scorer import close
from assay.integrations.trainers import roll_worker

WIDTH = 64


class Characters:
    """A tokenizer whose ids are code points."""

    def batch_decode(self, rows: torch.Tensor, **_: object) -> list[str]:
        return ["".join(map(chr, filter(None, row))) for row in rows.tolist()]


def batch_of(texts: tuple[str, ...]) -> DataProto:
    """Responses to one prompt, as the scheduler hands them to a reward worker."""
    ids = torch.zeros((len(texts), WIDTH), dtype=torch.long)
    for row, text in zip(ids, texts, strict=True):
        row[: len(text)] = torch.tensor([ord(letter) for letter in text])
    return DataProto.from_dict(
        tensors={"responses": ids, "response_mask": (ids > 0).long()},
        non_tensors={
            "ground_truth": np.array(["5"] * len(texts), dtype=object),
            "id": np.array(["p1"] * len(texts), dtype=object),
        },
    )


def pipeline_config(size: int) -> Any:
    """ROLL's, as far as rewards and masks are concerned."""
    return SimpleNamespace(
        adv_estimator="reinforce",
        norm_mean_type="group",
        norm_std_type=None,
        reward_clip=None,
        max_len_mask=False,
        difficulty_mask=False,
        error_max_len_clip=False,
        actor_infer=SimpleNamespace(generating_args=SimpleNamespace(num_return_sequences=size)),
    )


def main(*texts: str) -> None:
    vars(roll_worker)["default_tokenizer_provider"] = lambda **_: Characters()
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        namespace=RAY_NAMESPACE,
        logging_level="ERROR",
        log_to_driver=False,
    )
    try:
        worker = roll_worker.RewardWorker(WorkerConfig())
        data = batch_of(texts)
        judged = worker.compute_rewards(data)
        close()
        rewards = judged.batch["response_level_rewards"].tolist()
        data = data.union(judged)
        chosen = pipeline_config(len(texts))
        data, _ = rlvr_pipeline.get_sample_level_mask(data, chosen)
        data, _ = rlvr_pipeline.reward_postprocess(data, chosen, {})
    finally:
        ray.shutdown()
    print(
        json.dumps(
            {
                "rewards": [None if math.isnan(one) else one for one in rewards],
                "scores": judged.batch["scores"].tolist(),
                "advantages": data.batch["response_level_rewards"].tolist(),
                "kept": [bool(row.any()) for row in data.batch["final_response_mask"]],
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
