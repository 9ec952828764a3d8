"""Rotations are the trainer's at every position up to 32,768.

What the engine turns by is read back from the keys it stores: the same token at position 0 (where
nothing turns) and at position p gives cos and sin of every pair.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.rollout.engine.feeding import settings

from assay.rollout.models import DType, Engine, Model, Tensor
from assay.rollout.models.driver import Driver
from assay.rollout.models.errors import CorruptModel
from assay.rollout.models.model import ModelConfig, RopeScaling, rope_frequencies

if TYPE_CHECKING:
    from numpy.typing import NDArray

POSITIONS = 32_768
TOLERANCE = 1e-4
LAST = [1, 77, 4_000, 9_999, 20_011, 31_337, POSITIONS - 1]

SCALINGS = {
    "default": (10_000.0, 64, RopeScaling()),
    "default-500k": (500_000.0, 128, RopeScaling()),
    "linear": (100_000.0, 64, RopeScaling("linear", factor=4.0)),
    "llama3": (500_000.0, 128, RopeScaling("llama3", factor=8.0, original_positions=8_192)),
    "llama3-32": (500_000.0, 64, RopeScaling("llama3", factor=32.0, original_positions=8_192)),
    "yarn": (1_000_000.0, 128, RopeScaling("yarn", factor=4.0, original_positions=32_768)),
    "yarn-smooth": (
        10_000.0,
        64,
        RopeScaling("yarn", factor=40.0, original_positions=4_096, truncate=False),
    ),
}


def config_of(name: str) -> ModelConfig:
    theta, head_dim, scaling = SCALINGS[name]
    return ModelConfig(
        dim=32,
        n_layers=1,
        n_heads=1,
        n_kv_heads=1,
        head_dim=head_dim,
        hidden_dim=32,
        vocab_size=33,
        positions_max=POSITIONS,
        rms_eps=1e-6,
        rope_theta=theta,
        rope=scaling,
        tied_embeddings=True,
    )


def model_of(config: ModelConfig) -> Model:
    """One layer and one head; its numbers are not looked at."""
    rng = np.random.default_rng(5)
    tensors = {
        (kind, layer): Tensor.of(rng.normal(0.5, 0.5, shape))
        for kind, layer, shape in config.tensor_shapes()
    }
    return Model(config, tensors)


def turns(model: Model, positions: list[int]) -> tuple[NDArray[Any], NDArray[Any]]:
    """cos and sin that the engine's keys turned by, each (positions, head_dim / 2)."""
    keys = []
    with Engine.create(model, settings(threads=1, seq_len_max=POSITIONS)) as engine:
        for position in [0, *positions]:
            driver = Driver(engine, 1)
            driver._arena[:] = 0
            rollout = driver.new(16)
            rollout.blocks = [0] * (position // 16 + 1)
            rollout.length = position
            driver.step([rollout], [[7]], want_logits=False)
            start = driver._base - driver._arena.ctypes.data
            panel = driver._arena[start : start + 64 * model.config.head_dim]
            keys.append(panel.view(np.float32).reshape(-1, 16)[:, position % 16].astype(np.float64))
    a, b = np.split(keys[0], 2)
    turned = np.array(keys[1:])
    c, d = np.split(turned, 2, axis=1)
    size = a * a + b * b
    return (a * c + b * d) / size, (a * d - b * c) / size


def expected(
    frequencies: NDArray[np.float32], gain: float, positions: list[int]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """As a float32 trainer: the angle is rounded once, then turned into cos and sin."""
    angles = np.array(positions, np.float32)[:, None] * frequencies
    exact = angles.astype(np.float64)
    return np.cos(exact) * gain, np.sin(exact) * gain


@pytest.mark.parametrize("name", SCALINGS)
def test_the_engine_turns_by_the_float32_angle_at_every_position(name: str) -> None:
    model = model_of(config_of(name))
    cos, sin = turns(model, LAST)
    wanted = expected(model.rope()[0], 1.0, LAST)  # keys at position 0 carry the gain as well
    assert np.abs(cos - wanted[0]).max() < 1e-5
    assert np.abs(sin - wanted[1]).max() < 1e-5


# The first six frequencies as transformers 5.23 and torch 2.13 compute them (bits of float32).
GOLDEN: dict[str, list[int]] = {
    "default": [1065353216, 1061157137, 1058010522, 1054337179, 1050798235, 1047712803],
    "default-500k": [1065353216, 1062243009, 1059709382, 1057645444, 1054963644, 1052224381],
    "linear": [1048576000, 1043506438, 1039750095, 1034812671, 1030935587, 1026126857],
    "llama3": [1065353216, 1062243009, 1059709382, 1057645444, 1054963644, 1052224381],
    "llama3-32": [1065353216, 1059709382, 1054963644, 1049992931, 1044812720, 1040434848],
    "yarn": [1065353216, 1062095789, 1059470816, 1057355503, 1054337179, 1051589887],
    "yarn-smooth": [1065353216, 1061157137, 1058010522, 1054337179, 1050798235, 1047712803],
}


@pytest.mark.parametrize("name", GOLDEN)
def test_the_frequencies_are_the_trainers_to_the_bit(name: str) -> None:
    frequencies, _ = rope_frequencies(config_of(name))
    assert frequencies[:6].view(np.uint32).tolist() == GOLDEN[name]


@pytest.mark.parametrize("name", ["default", "default-500k"])
def test_float64_frequencies_would_miss_the_trainer(name: str) -> None:
    """The difference that these tests are about: they can fail."""
    config, at = config_of(name), [POSITIONS - 1]
    exact = config.rope_theta ** -(np.arange(0, config.head_dim, 2) / config.head_dim)
    apart = expected(exact.astype(np.float32), 1.0, at)[0]
    apart -= expected(rope_frequencies(config)[0], 1.0, at)[0]
    assert np.abs(apart).max() > 2 * TOLERANCE


def test_frequencies_of_the_trainers_own_are_taken_as_they_are() -> None:
    model = model_of(config_of("llama3"))
    given = np.nextafter(rope_frequencies(model.config)[0], np.float32(2))
    model = replace(model, trainer_frequencies=given)
    assert model.rope()[0].tolist() == given.tolist()
    cos, _ = turns(model, [POSITIONS - 1])
    assert np.abs(cos - expected(given, 1.0, [POSITIONS - 1])[0]).max() < 1e-5


@pytest.mark.parametrize("wrong", [np.ones(3, np.float32), np.full(64, math.nan, np.float32)])
def test_frequencies_that_fit_no_head_are_refused(wrong: NDArray[np.float32]) -> None:
    model = replace(model_of(config_of("llama3")), trainer_frequencies=wrong)
    with pytest.raises(CorruptModel, match="rotary frequencies"):
        Engine.create(model, settings(dtype=DType.F32))


# ---- against transformers itself -----------------------------------------------------------------


def trainers_module(config: ModelConfig) -> Any:
    """The rotary module that transformers builds for this configuration."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    rope = config.rope
    asked: dict[str, Any] = {"rope_type": rope.kind, "rope_theta": config.rope_theta}
    if rope.kind != "default":
        asked["factor"] = rope.factor
    if rope.kind == "llama3":
        asked |= {"low_freq_factor": rope.low_freq_factor, "high_freq_factor": 4.0}
    if rope.kind in {"llama3", "yarn"}:
        asked["original_max_position_embeddings"] = rope.original_positions
    if rope.kind == "yarn":
        asked["truncate"] = rope.truncate
    return LlamaRotaryEmbedding(
        LlamaConfig(
            hidden_size=config.head_dim,
            num_attention_heads=1,
            head_dim=config.head_dim,
            max_position_embeddings=POSITIONS,
            rope_parameters=asked,
        )
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SCALINGS)
def test_cos_and_sin_are_the_trainers_at_32768_positions(name: str) -> None:
    config = config_of(name)
    module = trainers_module(config)
    import torch

    positions = torch.arange(POSITIONS)[None]
    parts = module(torch.zeros(1), positions)
    cos, sin = (part[0, :, : config.head_dim // 2].numpy() for part in parts)
    frequencies, gain = model_of(config).rope()
    mine = expected(frequencies, gain, list(range(POSITIONS)))
    assert np.abs(mine[0] - cos).max() < TOLERANCE
    assert np.abs(mine[1] - sin).max() < TOLERANCE
    got = turns(model_of(config), LAST)
    assert np.abs(got[0] * gain - cos[LAST]).max() < TOLERANCE
    assert np.abs(got[1] * gain - sin[LAST]).max() < TOLERANCE
    handed = replace(model_of(config), trainer_frequencies=module.inv_freq.numpy())
    assert np.abs(turns(handed, LAST)[0] * gain - cos[LAST]).max() < 1e-5


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(12))
def test_of_any_scaling_every_frequency_is_within_the_last_bits(seed: int) -> None:
    """Torch's vectorised power is off by a bit in one of sixty; more would be another formula."""
    rng = np.random.default_rng(seed)
    kind = ["default", "linear", "llama3", "yarn"][seed % 4]
    scaling = RopeScaling(
        kind,  # type: ignore[arg-type]
        factor=float(rng.uniform(1.5, 40)) if kind != "default" else 1.0,
        original_positions=int(rng.integers(512, 40_000)),
        truncate=bool(rng.integers(2)),
    )
    config = replace(
        config_of("default"),
        head_dim=2 * int(rng.integers(8, 129)),
        rope_theta=float(np.exp(rng.uniform(math.log(5e3), math.log(1e8)))),
        rope=scaling,
    )
    wanted = trainers_module(config).inv_freq.numpy()
    frequencies, _ = rope_frequencies(config)
    apart = np.abs(frequencies.view(np.int32) - wanted.view(np.int32))
    assert apart.max() <= (4 if kind in {"default", "linear"} else 8), apart
