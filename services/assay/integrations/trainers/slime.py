"""slime: a reward function for one sample or a group, and a baseline without fake zeros.

    --custom-rm-path assay.integrations.trainers.slime.custom_rm
    --custom-reward-post-process-path assay.integrations.trainers.slime.post_process_rewards

slime's word for "not judged" is `status=FAILED` with `remove_sample=True`, which empties the loss
mask; the reward must still be a number. That number would have a vote in the group's mean, so
`post_process_rewards` takes slime's place and computes it over the samples that were judged.
"""

from __future__ import annotations

import asyncio
import math
import statistics
from typing import TYPE_CHECKING, Any, Final, Protocol

from assay.integrations.judgement import group_advantages
from assay.integrations.sample import Sample, group_of, reference_of
from assay.integrations.scorer import shared_scorer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.integrations.judgement import Judgement

UNSCORED: Final = 0.0
"""The number in place of a reward; `remove_sample` marks it as not one."""
MARK: Final = "assay_unscored"
"""The key of a sample's `metadata` with the cause for which it has no reward."""
_SCALED: Final = ("grpo", "gspo", "cispo")
_CENTRED: Final = (*_SCALED, "reinforce_plus_plus_baseline")
_EPSILON: Final = 1e-6


class SlimeSample(Protocol):
    """What is used of `slime.utils.types.Sample`."""

    status: Any
    prompt: Any
    response: str
    label: Any
    group_index: int | None
    remove_sample: bool
    metadata: dict[str, Any]

    def get_reward_value(self, args: Any, /) -> float:
        """The reward as a number."""


async def custom_rm(
    _args: Any, sample: SlimeSample | Sequence[SlimeSample], **_: Any
) -> float | list[float]:
    """Score one sample, or with `--group-rm` those of a group."""
    if isinstance(sample, list | tuple):
        return list(await asyncio.gather(*map(_reward, sample)))
    return await _reward(sample)  # type: ignore[arg-type]


async def _reward(sample: SlimeSample) -> float:
    group = sample.prompt if sample.group_index is None else sample.group_index
    judged = await shared_scorer().judge_one_async(
        Sample(
            response=sample.response,
            reference=reference_of(sample.label),
            group_id=group_of(group),
        )
    )
    return _told(sample, judged)


def _told(sample: SlimeSample, judged: Judgement) -> float:
    if judged.reward is not None:
        return judged.reward
    sample.status = type(sample.status).FAILED
    sample.remove_sample = True
    sample.metadata = {**(sample.metadata or {}), MARK: judged.cause}
    return UNSCORED


def post_process_rewards(
    args: Any, samples: Sequence[SlimeSample], **_: Any
) -> tuple[list[float], list[float]]:
    """Return the raw rewards, and those that slime's estimator takes: 0 where nothing was judged.

    NaN is what the endpoint `/v1/slime/.../rm` answers for a response that was not judged.
    As slime does it (mean, then the deviation plus 1e-6), but over judged samples of a group only.
    """
    raw = [sample.get_reward_value(args) for sample in samples]
    if args.advantage_estimator not in _CENTRED or not args.rewards_normalization:
        return raw, raw
    size = max(1, args.n_samples_per_prompt)
    groups = [
        str(index // size if sample.group_index is None else sample.group_index)
        for index, sample in enumerate(samples)
    ]
    judged = [
        None if MARK in (sample.metadata or {}) or math.isnan(reward) else reward
        for sample, reward in zip(samples, raw, strict=True)
    ]
    centred = group_advantages(judged, groups)
    if args.advantage_estimator in _SCALED and args.grpo_std_normalization:
        centred = _scaled(centred, groups)
    return raw, [0.0 if one is None else one for one in centred]


def _scaled(centred: Sequence[float | None], groups: Sequence[str]) -> list[float | None]:
    members: dict[str, list[float]] = {}
    for value, group in zip(centred, groups, strict=True):
        if value is not None:
            members.setdefault(group, []).append(value)
    deviations = {
        group: statistics.stdev(found) if len(found) > 1 else 0.0
        for group, found in members.items()
    }
    return [
        None if value is None else value / (deviations[group] + _EPSILON)
        for value, group in zip(centred, groups, strict=True)
    ]
