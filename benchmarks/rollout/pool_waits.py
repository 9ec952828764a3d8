"""System calls that the threads of a step make to wait for each other, per step.

Decodes a random model on a pool of threads while the hot-path guard counts every thread: first with
the machine as it is, then with spinning processes, so that one more thread is runnable than there
are cores. `unforced` counts the waits while the other threads had their cores throughout: what
the step itself causes.

    python -m benchmarks.rollout.pool_waits --threads 2
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from assay.rollout import Runtime, RuntimeOptions
from assay.rollout.local.guard import watched
from assay.rollout.models import DType, Engine, Model, ModelConfig, Tensor
from assay.rollout.models.engine import EngineSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

STEPS = 500
WAIT_S_MAX = 300.0


def random_model() -> Model:
    """A small Llama: large enough that two threads share each phase."""
    config = ModelConfig(
        dim=256,
        n_layers=8,
        n_heads=4,
        n_kv_heads=2,
        head_dim=64,
        hidden_dim=704,
        vocab_size=2048,
        positions_max=512,
        rms_eps=1e-5,
        tied_embeddings=True,
    )
    rng = np.random.default_rng(1)
    tensors = {
        (kind, layer): Tensor.of(rng.normal(0, 0.05, shape).astype(np.float32))
        for kind, layer, shape in config.tensor_shapes()
    }
    return Model(config, tensors)


@contextlib.contextmanager
def spinning(n: int) -> Iterator[None]:
    """n processes that each keep a core busy."""
    command = [sys.executable, "-c", "while True: pass"]
    hogs = [subprocess.Popen(command) for _ in range(n)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


def reach(runtime: Runtime, steps: int) -> None:
    """Wait until the worker has made this many steps."""
    until = time.monotonic() + WAIT_S_MAX
    while runtime.stats().steps < steps:
        if time.monotonic() > until:
            raise TimeoutError(f"fewer than {steps} steps in {WAIT_S_MAX:.0f} s")
        time.sleep(0.01)


def measure(model: Model, threads: int) -> dict[str, float]:
    """Waits and preemptions per step, over STEPS consecutive steps."""
    settings = EngineSettings(weight_dtype=DType.BF16, threads=threads, batch_max=16)
    with (
        Engine.create(model, settings) as engine,
        Runtime(engine, 64, RuntimeOptions(seq_len_max=500)) as runtime,
    ):
        for i in range(16):
            prompt = [i + 1]
            runtime.submit(prompt, max_tokens=480, seeds=range(4), want_reward=False)
        reach(runtime, 50)
        first = runtime.stats().steps
        with watched(runtime) as report:
            reach(runtime, first + STEPS)
        steps = runtime.stats().steps - first
        return {
            "steps": steps,
            "threads": report["threads"],
            "waits_per_step": report["waits"] / steps,
            "unforced": report["waits_unforced"],
            "preempted_per_step": report["preempted"] / steps,
            "allocations": report["allocations"],
        }


def main() -> None:
    """Print one line per load."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    threads = parser.parse_args().threads
    cores = os.cpu_count() or 1
    model = random_model()
    for label, hogs in (("as it is", 0), ("one more than cores", max(1, cores - threads + 1))):
        load = Path("/proc/loadavg").read_text().split()[0]
        with spinning(hogs):
            found = measure(model, threads)
        values = "  ".join(f"{name} {value:.3g}" for name, value in found.items())
        sys.stdout.write(f"{label:<20} load {load}  {values}\n")


if __name__ == "__main__":
    main()
