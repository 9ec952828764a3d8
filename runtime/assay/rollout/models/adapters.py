"""peft's adapter folders: adapter_config.json and adapter_model.safetensors, LoRA and OFT.

LoRA: y = W x + scale * B (A x); scale is alpha / r, or alpha / sqrt(r) with `use_rslora`.
OFT: y = W (x R), R orthogonal and block diagonal, made from the upper triangles of skew-symmetric
blocks by the Cayley transform (exactly, or by the truncated Neumann series) as in peft, or by the
matrix exponential, with the entry `"oft_transform": "exponential"`.

Config entries that need something the engine does not compute are refused by name.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from assay.rollout.models.errors import CorruptModel, UnsupportedModel, reading
from assay.rollout.models.hugging_face import layer_tensor_name, read_safetensors, tensor_key
from assay.rollout.models.model import TensorKind

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from assay.rollout.models.model import ModelConfig, Tensor, TensorKey

CONFIG: Final = "adapter_config.json"
WEIGHTS: Final = "adapter_model.safetensors"
CONFIG_BYTES_MAX: Final = 1 << 20
RANK_MAX: Final = 1024
FLOAT32_MAX: Final = (2 - 2**-23) * 2.0**127
"""As the engine keeps a scale."""
OFT_BLOCK_MAX: Final = 1024
NEUMANN_TERMS_MAX: Final = 64
MODELS_MAX: Final = 4
"""Models of one process whose projections are kept."""
PROJECTIONS: Final = frozenset(
    {
        *(TensorKind.WQ, TensorKind.WK, TensorKind.WV, TensorKind.WO),
        *(TensorKind.W_GATE, TensorKind.W_UP, TensorKind.W_DOWN),
    }
)
_PREFIX = "base_model.model."
_NOT_COMPUTED = {
    "use_dora": False,
    "use_qalora": False,
    "lora_bias": False,
    "fan_in_fan_out": False,
    "bias": "none",
    "modules_to_save": None,
    "coft": False,
    "layer_replication": None,
    "trainable_token_indices": None,
    "target_parameters": None,
    "alora_invocation_tokens": None,
}
"""Field: the only supported value, which disables it (an empty list or object does too)."""
_CHOOSES_MODULES = ("layers_to_transform", "layers_pattern", "exclude_modules")
"""Entries that adapt only some of the modules of a name."""
_PARTS = frozenset({"lora_A", "lora_B", "oft_R"})
_PLAIN_PATTERN = re.compile(r"[A-Za-z0-9_.]+\Z")


class AdapterKind(IntEnum):
    """How a projection is adapted; numbered as `assay_adapt` in engine.h."""

    LORA = 0
    OFT_CAYLEY = 1
    OFT_NEUMANN = 2
    OFT_EXPONENTIAL = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptedProjection:
    """The adapter of one matrix of the model, which is (rows, cols).

    LORA: a is (size, cols), b is (rows, size). OFT: a is (n_blocks, size * (size - 1) / 2), the
    upper triangles row by row; n_blocks is cols / size, or 1 where all blocks share one.
    """

    tensor: TensorKind
    layer: int
    kind: AdapterKind
    rows: int
    cols: int
    size: int
    a: Tensor
    b: Tensor | None = None
    scale: float = 0.0
    terms: int = 0

    @property
    def key(self) -> TensorKey:
        """The matrix that the adapter changes: which one, and of which layer."""
        return self.tensor, self.layer


@dataclass(frozen=True, slots=True)
class Adapter:
    """All projections of an adapter folder."""

    projections: tuple[AdaptedProjection, ...]


@dataclass(slots=True)
class _Found:
    """The tensors of one module, as in the file."""

    module: str
    key: TensorKey
    a: Tensor | None = None
    b: Tensor | None = None


def read_adapter(folder: Path, model: ModelConfig) -> Adapter:
    """Read the adapter of a folder, for a model of these sizes.

    Raises:
        CorruptModel: the files contradict themselves or the model; the error names file and tensor.
        UnsupportedModel: they need something the engine does not compute.
        OSError: a file cannot be read.
    """
    path = folder / CONFIG
    if path.stat().st_size > CONFIG_BYTES_MAX:
        raise CorruptModel(f"{CONFIG}: above {CONFIG_BYTES_MAX} bytes")
    with reading(CONFIG):
        text = path.read_text(encoding="utf-8")
    return adapter_of(parse_config(text), read_safetensors(folder / WEIGHTS), model)


def adapter_of(
    config: Mapping[str, Any], tensors: Mapping[str, Tensor], model: ModelConfig
) -> Adapter:
    """The adapter of tensors by their names in peft's files, for a model of these sizes.

    Args:
        config: as `parse_config`.
        tensors: by name, `base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight`.
        model: sizes of the model.

    Raises:
        CorruptModel: they contradict themselves or the model, or a target module lacks its tensors.
        UnsupportedModel: they need something the engine does not compute.
    """
    kind = str(config.get("peft_type"))
    if kind not in {"LORA", "OFT"}:
        raise UnsupportedModel(f"{CONFIG}: peft_type {kind}: LORA and OFT are supported")
    projections = projections_of(model)
    parts = ("lora_A", "lora_B") if kind == "LORA" else ("oft_R", "")
    found = _modules(tensors, parts, projections)
    if not found:
        raise CorruptModel(f"{WEIGHTS}: no adapter tensor found")
    make = _lora if kind == "LORA" else _oft
    with reading(CONFIG):
        _check_targets(config, {one.key for one in found}, projections)
        return Adapter(tuple(make(config, one, projections.shapes[one.key]) for one in found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Projections:
    """What an adapter may change in a model."""

    shapes: Mapping[TensorKey, tuple[int, int]]
    """(rows, cols) of each matrix."""
    modules: Mapping[TensorKey, str]
    """Names of the modules that the matrices belong to."""
    tensors: Mapping[str, tuple[TensorKey, str]]
    """Names of tensors as peft writes them, with the matrix and the part of its adapter."""

    def adapted_by(self, name: str) -> tuple[TensorKey, str]:
        """The matrix that the tensor of this name adapts, and the part of its adapter.

        Raises:
            UnsupportedModel: the name is not that of an adapter's tensor.
            CorruptModel: the model has no such layer.
        """
        return self.tensors.get(name) or self._by_another_name(name)

    def _by_another_name(self, name: str) -> tuple[TensorKey, str]:
        module, _, part = name.removesuffix(".weight").rpartition(".")
        key = tensor_key(f"{module.removeprefix(_PREFIX)}.weight")
        if part not in _PARTS or not name.endswith(".weight"):
            raise UnsupportedModel(f"{WEIGHTS}: tensor {name} is of a kind that is not supported")
        if key is None or key[0] not in PROJECTIONS:
            raise UnsupportedModel(
                f"{WEIGHTS}: tensor {name} does not adapt a projection of a layer"
            )
        if key not in self.shapes:
            raise CorruptModel(f"{WEIGHTS}: tensor {name}: the model has no such layer")
        return key, part


@lru_cache(maxsize=MODELS_MAX)
def projections_of(model: ModelConfig) -> Projections:
    """Those of a model of these sizes."""
    shapes = {
        (kind, layer): (shape[0], shape[1])
        for kind, layer, shape in model.tensor_shapes()
        if kind in PROJECTIONS
    }
    modules = {key: layer_tensor_name(key).removesuffix(".weight") for key in sorted(shapes)}
    tensors = {
        f"{_PREFIX}{module}.{part}.weight": (key, part)
        for key, module in modules.items()
        for part in _PARTS
    }
    return Projections(shapes=shapes, modules=modules, tensors=tensors)


def _check_targets(
    config: Mapping[str, Any], found: set[TensorKey], projections: Projections
) -> None:
    """Refuse an adapter that lacks the tensors of a module which its config names, or has others.

    A trainer computes nothing with a tensor of another module, so applied here it would be another
    policy than the trainer's.
    """
    targets = config.get("target_modules")
    chosen = any(config.get(name) for name in _CHOOSES_MODULES)
    if chosen or not isinstance(targets, list):
        return
    for key, module in projections.modules.items():
        is_target = any(module == name or module.endswith(f".{name}") for name in targets)
        if is_target and key not in found:
            raise CorruptModel(f"{WEIGHTS}: {module} is a target module but has no tensor")
        if key in found and not is_target:
            raise CorruptModel(f"{WEIGHTS}: {module} has a tensor but is not a target module")


def parse_config(text: str) -> dict[str, Any]:
    """The content of adapter_config.json; without an entry that the engine does not compute.

    Raises:
        CorruptModel: it is not a JSON object.
        UnsupportedModel: names the entry.
    """
    if len(text) > CONFIG_BYTES_MAX:
        raise CorruptModel(f"{CONFIG}: above {CONFIG_BYTES_MAX} bytes")
    with reading(CONFIG):
        config = dict(json.loads(text))
    for name, neutral in _NOT_COMPUTED.items():
        value = config.get(name, neutral)
        if value not in (neutral, [], {}, None):
            raise UnsupportedModel(f"{CONFIG}: {name} = {value!r} is not computed")
    return config


def _modules(
    tensors: Mapping[str, Tensor], parts: tuple[str, str], projections: Projections
) -> list[_Found]:
    """The tensors by module, in the model's order."""
    found: dict[TensorKey, _Found] = {}
    for name, tensor in tensors.items():
        key, part = projections.adapted_by(name)
        if part not in parts:
            raise UnsupportedModel(f"{WEIGHTS}: tensor {name} is of a kind that is not supported")
        one = found.setdefault(key, _Found(projections.modules[key], key))
        if part == parts[0]:
            one.a = tensor
        else:
            one.b = tensor
    return [found[key] for key in sorted(found)]


