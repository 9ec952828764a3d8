"""A model in memory: sizes, tensors, and the rotary frequencies of its configuration.

Invariants of a `Model`: every tensor that its config implies exists, with the size it implies
(`Model.check`), matrices are (outputs, inputs), and q/k rows are in rotate-half order.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from assay.rollout.models.errors import CorruptModel, UnsupportedModel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray


class DType(IntEnum):
    """Element types, numbered as in engine.h (`assay_dtype`)."""

    F32 = 0
    BF16 = 1
    F16 = 2

    @property
    def bytes(self) -> int:
        return 4 if self is DType.F32 else 2


class TensorKind(IntEnum):
    """Tensors, numbered as in engine.h (`assay_tensor`)."""

    EMBED = 0
    LM_HEAD = 1
    FINAL_NORM = 2
    ROPE_INV_FREQ = 3
    ATTN_NORM = 4
    WQ = 5
    WK = 6
    WV = 7
    BQ = 8
    BK = 9
    BV = 10
    Q_NORM = 11
    K_NORM = 12
    WO = 13
    BO = 14
    FFN_NORM = 15
    W_GATE = 16
    W_UP = 17
    W_DOWN = 18
    B_GATE = 19
    B_UP = 20
    B_DOWN = 21

    @property
    def per_layer(self) -> bool:
        return self >= TensorKind.ATTN_NORM


@dataclass(frozen=True)
class Tensor:
    """A C-contiguous array; bf16 is stored as its bits in uint16, as numpy has no bf16."""

    data: NDArray[Any]
    dtype: DType
    sha256: str = field(default="", compare=False)
    """SHA-256 of its bytes, hex, if it was computed already; see `digest`."""

    def __post_init__(self) -> None:
        if not self.data.flags.c_contiguous or self.data.itemsize != self.dtype.bytes:
            raise CorruptModel(
                f"a {self.dtype.name} tensor needs contiguous {self.dtype.bytes}-byte elements"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.data.shape)

    def digest(self) -> str:
        """SHA-256 of its bytes, hex."""
        return self.sha256 or hashlib.sha256(self.data.reshape(-1).view(np.uint8).data).hexdigest()

    @classmethod
    def of(cls, array: NDArray[Any]) -> Tensor:
        """From float32 or float16 values."""
        if array.dtype == np.float16:
            return cls(np.ascontiguousarray(array), DType.F16)
        return cls(np.ascontiguousarray(array, dtype=np.float32), DType.F32)

    def to_float32(self) -> NDArray[np.float32]:
        """The values, as float32 (a copy unless they are float32 already)."""
        if self.dtype is DType.BF16:
            widened = self.data.astype(np.uint32) << 16
            return widened.view(np.float32)
        return self.data.astype(np.float32, copy=False)


RopeKind = Literal["default", "linear", "llama3", "yarn"]


@dataclass(frozen=True)
class RopeScaling:
    """How rotary frequencies are scaled for long contexts; fields are named as in Hugging Face."""

    kind: RopeKind = "default"
    factor: float = 1.0
    original_positions: int = 0
    """Context length of pre-training, positions (llama3, yarn)."""
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True

    def check(self) -> None:
        """Refuse values that would make frequencies infinite or undefined.

        Raises:
            CorruptModel: names the field.
        """
        numbers = [self.factor, self.low_freq_factor, self.high_freq_factor]
        numbers += [self.beta_fast, self.beta_slow]
        numbers += [n for n in (self.attention_factor, self.mscale, self.mscale_all_dim) if n]
        if not all(math.isfinite(number) and number > 0 for number in numbers):
            raise CorruptModel(f"rope scaling {self}: its numbers are above 0 and finite")
        if self.kind == "llama3" and self.high_freq_factor == self.low_freq_factor:
            raise CorruptModel("rope scaling llama3: high_freq_factor equals low_freq_factor")


_SIZES_MAX = {
    "dim": 1 << 18,
    "n_layers": 1 << 12,
    "n_heads": 1 << 12,
    "n_kv_heads": 1 << 12,
    "head_dim": 1 << 14,
    "hidden_dim": 1 << 20,
    "vocab_size": 1 << 24,
    "positions_max": 1 << 30,
}


@dataclass(frozen=True)
class ModelConfig:
    """Sizes in elements; positions for `positions_max`."""

    dim: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    hidden_dim: int
    vocab_size: int
    positions_max: int
    rms_eps: float
    rope_theta: float = 10_000.0
    rope: RopeScaling = RopeScaling()
    tied_embeddings: bool = False
    qk_norm: bool = False
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    bos_id: int | None = None
    eos_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Refuse impossible sizes; a damaged header must not cost time or memory.

        Raises:
            CorruptModel: names the field.
        """
        for name, most in _SIZES_MAX.items():
            size = getattr(self, name)
            if not isinstance(size, int) or not 0 < size <= most:
                raise CorruptModel(f"{name} is {size!r}: from 1 to {most}")
        if self.n_heads % self.n_kv_heads or self.head_dim % 2:
            heads = f"{self.n_heads} heads, {self.n_kv_heads} of keys, {self.head_dim} wide"
            raise CorruptModel(f"{heads}: these sizes are not a grouped attention")
        for name in ("rms_eps", "rope_theta"):
            number = getattr(self, name)
            if not math.isfinite(number) or number <= 0:
                raise CorruptModel(f"{name} is {number!r}")
        ids = [*self.eos_ids, *([] if self.bos_id is None else [self.bos_id])]
        if not all(isinstance(one, int) for one in ids):
            raise CorruptModel(f"bos or eos ids are {ids!r}")
        self.rope.check()

    def tensor_shapes(self) -> Iterator[tuple[TensorKind, int, tuple[int, ...]]]:
        """Every tensor of the model: kind, layer, shape."""
        yield TensorKind.EMBED, 0, (self.vocab_size, self.dim)
        if not self.tied_embeddings:
            yield TensorKind.LM_HEAD, 0, (self.vocab_size, self.dim)
        yield TensorKind.FINAL_NORM, 0, (self.dim,)
        for layer in range(self.n_layers):
            for kind, shape in self._layer_shapes():
                yield kind, layer, shape

    def _layer_shapes(self) -> Iterator[tuple[TensorKind, tuple[int, ...]]]:
        n_q = self.n_heads * self.head_dim
        n_kv = self.n_kv_heads * self.head_dim
        yield TensorKind.ATTN_NORM, (self.dim,)
        yield TensorKind.WQ, (n_q, self.dim)
        yield TensorKind.WK, (n_kv, self.dim)
        yield TensorKind.WV, (n_kv, self.dim)
        if self.qkv_bias:
            yield TensorKind.BQ, (n_q,)
            yield TensorKind.BK, (n_kv,)
            yield TensorKind.BV, (n_kv,)
        if self.qk_norm:
            yield TensorKind.Q_NORM, (self.head_dim,)
            yield TensorKind.K_NORM, (self.head_dim,)
        yield TensorKind.WO, (self.dim, n_q)
        if self.out_bias:
            yield TensorKind.BO, (self.dim,)
        yield TensorKind.FFN_NORM, (self.dim,)
        yield TensorKind.W_GATE, (self.hidden_dim, self.dim)
        yield TensorKind.W_UP, (self.hidden_dim, self.dim)
        yield TensorKind.W_DOWN, (self.dim, self.hidden_dim)
        if self.mlp_bias:
            yield TensorKind.B_GATE, (self.hidden_dim,)
            yield TensorKind.B_UP, (self.hidden_dim,)
            yield TensorKind.B_DOWN, (self.dim,)

    @property
    def parameters(self) -> int:
        return sum(math.prod(shape) for _, _, shape in self.tensor_shapes())


