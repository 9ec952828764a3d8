"""Tensors in the order in which the kernel's lanes read them; pure, numpy.

A matrix (outputs, inputs) becomes tiles of 16 outputs by 32 inputs, each 1 KiB, in bf16:
[tile][chunk][which two of a quarter's four pairs][output of 8][quarter of the inputs][pair of the
two][half of the outputs][2 inputs]. So a lane reads the four words that it gives to one product of
its tensor cores as one, and eight rows that follow one another, an eighth here, lie in one half of
a tile: every tensor is a number of eighths with a place each. Gates and ups alternate by eights, so
that a tile has eight of each. Heads are padded to whole eights, each half of a head for itself, as
rotations pair the halves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from assay.rollout.cuda.sizes import Sizes, up
from assay.rollout.errors import InvalidWeights, WeightsProblem
from assay.rollout.models.model import DType, Model, Tensor, TensorKind
from assay.rollout.models.tensor_checks import where_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from assay.rollout.models.adapters import AdaptedProjection

K = TensorKind
_Number = TypeVar("_Number", np.uint16, np.float32)
_EXPONENT: Final = 0x7F80
"""Bits of a bf16 number's exponent: all set, it is no finite one."""


def bf16_bits(tensor: Tensor) -> NDArray[np.uint16]:
    """Rounded to the nearest, ties to even; bf16 stays as it is."""
    if tensor.dtype is DType.BF16:
        return np.asarray(tensor.data, dtype=np.uint16)
    return rounded(tensor.to_float32())


