"""NeMo-RL: an environment of one turn, and a baseline without the votes of masked samples.

    from assay.integrations.environments import nemo_rl
    nemo_rl.register("assay")           # before the recipe makes its environments
    nemo_rl.install_baseline()          # for samples that NeMo-Gym masks

NeMo-RL's word for "not judged" is an infrastructure failure of the actor, by which a prompt is
generated again; only its single controller knows it. In the other loops an exception ends the run:
there a sample that was not judged gets the mean of what was judged in its group, so that its
advantage is 0 and the group's mean is as if it were absent. Where samples come as one call the
environment does it, where they come one by one NeMo-RL's rollouts around it (`nemo_rl_rollouts`).
"""

from __future__ import annotations

import functools
import json
import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from assay.core.errors import InvalidRequest
from assay.integrations.environments.nemo_rl_rollouts import FILLED, install_rollouts
from assay.integrations.judgement import Judgement, unscored_share
from assay.integrations.sample import Sample, group_of, reference_of, response_text
from assay.integrations.scorer import Scoring, shared_scorer

REFERENCE_KEY: Final = "reference_key"
"""Key of the environment's configuration: the key of a row's `extra_env_info` with the label."""
REFERENCE_DEFAULT: Final = "ground_truth"
UNSCORED: Final = 0.0
"""The reward of each sample of a call of which nothing was judged: no advantage."""
CALLS_MAX: Final = 64
"""Calls that are judged at once; NeMo-RL asks from 32 threads where samples come one by one."""
_ACTOR: Final = f"{__name__}.Actor"


class UnscoredError(ConnectionError):
    """A sample has no reward, through no fault of its own.

    `nemo_rl.experience.failures` takes every `ConnectionError` for a failure of infrastructure,
    across the boundary of a Ray actor too.
    """


class Environment:
    """An environment of NeMo-RL (`EnvironmentInterface`); `register` makes an actor of it."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Make an environment.

        Args:
            config: of `env.NAME` in the recipe: options of `Scoring`, and `reference_key`.
        """
        options = {name: config[name] for name in config if name in Scoring.__dataclass_fields__}
        self._scorer = shared_scorer(options)
        self._reference = str(config.get(REFERENCE_KEY, REFERENCE_DEFAULT))
        self._judged: list[Judgement] = []

    def step(self, message_logs: Sequence[Any], metadata: Sequence[Any]) -> Any:
        """Judge the last message of each log; every episode ends. NeMo-RL's `EnvironmentReturn`.

        Raises:
            InvalidRequest: a row has no label.
            UnscoredError: the only sample of the call was not judged, and NeMo-RL's rollouts do
                not fill in (`install_baseline`).
        """
        import torch
        from nemo_rl.environments.interfaces import EnvironmentReturn

        rewards = self.rewards(message_logs, metadata)
        count = len(rewards)
        return EnvironmentReturn(
            observations=[{"role": "environment", "content": ""} for _ in range(count)],
            metadata=list(metadata),
            next_stop_strings=[None] * count,
            rewards=torch.tensor(rewards, dtype=torch.float32),
            terminateds=torch.ones(count, dtype=torch.bool),
            answers=None,
        )

    def rewards(self, message_logs: Sequence[Any], metadata: Sequence[Any]) -> list[float]:
        """The rewards of `step`; all samples of the call are one batch.

        Raises:
            InvalidRequest, UnscoredError: see `step`.
        """
        groups = [group_of(_prompt(log)) for log in message_logs]
        samples = [
            Sample(
                response=response_text(log), reference=reference_of(self._label(row)), group_id=name
            )
            for log, row, name in zip(message_logs, metadata, groups, strict=True)
        ]
        if len(samples) == 1:
            return [self._alone(samples[0], filled_in=FILLED in metadata[0])]
        self._judged = self._scorer.judge(samples)
        return filled([one.reward for one in self._judged], groups)

    def _alone(self, sample: Sample, *, filled_in: bool) -> float:
        """The reward of a sample whose group is elsewhere; NaN where rollouts fill it in."""
        one = self._scorer.judge_one(sample)
        self._judged = [one]
        if one.reward is None and not filled_in:
            raise UnscoredError(one.cause)
        return math.nan if one.reward is None else one.reward

    def _label(self, row: object) -> object:
        if not isinstance(row, Mapping) or self._reference not in row:
            message = f"{self._reference}: the row's extra_env_info has none"
            raise InvalidRequest(message, field=self._reference)
        return row[self._reference]

    def global_post_process_and_metrics(self, batch: Any) -> tuple[Any, dict[str, float]]:
        """Return the batch as it is, and the share of the last call that was not judged."""
        return batch, dict(unscored_share(self._judged))

    def shutdown(self) -> None:
        """Nothing runs in the environment."""


