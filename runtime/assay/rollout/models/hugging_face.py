"""Hugging Face folders: config.json and safetensors, single or sharded by an index.

safetensors is 8 bytes of length, a JSON table of offsets, and raw little-endian data; files are
mapped, not read, so that a model takes its memory only once (in the engine's arena).
"""

from __future__ import annotations

import json
import math
import operator
import struct
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from assay.rollout.models.errors import CorruptModel, UnsupportedModel, reading
from assay.rollout.models.model import (
    DType,
    Model,
    ModelConfig,
    RopeKind,
    RopeScaling,
    Tensor,
    TensorKey,
    TensorKind,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_ARCHITECTURES = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "mistral",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
}

_GLOBAL_NAMES = {
    "model.embed_tokens.weight": TensorKind.EMBED,
    "lm_head.weight": TensorKind.LM_HEAD,
    "model.norm.weight": TensorKind.FINAL_NORM,
}

_LAYER_NAMES = {
    "input_layernorm.weight": TensorKind.ATTN_NORM,
    "self_attn.q_proj.weight": TensorKind.WQ,
    "self_attn.k_proj.weight": TensorKind.WK,
    "self_attn.v_proj.weight": TensorKind.WV,
    "self_attn.q_proj.bias": TensorKind.BQ,
    "self_attn.k_proj.bias": TensorKind.BK,
    "self_attn.v_proj.bias": TensorKind.BV,
    "self_attn.q_norm.weight": TensorKind.Q_NORM,
    "self_attn.k_norm.weight": TensorKind.K_NORM,
    "self_attn.o_proj.weight": TensorKind.WO,
    "self_attn.o_proj.bias": TensorKind.BO,
    "post_attention_layernorm.weight": TensorKind.FFN_NORM,
    "mlp.gate_proj.weight": TensorKind.W_GATE,
    "mlp.up_proj.weight": TensorKind.W_UP,
    "mlp.down_proj.weight": TensorKind.W_DOWN,
    "mlp.gate_proj.bias": TensorKind.B_GATE,
    "mlp.up_proj.bias": TensorKind.B_UP,
    "mlp.down_proj.bias": TensorKind.B_DOWN,
}

_NAME_IN_LAYER = {kind: name for name, kind in _LAYER_NAMES.items()}

_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_ADAPTERS = {"adapter_model.safetensors"}

# Tensors that old exports contain although they follow from the config.
_IGNORED_SUFFIXES = ("rotary_emb.inv_freq",)

_DTYPES = {
    "F32": (np.float32, DType.F32),
    "F16": (np.float16, DType.F16),
    "BF16": (np.uint16, DType.BF16),
}


def tensor_key(name: str) -> TensorKey | None:
    """(kind, layer) of a Hugging Face tensor name; None for an unknown name."""
    if name in _GLOBAL_NAMES:
        return _GLOBAL_NAMES[name], 0
    parts = name.split(".", 3)
    if len(parts) == 4 and parts[:2] == ["model", "layers"] and parts[2].isdigit():
        kind = _LAYER_NAMES.get(parts[3])
        if kind is not None:
            return kind, int(parts[2])
    return None


def layer_tensor_name(key: TensorKey) -> str:
    """The Hugging Face name of a tensor of a layer.

    Raises:
        KeyError: the kind is not one of a layer.
    """
    kind, layer = key
    return f"model.layers.{layer}.{_NAME_IN_LAYER[kind]}"


def read_model(folder: Path) -> Model:
    """Load the model of a folder: config.json, and the weight files that its index names.

    Raises:
        CorruptModel: the folder does not hold exactly one checkpoint, or contradicts its index.
        UnsupportedModel: the engine cannot run it.
    """
    with reading("config.json"):
        config = parse_config(json.loads((folder / "config.json").read_text(encoding="utf-8")))
    tensors: dict[TensorKey, Tensor] = {}
    for file, names in weight_files(folder).items():
        found = read_safetensors(folder / file)
        for name in names if names is not None else found:
            if name not in found:
                raise CorruptModel(f"{file} lacks tensor {name}, which {_INDEX} lists")
            key = tensor_key(name)
            if key is not None:
                tensors[key] = found[name]
            elif not name.endswith(_IGNORED_SUFFIXES):
                raise UnsupportedModel(f"{file} has a tensor {name} the engine lacks")
    if config.tied_embeddings:
        tensors.pop((TensorKind.LM_HEAD, 0), None)
    return Model(config, tensors).check()


