"""What the decode bench is asked for; apart from it, because it needs numpy and the command line
does not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Weights(StrEnum):
    """Their type in memory."""

    BF16 = "bf16"
    F32 = "f32"


class Contender(StrEnum):
    """Who decodes the same weights beside this engine."""

    LLAMA_CPP = "llama.cpp"
    TORCH = "torch"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeWork:
    """What to decode, and beside whom."""

    threads: int
    tokens: int = 12
    """Decoded by every rollout of a run."""
    batches: tuple[int, ...] = (1, 4, 16)
    weights: tuple[Weights, ...] = (Weights.BF16,)
    contenders: tuple[Contender, ...] = (*Contender,)
    prefix: bool = True
    """Also sixteen rollouts over a prefix, shared and not, on the first model with room for it."""
