"""What the decode and swap benches are asked for; apart from them, because they need numpy and the
command line does not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from assay.rollout.layout import PauseMode


class Weights(StrEnum):
    """Their type in memory."""

    BF16 = "bf16"
    F32 = "f32"


class Contender(StrEnum):
    """Who decodes the same weights beside this engine."""

    LLAMA_CPP = "llama.cpp"
    """With flash attention and without: two rows, and the ratio to the faster one."""
    TORCH = "torch"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeWork:
    """What to decode, and beside whom."""

    threads: int
    tokens: int = 12
    """Decoded by every rollout of a run."""
    batches: tuple[int, ...] = (1, 4, 16)
    contexts: tuple[int, ...] = (16, 1024)
    """Positions already there when decoding begins; those a model has no room for are left out."""
    kv_bf16: bool = True
    """Also this engine with bf16 keys and values: what the float32 default costs."""
    weights: tuple[Weights, ...] = (Weights.BF16,)
    contenders: tuple[Contender, ...] = (*Contender,)
    prefix: bool = True
    """Also sixteen rollouts over a prefix, shared and not, on the first model with room for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapWork:
    """Weights to stage and swap while a model decodes."""

    threads: int
    repeats: int = 3
    layers: int = 30
    """Of SmolLM2-135M's shape, which has 30."""
    batch: int = 4
    share_max: float = 0.05
    """Of one core's time, for staging."""
    swaps: int = 200
    """A repeat."""
    window_s: float = 3.0
    """Undisturbed, before and after a staging."""
    mode: PauseMode = PauseMode.IN_PLACE
