"""GGUF files: metadata, and tensors in F32, F16, BF16, Q8_0, Q4_0 and Q4_1, dequantised at load.

llama.cpp stores q and k of its `llama` architecture with rotary pairs interleaved; here they are
converted to rotate-half order. Quantised tensors are dequantised exactly to float32.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from assay.rollout.models.errors import CorruptModel, UnsupportedModel
from assay.rollout.models.model import (
    DType,
    Model,
    ModelConfig,
    RopeKind,
    RopeScaling,
    Tensor,
    TensorKey,
    TensorKind,
    unpermute_heads,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Bytes = NDArray[np.uint8]

_SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_STRING, _ARRAY = 8, 9
_ARRAY_TYPES = {
    0: np.uint8, 1: np.int8, 2: np.uint16, 3: np.int16, 4: np.uint32, 5: np.int32, 6: np.float32,
    7: np.bool_, 10: np.uint64, 11: np.int64, 12: np.float64,
}  # fmt: skip

_GLOBAL_NAMES = {
    "token_embd.weight": TensorKind.EMBED,
    "output.weight": TensorKind.LM_HEAD,
    "output_norm.weight": TensorKind.FINAL_NORM,
}
_LAYER_NAMES = {
    "attn_norm.weight": TensorKind.ATTN_NORM,
    "attn_q.weight": TensorKind.WQ,
    "attn_k.weight": TensorKind.WK,
    "attn_v.weight": TensorKind.WV,
    "attn_q.bias": TensorKind.BQ,
    "attn_k.bias": TensorKind.BK,
    "attn_v.bias": TensorKind.BV,
    "attn_q_norm.weight": TensorKind.Q_NORM,
    "attn_k_norm.weight": TensorKind.K_NORM,
    "attn_output.weight": TensorKind.WO,
    "attn_output.bias": TensorKind.BO,
    "ffn_norm.weight": TensorKind.FFN_NORM,
    "ffn_gate.weight": TensorKind.W_GATE,
    "ffn_up.weight": TensorKind.W_UP,
    "ffn_down.weight": TensorKind.W_DOWN,
}
_ROPE_DIVISORS = "rope_freqs.weight"
_ARCHITECTURES = {"llama", "qwen2", "qwen3"}


@dataclass(frozen=True)
class GgufTensor:
    """One entry of the tensor table; shape in numpy's order, offset from the start of the data."""

    shape: tuple[int, ...]
    kind: int
    offset: int


@dataclass(frozen=True)
class Gguf:
    """An open file: metadata, tensor table, and the mapped bytes."""

    metadata: dict[str, Any]
    tensors: dict[str, GgufTensor]
    data: Bytes

    def values(self, name: str) -> Tensor:
        """One tensor, dequantised."""
        entry = self.tensors[name]
        count = math.prod(entry.shape)
        if entry.kind not in _FORMATS:
            raise UnsupportedModel(f"tensor {name} has GGUF type {entry.kind}, which is not read")
        size, per_block, convert = _FORMATS[entry.kind]
        if entry.shape and entry.shape[-1] % per_block:
            raise CorruptModel(f"tensor {name}: rows are not whole blocks of {per_block}")
        end = entry.offset + count // per_block * size
        if end > len(self.data):
            raise CorruptModel(f"tensor {name} reaches past the end of the file")
        tensor = convert(self.data[entry.offset : end])
        return Tensor(tensor.data.reshape(entry.shape), tensor.dtype)


def _from_q8_0(raw: Bytes) -> Tensor:
    blocks = raw.reshape(-1, 34)
    scale = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    return Tensor.of(scale * blocks[:, 2:].view(np.int8).astype(np.float32))


def _nibbles(packed: Bytes) -> NDArray[np.float32]:
    """16 bytes of a block as 32 values: low halves, then high halves."""
    return np.concatenate([packed & 15, packed >> 4], axis=1).astype(np.float32)


