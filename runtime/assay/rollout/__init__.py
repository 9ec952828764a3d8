"""The rollout runtime: rings, states, credits, shared-prefix KV and a decode worker, in C.

`Runtime` is the face; `models` brings weights and tokenizers; `interpreter` executes the rings'
memory in Python and is what the C code is compared with.
"""

from assay.rollout.engines import ProbeEngine
from assay.rollout.errors import (
    CrashCause,
    EngineSaturated,
    HostExhausted,
    InvalidRollout,
    InvalidWeights,
    Limit,
    NativeUnavailable,
    RolloutError,
    RolloutGone,
    RuntimeClosed,
    WeightsNotReady,
    WeightsProblem,
    WorkerCrashed,
    WorkerStalled,
)
from assay.rollout.layout import AdmissionPolicy, PauseMode, RolloutOutcome, Stop
from assay.rollout.runtime import (
    Activation,
    Completed,
    RolloutRef,
    Runtime,
    RuntimeOptions,
    Sampling,
    ScoreRequest,
    Stats,
)

__all__ = [
    "Activation",
    "AdmissionPolicy",
    "Completed",
    "CrashCause",
    "EngineSaturated",
    "HostExhausted",
    "InvalidRollout",
    "InvalidWeights",
    "Limit",
    "NativeUnavailable",
    "PauseMode",
    "ProbeEngine",
    "RolloutError",
    "RolloutGone",
    "RolloutOutcome",
    "RolloutRef",
    "Runtime",
    "RuntimeClosed",
    "RuntimeOptions",
    "Sampling",
    "ScoreRequest",
    "Stats",
    "Stop",
    "WeightsNotReady",
    "WeightsProblem",
    "WorkerCrashed",
    "WorkerStalled",
]
