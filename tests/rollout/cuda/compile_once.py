"""Compiles the kernel for one architecture: python compile_once.py ARCHITECTURE FOLDER

Prints the compiler's version and what the kernel takes, as JSON. Needs the packages of the extra
`cuda` and numpy, so it runs in an environment that has no others.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from cuda.bindings import nvrtc

from assay.rollout.cuda.program import compile_program
from assay.rollout.cuda.sizes import Sizes, Tuning
from assay.rollout.models import ModelConfig

SMALL = ModelConfig(
    dim=1024,
    n_layers=28,
    n_heads=16,
    n_kv_heads=8,
    head_dim=128,
    hidden_dim=3072,
    vocab_size=151936,
    positions_max=40960,
    rms_eps=1e-6,
    rope_theta=1e6,
    tied_embeddings=True,
    qk_norm=True,
)


def main() -> None:
    """Compile it; the fast kernel for devices of the kind `a`, the general one for others."""
    architecture, folder = sys.argv[1:]
    tuning = Tuning() if architecture.endswith("a") else Tuning(adapter_rank=32).for_less()
    program = compile_program(Sizes(SMALL, tuning).defines, architecture, folder=Path(folder))
    _, major, minor = nvrtc.nvrtcVersion()
    print(json.dumps({"version": [major, minor], **asdict(program.resources)}))


if __name__ == "__main__":
    main()
