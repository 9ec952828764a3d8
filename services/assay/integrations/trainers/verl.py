"""verl: `compute_score` for its reward loop, agent loops that score, a baseline without fake zeros.

    reward.custom_reward_function.path=pkg://assay.integrations.trainers.verl
    reward.custom_reward_function.name=compute_score
    +reward.custom_reward_function.reward_kwargs.pipeline=math

`Scored` is mixed in before an agent loop, whose output then has its `reward_score` and passes the
reward loop by; `verl_manager` is a reward manager.

verl has no word for "not judged". Such a response scores `UNSCORED` with `infra_failed` 1.0, and
every sample has the same keys, which verl reads from the first one. `fill_unscored`, installed by
the module `verl_baseline`, then gives it the mean of what was judged in its group: its advantage is
0 and the group's mean is as if it were absent, under every estimator of verl.
"""

from __future__ import annotations

import asyncio
import functools
import math
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

from assay.core.errors import InvalidRequest
from assay.integrations.sample import Sample, group_of, reference_of
from assay.integrations.scorer import shared_scorer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from assay.integrations.judgement import Judgement

UNSCORED: Final = 0.0
"""The number in place of a reward; `infra_failed` marks it as not one."""
FILL: Final = -65_536.0
"""In place of a reward that is missing, for trainers on verl that have one number for it and no
key (Agent Lightning's `reward_fillna_value`): exact in every float of 16 bits or more."""


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
    row = {
        "data_source": data_source,
        "reward_model": {"ground_truth": ground_truth},
        "extra_info": extra_info,
    }
    return await score_row(row, solution_str, options)


async def score_row(
    row: Mapping[str, Any], response: str, options: Mapping[str, Any]
) -> dict[str, float | str]:
    """Score the response to a row of verl's data set; see `keys`.

    Args:
        row: its columns. `uid`, or the index in `extra_info`, names the group.
        response: what the model wrote.
        options: of `Scoring`.

    Raises:
        InvalidRequest: the row has no `reward_model.ground_truth`.
    """
    spec = row.get("reward_model")
    if not isinstance(spec, Mapping) or "ground_truth" not in spec:
        name = "reward_model.ground_truth"
        raise InvalidRequest(f"{name}: the row has none", field=name)
    group = row.get("uid")
    if group is None:
        group = (row.get("extra_info") or {}).get("index")
    sample = Sample(
        response=response,
        reference=reference_of(spec["ground_truth"]),
        group_id="" if group is None else group_of([str(row.get("data_source")), str(group)]),
    )
    return keys(await shared_scorer(options).judge_one_async(sample))


class Scored:
    """To be mixed in before an agent loop of verl: its trajectory is scored where it was made."""

    assay_scoring: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Options of `Scoring`; the variables of docs/integrations hold without a pipeline."""

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> Any:
        """Run the loop; its output, of several the last one, gets `reward_score`."""
        outputs = await super().run(sampling_params, **row)  # type: ignore[misc]
        last = outputs[-1] if isinstance(outputs, list) else outputs
        if last.reward_score is not None:
            return outputs
        tokenizer = self.tokenizer  # type: ignore[attr-defined]
        text = await asyncio.to_thread(
            tokenizer.decode, written_ids(last), skip_special_tokens=True
        )
        found = await score_row(row, text, self.assay_scoring)
        last.reward_score = found["score"]
        # Assigned, so that verl 0.8 too takes the field for one that was set.
        last.extra_fields = {**last.extra_fields, "reward_extra_info": found}
        return outputs


def written_ids(output: Any) -> list[int]:
    """What the model wrote last: the tokens after the last one of a tool or of the user."""
    mask = list(output.response_mask)
    tools = [at for at, ours in enumerate(mask) if not ours]
    return list(output.response_ids[tools[-1] + 1 if tools else 0 :])


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

    Unscored is what has `infra_failed`, or `FILL` for its score.
    """
    rewards = data.batch["token_level_rewards"]
    names = data.batch.keys()
    scores = data.batch["token_level_scores"] if "token_level_scores" in names else rewards
    marked = data.non_tensor_batch.get("infra_failed")
    failed = [score == FILL for score in scores.float().sum(dim=-1).tolist()]
    if marked is not None:
        failed = [one or bool(mark) for one, mark in zip(failed, marked, strict=True)]
    if not any(failed):
        return data
    sums = rewards.float().sum(dim=-1).tolist()
    groups = data.non_tensor_batch["uid"].tolist()
    filled = group_mean_filled(sums, failed, groups)
    last = (data.batch["response_mask"].cumsum(dim=-1)).argmax(dim=-1)
    for row, is_failed in enumerate(failed):
        if is_failed:
            rewards[row] = 0.0
            rewards[row, last[row]] = filled[row]
    return data


