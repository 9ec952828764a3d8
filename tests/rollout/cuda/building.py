"""The kernel's host build for tests: small models, engines that run on this process, one cache of
builds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from assay.rollout.cuda.engine import CudaEngine
from assay.rollout.cuda.gpu import GpuMachine, describe
from assay.rollout.cuda.host_build import HostMachine
from assay.rollout.cuda.options import CudaOptions
from assay.rollout.cuda.sizes import EMULATED, Sizes
from assay.rollout.errors.cuda import CudaError
from assay.rollout.models import Model, ModelConfig, Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from assay.rollout.interface.rollouts import Completed

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


def odd(seed: int = 0, **changes: Any) -> Model:
    """Random weights, norms and biases of a shape near `TINY`."""
    config = replace(TINY, **changes)
    rng = np.random.default_rng(seed)
    shapes = config.tensor_shapes()
    return Model(
        config,
        {
            (kind, layer): Tensor.of(rng.normal(0.7 * (len(shape) == 1), 0.25, shape))
            for kind, layer, shape in shapes
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


def missing() -> str | None:
    """What keeps a GPU test from running here; None: nothing."""
    try:
        describe()
    except CudaError as problem:
        return str(problem)
    return None


WHY = missing()
NEEDS_A_GPU = pytest.mark.skipif(WHY is not None, reason=str(WHY))


def gpu_engine(model: Model, **options: Any) -> CudaEngine:
    """An engine on this machine's GPU."""
    chosen = {"slots": 64, "seq_len_max": 64, **options}
    return CudaEngine(model, GpuMachine, CudaOptions(**chosen))


def logits_on_gpu(engine: CudaEngine, row: int = 0) -> NDArray[np.float32]:
    """Of one row of the last step."""
    machine, n = engine.machine, engine.sizes.config.vocab_size
    assert isinstance(machine, GpuMachine)
    at = engine._params.scratch + engine.sizes.scratch["LOGITS"] + 4 * row * n
    return machine.read(at, 4 * n).view(np.float32)


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
