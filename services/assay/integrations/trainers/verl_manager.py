"""A reward manager of verl, which loads it by its path:

    reward.reward_manager.source=importlib
    reward.reward_manager.name=RewardManager
    reward.reward_manager.module.path=pkg://assay.integrations.trainers.verl_manager
    +reward.custom_reward_function.reward_kwargs.pipeline=math

As verl's `naive` with `compute_score` of the module `verl`, but the group is the sample's `uid`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase

from assay.integrations.trainers.verl import score_row


class RewardManager(RewardManagerBase):  # type: ignore[misc]
    """Scores the last sequence of a sample, as verl's managers do."""

    def __init__(self, config: Any, tokenizer: Any, compute_score: Any = None, **_: Any) -> None:
        """Make a manager; `compute_score` and models of verl's own are not used."""
        super().__init__(config, tokenizer, compute_score)
        function = config.reward.get("custom_reward_function") or {}
        self._options = dict(function.get("reward_kwargs") or {})

    async def run_single(self, data: Any) -> dict[str, Any]:
        """Score one sample.

        Returns:
            `reward_score`, and `reward_extra_info` with the same keys for every sample.
        """
        last = data[-1:][0]
        ids = last.batch["responses"]
        length = int(last.batch["attention_mask"][-ids.shape[-1] :].sum())
        text = await asyncio.to_thread(
            self.tokenizer.decode, ids[:length], skip_special_tokens=True
        )
        found = await score_row(last.non_tensor_batch, text, self._options)
        return {"reward_score": found["score"], "reward_extra_info": found}
