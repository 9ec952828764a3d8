"""What can go wrong in the rollout runtime, named after who can act.

Each is also of the kind that `assay.core.errors` has for it, so that an edge translates it with the
one table it has.

RolloutError
+-- InvalidRollout    (InvalidRequest)      the caller changes the request
+-- EngineSaturated   (Saturated)           the caller comes back later
+-- RolloutGone       (FailedPrecondition)  the rollout is not in the state the call is about
+-- InvalidWeights    (InvalidRequest)      the sender of the weights changes them, or their number
+-- WeightsNotReady   (FailedPrecondition)  the caller stages first, or waits for who stages
+-- RuntimeClosed     (FailedPrecondition)  the caller closed it before, or forked
+-- EngineLent        (FailedPrecondition)  the caller closes the engine's runtime first
+-- WorkerStalled     (DeadlinePassed)      the worker did not answer in the caller's time
+-- WorkerCrashed     (DependencyDown)      the operator restarts it; names what went down with it
+-- ServerLost        (DependencyDown)      the operator of the remote server, or a later attempt
+-- ServerRefused     (FailedPrecondition)  the operator: the server cannot do what was asked of it
+-- HostExhausted     (DependencyDown)      the operator: no memory or thread left on the machine
+-- NativeUnavailable (DependencyDown)      the operator: no compiled library is installed
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from assay.core import errors as core

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


class WeightsProblem(StrEnum):
    """What is wrong with weights to stage."""

    UNKNOWN = "unknown"
    SHAPE = "shape"
    DTYPE = "dtype"
    CHECKSUM = "checksum"
    NOT_FINITE = "not_finite"
    REPEATED = "repeated"
    MISSING = "missing"
    VERSION = "version"


SATURATED_RETRY_S = 0.05
"""When to come back: some decode steps later."""


class RolloutError(Exception):
    """Root of the rollout runtime's errors; never raised itself."""


class InvalidRollout(RolloutError, core.InvalidRequest):
    """The request can never succeed as it is; `field` says what to change."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}", field=field)


class EngineSaturated(RolloutError, core.Saturated):
    """There is no room now; nothing was changed. `limit` is the stage that holds work up."""

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


class WeightsNotReady(RolloutError, core.FailedPrecondition):
    """The version to activate is in neither slot, or somebody else stages."""


class RuntimeClosed(RolloutError, core.FailedPrecondition):
    """The runtime was closed, or belongs to the process that this one was forked from."""


class EngineLent(RolloutError, core.FailedPrecondition):
    """A runtime decodes with the engine: it can be neither closed nor given to another one."""


class WorkerStalled(RolloutError, core.DeadlinePassed):
    """The worker did not reach the end of its step in time."""


class WorkerCrashed(RolloutError, core.DependencyDown):
    """The worker thread died. `rollouts` are the user ids of the rollouts it took down."""

    def __init__(self, cause: CrashCause, detail: int, rollouts: Sequence[int]) -> None:
        super().__init__(f"the worker died of {cause} {detail}, with {len(rollouts)} rollouts")
        self.cause = cause
        self.detail = detail
        self.rollouts = tuple(rollouts)


class ServerLost(RolloutError, core.DependencyDown):
    """A remote server did not answer, broke off, or asked to come back later."""


class ServerRefused(RolloutError, core.FailedPrecondition):
    """A remote server will never do what it was asked; `status` is its HTTP status, 0 if none."""

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class HostExhausted(RolloutError, core.DependencyDown):
    """The machine gave no memory for the rings and the KV arena, or no thread."""


class NativeUnavailable(RolloutError, core.DependencyDown):
    """The compiled library is missing or does not match this Python package."""
