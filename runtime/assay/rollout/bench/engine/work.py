"""Parameters of the decode and swap benches. A module of its own: the benches need numpy, the
command line does not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from assay.rollout.layout import PauseMode


class Weights(StrEnum):
    """Their dtype in memory."""

    BF16 = "bf16"
    F32 = "f32"


class Contender(StrEnum):
    """Contenders that decode the same weights."""

    LLAMA_CPP = "llama.cpp"
    """With and without flash attention: two rows, and the ratio to the faster one."""
    TORCH = "torch"
    CTRANSLATE2 = "ctranslate2"
    """float32, or int8 beside bf16 weights."""
    ONNX_GENAI = "onnxruntime-genai"
    """float32, or int8 beside bf16 weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeWork:
    """What to decode, and which contenders to measure."""

    threads: int
    tokens: int = 12
    """Tokens decoded by every rollout of a run."""
    batches: tuple[int, ...] = (1, 4, 16)
    contexts: tuple[int, ...] = (16, 1024)
    """Context lengths in positions; those that exceed the model's are skipped."""
    kv_bf16: bool = True
    """Also measure this engine with bf16 keys and values: the cost of the float32 default."""
    weights: tuple[Weights, ...] = (Weights.BF16,)
    contenders: tuple[Contender, ...] = (*Contender,)
    free_cores: bool = False
    """Run at real-time priority, on cores in use."""
    prefix: bool = True
    """Also measure sixteen rollouts over a prefix, shared and not, on the first model with room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapWork:
    """Weights to stage and swap while a model decodes."""

    threads: int
    repeats: int = 3
    layers: int = 30
    """Layers of SmolLM2-135M's shape, which has 30."""
    batch: int = 4
    share_max: float = 0.05
    """Share of one core's time for staging."""
    swaps: int = 200
    """Swaps per repeat."""
    window_s: float = 3.0
    """Length of the undisturbed windows before and after a staging."""
    mode: PauseMode = PauseMode.IN_PLACE


class GpuPart(StrEnum):
    """What can be measured by itself: a GPU is often there for minutes only."""

    RING = "ring"
    DECODE = "decode"
    PREFILL = "prefill"
    GROUP = "group"
    SWAP = "swap"
    ADAPTER = "adapter"
    BARRIER = "barrier"
    TORCH = "torch"
