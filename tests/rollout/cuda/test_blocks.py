"""KV blocks of the kernel: what a load holds at once, by the kernel's own count, on the host
build."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.rollout.cuda.building import ended, host_engine, tiny

from assay.rollout.cuda.sizes import EMULATED

if TYPE_CHECKING:
    from assay.rollout.cuda.engine import CudaEngine

BLOCK = EMULATED.block_tokens
groups = st.tuples(st.integers(1, 30), st.integers(1, 4), st.integers(1, 6))
"""Tokens of the prompt, rollouts, tokens of each."""


def most_held(engine: CudaEngine, loads: list[tuple[list[int], int, int]]) -> int:
    """Blocks in use at once while all run; they are submitted while the kernel holds."""
    with engine.pause(60.0):
        for prompt, k, tokens in loads:
            engine.submit(prompt, max_tokens=tokens, seeds=range(k), want_reward=False)
    ended(engine, sum(k for _, k, _ in loads))
    stats = engine.stats()
    assert stats.kv_available == engine._limits.kv_blocks
    return stats.kv_in_use_peak


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(groups, min_size=1, max_size=2))
def test_a_group_holds_whole_blocks_of_its_prompt_once_and_the_rest_for_each(
    cases: list[tuple[int, int, int]],
) -> None:
    with host_engine(tiny()) as engine:
        loads = [([at] * length, k, tokens) for at, (length, k, tokens) in enumerate(cases)]
        shared = most_held(engine, loads)
        alone = most_held(engine, [(p, 1, n) for p, k, n in loads for _ in range(k)])
    whole = [(length - 1) // BLOCK for length, _, _ in cases]
    each = [-(-(length + tokens - 1) // BLOCK) for length, _, tokens in cases]
    ks = [k for _, k, _ in cases]
    assert shared == sum(w + k * (n - w) for w, k, n in zip(whole, ks, each, strict=True))
    assert alone == sum(k * n for k, n in zip(ks, each, strict=True))
    assert shared <= alone
