"""The shared memory's words, as Python sees them: mirrors of `native/assay_ring.h`, `core.h`
and `engine.h`.

`binding.load` compares the size of every structure with what the C compiler says, so a field added
on one side alone does not go unnoticed.
"""

from __future__ import annotations

import ctypes as ct
from enum import IntEnum, IntFlag

STOP_IDS_MAX = 8
STOP_STRINGS_MAX = 4
STOP_BYTES_MAX = 48
LINE_BYTES = 64
NONE = 0xFFFFFFFF
MASK64 = (1 << 64) - 1


class State(IntEnum):
    """Where a rollout is; see `TRANSITIONS`."""

    FREE = 0
    PREFILL_READY = 1
    DECODING = 2
    REWARD_PENDING = 3
    TRAJECTORY_READY = 4
    DONE = 5


TRANSITIONS: dict[State, frozenset[State]] = {
    State.FREE: frozenset({State.PREFILL_READY}),
    State.PREFILL_READY: frozenset({State.DECODING, State.DONE}),
    State.DECODING: frozenset({State.REWARD_PENDING, State.DONE}),
    State.REWARD_PENDING: frozenset({State.TRAJECTORY_READY, State.DONE}),
    State.TRAJECTORY_READY: frozenset({State.DONE}),
    State.DONE: frozenset({State.FREE}),
}
"""State now to the states that may follow."""


class Outcome(IntEnum):
    """How a rollout ended; exactly one, once it is DONE."""

    NONE = 0
    COMPLETED = 1
    CANCELLED = 2
    CRASHED = 3
    NOT_FINITE = 4


class Stop(IntEnum):
    """Why decoding ended."""

    NONE = 0
    LENGTH = 1
    ID = 2
    STRING = 3


class Kind(IntEnum):
    """What a descriptor asks for."""

    FREE = 1
    PREFILL = 2
    DECODE = 3
    REWARD = 4
    TRAJECTORY = 5
    DONE = 6
    CANCEL = 7


class Flag(IntFlag):
    """Wishes that travel with a rollout."""

    NO_REWARD = 1


class Hold(IntFlag):
    """Credits a rollout holds."""

    DECODE = 1
    REWARD = 2
    TRAJECTORY = 4


class Credit(IntEnum):
    """Kinds of credit; the order of the credit lines in memory."""

    DECODE = 0
    REWARD = 1
    TRAJECTORY = 2
    KV = 3


class Status(IntEnum):
    """What the C calls answer."""

    OK = 0
    EMPTY = 1
    SATURATED = 2
    STALE = 3
    INVALID = 4
    MISMATCH = 5
    CLOSED = 6
    STALLED = 7


class Policy(IntEnum):
    """Who is admitted, and stepped, first."""

    FIFO = 0
    SHORTEST_REMAINING = 1
    PREFIX_SHARING = 2


class PauseMode(IntEnum):
    """How a pause leaves the rollouts that run."""

    IN_PLACE = 0
    """Held between two steps; keys and values are kept."""
    FINISH = 1
    """Nothing is admitted; held when what runs has ended."""
    RETRACT = 2
    """Held; what runs gives its keys and values back, and they are computed again when it is
    admitted again, before all others. What it generated stays."""


class Event(IntEnum):
    """Instants the trace ring records."""

    POSTED = 1
    CONSUMED = 2
    PREFILL_BEGIN = 3
    PREFILL_END = 4
    STEP_BEGIN = 5
    STEP_END = 6
    DECODE_DONE = 7
    REWARD_POSTED = 8
    SCORED = 9
    TRAJECTORY_TAKEN = 10
    TRAJECTORY_DONE = 11
    COMPLETION_VISIBLE = 12
    OBSERVED = 13


class Descriptor(ct.Structure):
    """One cache line of a ring."""

    _fields_ = (
        ("slot", ct.c_uint32),
        ("generation", ct.c_uint32),
        ("kind", ct.c_uint16),
        ("flags", ct.c_uint16),
        ("seq_len", ct.c_uint32),
        ("max_tokens", ct.c_uint32),
        ("kv", ct.c_uint32),
        ("prefix", ct.c_uint64),
        ("reward_id", ct.c_uint64),
        ("posted", ct.c_uint64),
        ("aux", ct.c_uint64),
        ("cookie", ct.c_uint64),
    )


class Completion(ct.Structure):
    """One cache line of the done ring."""

    _fields_ = (
        ("slot", ct.c_uint32),
        ("generation", ct.c_uint32),
        ("kind", ct.c_uint16),
        ("outcome", ct.c_uint8),
        ("stop", ct.c_uint8),
        ("prompt_len", ct.c_uint32),
        ("n_generated", ct.c_uint32),
        ("scored", ct.c_uint32),
        ("user_data", ct.c_uint64),
        ("reward_id", ct.c_uint64),
        ("posted", ct.c_uint64),
        ("reward", ct.c_double),
        ("cookie", ct.c_uint64),
    )


