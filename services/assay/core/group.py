"""Statistics over the rewards of one group (the K responses to one prompt)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from assay.core.ids import GroupId


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


def summarize(group_id: GroupId, rewards: Sequence[float | None]) -> GroupSummary:
    """Summarize a finished group; `None` stands for a request that ended without a reward."""
    present = [reward for reward in rewards if reward is not None]
    degenerate = len(set(present)) <= 1
    mean = std = None
    if present and degenerate:  # exact: no rounding may make equal rewards look different
        mean, std = present[0], 0.0
    elif present:
        mean = math.fsum(present) / len(present)
        std = math.sqrt(math.fsum((reward - mean) ** 2 for reward in present) / len(present))
    return GroupSummary(
        group_id=group_id,
        size=len(rewards),
        rewards=len(present),
        mean=mean,
        std=std,
        degenerate=degenerate,
    )
