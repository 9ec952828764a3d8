"""What the decode bench needs of another engine, and helpers for those that offer it."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay.rollout.models.model import TensorKind

if TYPE_CHECKING:
    from pathlib import Path

    from assay.rollout.bench.engine.work import Contender
    from assay.rollout.models.model import DType, Model

Decoder = Callable[[int], float]
"""Decodes this many tokens for every rollout of its batch, from the same context each time, and
returns the seconds of these steps, without the context's prefill."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a decoder is opened for."""

    batch: int
    context: int
    """Positions before the first decoded token, its own input included; at least 2."""
    tokens: int
    """The most tokens of one run."""
    threads: int


Opener = Callable[[Load], AbstractContextManager[Decoder]]


@dataclass(frozen=True, slots=True)
class Rival:
    """An engine of another project."""

    contender: Contender
    packages: tuple[tuple[str, str], ...]
    """Module and distribution of each package that it needs."""
    prepare: Callable[[Model, DType, Path], dict[str, Opener]]
    """Writes the model in the rival's format into a folder; returns a decoder for each row."""

    def refusal(self, model: Model) -> str | None:
        """Why it cannot decode this model here; None when it can."""
        for module, distribution in self.packages:
            if importlib.util.find_spec(module) is None:
                return f"the package {distribution} is not installed"
        return None if is_plain_llama(model) else "only plain Llama models are written for it"


HF_NAMES = {
    TensorKind.EMBED: "model.embed_tokens",
    TensorKind.LM_HEAD: "lm_head",
    TensorKind.FINAL_NORM: "model.norm",
    TensorKind.ATTN_NORM: "input_layernorm",
    TensorKind.FFN_NORM: "post_attention_layernorm",
    TensorKind.WQ: "self_attn.q_proj",
    TensorKind.WK: "self_attn.k_proj",
    TensorKind.WV: "self_attn.v_proj",
    TensorKind.WO: "self_attn.o_proj",
    TensorKind.W_GATE: "mlp.gate_proj",
    TensorKind.W_UP: "mlp.up_proj",
    TensorKind.W_DOWN: "mlp.down_proj",
}


def is_plain_llama(model: Model) -> bool:
    """Whether it has neither QK-norm nor biases, nor scaled rotations."""
    config = model.config
    return not (
        config.qk_norm
        or config.qkv_bias
        or config.out_bias
        or config.mlp_bias
        or config.rope.kind != "default"
    )


def prompt_of(load: Load) -> list[int]:
    """The context without the first decode step's input; ids that every vocabulary here has."""
    return [1 + i % 200 for i in range(load.context - 1)]


def seconds_of(steps: Callable[[int], None], n: int) -> float:
    """Time of `steps(n)`."""
    begun = time.perf_counter()
    steps(n)
    return time.perf_counter() - begun
