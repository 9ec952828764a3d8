"""Feeding an engine what a test compares: one sequence token by token, or a company of prompts."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.rollout.models import DType, Engine
from assay.rollout.models.driver import Driver
from assay.rollout.models.engine import EngineSettings, Isa

Floats = NDArray[np.float32]
TOLERANCE = 1e-4


def settings(isa: Isa = Isa.AUTO, dtype: DType = DType.F32, **more: Any) -> EngineSettings:
    return EngineSettings(**{"weight_dtype": dtype, "isa": isa, "threads": 2, **more})


def decode_logits(engine: Engine, ids: list[int], prefill: int = 0, chunk: int = 8) -> Floats:
    """(positions, vocab_size) from position `prefill` on, fed token by token."""
    driver = Driver(engine, 64)
    rollout = driver.new(len(ids))
    driver.prefill(rollout, ids[:prefill], chunk)
    rows = []
    for token in ids[prefill:]:
        driver.step([rollout], [[token]])
        rows.append(driver.logits(0))
    return np.stack(rows)


def last_logits(engine: Engine, prompts: list[list[int]]) -> list[Floats]:
    """Logits of each prompt's last position; the prompts share every step they can."""
    driver = Driver(engine, 64)
    rollouts = [driver.new(len(ids)) for ids in prompts]
    done = [0] * len(prompts)
    found: dict[int, Floats] = {}
    chunks = itertools.cycle([5, 1, 16, 3])
    while len(found) < len(prompts):
        chunk = next(chunks)
        live = [i for i in range(len(prompts)) if done[i] < len(prompts[i])]
        fed = [prompts[i][done[i] : done[i] + chunk] for i in live]
        driver.step([rollouts[i] for i in live], fed)
        for at, i in enumerate(live):
            done[i] += len(fed[at])
            if done[i] == len(prompts[i]):
                found[i] = driver.logits(at)
    return [found[i] for i in range(len(prompts))]