def rounded(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The nearest bf16 numbers, ties to even; infinity for what is not finite."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    near = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isfinite(values), near, _EXPONENT).astype(np.uint16)


def check_finite(bits: NDArray[np.uint16], where: str) -> NDArray[np.uint16]:
    """The same bits.

    Raises:
        InvalidWeights: a value is not finite.
    """
    if ((bits & _EXPONENT) == _EXPONENT).any():
        raise InvalidWeights(where, WeightsProblem.NOT_FINITE, "a value is not finite in bf16")
    return bits


class _Matrices:
    """Writes matrices into a buffer."""

    def __init__(self, to: NDArray[np.uint8]) -> None:
        self._to = to

    def put(
        self,
        at: int,
        matrix: NDArray[np.uint16],
        shape: tuple[int, int],
        *,
        first: int = 0,
        step: int = 1,
    ) -> None:
        """Write a matrix (n, k) as eighths `first`, `first + step` ... of the tiles of a padded
        one.

        Args:
            at: offset of the padded matrix, bytes.
            matrix: bf16 bits.
            shape: outputs (of the padded matrix, in sixteens), inputs (in thirty-twos).
            first: eighth of the matrix's first row.
            step: 2: every other eighth.
        """
        outputs, inputs = shape
        whole = self._to[at : at + 2 * outputs * inputs].view(np.uint16)
        tiles = whole.reshape(outputs // 16, inputs // 32, 2, 8, 4, 2, 2, 2)
        n = -(-len(matrix) // 8)
        padded = np.zeros((8 * n, inputs), dtype=np.uint16)
        padded[: matrix.shape[0], : matrix.shape[1]] = matrix
        eighths = first + step * np.arange(n)
        rows = padded.reshape(n, 8, inputs // 32, 4, 2, 2, 2).transpose(0, 2, 4, 1, 3, 5, 6)
        tiles[eighths // 2, :, :, :, :, :, eighths % 2] = rows

    def take(
        self,
        at: int,
        matrix: tuple[int, int],
        shape: tuple[int, int],
        *,
        first: int = 0,
        step: int = 1,
    ) -> NDArray[np.uint16]:
        """What `put` wrote of a matrix of (n, k); a copy."""
        outputs, inputs = shape
        whole = self._to[at : at + 2 * outputs * inputs].view(np.uint16)
        tiles = whole.reshape(outputs // 16, inputs // 32, 2, 8, 4, 2, 2, 2)
        n = -(-matrix[0] // 8)
        eighths = first + step * np.arange(n)
        found = tiles[eighths // 2, :, :, :, :, :, eighths % 2]
        rows = found.transpose(0, 3, 1, 4, 2, 5, 6)
        return rows.reshape(8 * n, inputs)[: matrix[0], : matrix[1]]

    def put_vector(self, at: int, values: NDArray[np.float32]) -> None:
        """Write float32 values."""
        raw = np.ascontiguousarray(values, dtype=np.float32).view(np.uint8)
        self._to[at : at + raw.nbytes] = raw

    def put_eights(self, at: int, values: NDArray[np.float32]) -> None:
        """Write float32 values as every other eight."""
        for first in range(0, len(values), 8):
            self.put_vector(at + 8 * first, values[first : first + 8])


@dataclass(frozen=True, slots=True)
class _Rows:
    """Where a projection's rows are among those of a product, and its columns among A x."""

    product: str
    outputs: int
    inputs: int
    """Of the product, padded."""
    first: int = 0
    """Eighth of its first row."""
    step: int = 1
    number: int = 0
    """Among the projections of one input."""
    n: int = 1
    """Of them."""


_HEADED: Final = frozenset({K.WQ, K.WK, K.WV, K.BQ, K.BK, K.BV, K.Q_NORM, K.K_NORM})
"""Their rows are heads."""


def _padded_heads(s: Sizes, n: int) -> NDArray[np.intp]:
    """Where the numbers of n of the model's heads lie among those of as many padded ones."""
    half, wide = s.config.head_dim // 2, s.head_dim // 2
    of_head = np.arange(half) + wide * np.arange(2)[:, None]
    return np.asarray((s.head_dim * np.arange(n)[:, None] + of_head.ravel()).ravel())


def _spread_rows(s: Sizes, matrix: NDArray[_Number]) -> NDArray[_Number]:
    """Rows (or numbers) that are heads, padded; the same array where there is nothing to pad."""
    if s.head_dim == s.config.head_dim:
        return matrix
    n = len(matrix) // s.config.head_dim
    wide = np.zeros((n * s.head_dim, *matrix.shape[1:]), dtype=matrix.dtype)
    wide[_padded_heads(s, n)] = matrix
    return wide


def _spread(s: Sizes, kind: TensorKind, matrix: NDArray[_Number]) -> NDArray[_Number]:
    """A tensor whose rows, or of the output projection columns, are heads, padded."""
    if kind in _HEADED:
        return _spread_rows(s, matrix)
    return _spread_rows(s, matrix.T).T if kind is K.WO else matrix


def _rows_of(s: Sizes, kind: TensorKind) -> _Rows:
    dim, hidden, qkv = s.dim, s.hidden, s.qkv_outputs
    key, value = s.q_dim // 8, (s.q_dim + s.kv_dim) // 8
    return {
        K.WQ: _Rows("QKV", qkv, dim, n=3),
        K.WK: _Rows("QKV", qkv, dim, first=key, number=1, n=3),
        K.WV: _Rows("QKV", qkv, dim, first=value, number=2, n=3),
        K.WO: _Rows("OUT", dim, s.q_dim),
        K.W_GATE: _Rows("GATE_UP", 2 * hidden, dim, step=2, n=2),
        K.W_UP: _Rows("GATE_UP", 2 * hidden, dim, first=1, step=2, number=1, n=2),
        K.W_DOWN: _Rows("DOWN", dim, hidden),
    }[kind]


class Packed:
    """Writes a model's tensors, in any order, into a zeroed buffer of `WEIGHT_BYTES` bytes."""

    def __init__(self, sizes: Sizes, to: NDArray[np.uint8]) -> None:
        self.sizes = sizes
        self._to = _Matrices(to)

    def fill(self, model: Model) -> None:
        """All tensors.

        Raises:
            InvalidWeights: as `put`.
        """
        for kind, layer, _ in model.check().config.tensor_shapes():
            self.put(kind, layer, model.tensors[kind, layer])

    def put(self, kind: TensorKind, layer: int, tensor: Tensor) -> None:
        """One tensor, of the shape that the model has.

        Raises:
            InvalidWeights: a value is not finite in the form in which the kernel reads it.
        """
        where, s = where_of(kind, layer), self.sizes
        base = s.model["LAYERS"] + layer * s.layer["LAYER_BYTES"]
        if len(tensor.shape) == 1:
            self._put_vector(kind, base, tensor, where)
            return
        bits = check_finite(bf16_bits(tensor), where)
        if kind in {K.EMBED, K.LM_HEAD}:
            at = s.model["EMBED" if kind is K.EMBED else "HEAD"]
            self._to.put(at, bits, (s.vocab_outputs, s.dim))
            return
        self.put_bits(kind, layer, bits)

    def put_bits(self, kind: TensorKind, layer: int, bits: NDArray[np.uint16]) -> None:
        """A projection's bf16 bits, finite."""
        rows, at = self._projection(kind, layer)
        shape = rows.outputs, rows.inputs
        wide = _spread(self.sizes, kind, bits)
        self._to.put(at, wide, shape, first=rows.first, step=rows.step)

    def take(self, kind: TensorKind, layer: int, matrix: tuple[int, int]) -> NDArray[np.uint16]:
        """The bf16 bits of a projection of (rows, cols) that was put."""
        s, (rows, at) = self.sizes, self._projection(kind, layer)
        shape, (n, k) = (rows.outputs, rows.inputs), matrix
        of_rows = _padded_heads(s, n // s.config.head_dim) if kind in _HEADED else np.arange(n)
        of_cols = _padded_heads(s, k // s.config.head_dim) if kind is K.WO else np.arange(k)
        wide = int(of_rows[-1]) + 1, int(of_cols[-1]) + 1
        found = self._to.take(at, wide, shape, first=rows.first, step=rows.step)
        return np.ascontiguousarray(found[np.ix_(of_rows, of_cols)])

    def _projection(self, kind: TensorKind, layer: int) -> tuple[_Rows, int]:
        """Its rows, and where its product's weights begin."""
        s, rows = self.sizes, _rows_of(self.sizes, kind)
        base = s.model["LAYERS"] + layer * s.layer["LAYER_BYTES"]
        return rows, base + s.layer[f"{rows.product}_WEIGHTS"]

    def _put_vector(self, kind: TensorKind, base: int, tensor: Tensor, where: str) -> None:
        s, at = self.sizes, self.sizes.layer
        places = {
            K.FINAL_NORM: s.model["FINAL_NORM"],
            K.ATTN_NORM: base + at["ATTN_NORM"],
            K.FFN_NORM: base + at["FFN_NORM"],
            K.Q_NORM: base + at["Q_NORM"],
            K.K_NORM: base + at["K_NORM"],
            K.BQ: base + at["QKV_BIAS"],
            K.BK: base + at["QKV_BIAS"] + 4 * s.q_dim,
            K.BV: base + at["QKV_BIAS"] + 4 * (s.q_dim + s.kv_dim),
            K.BO: base + at["OUT_BIAS"],
            K.B_GATE: base + at["GATE_UP_BIAS"],
            K.B_UP: base + at["GATE_UP_BIAS"] + 4 * 8,
            K.B_DOWN: base + at["DOWN_BIAS"],
        }
        values = tensor.to_float32()
        if not np.isfinite(values).all():
            raise InvalidWeights(where, WeightsProblem.NOT_FINITE, "a value is not finite")
        if kind in {K.B_GATE, K.B_UP}:
            self._to.put_eights(places[kind], values)
        else:
            self._to.put_vector(places[kind], _spread(s, kind, values))


class PackedAdapter:
    """Writes a LoRA adapter's projections into a zeroed buffer of `adapter_bytes` bytes.

    A x of all projections of one input is one product: their As are below one another. B is as
    wide, with zeros beside the columns of its own projection, and holds the scale.
    """

    def __init__(self, sizes: Sizes, to: NDArray[np.uint8]) -> None:
        self.sizes = sizes
        self._to = _Matrices(to)

    def put(self, one: AdaptedProjection) -> int:
        """One projection; return its bytes as received.

        Raises:
            InvalidWeights: it is no LoRA, its rank is above `Tuning.adapter_rank`, or a value is
                not finite in bf16.
        """
        s, where = self.sizes, where_of(one.tensor, one.layer)
        if one.b is None:
            detail = "one adapter is LoRA or OFT, not both"
            raise InvalidWeights(where, WeightsProblem.UNKNOWN, detail)
        if one.size > s.tuning.adapter_rank:
            detail = f"rank {one.size}: the engine was made for {s.tuning.adapter_rank}"
            raise InvalidWeights(where, WeightsProblem.SHAPE, detail)
        rows = _rows_of(s, one.tensor)
        low, column = s.low(rows.n), rows.number * s.rank
        base = one.layer * s.adapter["ADAPTER_LAYER_BYTES"]
        a = check_finite(bf16_bits(one.a), where)
        if one.tensor is K.WO:
            a = _spread(s, K.WO, a)
        at = base + s.adapter[f"{rows.product}_A"]
        self._to.put(at, a, (low, rows.inputs), first=column // 8)
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            scaled = rounded(one.b.to_float32() * np.float32(one.scale))
        b = np.zeros((one.rows, low), dtype=np.uint16)
        b[:, column : column + one.size] = check_finite(scaled, where)
        if one.tensor in _HEADED:
            b = _spread(s, one.tensor, b)
        at = base + s.adapter[f"{rows.product}_B"]
        self._to.put(at, b, (rows.outputs, low), first=rows.first, step=rows.step)
        return one.a.data.nbytes + one.b.data.nbytes


def turns_of(model: Model, sizes: Sizes) -> NDArray[np.float32]:
    """Cosine and sine of every position and frequency, (seq_max, padded head_dim / 2, 2)."""
    frequencies, gain = model.rope()
    angles = np.arange(sizes.seq_max, dtype=np.float32)[:, None] * frequencies
    wide = angles.astype(np.float64)
    turns = np.zeros((sizes.seq_max, sizes.head_dim // 2, 2), dtype=np.float32)
    both = np.stack([np.cos(wide), np.sin(wide)], axis=-1) * np.float64(gain)
    turns[:, : both.shape[1]] = both
    return turns


def packed_bytes(sizes: Sizes) -> int:
    """Of one slot of weights, in whole pages."""
    return up(sizes.model["WEIGHT_BYTES"], 4096)


def adapter_bytes(sizes: Sizes) -> int:
    """Of one adapter, in whole pages."""
    return up(sizes.config.n_layers * sizes.adapter["ADAPTER_LAYER_BYTES"], 4096)