class Sampler(ct.Structure):
    """How one rollout samples."""

    _fields_ = (
        ("temperature", ct.c_float),
        ("top_p", ct.c_float),
        ("min_p", ct.c_float),
        ("top_k", ct.c_uint32),
        ("seed", ct.c_uint64),
        ("reserved", ct.c_uint64),
    )


StopBytes = (ct.c_uint8 * STOP_BYTES_MAX) * STOP_STRINGS_MAX


class Row(ct.Structure):
    """One rollout of the table: six cache lines."""

    _fields_ = (
        ("word", ct.c_uint64),
        ("user_data", ct.c_uint64),
        ("group", ct.c_uint64),
        ("prefix", ct.c_uint64),
        ("reward_id", ct.c_uint64),
        ("reward", ct.c_double),
        ("prompt_len", ct.c_uint32),
        ("max_tokens", ct.c_uint32),
        ("n_generated", ct.c_uint32),
        ("outcome", ct.c_uint8),
        ("stop", ct.c_uint8),
        ("holds", ct.c_uint8),
        ("flags", ct.c_uint8),
        ("sampler", Sampler),
        ("kv_reserved", ct.c_uint32),
        ("scored", ct.c_uint32),
        ("n_stop_ids", ct.c_uint32),
        ("n_stop_strings", ct.c_uint32),
        ("cancel", ct.c_uint64),
        ("decode_done", ct.c_uint64),
        ("stop_ids", ct.c_int32 * STOP_IDS_MAX),
        ("stop_lengths", ct.c_uint8 * STOP_STRINGS_MAX),
        ("kv_version", ct.c_uint32),
        ("kv_mixed", ct.c_uint32),
        ("reserved", ct.c_uint32 * 5),
        ("stop_bytes", StopBytes),
    )


class CreditLine(ct.Structure):
    """One credit: a cache line."""

    _fields_ = (
        ("available", ct.c_int64),
        ("limit", ct.c_int64),
        ("refused", ct.c_uint64),
        ("pad", ct.c_uint64 * 5),
    )


class Ring(ct.Structure):
    """Head of an SPSC ring; the cells follow."""

    _fields_ = (
        ("tail", ct.c_uint64),
        ("pad0", ct.c_uint64 * 7),
        ("staged", ct.c_uint64),
        ("head_shadow", ct.c_uint64),
        ("pad1", ct.c_uint64 * 6),
        ("head", ct.c_uint64),
        ("pad2", ct.c_uint64 * 7),
        ("taken", ct.c_uint64),
        ("tail_shadow", ct.c_uint64),
        ("pad3", ct.c_uint64 * 6),
        ("mask", ct.c_uint64),
        ("pad4", ct.c_uint64 * 7),
    )


class Queue(ct.Structure):
    """Head of an MPMC queue; the sequences follow, then the cells."""

    _fields_ = (
        ("tail", ct.c_uint64),
        ("pad0", ct.c_uint64 * 7),
        ("head", ct.c_uint64),
        ("pad1", ct.c_uint64 * 7),
        ("mask", ct.c_uint64),
        ("pad2", ct.c_uint64 * 7),
    )


class Shape(ct.Structure):
    """Bounds of one runtime."""

    _fields_ = (
        ("slots", ct.c_uint32),
        ("seq_max", ct.c_uint32),
        ("block_tokens", ct.c_uint32),
        ("kv_blocks", ct.c_uint32),
        ("decode_credits", ct.c_uint32),
        ("reward_credits", ct.c_uint32),
        ("trajectory_credits", ct.c_uint32),
        ("generation_first", ct.c_uint32),
        ("index_first", ct.c_uint64),
    )


class Region(ct.Structure):
    """Head of the region: where everything lies, and the counters."""

    _fields_ = (
        ("magic", ct.c_uint64),
        ("bytes", ct.c_uint64),
        ("shape", Shape),
        ("free_at", ct.c_uint64),
        ("prefill_at", ct.c_uint64),
        ("decode_at", ct.c_uint64),
        ("reward_at", ct.c_uint64),
        ("trajectory_at", ct.c_uint64),
        ("done_at", ct.c_uint64),
        ("credits_at", ct.c_uint64),
        ("rollouts_at", ct.c_uint64),
        ("tokens_at", ct.c_uint64),
        ("logps_at", ct.c_uint64),
        ("versions_at", ct.c_uint64),
        ("pad0", ct.c_uint64 * 6),
        ("submitted", ct.c_uint64),
        ("saturated", ct.c_uint64),
        ("pad1", ct.c_uint64 * 6),
        ("completed", ct.c_uint64),
        ("failed", ct.c_uint64),
        ("pad2", ct.c_uint64 * 6),
        ("illegal", ct.c_uint64),
        ("stale", ct.c_uint64),
        ("corrupt", ct.c_uint64),
        ("pad3", ct.c_uint64 * 5),
        ("policy_version", ct.c_uint32),
        ("pad4", ct.c_uint32 * 15),
    )


