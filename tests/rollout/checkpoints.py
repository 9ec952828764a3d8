"""A llama2.c checkpoint of random weights, for tests that need a model file and not a model."""

from __future__ import annotations

import array
import random
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write_checkpoint(
    path: Path,
    *,
    dim: int = 32,
    hidden: int = 48,
    layers: int = 1,
    vocab: int = 300,
    positions: int = 64,
    seed: int = 0,
) -> Path:
    """Four heads; tied embeddings. A norm's weights are as random as a matrix's."""
    n = vocab * dim + layers * (2 * dim + 4 * dim * dim + 3 * dim * hidden) + dim
    n += positions * (dim // 4)  # the rotary tables, which are not read
    rng = random.Random(seed)
    values = array.array("f", (rng.gauss(0, 0.2) for _ in range(n)))
    header = struct.pack("<7i", dim, hidden, layers, 4, 4, vocab, positions)
    path.write_bytes(header + values.tobytes())
    return path
