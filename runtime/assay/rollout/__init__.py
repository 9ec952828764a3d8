"""The rollout runtime: rings, states, credits, shared-prefix KV and a decode worker, in C.

`Runtime` is the face; `models` brings weights and tokenizers; `interpreter` executes the rings'
memory in Python and is what the C code is compared with.
"""

from assay.rollout.engines import ProbeEngine
from assay.rollout.errors import (
    CrashCause,
    HostExhausted,
    InvalidRollout,
    Limit,
    NativeUnavailable,
    RolloutError,
    RolloutGone,
    RuntimeClosed,
    Saturated,
    WorkerCrashed,
    WorkerStalled,
)
from assay.rollout.layout import Outcome, Policy, Stop
from assay.rollout.runtime import (
    Completed,
    RewardRequest,
    RolloutRef,
    Runtime,
    RuntimeOptions,
    Sampling,
    Stats,
)

__all__ = [
    "Completed",
    "CrashCause",
    "HostExhausted",
    "InvalidRollout",
    "Limit",
    "NativeUnavailable",
    "Outcome",
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
    "WorkerCrashed",
    "WorkerStalled",
]