def weight_files(folder: Path) -> Mapping[str, list[str] | None]:
    """File name -> the tensors to load from it; `None`: all of them.

    The folder itself decides: the index, else `model.safetensors`, else the only weight file. Other
    files (a leftover shard, an adapter, a second copy) are never read. If it is not clear which
    checkpoint is meant, the folder is refused.

    Raises:
        CorruptModel: there is none, or several, or the index is invalid.
    """
    single = (folder / _SINGLE).is_file()
    if (folder / _INDEX).is_file():
        indexed = _indexed(folder)
        if single and _SINGLE not in indexed:
            raise CorruptModel(
                f"{folder.name} holds two checkpoints: {_SINGLE} and that of {_INDEX}"
            )
        return indexed
    if single:
        return {_SINGLE: None}
    files = sorted(path.name for path in folder.glob("*.safetensors") if path.name not in _ADAPTERS)
    if not files:
        raise CorruptModel(f"{folder.name} holds no .safetensors file of a model")
    if len(files) > 1:
        raise CorruptModel(
            f"{folder.name} holds {len(files)} weight files and no {_INDEX}: {files[:4]}"
        )
    return {files[0]: None}


def _indexed(folder: Path) -> dict[str, list[str]]:
    with reading(_INDEX):
        table = json.loads((folder / _INDEX).read_text(encoding="utf-8"))["weight_map"]
        places = [(str(name), str(file)) for name, file in table.items()]
    files: dict[str, list[str]] = {}
    for name, file in places:
        if "/" in file or not file.endswith(".safetensors"):
            raise CorruptModel(f"{_INDEX}: tensor {name} is in {file!r}, which is not a file name")
        if not (folder / file).is_file():
            raise CorruptModel(f"{_INDEX}: tensor {name} is in {file}, which is missing")
        files.setdefault(file, []).append(name)
    if not files:
        raise CorruptModel(f"{_INDEX} names no tensor")
    return files


def read_safetensors(file: Path) -> dict[str, Tensor]:
    """All tensors of one file, mapped read-only.

    Raises:
        CorruptModel: names the file, and the tensor if one is at fault.
        UnsupportedModel: a tensor has an unsupported dtype.
    """
    with file.open("rb") as handle:
        head = handle.read(8)
        size = struct.unpack("<Q", head)[0] if len(head) == 8 else 0
        if not 0 < size <= file.stat().st_size - 8:
            raise CorruptModel(f"{file.name}: the header does not fit the file")
        with reading(f"{file.name}: header"):
            table = dict(json.loads(handle.read(size)))
    table.pop("__metadata__", None)
    data: np.ndarray[Any, np.dtype[np.uint8]] = np.zeros(0, np.uint8)
    if file.stat().st_size > 8 + size:
        data = np.memmap(file, dtype=np.uint8, mode="r", offset=8 + size)
    tensors = {}
    for name, entry in table.items():
        with reading(f"{file.name}: tensor {name}"):
            tensors[name] = _mapped_tensor(file, name, entry, data)
    return tensors


def _mapped_tensor(
    file: Path, name: str, entry: dict[str, Any], data: np.ndarray[Any, np.dtype[np.uint8]]
) -> Tensor:
    if entry["dtype"] not in _DTYPES:
        raise UnsupportedModel(f"{file.name}: {name} is {entry['dtype']}; F32, F16 and BF16 load")
    numpy_type, dtype = _DTYPES[entry["dtype"]]
    begin, end = (operator.index(at) for at in entry["data_offsets"])
    shape = tuple(operator.index(size) for size in entry["shape"])
    fits = 0 <= begin <= end <= len(data) and min(shape, default=0) >= 0
    if not fits or end - begin != math.prod(shape) * dtype.bytes:
        raise CorruptModel(f"{file.name}: tensor {name} does not fit its offsets")
    piece = data[begin:end]
    if piece.ctypes.data % dtype.bytes:
        piece = piece.copy()
    return Tensor(piece.view(numpy_type).reshape(shape), dtype)


