"""A reward worker of ROLL, which loads it by its path:

    rewards:
      math_rule:
        worker_cls: assay.integrations.trainers.roll_worker.RewardWorker

Its options are the variables of docs/integrations, in `worker_config.system_envs`. The driver
imports this module to find the class, and installs the normalisation by that.
"""

from __future__ import annotations

from typing import Any

import torch
from roll.distributed.executor.worker import Worker
from roll.distributed.scheduler.decorator import Dispatch, register
from roll.distributed.scheduler.protocol import DataProto
from roll.models.model_providers import default_tokenizer_provider

from assay.integrations.scorer import shared_scorer
from assay.integrations.trainers.roll import install_baseline, rewards_of, scores_of

install_baseline()


class RewardWorker(Worker):  # type: ignore[misc]
    """Rewards of the platform in place of a rule's."""

    def __init__(self, worker_config: Any) -> None:
        """Make a worker; the tokenizer is the model's."""
        super().__init__(worker_config=worker_config)
        self.rank_info.dp_rank = self.rank_info.rank
        self.rank_info.dp_size = self.rank_info.world_size
        self.tokenizer = default_tokenizer_provider(model_args=self.worker_config.model_args)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)  # type: ignore[untyped-decorator]
    def initialize(self, pipeline_config: Any) -> None:
        """Nothing to do."""

    @register(dispatch_mode=Dispatch.DP_MP_COMPUTE, clear_cache=False)  # type: ignore[untyped-decorator]
    def compute_rewards(self, data: Any) -> Any:
        """ROLL's `DataProto` with rewards, scores, and token rewards of 0, as its workers'."""
        texts = self.tokenizer.batch_decode(data.batch["responses"], skip_special_tokens=True)
        rewards = rewards_of(shared_scorer(), texts, data.non_tensor_batch)
        return DataProto.from_dict(
            tensors={
                "token_level_rewards": torch.zeros_like(
                    data.batch["responses"], dtype=torch.float16
                ),
                "response_level_rewards": torch.tensor(rewards, dtype=torch.float16),
                "scores": torch.tensor(scores_of(rewards), dtype=torch.float16),
            }
        )
