"""Where the C sources of the engine are."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[3]
NATIVE = ROOT / "runtime" / "assay" / "rollout" / "native"

ENGINE_SOURCES = (
    *("adapter", "adapter_steps", "arena", "attend", "batch", "contain", "engine", "engine_room"),
    *("guard", "isa", "kv_layout", "layers", "pool", "pool_usage", "rotation", "sampler"),
    *("second_base", "weights"),
)
