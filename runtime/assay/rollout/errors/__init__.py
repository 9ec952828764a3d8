"""Errors of the rollout runtime, and who can act on each.

Each also derives from the matching class in `assay.core.errors`, so that an edge translates it with
its one table.

RolloutError
+-- InvalidRollout    (InvalidRequest)      the caller changes the request
+-- EngineSaturated   (Saturated)           the caller retries later
+-- RolloutGone       (FailedPrecondition)  the rollout is not in the state that the call needs
+-- InvalidWeights    (InvalidRequest)      the sender changes the weights, or their version number
+-- WeightsNotReady   (FailedPrecondition)  the caller stages first, or waits for another staging
+-- RuntimeClosed     (FailedPrecondition)  the caller closed it before, or forked
+-- EngineLent        (FailedPrecondition)  the caller closes the engine's runtime first
+-- WorkerStalled     (DeadlinePassed)      the worker did not answer within the time-out
+-- WorkerCrashed     (DependencyDown)      the operator restarts it; lists the rollouts it ended
+-- ServerLost        (DependencyDown)      the operator of the remote server, or a later attempt
+-- ServerRefused     (FailedPrecondition)  the operator: the server cannot do what was requested
+-- HostExhausted     (DependencyDown)      the operator: no memory or thread left on the machine
+-- NativeUnavailable (DependencyDown)      the operator: no compiled library is installed
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Self

from assay.core import errors as core

if TYPE_CHECKING:
    from collections.abc import Sequence


class Limit(StrEnum):
    """The exhausted limit of a full runtime, deepest stage first."""

    TRAJECTORY = "trajectory"
    REWARD = "reward"
    KV_BLOCKS = "kv_blocks"
    DECODE = "decode"
    SLOTS = "slots"


class CrashCause(StrEnum):
    """What crashed the worker."""

    ENGINE = "engine"
    SIGNAL = "signal"
    MEMORY = "memory"
    BROKEN = "broken"


class WeightsProblem(StrEnum):
    """Why weights cannot be staged."""

    UNKNOWN = "unknown"
    SHAPE = "shape"
    DTYPE = "dtype"
    CHECKSUM = "checksum"
    NOT_FINITE = "not_finite"
    REPEATED = "repeated"
    MISSING = "missing"
    VERSION = "version"


SATURATED_RETRY_S = 0.05
"""Retry delay: some decode steps."""


class RolloutError(Exception):
    """Root of the rollout runtime's errors; not raised itself."""


class InvalidRollout(RolloutError, core.InvalidRequest):
    """The request can never succeed as it is; `field` names what to change."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}", field=field)


class EngineSaturated(RolloutError, core.Saturated):
    """No room now; nothing was changed. `limit` is the stage that is full."""

    def __init__(self, limit: Limit) -> None:
        super().__init__(f"no room: {limit} is exhausted", retry_after_s=SATURATED_RETRY_S)
        self.limit = limit


class RolloutGone(RolloutError, core.FailedPrecondition):
    """The rollout ended, was cancelled or was collected before the call reached it."""


class InvalidWeights(RolloutError, core.InvalidRequest):
    """Weights cannot be staged; `field` is `tensors.KIND.LAYER` or `version`."""

    def __init__(self, field: str, problem: WeightsProblem, detail: str) -> None:
        super().__init__(f"{field}: {problem}: {detail}", field=field)
        self.problem = problem

    @classmethod
    def of_checksum(cls, field: str) -> Self:
        """A tensor's bytes are not those of its checksum."""
        return cls(field, WeightsProblem.CHECKSUM, "the checksum of its bytes differs")


class WeightsNotReady(RolloutError, core.FailedPrecondition):
    """The version to activate is in neither slot, or another thread stages."""

    def __init__(self, message: str, *, field: str = "policy_version") -> None:
        super().__init__(message, field=field)

    @classmethod
    def of_one_slot(cls) -> Self:
        """The engine has no second slot of weights."""
        return cls("the engine was made with weight_slots=1")

    @classmethod
    def unstaged(cls, version: int, ready: int | None) -> Self:
        """A version is to be activated, and another, or none, is staged."""
        held = "nothing" if ready is None else f"version {ready}"
        return cls(f"version {version} is not staged; the second slot has {held}")


class RuntimeClosed(RolloutError, core.FailedPrecondition):
    """The runtime was closed, or belongs to the process that this one was forked from."""


class EngineLent(RolloutError, core.FailedPrecondition):
    """A runtime uses the engine: it can be neither closed nor given to another runtime."""

    @classmethod
    def staging(cls) -> Self:
        """A thread stages weights into the engine that is to be closed."""
        return cls("a thread stages weights into this engine; let it end first")


class WorkerStalled(RolloutError, core.DeadlinePassed):
    """The worker did not reach the end of its step in time."""


class WorkerCrashed(RolloutError, core.DependencyDown):
    """The worker thread died. `rollouts` are the user ids of the rollouts that it ended."""

    def __init__(self, cause: CrashCause, detail: int, rollouts: Sequence[int]) -> None:
        super().__init__(f"the worker died of {cause} {detail}, with {len(rollouts)} rollouts")
        self.cause = cause
        self.detail = detail
        self.rollouts = tuple(rollouts)


class ServerLost(RolloutError, core.DependencyDown):
    """A remote server did not answer, disconnected, or asked to retry later."""


class ServerRefused(RolloutError, core.FailedPrecondition):
    """A remote server cannot do what was requested; `status` is its HTTP status, 0 if none."""

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class HostExhausted(RolloutError, core.DependencyDown):
    """The machine has no memory for the rings and the KV arena, or no thread."""


class NativeUnavailable(RolloutError, core.DependencyDown):
    """The compiled library is missing or does not match this Python package."""
