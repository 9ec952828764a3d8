"""What can go wrong in the rollout runtime, named after who can act.

RolloutError
+-- InvalidRollout    the caller changes the request
+-- Saturated         the caller comes back later
+-- RolloutGone       the rollout is no longer in the state the call is about
+-- WorkerCrashed     the operator restarts the runtime; names the rollouts that went down
+-- WorkerStalled     the worker did not answer in time
+-- NativeUnavailable the installation has no compiled library
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class Limit(StrEnum):
    """What a full runtime is full of, deepest stage first."""

    TRAJECTORY = "trajectory"
    REWARD = "reward"
    KV_BLOCKS = "kv_blocks"
    DECODE = "decode"
    SLOTS = "slots"


class CrashCause(StrEnum):
    """What took the worker down."""

    ENGINE = "engine"
    SIGNAL = "signal"
    MEMORY = "memory"
    BROKEN = "broken"


class RolloutError(Exception):
    """Root of the rollout runtime's errors."""


class InvalidRollout(RolloutError):
    """The request can never succeed as it is; `field` says what to change."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


class Saturated(RolloutError):
    """There is no room now; nothing was changed. `limit` is the stage that holds work up."""

    def __init__(self, limit: Limit) -> None:
        super().__init__(f"no room: {limit} is exhausted")
        self.limit = limit


class RolloutGone(RolloutError):
    """The rollout ended, was cancelled or was collected before the call reached it."""


class WorkerCrashed(RolloutError):
    """The worker thread died. `rollouts` are the user ids of the rollouts it took down."""

    def __init__(self, cause: CrashCause, detail: int, rollouts: Sequence[int]) -> None:
        super().__init__(f"the worker died of {cause} {detail}, with {len(rollouts)} rollouts")
        self.cause = cause
        self.detail = detail
        self.rollouts = tuple(rollouts)


class WorkerStalled(RolloutError):
    """The worker did not reach the end of its step in time."""


class NativeUnavailable(RolloutError):
    """The compiled library is missing or does not match this Python package."""
