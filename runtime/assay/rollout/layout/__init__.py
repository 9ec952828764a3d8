"""The words and structures of the shared memory in Python: mirrors of the C headers.

`binding.load` compares the size of every structure with the C compiler's, so a field added
on one side only is detected at load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.rollout.layout.engine import (
    AdapterPiece,
    ModelShape,
    NativeEngineInfo,
    NativeEngineSettings,
    Piece,
    SeqStep,
)
from assay.rollout.layout.host import (
    STATS_WORDS,
    EngineOps,
    GuardReport,
    Probe,
    RuntimeSettings,
    StatsWords,
    TraceRecord,
    WorkerSettings,
)
from assay.rollout.layout.ring import (
    Asked,
    Completion,
    CreditLine,
    Descriptor,
    Member,
    Order,
    Queue,
    Ref,
    Region,
    Ring,
    Row,
    Sampler,
    Shape,
    StopBytes,
)
from assay.rollout.layout.words import (
    LINE_BYTES,
    MASK64,
    NONE,
    STOP_BYTES_MAX,
    STOP_IDS_MAX,
    STOP_STRINGS_MAX,
    TRANSITIONS,
    AdmissionPolicy,
    Credit,
    Event,
    Flag,
    Hold,
    Kind,
    PauseMode,
    RolloutOutcome,
    State,
    Status,
    Stop,
)

if TYPE_CHECKING:
    import ctypes as ct

SIZED: tuple[type[ct.Structure], ...] = (
    *(Descriptor, Completion, Sampler, Row, CreditLine, Ring, Queue, Shape, Region, Order),
    *(Member, Ref, WorkerSettings, RuntimeSettings, EngineOps, Probe, TraceRecord),
    *(GuardReport, StatsWords, ModelShape, NativeEngineSettings, NativeEngineInfo, SeqStep),
    *(Piece, Asked, AdapterPiece),
)
"""In the order of `assay_abi_sizes`, which reports the C compiler's sizes."""

__all__ = [
    "LINE_BYTES",
    "MASK64",
    "NONE",
    "SIZED",
    "STATS_WORDS",
    "STOP_BYTES_MAX",
    "STOP_IDS_MAX",
    "STOP_STRINGS_MAX",
    "TRANSITIONS",
    "AdapterPiece",
    "AdmissionPolicy",
    "Asked",
    "Completion",
    "Credit",
    "CreditLine",
    "Descriptor",
    "EngineOps",
    "Event",
    "Flag",
    "GuardReport",
    "Hold",
    "Kind",
    "Member",
    "ModelShape",
    "NativeEngineInfo",
    "NativeEngineSettings",
    "Order",
    "PauseMode",
    "Piece",
    "Probe",
    "Queue",
    "Ref",
    "Region",
    "Ring",
    "RolloutOutcome",
    "Row",
    "RuntimeSettings",
    "Sampler",
    "SeqStep",
    "Shape",
    "State",
    "StatsWords",
    "Status",
    "Stop",
    "StopBytes",
    "TraceRecord",
    "WorkerSettings",
]