def _from_q4_0(raw: Bytes) -> Tensor:
    blocks = raw.reshape(-1, 18)
    scale = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    return Tensor.of(scale * (_nibbles(blocks[:, 2:]) - 8))


def _from_q4_1(raw: Bytes) -> Tensor:
    blocks = raw.reshape(-1, 20)
    scale = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    least = blocks[:, 2:4].copy().view(np.float16).astype(np.float32)
    return Tensor.of(scale * _nibbles(blocks[:, 4:]) + least)


# GGUF type -> bytes per block, values per block, conversion
_FORMATS: dict[int, tuple[int, int, Callable[[Bytes], Tensor]]] = {
    0: (4, 1, lambda raw: Tensor(raw.copy().view(np.float32), DType.F32)),
    1: (2, 1, lambda raw: Tensor(raw.copy().view(np.float16), DType.F16)),
    30: (2, 1, lambda raw: Tensor(raw.copy().view(np.uint16), DType.BF16)),
    2: (18, 32, _from_q4_0),
    3: (20, 32, _from_q4_1),
    8: (34, 32, _from_q8_0),
}


class _Cursor:
    """Reads little-endian values from a buffer; `CorruptModel` at its end."""

    def __init__(self, data: Bytes) -> None:
        self.data = memoryview(data)  # type: ignore[arg-type]
        self.at = 0

    def scalar(self, code: str) -> Any:  # noqa: ANN401 - the file says which type it is
        try:
            (value,) = struct.unpack_from("<" + code, self.data, self.at)
        except struct.error as error:
            raise CorruptModel("the GGUF header is cut short") from error
        self.at += struct.calcsize("<" + code)
        return value

    def take(self, n: int) -> bytes:
        if self.at + n > len(self.data):
            raise CorruptModel("the GGUF header is cut short")
        piece = bytes(self.data[self.at : self.at + n])
        self.at += n
        return piece

    def string(self) -> str:
        return self.take(self.scalar("Q")).decode("utf-8", errors="replace")

    def value(self, kind: int) -> Any:  # noqa: ANN401 - the file says which type it is
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            element, count = self.scalar("I"), self.scalar("Q")
            if element in _ARRAY_TYPES:
                numpy_type = np.dtype(_ARRAY_TYPES[element])
                return np.frombuffer(self.take(count * numpy_type.itemsize), numpy_type).tolist()
            return [self.value(element) for _ in range(count)]
        if kind not in _SCALARS:
            raise CorruptModel(f"GGUF metadata of unknown type {kind}")
        return self.scalar(_SCALARS[kind])