_NAMED_IN: Final = (
    "verl.trainer.ppo.ray_trainer",
    "verl.trainer.ppo.v1.utils",
    "verl.experimental.separation.ray_trainer",
)
"""Modules of verl that call `compute_advantage` by a name of their own."""
_FAILED: ContextVar[Sequence[bool] | None] = ContextVar("failed", default=None)
"""Of the rows whose advantages a trainer of the second generation is computing."""


def install_baseline() -> None:
    """Let verl's trainers fill unscored samples before they compute advantages; repeatable."""
    from verl.trainer.ppo import ray_trainer

    original = ray_trainer.compute_advantage
    if not getattr(original, "fills_unscored", False):
        filling = _filling(original)
        for name in _NAMED_IN:
            module = sys.modules.get(name)
            if getattr(module, "compute_advantage", None) is original:
                module.compute_advantage = filling  # type: ignore[union-attr]
    _mark_rows_of_v1()


def _filling(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def compute_advantage(data: Any, *arguments: Any, **options: Any) -> Any:
        return original(fill_unscored(data), *arguments, **options)

    compute_advantage.fills_unscored = True  # type: ignore[attr-defined]
    return compute_advantage


def _mark_rows_of_v1() -> None:
    """Let the trainer of `trainer.use_v1` hand `infra_failed` to `compute_advantage`.

    It has its rows in a TransferQueue, and takes only those columns out that it needs itself.
    """
    try:
        from verl.trainer.ppo.v1 import trainer_base
    except ImportError:  # before verl 0.9; or without TransferQueue, so that it cannot run either
        return
    trainer = trainer_base.PPOTrainer
    step, rows = trainer._compute_advantage, trainer_base.compute_advantage_for_multi_trajectories  # noqa: SLF001
    if getattr(step, "marks_unscored", False):
        return

    @functools.wraps(step)
    def _compute_advantage(self: Any, batch: Any, *arguments: Any, **options: Any) -> Any:
        before = _FAILED.set(failed_rows(trainer_base.tq, batch))
        try:
            return step(self, batch, *arguments, **options)
        finally:
            _FAILED.reset(before)

    @functools.wraps(rows)
    def compute_advantage_for_multi_trajectories(data: Any, *arguments: Any, **options: Any) -> Any:
        import numpy as np

        failed = _FAILED.get()
        if failed is not None:
            data.non_tensor_batch["infra_failed"] = np.array(failed, dtype=object)
        return rows(data, *arguments, **options)

    _compute_advantage.marks_unscored = True  # type: ignore[attr-defined]
    trainer._compute_advantage = _compute_advantage  # noqa: SLF001
    trainer_base.compute_advantage_for_multi_trajectories = compute_advantage_for_multi_trajectories


def failed_rows(queue: Any, batch: Any) -> list[bool]:
    """Which rows of a batch in a TransferQueue have `infra_failed`, in the order of its keys.

    Rewards of agent loops have it in `extra_fields`. Those that the trainer computes itself, with a
    reward model on its own GPUs, replace them and have a column of that name.
    """
    found = queue.kv_batch_get(
        keys=batch.keys,
        partition_id=batch.partition_id,
        select_fields=["extra_fields", "infra_failed"],
    )
    column = found.get("infra_failed", None)
    if column is not None:
        return [bool(getattr(one, "data", one)) for one in column]
    fields = [getattr(one, "data", one) for one in found["extra_fields"]]
    infos = [(one or {}).get("reward_extra_info") or {} for one in fields]
    return [bool(info.get("infra_failed")) for info in infos]