def _prompt(log: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """The messages before the response; without their token ids."""
    return [(str(message["role"]), response_text([message])) for message in log[:-1]]


def filled(rewards: Sequence[float | None], groups: Sequence[object]) -> list[float]:
    """The rewards, with the mean of what was judged in its group for each that is missing.

    In a group of which nothing was judged, the mean of all that was: any one number gives its
    samples no advantage, and this one leaves the step's mean reward as it is.
    """
    judged: dict[object, list[float]] = {}
    for reward, group in zip(rewards, groups, strict=True):
        if reward is not None:
            judged.setdefault(group, []).append(reward)
    means = {group: statistics.fmean(part) for group, part in judged.items()}
    every = [one for part in judged.values() for one in part] or [UNSCORED]
    return [
        means.get(group, statistics.fmean(every)) if reward is None else reward
        for reward, group in zip(rewards, groups, strict=True)
    ]


def __getattr__(name: str) -> Any:
    """`Actor`: the environment as a Ray actor, which NeMo-RL looks up by its path."""
    if name != "Actor":
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    import ray

    return ray.remote(max_restarts=-1, max_task_retries=-1, max_concurrency=CALLS_MAX)(Environment)


def register(name: str = "assay") -> None:
    """Make the environment known to NeMo-RL by this name; repeatable."""
    from nemo_rl.distributed.ray_actor_environment_registry import ACTOR_ENVIRONMENT_REGISTRY
    from nemo_rl.distributed.virtual_cluster import PY_EXECUTABLES
    from nemo_rl.environments.utils import ENV_REGISTRY, register_env

    ACTOR_ENVIRONMENT_REGISTRY[_ACTOR] = PY_EXECUTABLES.SYSTEM
    if name not in ENV_REGISTRY:
        register_env(name, _ACTOR)


def unmasked(rewards: Any, prompt_ids: Any, mask_sample: Any) -> Any:
    """The rewards of a batch, each masked one replaced by its group's mean.

    Args:
        rewards: tensor (samples).
        prompt_ids: tensor (samples, tokens); equal rows are a group.
        mask_sample: one truth value per sample.
    """
    masked = [bool(one) for one in mask_sample]
    if not any(masked):
        return rewards
    judged = [
        None if is_masked else reward
        for reward, is_masked in zip(rewards.tolist(), masked, strict=True)
    ]
    groups = [tuple(row) for row in prompt_ids.tolist()]
    return rewards.new_tensor(filled(judged, groups))


def install_baseline() -> None:
    """Let NeMo-RL's GRPO compute advantages over samples that were judged; repeatable.

    Where the loop takes `mask_sample` along, in the estimator; with `data_plane.enabled` it takes
    only rewards along, and there the actor of NeMo-Gym has to know the mean. Rollouts of samples
    that come to an environment one by one fill in the mean themselves.
    """
    _install_estimator()
    _install_gym()
    install_rollouts()


def _install_estimator() -> None:
    from nemo_rl.algorithms.advantage_estimator import GRPOAdvantageEstimator

    original = GRPOAdvantageEstimator.compute_advantage
    if getattr(original, "fills_masked", False):
        return

    @functools.wraps(original)
    def compute_advantage(
        self: Any, prompt_ids: Any, rewards: Any, mask: Any, **options: Any
    ) -> Any:
        batch = options.get("repeated_batch") or {}
        if "mask_sample" in batch:
            rewards = unmasked(rewards, prompt_ids, batch["mask_sample"])
        return original(self, prompt_ids=prompt_ids, rewards=rewards, mask=mask, **options)

    compute_advantage.fills_masked = True  # type: ignore[attr-defined]
    GRPOAdvantageEstimator.compute_advantage = compute_advantage


def _install_gym() -> None:
    import ray
    from nemo_rl.environments import nemo_gym

    original = nemo_gym.NemoGym.__ray_metadata__.modified_class
    if not getattr(original, "fills_masked", False):
        remote = ray.remote(max_restarts=-1, max_task_retries=-1)
        nemo_gym.NemoGym = remote(filling(original))


def filling(actor: Any) -> Any:
    """The class of NeMo-Gym's actor, with rewards for masked samples: the mean of their group.

    The actor runs in an environment of its own. All of Assay that the class needs is therefore
    inside of this function: Ray takes it along by value, and Assay need not be installed there.
    """
    left_max = 1_024  # groups of failed calls that are remembered

    def group_of_row(row: Any) -> str:
        return json.dumps(row["responses_create_params"].get("input"), sort_keys=True, default=str)

    def is_masked(full: Any) -> bool:
        return bool((full.get("instance_config") or {}).get("mask_sample"))

    def fill(full: Any, judged: list[Any]) -> None:
        """NeMo-RL holds a reward to the sum of its components, so these are means as well."""
        full["reward"] = statistics.fmean([one["reward"] for one in judged] or [0.0])
        parts = [one.get("reward_components") or {} for one in judged]
        full["reward_components"] = {
            name: statistics.fmean(one.get(name, 0.0) for one in parts)
            for name in sorted({name for one in parts for name in one} if all(parts) else ())
        }

    class Filling(actor):  # type: ignore[misc]
        """A masked sample is held back until its group is there; the others pass at once."""

        fills_masked = True

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self._left: dict[str, list[Any]] = {}

        async def run_rollouts(self, examples: Any, *arguments: Any, **options: Any) -> Any:
            """Stream the rows of the call; what a failed call has judged counts in the next."""
            groups = {row["_rowidx"]: group_of_row(row) for row in examples}
            missing = Counter(groups.values())
            judged: dict[str, list[Any]] = {one: self._left.pop(one, []) for one in missing}
            held: dict[str, list[Any]] = {one: [] for one in missing}
            try:
                async for row in actor.run_rollouts(self, examples, *arguments, **options):
                    group, full = groups[row[0]], row[1]["full_result"]
                    missing[group] -= 1
                    if is_masked(full):
                        held[group].append(row)
                    else:
                        judged[group].append(full)
                        yield row
                    if not missing[group]:
                        for one in held.pop(group):
                            fill(one[1]["full_result"], judged[group])
                            yield one
            finally:
                self._left |= {one: judged[one] for one, count in missing.items() if count}
                for one in list(self._left)[:-left_max]:
                    del self._left[one]

    return Filling