def open_gguf(path: Path) -> Gguf:
    """Read the header and map the data."""
    raw: Bytes = np.memmap(path, dtype=np.uint8, mode="r")
    cursor = _Cursor(raw)
    if cursor.take(4) != b"GGUF":
        raise CorruptModel(f"{path.name} is not a GGUF file")
    version = cursor.scalar("I")
    if version not in {2, 3}:
        raise UnsupportedModel(f"GGUF version {version}; 2 and 3 are read")
    n_tensors, n_values = cursor.scalar("Q"), cursor.scalar("Q")
    metadata = {cursor.string(): cursor.value(cursor.scalar("I")) for _ in range(n_values)}
    tensors = {}
    for _ in range(n_tensors):
        name = cursor.string()
        dims = [cursor.scalar("Q") for _ in range(cursor.scalar("I"))]
        tensors[name] = GgufTensor(tuple(reversed(dims)), cursor.scalar("I"), cursor.scalar("Q"))
    alignment = metadata.get("general.alignment", 32)
    start = -(-cursor.at // alignment) * alignment
    return Gguf(metadata, tensors, raw[start:])


def read_model(path: Path) -> Model:
    """The model of a GGUF file of architecture llama, qwen2 or qwen3."""
    file = open_gguf(path)
    architecture = file.metadata.get("general.architecture")
    if architecture not in _ARCHITECTURES:
        raise UnsupportedModel(f"GGUF architecture {architecture}: {sorted(_ARCHITECTURES)} load")
    config = _config(file, architecture)
    tensors: dict[TensorKey, Tensor] = {}
    for name in file.tensors:
        key = _tensor_key(name)
        if key is not None:
            tensors[key] = _in_rotate_half(file.values(name), key[0], architecture, config)
        elif name != _ROPE_DIVISORS:
            raise UnsupportedModel(f"{path.name} has a tensor {name} the engine lacks")
    divisors = file.values(_ROPE_DIVISORS).to_float32() if _ROPE_DIVISORS in file.tensors else None
    return Model(config, tensors, divisors).check()


def _tensor_key(name: str) -> TensorKey | None:
    if name in _GLOBAL_NAMES:
        return _GLOBAL_NAMES[name], 0
    parts = name.split(".", 2)
    if len(parts) == 3 and parts[0] == "blk" and parts[1].isdigit() and parts[2] in _LAYER_NAMES:
        return _LAYER_NAMES[parts[2]], int(parts[1])
    return None


def _in_rotate_half(
    tensor: Tensor, kind: TensorKind, architecture: str, config: ModelConfig
) -> Tensor:
    if architecture != "llama":
        return tensor
    if kind in {TensorKind.WQ, TensorKind.BQ}:
        return Tensor(unpermute_heads(tensor.data, config.n_heads), tensor.dtype)
    if kind in {TensorKind.WK, TensorKind.BK}:
        return Tensor(unpermute_heads(tensor.data, config.n_kv_heads), tensor.dtype)
    return tensor


def _config(file: Gguf, architecture: str) -> ModelConfig:
    def value(key: str, default: Any = None) -> Any:  # noqa: ANN401 - metadata is untyped
        found = file.metadata.get(f"{architecture}.{key}", default)
        if found is None:
            raise CorruptModel(f"GGUF metadata lacks {architecture}.{key}")
        return found

    heads, dim = int(value("attention.head_count")), int(value("embedding_length"))
    head_dim = int(value("attention.key_length", dim // heads))
    if int(value("rope.dimension_count", head_dim)) != head_dim:
        raise UnsupportedModel("partial rotary embeddings are not computed")
    positions = int(value("context_length"))
    return ModelConfig(
        dim=dim,
        n_layers=int(value("block_count")),
        n_heads=heads,
        n_kv_heads=int(value("attention.head_count_kv", heads)),
        head_dim=head_dim,
        hidden_dim=int(value("feed_forward_length")),
        vocab_size=file.tensors["token_embd.weight"].shape[0],
        positions_max=positions,
        rms_eps=float(value("attention.layer_norm_rms_epsilon")),
        rope_theta=float(value("rope.freq_base", 10_000.0)),
        rope=RopeScaling(
            kind=_rope_kind(value("rope.scaling.type", "none")),
            factor=float(value("rope.scaling.factor", 1.0)),
            original_positions=int(value("rope.scaling.original_context_length", positions)),
        ),
        tied_embeddings="output.weight" not in file.tensors,
        qk_norm="blk.0.attn_q_norm.weight" in file.tensors,
        qkv_bias="blk.0.attn_q.bias" in file.tensors,
        out_bias="blk.0.attn_output.bias" in file.tensors,
        bos_id=file.metadata.get("tokenizer.ggml.bos_token_id"),
        eos_ids=eos_ids(file.metadata),
    )


def _rope_kind(name: str) -> RopeKind:
    kinds: dict[str, RopeKind] = {"none": "default", "linear": "linear", "yarn": "yarn"}
    if name not in kinds:
        raise UnsupportedModel(f"rope scaling {name}: none, linear and yarn are known in GGUF")
    return kinds[name]


def eos_ids(metadata: dict[str, Any]) -> tuple[int, ...]:
    """Ids that end a generation: end of sequence, end of turn."""
    keys = ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id")
    return tuple(dict.fromkeys(metadata[key] for key in keys if key in metadata))
