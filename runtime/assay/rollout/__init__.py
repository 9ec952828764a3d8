"""The rollout runtime: rings, states, credits, shared-prefix KV and a decode worker, in C.

`Runtime` is the face; `models` brings weights and tokenizers; `interpreter` executes the rings'
memory in Python and is what the C code is compared with.
"""

from assay.rollout.engines import ProbeEngine
from assay.rollout.errors import (
    CrashCause,
    HostExhausted,
    InvalidRollout,
    InvalidWeights,
    Limit,
    NativeUnavailable,
    RolloutError,
    RolloutGone,
    RuntimeClosed,
    Saturated,
    WeightsNotReady,
    WeightsProblem,
    WorkerCrashed,
    WorkerStalled,
)
from assay.rollout.layout import Outcome, PauseMode, Policy, Stop
from assay.rollout.runtime import (
    Activation,
    Completed,
    RewardRequest,
    RolloutRef,
    Runtime,
    RuntimeOptions,
    Sampling,
    Stats,
)

__all__ = [
    "Activation",
    "Completed",
    "CrashCause",
    "HostExhausted",
    "InvalidRollout",
    "InvalidWeights",
    "Limit",
    "NativeUnavailable",
    "Outcome",
    "PauseMode",
    "Policy",
    "ProbeEngine",
    "RewardRequest",
    "RolloutError",
    "RolloutGone",
    "RolloutRef",
    "Runtime",
    "RuntimeClosed",
    "RuntimeOptions",
    "Sampling",
    "Saturated",
    "Stats",
    "Stop",
    "WeightsNotReady",
    "WeightsProblem",
    "WorkerCrashed",
    "WorkerStalled",
]