def _lora(config: Mapping[str, Any], one: _Found, shape: tuple[int, int]) -> AdaptedProjection:
    if one.a is None or one.b is None:
        lacking = "lora_A" if one.a is None else "lora_B"
        raise CorruptModel(f"{WEIGHTS}: tensor {_PREFIX}{one.module}.{lacking}.weight is missing")
    rank = _whole("rank", _by_pattern(config, "rank_pattern", "r", one.module))
    if not 1 <= rank <= RANK_MAX:
        raise UnsupportedModel(f"{CONFIG}: rank {rank}: 1 to {RANK_MAX} are computed")
    _expect(one, "lora_A", one.a, (rank, shape[1]))
    _expect(one, "lora_B", one.b, (shape[0], rank))
    alpha = _number("lora_alpha", _by_pattern(config, "alpha_pattern", "lora_alpha", one.module))
    scale = alpha / (math.sqrt(rank) if _flag(config, "use_rslora") else rank)
    if not abs(scale) <= FLOAT32_MAX:
        raise CorruptModel(f"{CONFIG}: lora_alpha does not give a finite scale")
    return AdaptedProjection(
        tensor=one.key[0],
        layer=one.key[1],
        kind=AdapterKind.LORA,
        rows=shape[0],
        cols=shape[1],
        size=rank,
        a=one.a,
        b=one.b,
        scale=scale,
    )


