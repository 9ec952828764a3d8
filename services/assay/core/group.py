"""Statistics over the rewards of one group (the K responses to one prompt)."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from assay.core.ids import GroupId

_SCALED_FROM: Final = 1e100
"""Rewards up to this size have squares and sums that a double holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """Statistics over the rewards that are present; infrastructure failures do not count."""

    group_id: GroupId
    size: int
    rewards: int
    mean: float | None
    std: float | None
    """Population standard deviation."""
    degenerate: bool
    """All present rewards are equal (or none is present): the group gives no training signal."""


def can_vary(rewards: Sequence[float | None], left: int, minority_min: int) -> bool:
    """Whether a group can still have `minority_min` rewards besides its most common one.

    With n rewards present, of which the most common one c times, and `left` requests to come, at
    best each of those brings another value: n + left - max(c, 1) rewards differ from the most
    common one. `minority_min` 1 means: the group is not degenerate.

    Args:
        rewards: of the requests that ended; `None` = it ended without a reward.
        left: requests that have not ended.
        minority_min: at least 1.
    """
    present = [reward for reward in rewards if reward is not None]
    common = max(Counter(present).values(), default=1)
    return len(present) + left - common >= minority_min


def _moments(rewards: Sequence[float]) -> tuple[float, float]:
    """Mean and deviation; very large rewards are scaled, so that no sum overflows."""
    largest = max(map(abs, rewards))
    scale = largest if largest > _SCALED_FROM else 1.0
    scaled = [reward / scale for reward in rewards]
    mean = math.fsum(scaled) / len(scaled)
    squares = math.fsum((reward - mean) ** 2 for reward in scaled)
    return mean * scale, math.sqrt(squares / len(scaled)) * scale


def summarize(group_id: GroupId, rewards: Sequence[float | None]) -> GroupSummary:
    """Summarize a finished group; `None` stands for a request that ended without a reward."""
    present = [reward for reward in rewards if reward is not None]
    degenerate = len(set(present)) <= 1
    mean = std = None
    if present and degenerate:  # exact: no rounding may make equal rewards look different
        mean, std = present[0], 0.0
    elif present:
        mean, std = _moments(present)
    return GroupSummary(
        group_id=group_id,
        size=len(rewards),
        rewards=len(present),
        mean=mean,
        std=std,
        degenerate=degenerate,
    )
