"""verl: `compute_score` for its reward loop, and a baseline without fake zeros.

    reward.custom_reward_function.path=pkg://assay.integrations.trainers.verl
    reward.custom_reward_function.name=compute_score
    +reward.custom_reward_function.reward_kwargs.pipeline=math

verl has no word for "not judged". Such a response scores `UNSCORED` with `infra_failed` 1.0, and
every sample has the same keys, which verl reads from the first one. `fill_unscored`, installed by
the module `verl_baseline`, then gives it the mean of what was judged in its group: its advantage is
0 and the group's mean is as if it were absent, under every estimator of verl.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, Final

from assay.integrations.sample import Sample, group_of, reference_of
from assay.integrations.scorer import shared_scorer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from assay.integrations.judgement import Judgement

UNSCORED: Final = 0.0
"""The number in place of a reward; `infra_failed` tells that it is none."""


async def compute_score(
    *,
    data_source: str = "",
    solution_str: str,
    ground_truth: object,
    extra_info: Mapping[str, Any] | None = None,
    **options: Any,
) -> dict[str, float | str]:
    """Score one response; verl passes keywords, and `reward_kwargs` as further ones.

    Args:
        data_source: not used: the pipeline decides.
        solution_str: the response.
        ground_truth: the label.
        extra_info: the row's own; its `index` names the group.
        options: of `Scoring`; what verl adds beside them is ignored.
    """
    group = (extra_info or {}).get("index")
    sample = Sample(
        response=solution_str,
        reference=reference_of(ground_truth),
        group_id="" if group is None else group_of([data_source, str(group)]),
    )
    return keys(await shared_scorer(options).judge_one_async(sample))


def keys(judged: Judgement) -> dict[str, float | str]:
    """The same keys, with values that are never None, for every sample."""
    reward = UNSCORED if judged.reward is None else judged.reward
    return {
        "score": reward,
        "acc": reward,
        "infra_failed": float(not judged.scored),
        "outcome": judged.outcome,
    }


def group_mean_filled(
    scores: Sequence[float], failed: Sequence[bool], group_ids: Sequence[object]
) -> list[float]:
    """Return the scores with the mean of the judged ones of its group for each unscored sample.

    A group of which nothing was judged becomes all `UNSCORED`: equal scores, no advantage.
    """
    judged: dict[object, list[float]] = {}
    for score, is_failed, group_id in zip(scores, failed, group_ids, strict=True):
        if not is_failed:
            judged.setdefault(group_id, []).append(score)
    means = {group_id: math.fsum(found) / len(found) for group_id, found in judged.items()}
    return [
        means.get(group_id, UNSCORED) if is_failed else score
        for score, is_failed, group_id in zip(scores, failed, group_ids, strict=True)
    ]


def fill_unscored(data: Any) -> Any:
    """Fill the unscored samples of a `DataProto` in place, before advantages are computed.

    Their loss is switched off too, where the group gives them no advantage of exactly 0.
    """
    failed = data.non_tensor_batch.get("infra_failed")
    if failed is None or not failed.any():
        return data
    rewards = data.batch["token_level_rewards"]
    sums = rewards.sum(dim=-1).tolist()
    groups = data.non_tensor_batch["uid"].tolist()
    filled = group_mean_filled(sums, [bool(one) for one in failed], groups)
    last = (data.batch["response_mask"].cumsum(dim=-1)).argmax(dim=-1)
    for row, is_failed in enumerate(failed):
        if is_failed:
            rewards[row] = 0.0
            rewards[row, last[row]] = filled[row]
    return data


def install_baseline() -> None:
    """Let verl's trainers fill unscored samples before they compute advantages; repeatable."""
    from verl.trainer.ppo import ray_trainer

    original = ray_trainer.compute_advantage
    if getattr(original, "fills_unscored", False):
        return

    @functools.wraps(original)
    def compute_advantage(data: Any, *arguments: Any, **options: Any) -> Any:
        return original(fill_unscored(data), *arguments, **options)

    compute_advantage.fills_unscored = True  # type: ignore[attr-defined]
    ray_trainer.compute_advantage = compute_advantage
