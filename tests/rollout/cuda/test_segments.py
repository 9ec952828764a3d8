"""Attention by chunks and by segments leaves the same bits: in company, alone, with a shared prompt
that ends within a segment."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.rollout.cuda.building import TINY, bits, ended, host_engine, tiny

from assay.rollout import Sampling
from assay.rollout.cuda.sizes import EMULATED

if TYPE_CHECKING:
    from assay.rollout.cuda.engine import CudaEngine
    from assay.rollout.models import ModelConfig

CHUNK, SEGMENT = EMULATED.chunk, 8
LONG = replace(TINY, positions_max=1024)
TOKENS = 2
PROMPTS = {
    "ends within a segment": CHUNK * (SEGMENT + 2) + 11,
    "ends with a segment": CHUNK * SEGMENT,
    "two segments and a position": CHUNK * SEGMENT * 2 + 1,
    "one chunk": 5,
}


def prompt_of(length: int) -> list[int]:
    return [(37 * length + 11 * at) % TINY.vocab_size for at in range(length)]


def engine_of(wide: int, model: ModelConfig = LONG) -> CudaEngine:
    tuning = replace(EMULATED, wide=wide)
    return host_engine(tiny(3, model), tuning=tuning, slots=16, seq_len_max=640, prefill_chunk=16)


def rolled(engine: CudaEngine, loads: list[tuple[int, int]]) -> list[list[tuple[bytes, bytes]]]:
    """The bits of each load (length of the prompt, rollouts that share it), all at once."""
    with engine.pause(30.0):
        for number, (length, k) in enumerate(loads):
            engine.submit(
                prompt_of(length),
                max_tokens=TOKENS,
                seeds=range(k),
                user_ids=range(10 * number, 10 * number + k),
                sampling=Sampling(temperature=1.0),
                want_reward=False,
            )
    done = bits(ended(engine, sum(k for _, k in loads)))
    return [[done.pop(0) for _ in range(k)] for _, k in loads]


def test_segments_leave_the_bits_of_chunks() -> None:
    together = [(length, 3) for length in PROMPTS.values()]
    with engine_of(0) as chunks, engine_of(1) as segments:
        expected = rolled(chunks, together)
        assert rolled(segments, together) == expected
        for length, rollouts in zip(PROMPTS.values(), expected, strict=True):
            for engine in (chunks, segments):
                assert rolled(engine, [(length, 1)]) == [rollouts[:1]]


@pytest.mark.parametrize(("heads", "of_keys"), [(8, 4), (12, 1)])
def test_so_they_do_with_other_heads(heads: int, of_keys: int) -> None:
    """Several heads of keys, or more queries of one than half a warp takes."""
    together = [(CHUNK * (SEGMENT + 1) + 3, 3), (40, 2)]
    model = replace(LONG, n_heads=heads, n_kv_heads=of_keys)
    with engine_of(0, model) as chunks, engine_of(1, model) as segments:
        assert rolled(segments, together) == rolled(chunks, together)
