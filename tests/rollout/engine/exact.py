"""The reference that needs nothing but numpy: a transformer's forward pass in float64, a token's
probability by full sorts, and random models of every family the engine runs.

Written from the published formulas, one sequence at a time, without a cache: what the engine does
differently (float32, panels, paging, batches, chunks) is what the comparison is about.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from assay.rollout.models import Model, ModelConfig, RopeScaling, Tensor, TensorKind

if TYPE_CHECKING:
    from assay.rollout.models.driver import TokenSampling

Doubles = NDArray[np.float64]
K = TensorKind

_COMMON: dict[str, Any] = {
    "dim": 96,
    "n_layers": 3,
    "hidden_dim": 176,
    "vocab_size": 331,
    "positions_max": 256,
    "rms_eps": 1e-6,
}
_SHAPES: dict[str, dict[str, Any]] = {
    "llama": {"n_heads": 6, "n_kv_heads": 2},
    "llama-biased-mha": {
        "n_heads": 4,
        "n_kv_heads": 4,
        "qkv_bias": True,
        "out_bias": True,
        "mlp_bias": True,
    },
    "llama3-rope": {
        "n_heads": 6,
        "n_kv_heads": 3,
        "rope": RopeScaling("llama3", factor=8.0, original_positions=64),
    },
    "llama-linear-rope": {
        "n_heads": 6,
        "n_kv_heads": 6,
        "rope": RopeScaling("linear", factor=4.0),
    },
    "qwen2": {"n_heads": 6, "n_kv_heads": 2, "qkv_bias": True},
    "qwen3-yarn": {
        "n_heads": 8,
        "n_kv_heads": 2,
        "head_dim": 48,
        "qk_norm": True,
        "rope_theta": 1e6,
        "rope": RopeScaling("yarn", factor=4.0, original_positions=64),
    },
    "qwen3": {
        "n_heads": 4,
        "n_kv_heads": 1,
        "head_dim": 128,
        "qk_norm": True,
        "tied_embeddings": True,
    },
    "smollm": {"n_heads": 3, "n_kv_heads": 1, "tied_embeddings": True},
}
CONFIGS = {
    name: ModelConfig(**{**_COMMON, "head_dim": 96 // shape["n_heads"], **shape})
    for name, shape in _SHAPES.items()
}


def random_model(name: str) -> Model:
    """Random weights, norms and biases included, large enough that logits differ."""
    rng = np.random.default_rng(len(name))
    config = CONFIGS[name]
    return Model(
        config,
        {
            (kind, layer): Tensor.of(rng.normal(0.5 * (len(shape) == 1), 0.12, shape))
            for kind, layer, shape in config.tensor_shapes()
        },
    )


def ids_for(model: Model, n: int, seed: int = 0) -> list[int]:
    """n token ids."""
    return [random.Random(seed + i).randrange(model.config.vocab_size) for i in range(n)]


def round_to_bf16(model: Model) -> Model:
    """The model with matrices rounded to the nearest bf16 (norms and biases stay), in float32."""
    tensors = {}
    for key, tensor in model.tensors.items():
        values = np.array(tensor.to_float32())
        if values.ndim == 2:
            bits = values.view(np.uint32)
            bits += 0x7FFF + (bits >> 16 & 1)
            bits &= 0xFFFF0000
        tensors[key] = Tensor.of(values)
    return Model(model.config, tensors, model.rope_divisors)


class Exact:
    """A model's logits in float64."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.config = model.config

    def logits(self, ids: list[int]) -> Doubles:
        """(positions, vocab_size) of one sequence."""
        x = self._get(K.EMBED, 0)[ids]
        for layer in range(self.config.n_layers):
            x = x + self._attention(layer, self._norm(x, K.ATTN_NORM, layer))
            h = self._norm(x, K.FFN_NORM, layer)
            gate = self._linear(h, layer, K.W_GATE, K.B_GATE)
            up = self._linear(h, layer, K.W_UP, K.B_UP)
            x = x + self._linear(gate / (1 + np.exp(-gate)) * up, layer, K.W_DOWN, K.B_DOWN)
        head = K.EMBED if self.config.tied_embeddings else K.LM_HEAD
        made: Doubles = self._norm(x, K.FINAL_NORM, 0) @ self._get(head, 0).T
        return made

    def greedy(self, ids: list[int], n: int) -> list[int]:
        """n greedy tokens after ids."""
        ids = list(ids)
        for _ in range(n):
            ids.append(int(self.logits(ids)[-1].argmax()))
        return ids[-n:]

    def _get(self, kind: TensorKind, layer: int) -> Doubles:
        return self.model.tensors[kind, layer].to_float32().astype(np.float64)

    def _linear(self, x: Doubles, layer: int, weight: TensorKind, bias: TensorKind) -> Doubles:
        made: Doubles = x @ self._get(weight, layer).T
        return made + self._get(bias, layer) if (bias, layer) in self.model.tensors else made

    def _norm(self, x: Doubles, kind: TensorKind, layer: int) -> Doubles:
        mean_square = (x * x).mean(-1, keepdims=True)
        normed: Doubles = x / np.sqrt(mean_square + self.config.rms_eps) * self._get(kind, layer)
        return normed

    def _heads(self, h: Doubles, layer: int, weight: TensorKind, bias: TensorKind) -> Doubles:
        made = self._linear(h, layer, weight, bias)
        return made.reshape(len(h), -1, self.config.head_dim)

    def _attention(self, layer: int, h: Doubles) -> Doubles:
        c, n = self.config, len(h)
        q, k = self._heads(h, layer, K.WQ, K.BQ), self._heads(h, layer, K.WK, K.BK)
        v = self._heads(h, layer, K.WV, K.BV)
        if c.qk_norm:
            q, k = self._norm(q, K.Q_NORM, layer), self._norm(k, K.K_NORM, layer)
        q, k = self._turn(q), self._turn(k)
        k, v = (x.repeat(c.n_heads // c.n_kv_heads, axis=1) for x in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) / c.head_dim**0.5
        scores[:, np.triu(np.ones((n, n), bool), 1)] = -np.inf
        mixed = np.einsum("hqk,khd->qhd", softmax(scores), v).reshape(n, -1)
        return self._linear(mixed, layer, K.WO, K.BO)

    def _turn(self, x: Doubles) -> Doubles:
        """x: (positions, heads, head_dim); component i turns with component i + head_dim / 2."""
        frequencies, gain = self.model.rope()
        angles = np.arange(len(x))[:, None, None] * frequencies.astype(np.float64)
        cos, sin = gain * np.cos(angles), gain * np.sin(angles)
        a, b = np.split(x, 2, axis=-1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def softmax(x: NDArray[Any]) -> Doubles:
    """Over the last axis."""
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    shares: Doubles = e / e.sum(-1, keepdims=True)
    return shares


def probabilities(logits: NDArray[Any], how: TokenSampling) -> Doubles:
    """Of every token after temperature and filters, by full sorts in float64."""
    scaled = logits.astype(np.float64) / how.temperature
    order = np.argsort(-scaled, kind="stable")
    if how.top_k:
        order = order[: how.top_k]
    kept = softmax(scaled[order])
    if how.top_p < 1:
        stays = np.cumsum(kept) - kept < how.top_p
        stays[0] = True
        order = order[stays]
        kept = softmax(scaled[order])
    if how.min_p:
        order = order[kept >= how.min_p * kept.max()]
    result = np.zeros(len(logits))
    result[order] = softmax(scaled[order])
    return result
