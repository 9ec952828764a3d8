"""OpenRLHF: a `reward_func` for `--reward.remote_url FILE.py`.

    from assay.integrations.trainers.openrlhf import reward_func

OpenRLHF calls it in a thread per response, with lists of one, so calls share the batch of their
step. It has no word for "not judged"; a reward that is None would end its step. Such a response has
the reward `UNSCORED`, NaN for the dynamic filter's score (no comparison with NaN holds, so
`--algo.dynamic_filtering_enable` replaces the whole group) and `infra_failed` 1.0 in `extra_logs`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from assay.integrations.sample import Sample, group_of, reference_of
from assay.integrations.scorer import shared_scorer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.integrations.judgement import Judgement

UNSCORED: Final = 0.0
"""The number in place of a reward; the group that it is in is dropped by the dynamic filter."""


def judged(
    queries: Sequence[str], prompts: Sequence[str], labels: Sequence[object]
) -> list[Judgement]:
    """Judge what the model wrote: a query is its prompt followed by the response."""
    scorer = shared_scorer()
    samples = [
        Sample(
            response=query.removeprefix(prompt),
            reference=reference_of(label),
            group_id=group_of(prompt),
        )
        for query, prompt, label in zip(queries, prompts, labels, strict=True)
    ]
    if len(samples) == 1:
        return [scorer.judge_one(samples[0])]
    return scorer.judge(samples)


def answer(found: Sequence[Judgement]) -> dict[str, Any]:
    """What OpenRLHF reads, as lists: also the body of an answer to `/get_reward`."""
    return {
        "rewards": [UNSCORED if one.reward is None else one.reward for one in found],
        "scores": [math.nan if one.reward is None else one.reward for one in found],
        "extra_logs": {"infra_failed": [float(not one.scored) for one in found]},
    }


def reward_func(
    queries: Sequence[str], prompts: Sequence[str], labels: Sequence[object], **_: Any
) -> dict[str, Any]:
    """Score responses; tensors of one number per query, as OpenRLHF takes them."""
    import torch

    found = answer(judged(queries, prompts, labels))
    return {
        "rewards": torch.tensor(found["rewards"]),
        "scores": torch.tensor(found["scores"]),
        "extra_logs": {name: torch.tensor(values) for name, values in found["extra_logs"].items()},
    }