class Order(ct.Structure):
    """What the rollouts of one group have in common."""

    _fields_ = (
        ("group", ct.c_uint64),
        ("sampler", Sampler),
        ("max_tokens", ct.c_uint32),
        ("flags", ct.c_uint32),
        ("n_stop_ids", ct.c_uint32),
        ("n_stop_strings", ct.c_uint32),
        ("stop_ids", ct.c_int32 * STOP_IDS_MAX),
        ("stop_lengths", ct.c_uint8 * STOP_STRINGS_MAX),
        ("stop_bytes", StopBytes),
    )


class Member(ct.Structure):
    """What differs inside a group."""

    _fields_ = (("seed", ct.c_uint64), ("user_data", ct.c_uint64), ("reward_id", ct.c_uint64))


class Ref(ct.Structure):
    """A rollout's name: a slot and its tenant's generation."""

    _fields_ = (("slot", ct.c_uint32), ("generation", ct.c_uint32))


class Asked(ct.Structure):
    """What a rollout was asked for, and which weights computed its prompt."""

    _fields_ = (
        ("sampler", Sampler),
        ("max_tokens", ct.c_uint32),
        ("kv_version", ct.c_uint32),
        ("kv_mixed", ct.c_uint32),
        ("reserved", ct.c_uint32),
    )


class WorkerSettings(ct.Structure):
    """How the worker decides and waits."""

    _fields_ = (
        ("policy", ct.c_uint32),
        ("rows_max", ct.c_uint32),
        ("prefill_chunk", ct.c_uint32),
        ("prefix_cache", ct.c_uint32),
        ("aging_max", ct.c_uint64),
        ("spin_ns", ct.c_uint64),
        ("cpu", ct.c_int32),
        ("reserved", ct.c_uint32),
    )


class RuntimeSettings(ct.Structure):
    """Everything a runtime is created from, but the engine."""

    _fields_ = (
        ("shape", Shape),
        ("worker", WorkerSettings),
        ("trace_capacity", ct.c_uint32),
        ("scorer", ct.c_uint32),
        ("scorer_cpu", ct.c_int32),
        ("numa_node", ct.c_int32),
        ("huge_pages", ct.c_uint32),
        ("reserved", ct.c_uint32),
        ("token_offsets", ct.c_void_p),
        ("token_bytes", ct.c_void_p),
    )


class EngineOps(ct.Structure):
    """A decode engine, as the core calls it."""

    _fields_ = (
        ("self", ct.c_void_p),
        ("step", ct.c_void_p),
        ("kv_copy", ct.c_void_p),
        ("kv_block_bytes", ct.c_size_t),
        ("block_tokens", ct.c_uint32),
        ("vocab_size", ct.c_uint32),
        ("seq_len_max", ct.c_uint32),
        ("batch_max", ct.c_uint32),
        ("step_tokens_max", ct.c_uint32),
    )


class Probe(ct.Structure):
    """The engine without a model."""

    _fields_ = (
        ("vocab_size", ct.c_uint32),
        ("block_tokens", ct.c_uint32),
        ("read_all", ct.c_uint32),
        ("bytes_a_position", ct.c_uint32),
        ("spin_ns", ct.c_uint64),
        ("fail_at_step", ct.c_uint64),
        ("fault_at_step", ct.c_uint64),
        ("steps", ct.c_uint64),
        ("misbehave", ct.c_uint64),
        ("policy_version", ct.c_uint64),
    )


class TraceRecord(ct.Structure):
    """One event as the reader gets it; `ticks` is nanoseconds of CLOCK_MONOTONIC by then."""

    _fields_ = (
        ("ticks", ct.c_uint64),
        ("slot", ct.c_uint32),
        ("generation", ct.c_uint32),
        ("event", ct.c_uint64),
    )


class GuardReport(ct.Structure):
    """What the hot-path guard saw."""

    _fields_ = (
        ("threads", ct.c_uint64),
        ("unsettled", ct.c_uint64),
        ("sections", ct.c_uint64),
        ("syscalls", ct.c_uint64),
        ("last_syscall", ct.c_uint64),
        ("allocations", ct.c_uint64),
        ("faults_minor", ct.c_uint64),
        ("faults_major", ct.c_uint64),
        ("traps_syscalls", ct.c_uint32),
        ("counts_allocations", ct.c_uint32),
        ("waits", ct.c_uint64),
        ("preempted", ct.c_uint64),
    )


