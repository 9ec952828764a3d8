"""Staging and exchanging weights while a model decodes: cost of staging, hold time of a swap.

The model has random weights of SmolLM2-135M's shape, optionally with fewer layers. Windows without
and with a staging thread alternate, so that a ratio compares neighbouring windows.
"""

from __future__ import annotations

import statistics
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assay.rollout.bench.harness.machine import realtime, this_machine
from assay.rollout.bench.harness.report import Report
from assay.rollout.interface.rollouts import Sampling
from assay.rollout.local.options import RuntimeOptions
from assay.rollout.local.runtime import Runtime
from assay.rollout.models import DType, Engine, Model, ModelConfig, Tensor, tensors_of
from assay.rollout.models.engine import EngineSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from assay.rollout.bench.engine.work import SwapWork
    from assay.rollout.interface.rollouts import Activation
    from assay.rollout.models import StagedWeights

RESPONSE = 48
BETWEEN_SWAPS_S = 0.002
"""Minimum decoding time between swaps."""


def random_model(n_layers: int, seed: int) -> Model:
    """SmolLM2-135M's shape with random bf16 weights and `n_layers` of its 30 layers."""
    config = ModelConfig(
        dim=576,
        n_layers=n_layers,
        n_heads=9,
        n_kv_heads=3,
        head_dim=64,
        hidden_dim=1536,
        vocab_size=49152,
        positions_max=1024,
        rms_eps=1e-5,
        rope_theta=100_000.0,
        tied_embeddings=True,
    )
    rng = np.random.default_rng(seed)
    tensors = {}
    for kind, layer, shape in config.tensor_shapes():
        values = rng.standard_normal(shape, np.float32)
        values *= np.float32(0.05)
        tensors[kind, layer] = Tensor((values.view(np.uint32) >> 16).astype(np.uint16), DType.BF16)
    return Model(config, tensors)


@dataclass(slots=True)
class _Feeder:
    """Keeps the batch full."""

    runtime: Runtime
    batch: int
    seed: int = 0

    def feed(self, until_s: float) -> None:
        """Poll and submit until the deadline."""
        while time.perf_counter() < until_s:
            self.runtime.poll()
            while self.runtime.stats().slots_free >= self.batch:
                self.seed += self.batch
                self.runtime.submit(
                    [1, 2],
                    max_tokens=RESPONSE,
                    seeds=range(self.seed, self.seed + self.batch),
                    sampling=Sampling(temperature=0.0),
                    want_reward=False,
                )
            self.runtime.wait(min(0.02, max(0.0, until_s - time.perf_counter())))

    def tokens_s(self, seconds: float) -> float:
        """Decoded tokens per second over a window."""
        return self._tokens_s(lambda begun: self.feed(begun + seconds))

    def tokens_s_beside(self, other: threading.Thread) -> float:
        """The same, from the start of a thread to its end."""

        def feed(_: float) -> None:
            other.start()
            while other.is_alive():
                self.feed(time.perf_counter() + 0.02)

        return self._tokens_s(feed)

    def _tokens_s(self, feed: Callable[[float], None]) -> float:
        before, begun = self.runtime.stats().decode_tokens, time.perf_counter()
        feed(begun)
        decoded = self.runtime.stats().decode_tokens - before
        return decoded / (time.perf_counter() - begun)


@dataclass(frozen=True, slots=True)
class _Staged:
    """One set of weights staged while decoding."""

    quiet_tokens_s: float
    """Mean of the windows before and after."""
    beside_tokens_s: float
    work_s: float
    took_s: float


def _stage(feeder: _Feeder, engine: Engine, model: Model, version: int, work: SwapWork) -> _Staged:
    came: list[StagedWeights] = []

    def stage() -> None:
        came.append(engine.stage(version, tensors_of(model), share_max=work.share_max))

    before = feeder.tokens_s(work.window_s)
    begun = time.perf_counter()
    beside = feeder.tokens_s_beside(threading.Thread(target=stage))
    took_s = time.perf_counter() - begun
    after = feeder.tokens_s(work.window_s)
    if not came:
        raise RuntimeError("the weights were not staged")
    return _Staged(statistics.mean((before, after)), beside, came[0].work_s, took_s)


def _swap(feeder: _Feeder, versions: tuple[int, int], work: SwapWork) -> list[Activation]:
    swaps = []
    for i in range(work.swaps):
        feeder.feed(time.perf_counter() + BETWEEN_SWAPS_S)
        swaps.append(feeder.runtime.activate(versions[i % 2], mode=work.mode))
    return swaps


def _p99(samples: list[float]) -> float:
    return sorted(samples)[min(len(samples) - 1, round(0.99 * (len(samples) - 1)))]


def _run(report: Report, engine: Engine, models: tuple[Model, Model], work: SwapWork) -> None:
    batch = work.batch
    staged, held_ms, waited_ms = [], [], []
    with Runtime(engine, 2 * batch, RuntimeOptions(seq_len_max=RESPONSE + 2)) as runtime:
        feeder = _Feeder(runtime, batch)
        feeder.tokens_s(work.window_s)
        for _ in range(work.repeats):
            version = 1 - engine.policy_version
            staged.append(_stage(feeder, engine, models[version], version, work))
            swaps = _swap(feeder, (version, 1 - version), work)
            held_ms.append([1e3 * s.pause_s for s in swaps])
            waited_ms.append([1e3 * s.wait_s for s in swaps])
    report.add("decode, undisturbed", "tokens/s", [s.quiet_tokens_s for s in staged])
    report.add("decode, while weights are staged", "tokens/s", [s.beside_tokens_s for s in staged])
    kept = [100 * s.beside_tokens_s / s.quiet_tokens_s for s in staged]
    report.add("of the undisturbed speed", "%", kept)
    report.add("staging, CPU time", "s", [s.work_s for s in staged])
    report.add("staging, elapsed", "s", [s.took_s for s in staged])
    for name, samples in (("worker held", held_ms), ("until held", waited_ms)):
        report.add(f"swap, {name}, p50", "ms", [statistics.median(one) for one in samples])
        report.add(f"swap, {name}, p99", "ms", [_p99(one) for one in samples])


def measure(work: SwapWork, command: str, *, free_cores: bool) -> Report:
    """Run the whole bench."""
    models = (random_model(work.layers, 0), random_model(work.layers, 1))
    millions = models[0].config.parameters / 1e6
    title = f"Weights arriving and changing: {millions:.0f} M parameters, bf16, batch {work.batch}"
    report = Report(title, command, this_machine())
    settings = EngineSettings(
        weight_dtype=DType.BF16, threads=work.threads, batch_max=2 * work.batch
    )
    with realtime(wanted=free_cores), Engine.create(models[0], settings) as engine:
        _run(report, engine, models, work)
    return report
