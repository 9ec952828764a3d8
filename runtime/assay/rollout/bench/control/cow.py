"""`cow`: memory and time saved by branches on a shared prefix, against the theoretical bound.

K branches over a prompt of P tokens generate R tokens each; keys and values take as many bytes per
position as SmolLM2-135M's in bf16. Blocks in use are the runtime's own peak count, with the prefix
cache and without it; copies are real copies of real bytes.

The bound: shared positions once, own positions for each branch, in whole blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

from assay.rollout.bench.harness.machine import this_machine
from assay.rollout.bench.harness.report import Report
from assay.rollout.library.engines import ProbeEngine
from assay.rollout.local.options import RuntimeOptions
from assay.rollout.local.runtime import Runtime

BLOCK_TOKENS = 16
RESPONSE = 16
BYTES_A_POSITION = 30 * 2 * 3 * 64 * 2
"""30 layers, keys and values, 3 heads of 64, two bytes each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branched:
    """What a run of branched rollouts took."""

    blocks_peak: int
    copies: int
    control_ns_a_branch: float
    """Worker time per branch outside the engine: matching, tables, copies, hand-overs."""


def branch(k: int, prompt_len: int, *, shared: bool) -> Branched:
    """K branches, with the worker stepped manually so that nothing else is timed."""
    blocks = (
        k * (-(-(prompt_len + RESPONSE) // BLOCK_TOKENS) + 1)
        if not shared
        else (-(-prompt_len // BLOCK_TOKENS) + 1 + 3 * k)
    )
    options = RuntimeOptions(
        seq_len_max=prompt_len + RESPONSE,
        kv_blocks=blocks,
        decode_credits=k,
        prefix_cache=shared,
        prefill_chunk=1024,
    )
    engine = ProbeEngine(
        block_tokens=BLOCK_TOKENS,
        batch_max=max(64, k + 1),
        step_tokens_max=2048,
        bytes_a_position=BYTES_A_POSITION,
    )
    with Runtime(engine, k, options, start=False) as runtime:
        prompt = [i % 251 for i in range(prompt_len)]
        runtime.submit(prompt, max_tokens=RESPONSE, seeds=range(k), want_reward=False)
        while runtime.step():
            pass
        s = runtime.stats()
        if s.completed != k:
            raise RuntimeError(f"{k - s.completed} branches did not finish")
        return Branched(
            blocks_peak=s.kv_in_use_peak,
            copies=s.kv_copies,
            control_ns_a_branch=(s.busy_ns - s.engine_ns) / k,
        )


def least_blocks(k: int, prompt_len: int) -> int:
    """Blocks needed: full blocks of the prefix once, the rest per branch."""
    positions = prompt_len + RESPONSE - 1
    full = (prompt_len - 1) // BLOCK_TOKENS
    return full + k * (-(-positions // BLOCK_TOKENS) - full)


def measure(ks: list[int], prefixes: list[int], repeats: int, command: str) -> Report:
    """Run the whole bench."""
    report = Report("Copy-on-write branches", command, this_machine())
    for prompt_len in prefixes:
        for k in ks:
            runs = [branch(k, prompt_len, shared=True) for _ in range(repeats)]
            alone = k * -(-(prompt_len + RESPONSE - 1) // BLOCK_TOKENS)
            where = f"K={k} prefix={prompt_len}"
            saved = [alone - r.blocks_peak for r in runs]
            bound = alone - least_blocks(k, prompt_len)
            report.add(f"{where}: memory saved", "%", [100 * s / alone for s in saved])
            report.add(f"{where}: of the bound", "% of bound", [100 * s / bound for s in saved])
            report.add(
                f"{where}: control", "us/branch", [r.control_ns_a_branch / 1e3 for r in runs]
            )
    return report
