"""The rollout runtime: rings, states, credits, shared-prefix KV and a decode worker, in C.

`Runtime` is the local engine, `remote` an engine on a server; `models` loads weights and
tokenizers.
"""

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
from assay.rollout.interface.rollouts import (
    Activation,
    Completed,
    Group,
    GroupOptions,
    RolloutRef,
    Sampling,
    ScoreRequest,
)
from assay.rollout.layout import AdmissionPolicy, PauseMode, RolloutOutcome, Stop
from assay.rollout.library.engines import ProbeEngine
from assay.rollout.local.native_runtime import Stats
from assay.rollout.local.options import RuntimeOptions
from assay.rollout.local.runtime import Runtime

__all__ = [
    "Activation",
    "AdmissionPolicy",
    "Completed",
    "CrashCause",
    "EngineSaturated",
    "Group",
    "GroupOptions",
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
