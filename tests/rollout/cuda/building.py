"""The kernel's host build for tests: small models, engines that run on this process, one cache of
builds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.rollout.cuda.engine import CudaEngine
from assay.rollout.cuda.host_build import HostMachine
from assay.rollout.cuda.options import CudaOptions
from assay.rollout.cuda.sizes import EMULATED, Sizes
from assay.rollout.models import Model, ModelConfig, Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.rollout.rollouts import Completed

BUILDS = Path(__file__).parents[3] / "build" / "cuda"
TINY = ModelConfig(
    dim=32,
    n_layers=1,
    n_heads=2,
    n_kv_heads=1,
    head_dim=16,
    hidden_dim=40,
    vocab_size=331,
    positions_max=256,
    rms_eps=1e-6,
    tied_embeddings=True,
)


def tiny(seed: int = 0, config: ModelConfig = TINY) -> Model:
    """Random weights, large enough that logits differ."""
    rng = np.random.default_rng(seed)
    return Model(
        config,
        {
            (kind, layer): Tensor.of(rng.normal(0.7 * (len(shape) == 1), 0.35, shape))
            for kind, layer, shape in config.tensor_shapes()
        },
    )


def host_engine(
    model: Model,
    *,
    blocks: int = 2,
    seed: int = 0,
    token_bytes: Sequence[bytes] | None = None,
    **options: Any,
) -> CudaEngine:
    """An engine whose kernel runs on a thread of this process."""

    def machine(sizes: Sizes) -> HostMachine:
        return HostMachine(sizes, blocks=blocks, seed=seed, folder=BUILDS)

    chosen = {"slots": 8, "seq_len_max": 64, "prefill_chunk": 8, "tuning": EMULATED, **options}
    return CudaEngine(model, machine, CudaOptions(**chosen), token_bytes=token_bytes)


def ended(engine: CudaEngine, n: int) -> list[Completed]:
    """The next n completions, in the order of their user ids; rewards are scored with 1."""
    came: list[Completed] = []
    for _ in range(600):
        for request in engine.poll_rewards():
            engine.score(request.ref, 1.0)
        came += engine.poll()
        if len(came) >= n:
            return sorted(came, key=lambda c: c.user_id)
        engine.wait(0.1)
    raise AssertionError(f"only {len(came)} of {n} came back")


def bits(completions: Sequence[Completed]) -> list[tuple[bytes, bytes]]:
    """Tokens and log-probs, to the bit."""
    return [(c.tokens.tobytes(), c.logps.tobytes()) for c in completions]
