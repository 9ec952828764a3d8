"""A small Llama in numpy, with gradients: what the runtime decodes, the trainer differentiates.

Architecture and conventions are those of Hugging Face's `LlamaForCausalLM`: RMSNorm before
attention and MLP, rotary positions over the two halves of a head, SwiGLU, tied embeddings, no
biases. Activations are (batch, time, ...), matrices (out, in) as in checkpoints. The derivatives
are written out; `tests/rollout/demo/test_transformer.py` compares them with finite differences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from assay.rollout.demo.task import VOCABULARY

if TYPE_CHECKING:
    from collections.abc import Mapping

Array: TypeAlias = NDArray[Any]
Weights: TypeAlias = dict[str, Array]
"""Tensors by their Hugging Face names."""

EMBEDDING = "model.embed_tokens.weight"
FINAL_NORM = "model.norm.weight"


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of the model."""

    dim: int = 64
    layers: int = 2
    heads: int = 4
    hidden: int = 128
    vocabulary: int = VOCABULARY
    positions: int = 32
    rms_eps: float = 1e-5
    rope_theta: float = 10_000.0

    @property
    def head_dim(self) -> int:
        """Size of one head."""
        return self.dim // self.heads

    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every tensor."""
        found: dict[str, tuple[int, ...]] = {EMBEDDING: (self.vocabulary, self.dim)}
        for layer in range(self.layers):
            at = f"model.layers.{layer}"
            found[f"{at}.input_layernorm.weight"] = (self.dim,)
            for name in "qkvo":
                found[f"{at}.self_attn.{name}_proj.weight"] = (self.dim, self.dim)
            found[f"{at}.post_attention_layernorm.weight"] = (self.dim,)
            found[f"{at}.mlp.gate_proj.weight"] = (self.hidden, self.dim)
            found[f"{at}.mlp.up_proj.weight"] = (self.hidden, self.dim)
            found[f"{at}.mlp.down_proj.weight"] = (self.dim, self.hidden)
        found[FINAL_NORM] = (self.dim,)
        return found


def initial(shape: Shape, seed: int) -> Weights:
    """Random float32 weights: norms 1, matrices normal with deviation 1 / sqrt(inputs)."""
    rng = np.random.default_rng(seed)
    return {
        name: np.ones(size, np.float32)
        if len(size) == 1
        else (rng.standard_normal(size) / np.sqrt(size[1])).astype(np.float32)
        for name, size in shape.tensors().items()
    }


class Transformer:
    """One forward pass with what its gradient needs."""

    def __init__(self, shape: Shape, weights: Mapping[str, Array], tokens: Array) -> None:
        """Compute `logits`, shape (batch, time, vocabulary), of int tokens (batch, time)."""
        self._shape, self._weights, self._tokens = shape, weights, tokens
        self._kept: list[dict[str, Array]] = []
        angle = np.arange(tokens.shape[1])[:, None] * shape.rope_theta ** (
            -np.arange(0, shape.head_dim, 2) / shape.head_dim
        )
        kind = weights[EMBEDDING].dtype
        self._cos, self._sin = np.cos(angle).astype(kind), np.sin(angle).astype(kind)
        stream = weights[EMBEDDING][tokens]
        for layer in range(shape.layers):
            stream = self._layer(f"model.layers.{layer}", stream)
        self._last = stream
        self._final, self._final_scale = _norm(stream, weights[FINAL_NORM], shape.rms_eps)
        self.logits: Array = self._final @ weights[EMBEDDING].T

    def _layer(self, at: str, stream: Array) -> Array:
        w, eps, kept = self._weights, self._shape.rms_eps, {"stream": stream}
        x, kept["scale"] = _norm(stream, w[f"{at}.input_layernorm.weight"], eps)
        q, k, v = (self._heads(x @ w[f"{at}.self_attn.{n}_proj.weight"].T) for n in "qkv")
        q, k = self._rotate(q, self._sin), self._rotate(k, self._sin)
        mixed = self._merge(_attend(q, k) @ v)
        middle = stream + mixed @ w[f"{at}.self_attn.o_proj.weight"].T
        y, kept["scale_mlp"] = _norm(middle, w[f"{at}.post_attention_layernorm.weight"], eps)
        gate, up = (y @ w[f"{at}.mlp.{n}_proj.weight"].T for n in ("gate", "up"))
        kept |= {"x": x, "q": q, "k": k, "v": v, "mixed": mixed, "middle": middle}
        kept |= {"y": y, "gate": gate, "up": up}
        self._kept.append(kept)
        after: Array = middle + (_silu(gate) * up) @ w[f"{at}.mlp.down_proj.weight"].T
        return after

    def _heads(self, x: Array) -> Array:
        """(batch, time, dim) to (batch, heads, time, head_dim)."""
        batch, time, _ = x.shape
        heads: Array = x.reshape(batch, time, self._shape.heads, -1).transpose(0, 2, 1, 3)
        return heads

    def _merge(self, x: Array) -> Array:
        batch, _, time, _ = x.shape
        merged: Array = x.transpose(0, 2, 1, 3).reshape(batch, time, -1)
        return merged

    def _rotate(self, x: Array, sin: Array) -> Array:
        """Rotate the two halves of each head; with -sin, back."""
        first, second = np.split(x, 2, axis=-1)
        return np.concatenate(
            (first * self._cos - second * sin, second * self._cos + first * sin), axis=-1
        )

    def gradients(self, of_logits: Array) -> Weights:
        """The gradient of every tensor, from that of `logits`."""
        w = self._weights
        found: Weights = {}
        found[EMBEDDING] = _outer(of_logits, self._final)
        back, found[FINAL_NORM] = _norm_back(
            of_logits @ w[EMBEDDING], self._last, w[FINAL_NORM], self._final_scale
        )
        for layer in reversed(range(self._shape.layers)):
            back = self._layer_back(f"model.layers.{layer}", self._kept[layer], back, found)
        np.add.at(found[EMBEDDING], self._tokens, back)
        return found

    def _layer_back(self, at: str, kept: dict[str, Array], back: Array, found: Weights) -> Array:
        middle = back + self._mlp_back(at, kept, back, found)
        return middle + self._attention_back(at, kept, middle, found)

    def _mlp_back(self, at: str, kept: dict[str, Array], back: Array, found: Weights) -> Array:
        w, gate, up = self._weights, kept["gate"], kept["up"]
        active = _silu(gate)
        found[f"{at}.mlp.down_proj.weight"] = _outer(back, active * up)
        inner = back @ w[f"{at}.mlp.down_proj.weight"]
        of_gate, of_up = inner * up * _silu_slope(gate), inner * active
        found[f"{at}.mlp.gate_proj.weight"] = _outer(of_gate, kept["y"])
        found[f"{at}.mlp.up_proj.weight"] = _outer(of_up, kept["y"])
        of_y = of_gate @ w[f"{at}.mlp.gate_proj.weight"] + of_up @ w[f"{at}.mlp.up_proj.weight"]
        norm = f"{at}.post_attention_layernorm.weight"
        result, found[norm] = _norm_back(of_y, kept["middle"], w[norm], kept["scale_mlp"])
        return result

    def _attention_back(
        self, at: str, kept: dict[str, Array], back: Array, found: Weights
    ) -> Array:
        w, q, k, v = self._weights, kept["q"], kept["k"], kept["v"]
        found[f"{at}.self_attn.o_proj.weight"] = _outer(back, kept["mixed"])
        of_mixed = self._heads(back @ w[f"{at}.self_attn.o_proj.weight"])
        share = _attend(q, k)
        of_share = of_mixed @ v.swapaxes(-1, -2)
        of_scores = share * (of_share - (of_share * share).sum(-1, keepdims=True))
        of_scores /= np.sqrt(np.asarray(self._shape.head_dim, share.dtype))
        of = {
            "q": self._rotate(of_scores @ k, -self._sin),
            "k": self._rotate(of_scores.swapaxes(-1, -2) @ q, -self._sin),
            "v": share.swapaxes(-1, -2) @ of_mixed,
        }
        of_x = np.zeros_like(kept["x"])
        for name, gradient in of.items():
            merged, matrix = self._merge(gradient), f"{at}.self_attn.{name}_proj.weight"
            found[matrix] = _outer(merged, kept["x"])
            of_x += merged @ w[matrix]
        norm = f"{at}.input_layernorm.weight"
        result, found[norm] = _norm_back(of_x, kept["stream"], w[norm], kept["scale"])
        return result


def _attend(q: Array, k: Array) -> Array:
    """Shares of attention, causal: (batch, heads, time, time)."""
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(np.asarray(q.shape[-1], q.dtype))
    later = np.triu(np.ones(scores.shape[-2:], bool), 1)
    scores = np.where(later, np.asarray(-np.inf, q.dtype), scores)
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    shares: Array = scores / scores.sum(-1, keepdims=True)
    return shares


def _norm(x: Array, weight: Array, eps: float) -> tuple[Array, Array]:
    scale = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + np.asarray(eps, x.dtype))
    return x * scale * weight, scale


def _norm_back(back: Array, x: Array, weight: Array, scale: Array) -> tuple[Array, Array]:
    of_weight = (back * x * scale).sum((0, 1))
    scaled = back * weight
    return scale * (scaled - x * scale**2 * (scaled * x).mean(-1, keepdims=True)), of_weight


def _outer(back: Array, inputs: Array) -> Array:
    """Gradient of a matrix (out, in) summed over batch and time."""
    found: Array = back.reshape(-1, back.shape[-1]).T @ inputs.reshape(-1, inputs.shape[-1])
    return found


def _sigmoid(x: Array) -> Array:
    found: Array = 0.5 * (1 + np.tanh(0.5 * x))
    return found


def _silu(x: Array) -> Array:
    return x * _sigmoid(x)


def _silu_slope(x: Array) -> Array:
    s = _sigmoid(x)
    slope: Array = s * (1 + x * (1 - s))
    return slope


def log_probs(logits: Array) -> Array:
    """Log-softmax over the last axis."""
    shifted = logits - logits.max(-1, keepdims=True)
    found: Array = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return found
