"""What a trainer learns about one sample: a reward, or that it is unscored and why. Pure.

Invariant: a reward is present only where the platform judged the response (`SCORED`, or the
response's own `RESOURCE_LIMIT`). Everything else is unscored with a cause, never 0.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from assay.client import Outcome, Result
from assay.core.advantages import Estimator, advantages

UNREACHABLE: Final = "UNREACHABLE"
"""In place of an outcome: the platform did not answer while the adapter was willing to wait."""
REJECTED_SATURATED: Final = "REJECTED_SATURATED"
"""In place of an outcome: a quota or a queue was full all that time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A reward, or a cause for which there is none."""

    reward: float | None = None
    outcome: str = Outcome.SCORED.value
    """An outcome of the platform, `UNREACHABLE` or `REJECTED_SATURATED`."""
    cause: str = ""
    """Why there is no reward, for people; empty where there is one."""

    def __post_init__(self) -> None:
        """Reject a reward that is not a number, and an unscored sample without a cause.

        Raises:
            ValueError: reward and cause do not fit together.
        """
        if self.reward is not None and not math.isfinite(self.reward):
            raise ValueError(f"reward: {self.reward} is not finite")
        if (self.reward is None) != bool(self.cause):
            raise ValueError("cause: present exactly where there is no reward")

    @property
    def scored(self) -> bool:
        """Whether there is a reward."""
        return self.reward is not None


def unscored(outcome: str, reason: str = "") -> Judgement:
    """Return a judgement without a reward."""
    return Judgement(outcome=outcome, cause=f"{outcome}: {reason}" if reason else outcome)


def judgement(result: Result) -> Judgement:
    """Return what a trainer learns from one result of the client."""
    outcome, reward = result.outcome.value, result.reward
    if not result.outcome.carries_reward:
        return unscored(outcome, result.evidence.error)
    if reward is None or not math.isfinite(reward):
        return unscored(outcome, f"the reward is {reward}")
    return Judgement(reward=reward, outcome=outcome)


def judgements(request_ids: Sequence[str], results: Iterable[Result]) -> list[Judgement]:
    """Return one judgement per request, in their order; of two results of one, the later counts."""
    found = {result.request_id: judgement(result) for result in results}
    missing = unscored(UNREACHABLE, "no result arrived")
    return [found.get(request_id, missing) for request_id in request_ids]


def unscored_share(judged: Sequence[Judgement]) -> Mapping[str, float]:
    """Return the share of samples without a reward, by outcome and in total, as metrics."""
    shares = {"unscored_share": 0.0}
    for one in judged:
        if not one.scored:
            for name in ("unscored_share", f"unscored_share/{one.outcome}"):
                shares[name] = shares.get(name, 0.0) + 1 / len(judged)
    return shares


def group_advantages(
    rewards: Sequence[float | None],
    group_ids: Sequence[str],
    estimator: Estimator = Estimator.DR_GRPO,
) -> list[float | None]:
    """Return advantages within groups, for trainers whose own baseline would count fake zeros.

    Args:
        rewards: of all samples; `None` = unscored: no vote in the group's mean or deviation.
        group_ids: the group of each sample, in the same order.
        estimator: how advantages are computed.
    """
    members: dict[str, list[int]] = {}
    for index, group_id in enumerate(group_ids):
        members.setdefault(group_id, []).append(index)
    found: list[float | None] = [None] * len(rewards)
    for indices in members.values():
        group = advantages([rewards[index] for index in indices], estimator)
        for index, advantage in zip(indices, group, strict=True):
            found[index] = advantage
    return found