TensorKey = tuple[TensorKind, int]


@dataclass(frozen=True)
class Model:
    """A config and its tensors, keyed by (kind, layer)."""

    config: ModelConfig
    tensors: Mapping[TensorKey, Tensor]
    rope_divisors: NDArray[np.float32] | None = None
    """Divisors of the rotary frequencies, (head_dim / 2,), if the file contains them."""
    trainer_frequencies: NDArray[np.float32] | None = None
    """Radians per position, (head_dim / 2,), as in the trainer's module (`inv_freq` of
    transformers), for bit-identical rotations; None: computed (`rope_frequencies`)."""

    def check(self) -> Model:
        """Return itself, or raise `CorruptModel` naming the first missing or wrong-sized tensor."""
        for kind, layer, shape in self.config.tensor_shapes():
            tensor = self.tensors.get((kind, layer))
            if tensor is None:
                raise CorruptModel(f"tensor {kind.name} of layer {layer} is missing")
            if tensor.shape != shape:
                raise CorruptModel(
                    f"tensor {kind.name} of layer {layer} is {tensor.shape}, config says {shape}"
                )
        return self

    def form_sha256(self) -> str:
        """SHA-256 of everything except tensors that a forward pass depends on, hex."""
        frequencies, gain = self.rope()
        config = self.config
        numbers = (config.n_heads, config.n_kv_heads, config.head_dim, config.rms_eps, gain)
        return hashlib.sha256(repr(numbers).encode() + frequencies.tobytes()).hexdigest()

    def rope(self) -> tuple[NDArray[np.float32], float]:
        """Radians per position, (head_dim / 2,), and the gain on cos and sin."""
        frequencies, gain = rope_frequencies(self.config)
        if self.rope_divisors is not None:
            frequencies = (frequencies / self.rope_divisors).astype(np.float32)
        if self.trainer_frequencies is not None:
            frequencies = np.ascontiguousarray(self.trainer_frequencies, dtype=np.float32)
        if frequencies.shape != (self.config.head_dim // 2,) or not np.isfinite(frequencies).all():
            raise CorruptModel("rotary frequencies: head_dim / 2 finite numbers")
        return frequencies, gain


def rope_frequencies(config: ModelConfig) -> tuple[NDArray[np.float32], float]:
    """Radians per position, (head_dim / 2,), and YaRN's gain on cos and sin.

    In float32, one rounding per operation, in the order of `transformers.modeling_rope_utils`: more
    precision here would differ from the trainer (`docs/decisions/0010-*`). Powers are
    rounded from float64, so that they are the same on every machine.

    Raises:
        UnsupportedModel: the scaling lacks its original context length.
    """
    wavelengths = _rope_powers(config)
    scaling = config.rope
    if scaling.kind == "default":
        return np.float32(1) / wavelengths, 1.0
    if scaling.kind == "linear":
        return np.float32(1) / wavelengths / np.float32(scaling.factor), 1.0
    if scaling.original_positions <= 0:
        raise UnsupportedModel(f"{scaling.kind} rope scaling without its original context length")
    if scaling.kind == "llama3":
        return _llama3(np.float32(1) / wavelengths, scaling), 1.0
    return _yarn(wavelengths, config), _yarn_gain(scaling)


def _rope_powers(config: ModelConfig) -> NDArray[np.float32]:
    """theta ** (2 i / head_dim), (head_dim / 2,)."""
    exponents = np.arange(0, config.head_dim, 2, dtype=np.float32) / np.float32(config.head_dim)
    theta = np.float64(np.float32(config.rope_theta))
    return np.power(theta, exponents.astype(np.float64)).astype(np.float32)


def _llama3(base: NDArray[np.float32], scaling: RopeScaling) -> NDArray[np.float32]:
    """Long waves are stretched, short ones kept, those between are blended."""
    one, factor = np.float32(1), np.float32(scaling.factor)
    original, low = scaling.original_positions, scaling.low_freq_factor
    wave = one / base * np.float32(2 * math.pi)
    span = np.float32(scaling.high_freq_factor - low)
    keep = (one / wave * np.float32(original) - np.float32(low)) / span
    long = wave > np.float32(original / low)
    short = wave < np.float32(original / scaling.high_freq_factor)
    blended = (one - keep) * base / factor + keep * base
    return np.where(long, base / factor, np.where(short, base, blended))


def _yarn(powers: NDArray[np.float32], config: ModelConfig) -> NDArray[np.float32]:
    scaling, one = config.rope, np.float32(1)

    def dimension_of(turns: float) -> float:
        wave = scaling.original_positions / (turns * 2 * math.pi)
        return config.head_dim * math.log(wave) / (2 * math.log(config.rope_theta))

    low, high = dimension_of(scaling.beta_fast), dimension_of(scaling.beta_slow)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, config.head_dim - 1)
    high = high + 0.001 if high == low else high
    at = np.arange(config.head_dim // 2, dtype=np.float32)
    ramp = np.clip((at - np.float32(low)) / np.float32(high - low), np.float32(0), one)
    keep = one - ramp
    stretched = one / (np.float32(scaling.factor) * powers)
    blended: NDArray[np.float32] = stretched * (one - keep) + one / powers * keep
    return blended


def _yarn_gain(scaling: RopeScaling) -> float:
    def mscale(by: float) -> float:
        return 1.0 if scaling.factor <= 1 else 0.1 * by * math.log(scaling.factor) + 1.0

    if scaling.attention_factor is not None:
        return scaling.attention_factor
    if scaling.mscale and scaling.mscale_all_dim:
        return mscale(scaling.mscale) / mscale(scaling.mscale_all_dim)
    return mscale(1.0)


def unpermute_heads(weight: NDArray[Any], n_heads: int) -> NDArray[Any]:
    """Rows of each head from interleaved rotary pairs (0, 1), (2, 3) ... to rotate-half order.

    weight: (n_heads * head_dim, ...) of any dtype; llama2.c and GGUF's llama files interleave.
    """
    rows = weight.shape[0]
    pairs = weight.reshape(n_heads, rows // n_heads // 2, 2, *weight.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(weight.shape)
