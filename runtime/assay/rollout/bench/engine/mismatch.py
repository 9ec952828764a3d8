"""`mismatch`: how far log-probs are from float32's, by the precision of keys and values, and the
cost of each precision.

Tokens are sampled at temperature 1 with the weights rounded to bf16. The reference decodes the same
tokens with the same rounded weights, with everything else in float32. A float32 trainer sees
these differences as importance ratios other than 1.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from assay.rollout.bench.harness.machine import this_machine
from assay.rollout.bench.harness.report import Report
from assay.rollout.models import DType, Engine, load_model
from assay.rollout.models.driver import Driver, TokenSampling
from assay.rollout.models.engine import EngineSettings
from assay.rollout.models.model import Tensor

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from assay.rollout.models import Model

BATCH = 4


def round_to_bf16(model: Model) -> Model:
    """The model with its matrices at the nearest bf16 values, kept as float32."""
    tensors = {}
    for key, tensor in model.tensors.items():
        values = tensor.to_float32()
        if values.ndim == 2:
            bits = values.view(np.uint32).astype(np.uint64)
            rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
            values = rounded.astype(np.uint32).view(np.float32)
        tensors[key] = Tensor.of(values)
    return replace(model, tensors=tensors)


def _settings(tokens: int, threads: int, weights: DType, kv: DType) -> EngineSettings:
    return EngineSettings(
        weight_dtype=weights,
        kv_dtype=kv,
        threads=threads,
        batch_max=BATCH,
        seq_len_max=tokens + 1,
    )


def _sample(
    engine: Engine, tokens: int, seed: int
) -> tuple[NDArray[np.int32], NDArray[np.float32], float]:
    """Tokens and log-probs, each (tokens, BATCH), and tokens/s."""
    driver = Driver(engine, BATCH * (-(-tokens // engine.settings.block_tokens) + 1))
    rollouts = [
        driver.new(tokens + 1, TokenSampling(temperature=1.0, seed=seed + i)) for i in range(BATCH)
    ]
    begun = time.perf_counter()
    made, logps = driver.decode(rollouts, [1] * BATCH, tokens)
    return made, logps, BATCH * tokens / (time.perf_counter() - begun)


def _scored(engine: Engine, made: NDArray[np.int32]) -> NDArray[np.float64]:
    """Log-prob of each token, (tokens, BATCH), under the engine's logits."""
    tokens = len(made)
    driver = Driver(engine, BATCH * (-(-tokens // engine.settings.block_tokens) + 1))
    rollouts = [driver.new(tokens + 1) for _ in range(BATCH)]
    logps = np.empty(made.shape)
    fed = np.vstack([np.ones((1, BATCH), np.int32), made[:-1]])
    for at in range(tokens):
        driver.step(rollouts, [[int(token)] for token in fed[at]])
        for i in range(BATCH):
            logits = driver.logits(i).astype(np.float64)
            logits -= logits.max()
            logps[at, i] = logits[made[at, i]] - np.log(np.exp(logits).sum())
    return logps


def measure(path: Path, tokens: int, threads: int, repeats: int, command: str) -> Report:
    """For one model: the differences over repeats * 4 rollouts of `tokens` tokens."""
    model = round_to_bf16(load_model(path))
    report = Report(f"Mismatch with float32, {path.stem}", command, this_machine())
    exact = _settings(tokens, threads, DType.F32, DType.F32)
    rates: dict[DType, list[float]] = {}
    with Engine.create(model, exact) as reference:
        for kv in (DType.F32, DType.BF16):
            with Engine.create(model, _settings(tokens, threads, DType.BF16, kv)) as engine:
                runs = [_sample(engine, tokens, seed * BATCH) for seed in range(repeats)]
            apart = [np.abs(_scored(reference, made) - logps) for made, logps, _ in runs]
            where = f"{kv.name.lower()} keys and values"
            report.add(f"{where}: |difference|, mean", "nats", [float(a.mean()) for a in apart])
            report.add(f"{where}: |difference|, greatest", "nats", [float(a.max()) for a in apart])
            rates[kv] = [rate for _, _, rate in runs]
            report.add(f"{where}: speed", "tokens/s", rates[kv])
    pairs = zip(rates[DType.F32], rates[DType.BF16], strict=True)
    report.add("speed, f32 / bf16", "ratio", [a / b for a, b in pairs])
    return report
