"""The shared memory (`assay_ring.h`, `core.h`): descriptors, rollout rows, rings, credits, the head
of the region."""

from __future__ import annotations

import ctypes as ct

from assay.rollout.layout.words import STOP_BYTES_MAX, STOP_IDS_MAX, STOP_STRINGS_MAX


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
    """Sampling parameters of one rollout."""

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
    """Limits of one runtime."""

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
    """Head of the region: offsets of all parts, and the counters."""

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
    """What the rollouts of one group share."""

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
    """What differs between the rollouts of a group."""

    _fields_ = (("seed", ct.c_uint64), ("user_data", ct.c_uint64), ("reward_id", ct.c_uint64))


class Ref(ct.Structure):
    """Identifies a rollout: a slot and the slot's generation."""

    _fields_ = (("slot", ct.c_uint32), ("generation", ct.c_uint32))


class Asked(ct.Structure):
    """What was requested of a rollout, and which weights computed its prompt."""

    _fields_ = (
        ("sampler", Sampler),
        ("max_tokens", ct.c_uint32),
        ("kv_version", ct.c_uint32),
        ("kv_mixed", ct.c_uint32),
        ("reserved", ct.c_uint32),
    )
