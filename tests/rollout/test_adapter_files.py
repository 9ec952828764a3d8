"""peft's adapter folders: read, staged and decoded with, against matrices merged in numpy.

Method: folders are written here as peft writes them, from arrays that the reference merges in
float64; nothing of the reader is used for that.
"""

from __future__ import annotations

import json
import os
import random
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("numpy")

import numpy as np
from tests.rollout.engine.exact import random_model
from tests.rollout.test_weight_slots import SETTINGS, alone
from tests.seeds import drawn_seed

from assay.core.tools.safetensors import Stored, packed
from assay.rollout import InvalidWeights, Runtime, RuntimeOptions, Sampling
from assay.rollout.models import (
    Adapter,
    CorruptModel,
    Engine,
    Model,
    ModelError,
    Tensor,
    TensorKind,
    UnsupportedModel,
    read_adapter,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

MODULES = {
    TensorKind.WQ: "self_attn.q_proj",
    TensorKind.WV: "self_attn.v_proj",
    TensorKind.WO: "self_attn.o_proj",
    TensorKind.W_GATE: "mlp.gate_proj",
    TensorKind.W_DOWN: "mlp.down_proj",
}
Arrays = dict[str, "NDArray[np.float32]"]
TARGETS = sorted(name.rpartition(".")[2] for name in MODULES.values())
LORA = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "bias": "none", "target_modules": TARGETS}
OFT = {"peft_type": "OFT", "r": 0, "oft_block_size": 8, "bias": "none"}


def write_folder(folder: Path, config: dict[str, Any], arrays: Arrays) -> Path:
    """As `PeftModel.save_pretrained` does."""
    folder.mkdir(exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps(config))
    stored = {n: Stored("F32", array.shape, array.tobytes()) for n, array in arrays.items()}
    (folder / "adapter_model.safetensors").write_bytes(packed(stored))
    return folder


def matrices(model: Model) -> Iterator[tuple[TensorKind, int, tuple[int, ...], str]]:
    for kind, layer, shape in model.config.tensor_shapes():
        if kind in MODULES:
            yield kind, layer, shape, f"base_model.model.model.layers.{layer}.{MODULES[kind]}"


def lora_arrays(model: Model, rank: int = 4) -> Arrays:
    rng, arrays = np.random.default_rng(1), {}
    for _, _, (rows, cols), name in matrices(model):
        a = rng.normal(0, cols**-0.5, (rank, cols)).astype(np.float32)
        arrays[f"{name}.lora_A.weight"] = a
        arrays[f"{name}.lora_B.weight"] = rng.normal(0, 0.1, (rows, rank)).astype(np.float32)
    return arrays


