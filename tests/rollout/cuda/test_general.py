"""What stands in for the fast kernel: the general one where a device lacks the copy engine, and
shapes and biases that the fast one was not cut for. `tests/rollout/conformance` has both, too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rollout.cuda.building import bits, ended, host_engine, odd, tiny
from tests.rollout.cuda.test_adapters import adapter_of
from tests.rollout.cuda.test_host_build import GREEDY, LOGITS_ERROR_MAX, logits_of
from tests.rollout.engine.adapting import CAYLEY, lora, merge, oft
from tests.rollout.engine.exact import Exact, ids_for, random_model, round_to_bf16

from assay.rollout import Sampling
from assay.rollout.cuda.gpu import DeviceInfo, fitted, shared_bytes
from assay.rollout.cuda.sizes import (
    EMULATED,
    SHARED_BYTES_GENERAL,
    SHARED_BYTES_MAX,
    Sizes,
    Tuning,
)
from assay.rollout.cuda.weights.packed import Packed, packed_bytes, turns_of
from assay.rollout.errors.cuda import DeviceUnsupported
from assay.rollout.models import Model, TensorKind, UnsupportedModel

K = TensorKind
GENERAL = replace(EMULATED, general=True)
ODD: dict[str, dict[str, Any]] = {
    "width": {"dim": 40},
    "heads": {"n_heads": 3, "n_kv_heads": 1, "head_dim": 10},
    "normed heads": {"n_heads": 3, "n_kv_heads": 3, "head_dim": 20, "qk_norm": True},
    "biases": {"qkv_bias": True, "out_bias": True, "mlp_bias": True},
    "all": {
        "dim": 50,
        "n_heads": 6,
        "n_kv_heads": 2,
        "head_dim": 14,
        "hidden_dim": 45,
        "qkv_bias": True,
        "out_bias": True,
        "mlp_bias": True,
        "qk_norm": True,
        "tied_embeddings": False,
    },
}


def is_right(model: Model, merged: Model, version: int = 0, **options: Any) -> None:
    """Logits of the last token as float64 has them."""
    prompt = ids_for(model, 21)
    with host_engine(model, **options) as engine:
        if version:
            engine.activate(version)
        engine.submit(prompt, max_tokens=6, seeds=[1], sampling=GREEDY, want_reward=False)
        (done,) = ended(engine, 1)
        last = logits_of(engine)
    wanted = Exact(round_to_bf16(merged)).logits([*prompt, *done.tokens])[-2]
    assert np.linalg.norm(last - wanted) / np.linalg.norm(wanted) < LOGITS_ERROR_MAX


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("tuning", [EMULATED, GENERAL], ids=["fast", "general"])
def test_logits_of_other_shapes_are_those_of_float64(name: str, tuning: Tuning) -> None:
    model = odd(**ODD[name])
    is_right(model, model, tuning=tuning)


@pytest.mark.parametrize("name", ["llama-biased-mha", "qwen3"])
def test_logits_of_the_general_kernel_are_those_of_float64(name: str) -> None:
    model = random_model(name)
    is_right(model, model, tuning=GENERAL)


def test_the_general_kernel_makes_the_bits_of_the_fast_one() -> None:
    """Only how weights reach a block differs; and neither does a rollout depend on its company."""
    seen = set()
    for tuning, blocks, seed in [(EMULATED, 2, 0), (GENERAL, 2, 1), (GENERAL, 3, 2)]:
        with host_engine(tiny(), blocks=blocks, seed=seed, tuning=tuning) as engine:
            how: dict[str, Any] = {"sampling": Sampling(temperature=0.9), "want_reward": False}
            for n in (3, 19):
                engine.submit(range(n), max_tokens=9, seeds=[5, 6], user_ids=[n, n + 1], **how)
            seen.add(repr(bits(ended(engine, 4))))
    assert len(seen) == 1


@pytest.mark.parametrize("general", [False, True])
def test_adapters_and_rotations_of_other_shapes_are_those_of_the_merged_model(
    *, general: bool
) -> None:
    model = odd(**{**ODD["all"], "dim": 52, "hidden_dim": 44})
    tuning = replace(EMULATED, adapter_rank=12, general=general)
    prompt = ids_for(model, 21)
    each = {1: lora(model, 1, (8, 3, 12)), 2: oft(model, 1, CAYLEY, 2)}
    with host_engine(model, tuning=tuning) as engine:
        for version, parts in each.items():
            engine.stage_adapter(version, adapter_of(parts), base_version=0)
            engine.activate(version)
            engine.submit(prompt, max_tokens=4, seeds=[1], sampling=GREEDY, want_reward=False)
            (done,) = ended(engine, 1)
            last, whole = logits_of(engine), [*prompt, *done.tokens]
            wanted = Exact(merge(round_to_bf16(model), parts)).logits(whole)[-2]
            assert np.linalg.norm(last - wanted) / np.linalg.norm(wanted) < LOGITS_ERROR_MAX
            without = Exact(round_to_bf16(model)).logits(whole)[-2]
            assert np.linalg.norm(last - without) > 3 * np.linalg.norm(last - wanted)


@given(heads=st.integers(1, 5), keys=st.integers(1, 3), half=st.integers(1, 12))
def test_what_was_packed_is_taken_back(heads: int, keys: int, half: int) -> None:
    model = odd(dim=20, n_heads=heads * keys, n_kv_heads=keys, head_dim=2 * half)
    sizes = Sizes(model.config, EMULATED, 64)
    assert sizes.head_dim % 8 == sizes.q_dim % 32 == sizes.dim % 32 == 0
    to = Packed(sizes, np.zeros(packed_bytes(sizes), dtype=np.uint8))
    to.fill(model)
    rounded = round_to_bf16(model).tensors
    for kind in (K.WQ, K.WK, K.WV, K.WO, K.W_GATE, K.W_DOWN):
        wanted = rounded[kind, 0].to_float32()
        wide = to.take(kind, 0, (wanted.shape[0], wanted.shape[1])).astype(np.uint32) << 16
        assert (wide.view(np.float32) == wanted).all()
    turns = turns_of(model, sizes)
    assert turns.shape == (64, sizes.head_dim // 2, 2)
    assert not turns[:, half:].any()


def test_a_head_that_is_too_wide_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedModel, match="head_dim"):
        Sizes(replace(tiny().config, head_dim=258), EMULATED, 64)


def test_what_a_model_costs_more_is_said() -> None:
    sizes = Sizes(odd(**ODD["all"]).config, EMULATED, 64)
    assert sizes.extras == "dim 50 is padded to 64, head_dim 14 is padded to 16, out_bias, mlp_bias"
    assert Sizes(tiny().config, EMULATED, 64).extras == ""
    with host_engine(odd(dim=40)) as engine:
        assert engine.fallback == "general shapes: dim 40 is padded to 64"
    with host_engine(tiny()) as engine:
        assert engine.fallback == ""


def device(capability: tuple[int, int], kib: int) -> DeviceInfo:
    return DeviceInfo(
        name="X",
        capability=capability,
        multiprocessors=100,
        memory_bytes=1 << 34,
        driver=13000,
        coherent=False,
        shared_bytes=kib * 1024,
    )


@pytest.mark.parametrize(
    ("capability", "kib", "architecture", "general"),
    [
        ((9, 0), 227, "sm_90a", False),
        ((10, 3), 227, "sm_103a", False),
        ((8, 0), 163, "sm_80", True),
        ((8, 9), 99, "sm_89", True),
        ((12, 0), 99, "sm_120", True),
    ],
)
def test_a_device_gets_the_kernel_that_it_takes(
    capability: tuple[int, int], kib: int, architecture: str, *, general: bool
) -> None:
    info = device(capability, kib)
    sizes, compiled = fitted(Sizes(tiny().config, Tuning(), 64), info)
    assert (sizes.tuning.general, compiled) == (general, architecture)
    assert bool(info.lacks) == general
    assert shared_bytes(sizes) <= (SHARED_BYTES_GENERAL if general else SHARED_BYTES_MAX)
    wanted = Sizes(tiny().config, Tuning(), 64)
    assert (sizes.scratch, sizes.model) == (wanted.scratch, wanted.model)  # reserved before
    asked = fitted(Sizes(tiny().config, Tuning(general=True), 64), device((9, 0), 227))
    assert asked == (fitted(wanted, device((8, 0), 99))[0], "sm_90")


def test_a_device_without_room_for_the_general_kernel_is_refused() -> None:
    with pytest.raises(DeviceUnsupported, match="shared memory"):
        fitted(Sizes(tiny().config, Tuning(), 64), device((8, 0), 48))
