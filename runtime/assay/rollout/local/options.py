"""Options of a runtime: its limits, checked by name, and the native structure for them."""

from __future__ import annotations

from dataclasses import dataclass

from assay.rollout.interface.checks import U32_MAX, U64_MAX, check_cpu, check_integer, check_number
from assay.rollout.layout import AdmissionPolicy, RuntimeSettings, Shape, WorkerSettings

_CREDITS = ("decode_credits", "reward_credits", "trajectory_credits")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeOptions:
    """Limits and behaviour of a runtime. None: derived from `slots`, the engine or the model."""

    seq_len_max: int = 1024
    """Tokens per slot, prompt and response together."""
    kv_blocks: int | None = None
    """None: enough for every decoding rollout at its maximum length, without sharing."""
    decode_credits: int | None = None
    """Rollouts between admission and the reward stage; None: twice the batch size."""
    reward_credits: int | None = None
    """Rollouts waiting for a score; None: `slots`."""
    trajectory_credits: int | None = None
    """Scored rollouts not yet polled; None: `slots`."""
    rows_max: int | None = None
    """Decode rows per step; None: the engine's maximum."""
    prefill_chunk: int = 128
    """Prompt tokens that a step may prefill beside its decode rows."""
    policy: AdmissionPolicy = AdmissionPolicy.FIFO
    aging_max: int = 1024
    """Admissions (and steps) after which a rollout goes first, under every policy."""
    prefix_cache: bool = True
    spin_s: float = 20e-6
    """How long the worker looks for work before it parks."""
    cpu: int | None = None
    """CPU the worker is pinned to."""
    numa_node: int | None = None
    """NUMA node that the KV arena is bound to."""
    huge_pages: bool = True
    trace_events_max: int = 1 << 16
    trace: bool = False
    native_scorer: bool = False
    """Score natively with a checksum of the sequence; for benches and soak."""
    scorer_cpu: int | None = None
    generation_first: int = 1
    index_first: int = 0


def given(value: int | None, default: int) -> int:
    return default if value is None else value


def native_settings(
    slots: int, options: RuntimeOptions, rows: int, block_tokens: int
) -> RuntimeSettings:
    decode = given(options.decode_credits, min(slots, 2 * rows))
    blocks = -(-options.seq_len_max // block_tokens) + 1
    return RuntimeSettings(
        shape=Shape(
            slots=slots,
            seq_max=options.seq_len_max,
            block_tokens=block_tokens,
            kv_blocks=given(options.kv_blocks, decode * blocks),
            decode_credits=decode,
            reward_credits=given(options.reward_credits, slots),
            trajectory_credits=given(options.trajectory_credits, slots),
            generation_first=options.generation_first,
            index_first=options.index_first,
        ),
        worker=WorkerSettings(
            policy=options.policy,
            rows_max=rows,
            prefill_chunk=options.prefill_chunk,
            prefix_cache=options.prefix_cache,
            aging_max=options.aging_max,
            spin_ns=round(options.spin_s * 1e9),
            cpu=given(options.cpu, -1),
        ),
        trace_capacity=options.trace_events_max,
        scorer=int(options.native_scorer),
        scorer_cpu=given(options.scorer_cpu, -1),
        numa_node=given(options.numa_node, -1),
        huge_pages=options.huge_pages,
    )


def check_options(options: RuntimeOptions) -> None:
    for name in ("seq_len_max", "prefill_chunk", "trace_events_max"):
        check_integer(name, getattr(options, name), 1, 1 << 30)
    check_integer("aging_max", options.aging_max, 1, 1 << 62)
    for name in ("kv_blocks", "rows_max", *_CREDITS):
        if getattr(options, name) is not None:
            check_integer(name, getattr(options, name), 1, 1 << 30)
    check_number("spin_s", options.spin_s, 0.0, 10.0)
    check_integer("generation_first", options.generation_first, 1, U32_MAX)
    check_integer("index_first", options.index_first, 0, U64_MAX)
    check_cpu("cpu", options.cpu)
    check_cpu("scorer_cpu", options.scorer_cpu)
    if options.numa_node is not None:
        check_integer("numa_node", options.numa_node, 0, 63)
