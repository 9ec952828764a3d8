"""SkyRL-gym: an environment of one turn, and the advantages of what was judged.

    class Environment(Scored, BaseTextEnv): ...
    AdvantageEstimatorRegistry.register("assay_grpo", judged_grpo)

SkyRL has no word for "not judged". Such a response has the reward NaN, which no other estimator
takes for a reward without showing it in the loss. `judged_grpo` is SkyRL's GRPO over the responses
of a group that were judged; the advantage of the others is 0.
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Any, Final

from assay.core.errors import InvalidRequest
from assay.integrations.judgement import group_advantages
from assay.integrations.sample import Sample, group_of, reference_of
from assay.integrations.scorer import shared_scorer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from assay.integrations.scorer import Scorer

UNSCORED: Final = math.nan
INFRA_FAILED: Final = "infra_failed"
"""Key of the environment's metrics: 1.0 where the response was not judged."""


class Scored:
    """To be mixed in before `skyrl_gym.envs.base_text_env.BaseTextEnv`."""

    def __init__(self, env_config: Any = None, extras: Mapping[str, Any] | None = None) -> None:
        """Make an environment of one row.

        Args:
            env_config: a mapping, or an object with attributes, of `Scoring`'s options; the
                variables of docs/integrations hold for the others.
            extras: the row; `reward_spec.ground_truth` is what the response is judged by.

        Raises:
            InvalidRequest: the row has no `reward_spec.ground_truth`.
        """
        super().__init__()
        spec = (extras or {}).get("reward_spec") or {}
        if "ground_truth" not in spec:
            name = "reward_spec.ground_truth"
            raise InvalidRequest(f"{name}: the row has none", field=name)
        self._reference = reference_of(spec["ground_truth"])
        self._group = ""
        self._scorer = _scorer(env_config)
        self._metrics: dict[str, float] = {}

    def init(self, prompt: Any) -> tuple[Any, dict[str, Any]]:
        """Return the prompt, as it is."""
        self._group = group_of(prompt)
        return prompt, {}

    def step(self, action: str) -> dict[str, Any]:
        """Score the response, which ends the episode; SkyRL calls this in a thread."""
        judged = self._scorer.judge_one(
            Sample(response=action, reference=self._reference, group_id=self._group)
        )
        self._metrics = {INFRA_FAILED: float(not judged.scored)}
        return {
            "observations": [],
            "reward": UNSCORED if judged.reward is None else judged.reward,
            "done": True,
            "metadata": {"outcome": judged.outcome, "cause": judged.cause},
        }

    def get_metrics(self) -> dict[str, Any]:
        """Return the share of responses that were not judged, as SkyRL averages it."""
        return self._metrics


def _scorer(env_config: Any) -> Scorer:
    """One per process and options: an environment is made for each response."""
    if env_config is None:
        return shared_scorer()
    if not hasattr(env_config, "items"):
        env_config = vars(env_config)
    return shared_scorer(dict(env_config.items()))


def judged_grpo(
    token_level_rewards: Any,
    response_mask: Any,
    index: Sequence[Any],
    epsilon: float = 1e-6,
    grpo_norm_by_std: bool = True,  # noqa: FBT001, FBT002 - as SkyRL calls it
    **_: Any,
) -> tuple[Any, Any]:
    """SkyRL's `compute_grpo_outcome_advantage` over what was judged: advantages and returns.

    Args:
        token_level_rewards: tensor (responses, tokens); a row with NaN was not judged.
        response_mask: tensor of the same shape.
        index: the group of each response.
        epsilon: added to the deviation.
        grpo_norm_by_std: divide by the deviation.
    """
    scores = token_level_rewards.sum(dim=-1)
    found = advantages_of(scores.tolist(), index, epsilon=epsilon if grpo_norm_by_std else None)
    advantages = scores.new_tensor(found).unsqueeze(-1) * response_mask
    return advantages, advantages


def advantages_of(
    scores: Sequence[float], index: Sequence[Any], *, epsilon: float | None
) -> list[float]:
    """The advantage of each response; NaN is not judged, and has 0.

    As in SkyRL, a group of one response keeps its reward, and the deviation is that of a sample.

    Args:
        scores: rewards.
        index: the group of each.
        epsilon: added to the deviation; `None`: do not divide by it.
    """
    groups = [str(one) for one in index]
    rewards = [None if math.isnan(score) else score for score in scores]
    found = group_advantages(rewards, groups)
    sizes: dict[str, int] = {}
    judged: dict[str, list[float]] = {}
    for group, reward in zip(groups, rewards, strict=True):
        sizes[group] = sizes.get(group, 0) + 1
        if reward is not None:
            judged.setdefault(group, []).append(reward)

    def scaled(group: str, advantage: float | None, reward: float | None) -> float:
        if advantage is None or reward is None:
            return 0.0
        if sizes[group] == 1:
            return reward if epsilon is None else reward / (1 + epsilon)
        if epsilon is None or advantage == 0.0:
            return advantage
        return advantage / (statistics.stdev(judged[group]) + epsilon)

    return [scaled(*one) for one in zip(groups, found, rewards, strict=True)]
