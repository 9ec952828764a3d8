"""Advantages of one group's responses, over the rewards that are present.

A response without a reward (it could not be judged: an infrastructure failure, a cancel) counts
neither in the mean nor in the deviation, and has no advantage: train on the others. Rewards
[1, none, 0, 0] give [2/3, none, -1/3, -1/3] before any scaling, never [1/2, none, -1/2, -1/2].

Sources: GRPO, arXiv 2402.03300 section 4.1; RLOO, arXiv 2402.14740 section 3; Dr. GRPO, arXiv
2503.20783 section 3 (no division by the deviation).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from assay.core.errors import InvalidRequest

DEVIATION_MIN: Final = 1e-8
"""Smallest useful deviation of a group's rewards; below it all advantages are 0."""

EXPONENT_MAX: Final = 400
"""Rewards below 2 to this power are estimated as they are: their squares and sums are finite."""

MICRO: Final = 1_000_000


class Estimator(StrEnum):
    """How advantages are computed."""

    GRPO = "grpo"
    """(reward - mean) / standard deviation of the population."""
    RLOO = "rloo"
    """Reward minus the mean of the other rewards."""
    DR_GRPO = "dr_grpo"
    """Reward minus the mean."""


def advantages(
    rewards: Sequence[float | None], estimator: Estimator = Estimator.GRPO
) -> list[float | None]:
    """Return one advantage for each reward, `None` where there is none.

    Args:
        rewards: of one group; `None` = the response was not judged.
        estimator: how advantages are computed.

    Raises:
        InvalidRequest: a reward is not finite, or an advantage would not be (RLOO and Dr. GRPO,
            of rewards near the largest double).
    """
    for i, reward in enumerate(rewards):
        if reward is not None and not math.isfinite(reward):
            raise InvalidRequest(f"rewards[{i}]: {reward} is not finite", field=f"rewards[{i}]")
    found = iter(_estimated([reward for reward in rewards if reward is not None], estimator))
    return [None if reward is None else next(found) for reward in rewards]


def _estimated(rewards: list[float], estimator: Estimator) -> list[float]:
    estimate = _ESTIMATE[estimator]
    _, exponent = math.frexp(max(map(abs, rewards), default=0.0))
    down = exponent - EXPONENT_MAX
    if down <= 0:
        return estimate(rewards)
    # Sums and squares of these would overflow: estimate them divided by a power of two, and
    # multiply back what has the rewards' unit.
    made = estimate([math.ldexp(reward, -down) for reward in rewards])
    if estimator is Estimator.GRPO:
        return made
    try:
        return [math.ldexp(one, down) for one in made]
    except OverflowError:
        raise InvalidRequest("rewards: an advantage overflows", field="rewards") from None


def zero_shift_micro(rewards: Sequence[float | None]) -> int:
    """How far zeros in place of missing rewards would move a group's GRPO advantages.

    The sum over all responses of |advantage with zeros - advantage over the rewards present|, where
    the latter is 0 for a response without a reward; in millionths, so that sums over groups do not
    depend on their order. The store's scripts compute the same, operation for operation.
    """
    present = [reward for reward in rewards if reward is not None]
    if len(present) == len(rewards):
        return 0
    mean, deviation = _moments(present)
    mean_0, deviation_0 = _moments([reward or 0.0 for reward in rewards])
    total = 0.0
    for reward in rewards:
        own = 0.0 if reward is None else _standard(reward, mean, deviation)
        total += abs(_standard(reward or 0.0, mean_0, deviation_0) - own)
    # Rewards near the largest double have no moments.
    return math.floor(total * MICRO + 0.5) if math.isfinite(total) else 0


def _moments(rewards: Sequence[float]) -> tuple[float, float]:
    """Mean and deviation by plain sums, as a script can compute them."""
    if len(set(rewards)) <= 1:
        return (rewards[0] if rewards else 0.0), 0.0
    mean = sum_in_order(rewards) / len(rewards)
    squares = [(reward - mean) * (reward - mean) for reward in rewards]
    return mean, math.sqrt(sum_in_order(squares) / len(rewards))


def sum_in_order(values: Sequence[float]) -> float:
    """Add one after the other; `sum` of newer Pythons compensates for rounding."""
    total = 0.0
    for value in values:
        total += value
    return total


def _standard(reward: float, mean: float, deviation: float) -> float:
    return (reward - mean) / deviation if deviation > DEVIATION_MIN else 0.0


def _centred(rewards: Sequence[float]) -> list[float]:
    if len(set(rewards)) <= 1:  # exact: no rounding may make equal rewards look different
        return [0.0] * len(rewards)
    mean = math.fsum(rewards) / len(rewards)
    return [reward - mean for reward in rewards]


def _scaled(rewards: Sequence[float]) -> list[float]:
    centred = _centred(rewards)
    deviation = math.sqrt(math.fsum(c * c for c in centred) / max(1, len(centred)))
    return [c / deviation if deviation > DEVIATION_MIN else 0.0 for c in centred]


def _leave_one_out(rewards: Sequence[float]) -> list[float]:
    share = len(rewards) / (len(rewards) - 1) if len(rewards) > 1 else 0.0
    return [c * share for c in _centred(rewards)]


_ESTIMATE: Final[Mapping[Estimator, Callable[[Sequence[float]], list[float]]]] = {
    Estimator.GRPO: _scaled,
    Estimator.RLOO: _leave_one_out,
    Estimator.DR_GRPO: _centred,
}