def oft_arrays(model: Model, *, shared: bool = False) -> Arrays:
    rng, arrays = np.random.default_rng(2), {}
    for _, _, (_, cols), name in matrices(model):
        shape = (1 if shared else cols // 8, 28)
        arrays[f"{name}.oft_R.weight"] = rng.normal(0, 0.1, shape).astype(np.float32)
    return arrays


def merged_lora(model: Model, arrays: Arrays, scale: float) -> Model:
    tensors = dict(model.tensors)
    for kind, layer, _, name in matrices(model):
        a, b = (arrays[f"{name}.lora_{part}.weight"].astype(np.float64) for part in "AB")
        weight = tensors[kind, layer].to_float32().astype(np.float64) + scale * b @ a
        tensors[kind, layer] = Tensor.of(weight.astype(np.float32))
    return Model(model.config, tensors)


def rotation(upper: NDArray[np.float32], terms: int) -> NDArray[np.float64]:
    """peft's `_cayley_batch` of one block of 8."""
    q, one = np.zeros((8, 8)), np.eye(8)
    q[np.triu_indices(8, 1)] = upper
    q -= q.T
    if not terms:
        return np.asarray((one - q) @ np.linalg.inv(one + q))
    series = one + 2 * sum(np.linalg.matrix_power(q, n) for n in range(1, terms - 1))
    return np.asarray(series + np.linalg.matrix_power(q, terms - 1))


def merged_oft(model: Model, arrays: Arrays, terms: int) -> Model:
    tensors = dict(model.tensors)
    for kind, layer, (_, cols), name in matrices(model):
        uppers = arrays[f"{name}.oft_R.weight"]
        turned = np.zeros((cols, cols))
        for i in range(cols // 8):
            at = slice(8 * i, 8 * i + 8)
            turned[at, at] = rotation(uppers[i % len(uppers)], terms)
        weight = tensors[kind, layer].to_float32().astype(np.float64) @ turned.T
        tensors[kind, layer] = Tensor.of(weight.astype(np.float32))
    return Model(model.config, tensors)


def cases(model: Model) -> dict[str, tuple[dict[str, Any], Arrays, Model]]:
    lora, oft, shared = lora_arrays(model), oft_arrays(model), oft_arrays(model, shared=True)
    neumann = {**OFT, "use_cayley_neumann": True, "num_cayley_neumann_terms": 5}
    return {
        "lora": (LORA, lora, merged_lora(model, lora, 8 / 4)),
        "rslora": ({**LORA, "use_rslora": True}, lora, merged_lora(model, lora, 8 / 2)),
        "oft": (OFT, oft, merged_oft(model, oft, 0)),
        "oft, one block for all": (
            {**OFT, "block_share": True},
            shared,
            merged_oft(model, shared, 0),
        ),
        "oft, Neumann": (neumann, oft, merged_oft(model, oft, 5)),
    }


MODEL = random_model("qwen3")
CASES = cases(MODEL)


@pytest.mark.parametrize("case", CASES)
def test_an_adapter_folder_decodes_as_the_merged_matrices(case: str, tmp_path: Path) -> None:
    config, arrays, merged = CASES[case]
    adapter = read_adapter(write_folder(tmp_path / "adapter", config, arrays), MODEL.config)
    with (
        Engine.create(MODEL, SETTINGS) as engine,
        Engine.create(merged, SETTINGS) as reference,
        Engine.create(MODEL, SETTINGS) as plain,
    ):
        staged = engine.stage_adapter(1, adapter)
        with Runtime(engine, 4, RuntimeOptions(seq_len_max=64)) as runtime:
            runtime.activate(1)
            assert engine.weights_digest == staged.digest
            how = Sampling(temperature=0.8, top_k=40)
            runtime.submit([5, 6], max_tokens=12, seeds=[3], sampling=how, want_reward=False)
            (c,) = runtime.drain(30.0)
        tokens, logps = alone(reference, [5, 6], 12, 3)
        assert list(c.tokens) == tokens
        assert np.abs(np.array(c.logps) - logps).max() < 1e-4
        assert set(c.policy_versions) == {1}
        assert alone(plain, [5, 6], 12, 3)[1] != logps, "the adapter changes nothing"
        assert c.receipt is not None
        assert c.receipt.weights != (engine.weights_sha256(0),)


def test_a_new_adapter_replaces_the_active_one_and_none_gives_the_matrices_back(
    tmp_path: Path,
) -> None:
    first = read_adapter(write_folder(tmp_path / "a", *CASES["lora"][:2]), MODEL.config)
    second = read_adapter(write_folder(tmp_path / "b", *CASES["oft"][:2]), MODEL.config)
    with (
        Engine.create(MODEL, SETTINGS) as engine,
        Engine.create(CASES["oft"][2], SETTINGS) as reference,
    ):
        base = engine.weights_digest
        for version, adapter in ((1, first), (2, second)):
            engine.stage_adapter(version, adapter)
            engine.activate(version)
        assert alone(engine, [9], 8, 1)[0] == alone(reference, [9], 8, 1)[0]
        engine.stage_adapter(3, Adapter(()))
        engine.activate(3)
        assert engine.weights_digest == base
        with Engine.create(MODEL, SETTINGS) as plain:
            assert alone(engine, [9], 8, 1) == alone(plain, [9], 8, 1)
        with pytest.raises(InvalidWeights):
            engine.stage_adapter(1, second)  # the number names the first one


def one(name: str, part: str) -> str:
    return f"base_model.model.model.layers.0.{name}.{part}.weight"


Q = one("self_attn.q_proj", "lora_A")
WRONG: dict[str, tuple[dict[str, Any], dict[str, Any], type[ModelError], str]] = {
    "DoRA": ({"use_dora": True}, {}, UnsupportedModel, "use_dora"),
    "biases": ({"bias": "all"}, {}, UnsupportedModel, "bias"),
    "whole modules": ({"modules_to_save": ["lm_head"]}, {}, UnsupportedModel, "modules_to_save"),
    "another method": ({"peft_type": "IA3"}, {}, UnsupportedModel, "IA3"),
    "another rank": ({"r": 5}, {}, CorruptModel, "lora_A"),
    "no rank": ({"r": None}, {}, CorruptModel, "adapter_config.json"),
    "no scale": ({"lora_alpha": float("inf")}, {}, CorruptModel, "lora_alpha"),
    "a pattern": ({"rank_pattern": {"(a+)+$": 4}}, {}, UnsupportedModel, "rank_pattern"),
    "no targets": ({"target_modules": []}, {}, CorruptModel, "not a target module"),
    "another's tensors": ({"target_modules": ["q_proj"]}, {}, CorruptModel, "not a target module"),
    "half of a pair": ({}, {Q: None}, CorruptModel, "lora_A.weight is missing"),
    "another shape": ({}, {Q: np.zeros((4, 3), np.float32)}, CorruptModel, "lora_A"),
    "a layer too many": (
        {},
        {Q.replace("layers.0", "layers.77"): np.zeros((4, 3), np.float32)},
        CorruptModel,
        "layers.77",
    ),
    "an embedding": (
        {},
        {"base_model.model.model.embed_tokens.lora_A.weight": np.zeros((4, 3), np.float32)},
        UnsupportedModel,
        "embed_tokens",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_with_a_folder_is_named(case: str, tmp_path: Path) -> None:
    config, changes, error, named = WRONG[case]
    arrays = {**lora_arrays(MODEL), **changes}
    kept = {name: array for name, array in arrays.items() if array is not None}
    folder = write_folder(tmp_path / "adapter", {**LORA, **config}, kept)
    with pytest.raises(error, match=named):
        read_adapter(folder, MODEL.config)


@pytest.mark.parametrize(
    "config",
    [
        {"target_modules": [*TARGETS, "lm_head"]},
        {
            "target_modules": [f"self_attn.{name}" for name in TARGETS[1:3]],
            "layers_pattern": "layers",
        },
        {"target_modules": "all-linear"},
        {"target_modules": None},
    ],
)
def test_targets_by_longer_names_or_by_none_are_taken(
    config: dict[str, Any], tmp_path: Path
) -> None:
    folder = write_folder(tmp_path / "adapter", {**LORA, **config}, lora_arrays(MODEL))
    assert len(read_adapter(folder, MODEL.config).projections) == len([*matrices(MODEL)])


def test_values_that_are_not_finite_stage_nothing(tmp_path: Path) -> None:
    arrays = lora_arrays(MODEL)
    arrays[Q][0, 0] = np.nan
    adapter = read_adapter(write_folder(tmp_path / "adapter", LORA, arrays), MODEL.config)
    with Engine.create(MODEL, SETTINGS) as engine:
        with pytest.raises(InvalidWeights) as refused:
            engine.stage_adapter(1, adapter)
        assert refused.value.field == "tensors.WQ.0"
        assert engine.ready_version is None


DAMAGED = int(os.environ.get("ASSAY_DAMAGED_FILES", "150"))
"""Of each of the two files."""


def test_damaged_folders_end_in_model_errors_and_nothing_else(tmp_path: Path) -> None:
    seed = drawn_seed()
    rng, said = random.Random(seed), list[str]()
    folder = write_folder(tmp_path / "adapter", *CASES["oft"][:2])
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        whole = (folder / name).read_bytes()
        for _ in range(DAMAGED):
            damaged = bytearray(whole[: rng.choice((len(whole), rng.randrange(len(whole))))])
            for _ in range(rng.randint(0, 4) if damaged else 0):
                damaged[rng.randrange(min(len(damaged), 2000))] = rng.randrange(256)
            (folder / name).write_bytes(damaged)
            try:
                read_adapter(folder, MODEL.config)
            except ModelError as error:
                said.append(str(error))
        (folder / name).write_bytes(whole)
    assert said
    assert all("adapter_" in one for one in said)