def parse_config(raw: dict[str, Any]) -> ModelConfig:
    """Parse config.json; UnsupportedModel names what the engine cannot do."""
    family = _family(raw)
    heads = int(raw["num_attention_heads"])
    dim = int(raw["hidden_size"])
    theta, scaling = _parse_rope(raw)
    attention_bias = bool(raw.get("attention_bias", False))
    return ModelConfig(
        dim=dim,
        n_layers=int(raw["num_hidden_layers"]),
        n_heads=heads,
        n_kv_heads=int(raw.get("num_key_value_heads") or heads),
        head_dim=int(raw.get("head_dim") or dim // heads),
        hidden_dim=int(raw["intermediate_size"]),
        vocab_size=int(raw["vocab_size"]),
        positions_max=int(raw.get("max_position_embeddings", 2048)),
        rms_eps=float(raw.get("rms_norm_eps", 1e-6)),
        rope_theta=theta,
        rope=scaling,
        tied_embeddings=bool(raw.get("tie_word_embeddings", False)),
        qk_norm=family == "qwen3",
        qkv_bias=family == "qwen2" or attention_bias,
        out_bias=family != "qwen2" and attention_bias,
        mlp_bias=bool(raw.get("mlp_bias", False)),
        bos_id=raw.get("bos_token_id"),
        eos_ids=_ids(raw.get("eos_token_id")),
    )


def _family(raw: dict[str, Any]) -> str:
    names = raw.get("architectures") or []
    family = next((_ARCHITECTURES[name] for name in names if name in _ARCHITECTURES), None)
    if family is None:
        raise UnsupportedModel(f"architectures {names} are not among {sorted(_ARCHITECTURES)}")
    if raw.get("hidden_act", "silu") != "silu":
        raise UnsupportedModel(f"hidden_act {raw['hidden_act']}: only silu is computed")
    windowed = raw.get("sliding_window") is not None and raw.get("use_sliding_window", True)
    if family in {"mistral", "qwen2", "qwen3"} and windowed:
        raise UnsupportedModel("sliding-window attention is not computed")
    if raw.get("partial_rotary_factor", 1.0) != 1.0:
        raise UnsupportedModel("partial rotary embeddings are not computed")
    return family


def _parse_rope(raw: dict[str, Any]) -> tuple[float, RopeScaling]:
    """From `rope_parameters` (new files) or `rope_theta` and `rope_scaling` (old ones)."""
    rope: dict[str, Any] = {**(raw.get("rope_scaling") or {}), **(raw.get("rope_parameters") or {})}
    theta = float(rope.get("rope_theta") or raw.get("rope_theta") or 10_000.0)
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if kind not in {"default", "linear", "llama3", "yarn"}:
        raise UnsupportedModel(f"rope scaling {kind}: default, linear, llama3 and yarn are known")
    original = rope.get("original_max_position_embeddings") or raw.get("max_position_embeddings")
    return theta, RopeScaling(
        kind=cast("RopeKind", kind),
        factor=float(rope.get("factor") or 1.0),
        original_positions=int(original or 0),
        low_freq_factor=float(rope.get("low_freq_factor") or 1.0),
        high_freq_factor=float(rope.get("high_freq_factor") or 4.0),
        beta_fast=float(rope.get("beta_fast") or 32.0),
        beta_slow=float(rope.get("beta_slow") or 1.0),
        attention_factor=rope.get("attention_factor"),
        mscale=rope.get("mscale"),
        mscale_all_dim=rope.get("mscale_all_dim"),
        truncate=bool(rope.get("truncate", True)),
    )


def _ids(value: int | list[int] | None) -> tuple[int, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, int) else tuple(value)
