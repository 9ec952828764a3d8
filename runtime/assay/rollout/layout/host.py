"""Structures for creating and inspecting a runtime: settings, probe, trace, guard, counters
(`runtime.h`, `worker.h`, `probe.h`, `trace.h`, `guard.h`)."""

from __future__ import annotations

import ctypes as ct

from assay.rollout.layout.ring import Shape


class WorkerSettings(ct.Structure):
    """How the worker schedules and waits."""

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
    """Everything that a runtime is created from, except the engine."""

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
        ("rouse", ct.c_void_p),
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
    """One event as the reader gets it; `ticks` is converted to nanoseconds of CLOCK_MONOTONIC."""

    _fields_ = (
        ("ticks", ct.c_uint64),
        ("slot", ct.c_uint32),
        ("generation", ct.c_uint32),
        ("event", ct.c_uint64),
    )


class GuardReport(ct.Structure):
    """Counts of the hot-path guard."""

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
        ("waits_unforced", ct.c_uint64),
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
    """Mirror of `assay_stats`."""

    _fields_ = tuple((name, ct.c_uint64) for name in STATS_WORDS)
