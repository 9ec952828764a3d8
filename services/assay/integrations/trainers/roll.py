"""ROLL: rewards of a worker's batch, and a normalisation without fake zeros.

    rewards: math: worker_cls: assay.integrations.trainers.roll_worker.RewardWorker

ROLL has no word for "not judged". Such a response has the reward NaN among the rewards and 0 among
the scores. `install_baseline`, which the worker's module calls, fills NaN with the mean of what was
judged in the group before ROLL normalises rewards, and takes the response out of the loss.
"""

from __future__ import annotations

import functools
import math
import statistics
import sys
from typing import TYPE_CHECKING, Any, Final

from assay.core.errors import InvalidRequest
from assay.integrations.sample import Sample, group_of, reference_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from assay.integrations.scorer import Scorer

UNSCORED: Final = 0.0
"""Among the scores, which ROLL logs and filters by."""
LABELS: Final = ("reward_ref_info", "ground_truth", "test_cases")
"""Columns that hold what to judge by, in this order."""

PIPELINES: Final = ("roll.pipeline.rlvr.rlvr_pipeline", "roll.pipeline.rlvr.rlvr_vlm_pipeline")


def rewards_of(
    scorer: Scorer, responses: Sequence[str], columns: Mapping[str, Sequence[Any]]
) -> list[float]:
    """Judge the responses of a worker's batch as one batch; NaN where there is no reward.

    Args:
        scorer: of the worker.
        responses: texts without special tokens.
        columns: `non_tensor_batch`; `id` names the group.

    Raises:
        InvalidRequest: no column of `LABELS` is there.
    """
    name = next((one for one in LABELS if one in columns), None)
    if name is None:
        message = f"{LABELS[1]}: the batch has no column of that name, nor {LABELS[0]}, {LABELS[2]}"
        raise InvalidRequest(message, field=LABELS[1])
    names = columns.get("id")
    samples = [
        Sample(
            response=response,
            reference=reference_of(_tests(label) if name == LABELS[2] else label),
            group_id="" if names is None else group_of(str(names[at])),
        )
        for at, (response, label) in enumerate(zip(responses, columns[name], strict=True))
    ]
    judged = scorer.judge(samples) if len(samples) > 1 else [scorer.judge_one(samples[0])]
    return [math.nan if one.reward is None else one.reward for one in judged]


def _tests(label: object) -> object:
    """ROLL's column of tests, which is a list or its JSON text."""
    return {"tests": label} if isinstance(label, list) else label


def scores_of(rewards: Sequence[float]) -> list[float]:
    """What ROLL logs as scores."""
    return [UNSCORED if math.isnan(one) else one for one in rewards]


def group_filled(rewards: Sequence[float], size: int) -> list[float]:
    """The rewards of consecutive groups of `size`, NaN replaced by the mean of its group.

    A group of which nothing was judged becomes all `UNSCORED`: equal rewards, no advantage.
    """
    size = size if size > 0 else max(1, len(rewards))
    found: list[float] = []
    for start in range(0, len(rewards), size):
        group = rewards[start : start + size]
        judged = [one for one in group if not math.isnan(one)]
        mean = statistics.fmean(judged) if judged else UNSCORED
        found += [mean if math.isnan(one) else one for one in group]
    return found


def fill_unscored(data: Any, size: int) -> Any:
    """Fill the rewards of a `DataProto` in place; unscored rows leave the loss.

    Args:
        data: rows in the order of their groups, as ROLL hands them to `reward_postprocess`.
        size: responses per prompt.
    """
    rewards = data.batch["response_level_rewards"]
    values = rewards.float().tolist()
    rows = [at for at, value in enumerate(values) if math.isnan(value)]
    if rows:
        data.batch["response_level_rewards"] = rewards.new_tensor(group_filled(values, size))
        if "final_response_mask" in data.batch.keys():  # noqa: SIM118 - a TensorDict has no such `in`
            data.batch["final_response_mask"][rows] = 0
    return data


def install_baseline() -> None:
    """Let ROLL's pipelines fill unscored samples before they normalise rewards; repeatable.

    Where none of them was imported there is nothing to do: that is a worker's process.
    """
    for name in PIPELINES:
        pipeline = sys.modules.get(name)
        original = getattr(pipeline, "reward_postprocess", None)
        if original is not None and not getattr(original, "fills_unscored", False):
            pipeline.reward_postprocess = _filling(original)  # type: ignore[union-attr]


def _filling(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def reward_postprocess(data: Any, pipeline_config: Any, *arguments: Any, **options: Any) -> Any:
        size = pipeline_config.actor_infer.generating_args.num_return_sequences
        return original(fill_unscored(data, size), pipeline_config, *arguments, **options)

    reward_postprocess.fills_unscored = True  # type: ignore[attr-defined]
    return reward_postprocess
