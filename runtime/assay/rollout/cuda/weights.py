"""A model's tensors in the order in which the kernel's lanes read them; pure, numpy.

A matrix (outputs, inputs) becomes tiles of 16 outputs by 32 inputs, each 1 KiB: [tile][chunk][half
of the outputs][output of 8][quarter of the inputs][8 inputs], in bf16. Gates and ups alternate by
eights, so that a tile has eight of each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from assay.rollout.cuda.sizes import Sizes, up
from assay.rollout.models.model import DType, Model, Tensor, TensorKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

K = TensorKind


def bf16_bits(tensor: Tensor) -> NDArray[np.uint16]:
    """Rounded to the nearest, ties to even; bf16 stays as it is."""
    if tensor.dtype is DType.BF16:
        return np.asarray(tensor.data, dtype=np.uint16)
    bits = np.ascontiguousarray(tensor.to_float32()).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.asarray(rounded, dtype=np.uint16)


def pack(matrix: NDArray[np.uint16], outputs: int, inputs: int) -> NDArray[np.uint16]:
    """Tiles of a matrix (n, k), padded with zeros to (outputs, inputs)."""
    padded = np.zeros((outputs, inputs), dtype=np.uint16)
    padded[: matrix.shape[0], : matrix.shape[1]] = matrix
    tiles = padded.reshape(outputs // 16, 2, 8, inputs // 32, 4, 8)
    return np.ascontiguousarray(tiles.transpose(0, 3, 1, 2, 4, 5)).reshape(-1)


def alternate(gate: NDArray[np.uint16], up_: NDArray[np.uint16], hidden: int) -> NDArray[Any]:
    """Eight gates, eight ups, eight gates ...: (2 * hidden, k)."""
    both = np.zeros((2, hidden, gate.shape[1]), dtype=np.uint16)
    both[0, : len(gate)], both[1, : len(up_)] = gate, up_
    eights = both.reshape(2, hidden // 8, 8, -1).transpose(1, 0, 2, 3)
    return np.ascontiguousarray(eights).reshape(2 * hidden, -1)


class Packed:
    """Writes a model's tensors into a buffer of `WEIGHT_BYTES` bytes."""

    def __init__(self, sizes: Sizes, to: NDArray[np.uint8]) -> None:
        self.sizes = sizes
        self._to = to

    def fill(self, model: Model) -> None:
        """All tensors."""
        model.check()
        c, s, at = self.sizes.config, self.sizes, self.sizes.model
        self._matrix(at["EMBED"], bf16_bits(model.tensors[K.EMBED, 0]), s.vocab_outputs, c.dim)
        if not c.tied_embeddings:
            head = bf16_bits(model.tensors[K.LM_HEAD, 0])
            self._matrix(at["HEAD"], head, s.vocab_outputs, c.dim)
        self._vector(at["FINAL_NORM"], model.tensors[K.FINAL_NORM, 0].to_float32())
        for layer in range(c.n_layers):
            self._layer(model, layer, at["LAYERS"] + layer * s.layer["LAYER_BYTES"])

    def _layer(self, model: Model, layer: int, base: int) -> None:
        c, s = self.sizes.config, self.sizes

        def bits(kind: TensorKind) -> NDArray[np.uint16]:
            return bf16_bits(model.tensors[kind, layer])

        def values(kind: TensorKind) -> NDArray[np.float32]:
            return model.tensors[kind, layer].to_float32()

        at = {name: base + place for name, place in s.layer.items()}
        qkv = np.concatenate([bits(K.WQ), bits(K.WK), bits(K.WV)])
        self._matrix(at["QKV_WEIGHTS"], qkv, s.qkv_outputs, c.dim)
        self._matrix(at["OUT_WEIGHTS"], bits(K.WO), c.dim, s.q_dim)
        both = alternate(bits(K.W_GATE), bits(K.W_UP), s.hidden)
        self._matrix(at["GATE_UP"], both, 2 * s.hidden, c.dim)
        self._matrix(at["DOWN"], bits(K.W_DOWN), c.dim, s.hidden)
        self._vector(at["ATTN_NORM"], values(K.ATTN_NORM))
        self._vector(at["FFN_NORM"], values(K.FFN_NORM))
        if c.qk_norm:
            self._vector(at["Q_NORM"], values(K.Q_NORM))
            self._vector(at["K_NORM"], values(K.K_NORM))
        if c.qkv_bias:
            bias = np.concatenate([values(K.BQ), values(K.BK), values(K.BV)])
            self._vector(at["QKV_BIAS"], np.pad(bias, (0, s.qkv_outputs - len(bias))))

    def _matrix(self, at: int, matrix: NDArray[Any], outputs: int, inputs: int) -> None:
        packed = pack(matrix, outputs, inputs)
        self._to[at : at + packed.nbytes] = packed.view(np.uint8)

    def _vector(self, at: int, values: NDArray[np.float32]) -> None:
        raw = np.ascontiguousarray(values, dtype=np.float32).view(np.uint8)
        self._to[at : at + raw.nbytes] = raw


def turns_of(model: Model, seq_max: int) -> NDArray[np.float32]:
    """Cosine and sine of every position and frequency, (seq_max, head_dim / 2, 2)."""
    frequencies, gain = model.rope()
    angles = np.arange(seq_max, dtype=np.float32)[:, None] * frequencies
    wide = angles.astype(np.float64)
    turns = np.stack([np.cos(wide), np.sin(wide)], axis=-1) * np.float64(gain)
    return np.ascontiguousarray(turns, dtype=np.float32)


def packed_bytes(sizes: Sizes) -> int:
    """Of one slot of weights, in whole pages."""
    return up(sizes.model["WEIGHT_BYTES"], 4096)
