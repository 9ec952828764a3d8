"""What is known of a session, and what must hold for each trajectory that comes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from assay.client import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.client.rollouts import Prompt, RolloutGroup, RolloutSession, Trajectory

REWARDED: Final = {Outcome.SCORED, Outcome.RESOURCE_LIMIT}


@dataclass(slots=True)
class Known:
    """What is known of one session."""

    session: RolloutSession
    options: dict[str, object]
    asked: dict[str, Prompt] = field(default_factory=dict)
    """Groups that were accepted and are not acknowledged."""
    read: dict[str, RolloutGroup] = field(default_factory=dict)
    """Those that were read."""
    before: dict[str, RolloutGroup] = field(default_factory=dict)
    """What they continue."""

    @property
    def scored(self) -> bool:
        """Whether its responses get rewards."""
        return bool(self.options["pipeline"])

    @property
    def complete(self) -> bool:
        """Whether each of its groups must come: none is dropped as stale."""
        return self.options["staleness_max"] is None


def said(group: RolloutGroup) -> list[tuple[object, ...]]:
    return [
        (
            *(one.outcome, one.reward, one.finish_reason, one.seed, list(one.policy_versions)),
            *(one.response_ids.tolist(), one.rollout_logp.tolist(), one.response_mask.tolist()),
        )
        for one in group.trajectories
    ]


def check(
    known: Known, prompt: Prompt, one: Trajectory, history: Sequence[int], *, was_shut: bool
) -> None:
    """A trajectory is whole, and what is said of it agrees.

    Args:
        known: its session.
        prompt: what was asked.
        one: what came.
        history: versions of weights in the order in which they were activated.
        was_shut: whether the reward service has been out of reach.
    """
    ids, mask = one.response_ids.tolist(), one.response_mask.tolist()
    logps = np.asarray(one.rollout_logp)
    assert len(ids) == len(mask) == len(logps) == sum(n for _, n in one.policy_versions)
    assert np.isfinite(logps).all()
    assert (logps <= 0).all()
    assert not logps[np.array(mask, dtype=bool) == 0].any()
    own = _own_turn(known, prompt, one)
    assert len(own) <= (prompt.sampling.max_tokens or math.inf)
    if one.finish_reason == "length":
        assert len(own) == prompt.sampling.max_tokens
    _check_versions(one, history)
    _check_reward(known, prompt, one, own, was_shut=was_shut)


def _own_turn(known: Known, prompt: Prompt, one: Trajectory) -> list[int]:
    """The policy's tokens of the last turn; those before are what they were."""
    ids: list[int] = one.response_ids.tolist()
    if not prompt.turns:
        assert all(one.response_mask)
        return ids
    turn = prompt.turns[one.member]
    earlier = known.before[prompt.group_id].trajectories[turn.member]
    history = [*earlier.response_ids.tolist(), *turn.environment_ids]
    assert ids[: len(history)] == history
    kept = np.asarray(one.rollout_logp)[: len(earlier.response_ids)]
    assert kept.tolist() == earlier.rollout_logp.tolist()
    return ids[len(history) :]


def _check_versions(one: Trajectory, history: Sequence[int]) -> None:
    """Weights were in use in this order."""
    made_by = [version for version, _ in one.policy_versions if version != -1]
    changes = [v for i, v in enumerate(made_by) if i == 0 or v != made_by[i - 1]]
    order = iter(history)
    assert all(version in order for version in changes), (changes, history)


def _check_reward(
    known: Known, prompt: Prompt, one: Trajectory, own: list[int], *, was_shut: bool
) -> None:
    assert (one.outcome in REWARDED) == (one.reward is not None)
    if one.outcome is Outcome.CANCELLED or one.finish_reason == "cancelled":
        return
    if not (known.scored and prompt.scored):
        assert one.outcome is None
    elif one.reward is not None:
        assert one.reward == float(own[-1] % 2 == 0)
    else:
        assert one.outcome is Outcome.INFRA_FAILED
        assert own[-1] % 5 == 0 or was_shut