STATS_WORDS = (
    *("submitted", "completed", "failed", "in_flight"),
    *("saturated", "illegal", "stale", "corrupt", "slots_free"),
    *("decode_available", "reward_available", "trajectory_available", "kv_available"),
    *("decode_refused", "reward_refused", "trajectory_refused", "kv_refused"),
    *("queue_prefill", "queue_decode", "queue_reward", "queue_trajectory", "queue_done"),
    *("iterations", "steps", "decode_tokens", "prefill_tokens", "shared_rows"),
    *("engine_ns", "busy_ns", "admitted", "aged", "blocked", "retracted"),
    *("prefix_matched_positions", "prefix_missed_positions"),
    *("kv_copies", "kv_copied_positions", "kv_evictions"),
    *("kv_in_use", "kv_in_use_peak", "kv_cold"),
    *("worker_parks", "worker_wakes", "host_parks", "host_wakes", "trace_events"),
    *("region_bytes", "kv_bytes", "kv_block_bytes", "kv_pages", "numa_bound"),
    *("worker_state", "crash", "policy_version", "crash_detail"),
)
"""The 64-bit words of `assay_stats`, in order."""


class StatsWords(ct.Structure):
    """`assay_stats`."""

    _fields_ = tuple((name, ct.c_uint64) for name in STATS_WORDS)


# ---- the engine's face: engine.h ----


class ModelShape(ct.Structure):
    """Sizes of a model, in elements."""

    _fields_ = (
        *((name, ct.c_uint32) for name in ("dim", "n_layers", "n_heads", "n_kv_heads", "head_dim")),
        *((name, ct.c_uint32) for name in ("hidden_dim", "vocab_size", "seq_len_max")),
        *((name, ct.c_float) for name in ("rms_eps", "rope_gain")),
        *((name, ct.c_uint8) for name in ("weight_dtype", "kv_dtype", "tied_embeddings")),
        *((name, ct.c_uint8) for name in ("qk_norm", "qkv_bias", "out_bias", "mlp_bias")),
        ("reserved", ct.c_uint8),
    )


class NativeEngineSettings(ct.Structure):
    """How an engine runs."""

    _fields_ = (
        *((name, ct.c_uint32) for name in ("n_threads", "batch_max", "step_tokens_max")),
        *((name, ct.c_uint32) for name in ("block_tokens", "spin_max")),
        ("first_cpu", ct.c_int32),
        *((name, ct.c_uint32) for name in ("isa", "reserved")),
    )


class NativeEngineInfo(ct.Structure):
    """What an engine found and took."""

    _fields_ = (
        ("isa", ct.c_char * 16),
        *((name, ct.c_uint32) for name in ("n_threads", "huge_pages")),
        *((name, ct.c_uint64) for name in ("weight_bytes", "matrix_bytes", "workspace_bytes")),
        *((name, ct.c_uint64) for name in ("kv_block_bytes", "parks")),
    )


class SeqStep(ct.Structure):
    """One rollout's share of one step."""

    _fields_ = (
        ("tokens", ct.c_void_p),
        *((name, ct.c_uint32) for name in ("n_tokens", "pos0")),
        ("block_table", ct.c_void_p),
        *((name, ct.c_uint32) for name in ("n_blocks", "shared_blocks")),
        ("want_logits", ct.c_uint8),
        ("sampler", ct.POINTER(Sampler)),
        ("out_token", ct.c_int32),
        ("out_logp", ct.c_float),
        ("policy_version", ct.c_uint64),
    )


class Piece(ct.Structure):
    """Rows `start` to `end` of a tensor to stage; `data` is row `start`."""

    _fields_ = (
        *((name, ct.c_uint32) for name in ("tensor", "layer", "dtype", "rows", "cols")),
        *((name, ct.c_uint32) for name in ("start", "end", "reserved")),
        ("data", ct.c_void_p),
    )


SIZED: tuple[type[ct.Structure], ...] = (
    *(Descriptor, Completion, Sampler, Row, CreditLine, Ring, Queue, Shape, Region, Order),
    *(Member, Ref, WorkerSettings, RuntimeSettings, EngineOps, Probe, TraceRecord),
    *(GuardReport, StatsWords, ModelShape, NativeEngineSettings, NativeEngineInfo, SeqStep),
    *(Piece, Asked),
)
"""In the order in which `assay_abi_sizes` reports what the C compiler made of them."""