def _by_pattern(config: Mapping[str, Any], patterns: str, default: str, module: str) -> object:
    """peft's per-module values: a pattern is the end of a module's name."""
    for pattern, value in (config.get(patterns) or {}).items():
        if not _PLAIN_PATTERN.match(pattern):
            raise UnsupportedModel(f"{CONFIG}: {patterns}: {pattern!r} is not a plain name")
        if module == pattern or module.endswith(f".{pattern}"):
            return value
    return config[default]


def _number(name: str, value: object) -> float:
    """An entry of the config; of another type it would be read as something else than was meant."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise CorruptModel(f"{CONFIG}: {name}: a number, not {value!r:.40}")
    return float(value)


def _whole(name: str, value: object) -> int:
    """As `_number`; a part of one is no rank, and no count."""
    number = _number(name, value)
    if not number.is_integer():
        raise CorruptModel(f"{CONFIG}: {name}: a whole number, not {value!r:.40}")
    return int(number)


def _flag(config: Mapping[str, Any], name: str) -> bool:
    """As `_number`; absent and null are false."""
    value = config.get(name)
    if value is not None and not isinstance(value, bool):
        raise CorruptModel(f"{CONFIG}: {name}: true or false, not {value!r:.40}")
    return bool(value)


def _oft(config: Mapping[str, Any], one: _Found, shape: tuple[int, int]) -> AdaptedProjection:
    if one.a is None or len(one.a.shape) != 2:
        raise CorruptModel(f"{WEIGHTS}: {one.module}.oft_R.weight must have two dimensions")
    n_blocks, upper = one.a.shape
    size = (1 + math.isqrt(1 + 8 * upper)) // 2
    if upper < 1 or size * (size - 1) // 2 != upper or shape[1] % size:
        raise CorruptModel(
            f"{WEIGHTS}: {one.module}.oft_R.weight: {upper} values are not the upper triangles"
            f" of blocks of {shape[1]} inputs"
        )
    if size > OFT_BLOCK_MAX:
        raise UnsupportedModel(f"{WEIGHTS}: blocks of {size}: at most {OFT_BLOCK_MAX} are computed")
    if n_blocks != (1 if _flag(config, "block_share") else shape[1] // size):
        raise CorruptModel(f"{WEIGHTS}: {one.module}.oft_R.weight has {n_blocks} blocks")
    neumann = _flag(config, "use_cayley_neumann")
    terms = 0
    if neumann:
        terms = _whole("terms", config.get("num_cayley_neumann_terms", 5))
    if neumann and not 2 <= terms <= NEUMANN_TERMS_MAX:
        raise UnsupportedModel(f"{CONFIG}: {terms} Neumann terms: 2 to {NEUMANN_TERMS_MAX}")
    return AdaptedProjection(
        tensor=one.key[0],
        layer=one.key[1],
        kind=_oft_kind(config, neumann=neumann),
        rows=shape[0],
        cols=shape[1],
        size=size,
        a=one.a,
        terms=terms,
    )


def _oft_kind(config: Mapping[str, Any], *, neumann: bool) -> AdapterKind:
    """How R is made from the triangles; `oft_transform` is this engine's own entry."""
    transform = config.get("oft_transform") or "cayley"
    if transform not in {"cayley", "exponential"} or (neumann and transform != "cayley"):
        raise UnsupportedModel(f"{CONFIG}: oft_transform {transform!r} is not computed")
    if transform == "exponential":
        return AdapterKind.OFT_EXPONENTIAL
    return AdapterKind.OFT_NEUMANN if neumann else AdapterKind.OFT_CAYLEY


def _expect(one: _Found, part: str, tensor: Tensor, shape: tuple[int, int]) -> None:
    if tensor.shape != shape:
        raise CorruptModel(
            f"{WEIGHTS}: tensor {_PREFIX}{one.module}.{part}.weight is {tensor.shape} where model"
            f" and {CONFIG} need {shape}"
        )
