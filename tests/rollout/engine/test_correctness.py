"""The engine's numbers against a float64 reference, and against itself in other company."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.rollout.engine.exact import (
    CONFIGS,
    Exact,
    ids_for,
    probabilities,
    random_model,
    round_to_bf16,
)
from tests.rollout.engine.feeding import TOLERANCE, decode_logits, last_logits, settings

from assay.rollout.models import DType, Engine, Model, Tensor, load_model, load_tokenizer
from assay.rollout.models.driver import Driver, Rollout, TokenSampling
from assay.rollout.models.engine import Isa
from assay.rollout.models.model import ModelConfig, RopeScaling, rope_frequencies

if TYPE_CHECKING:
    from pathlib import Path

# transformers' ROPE_INIT_FUNCTIONS for heads of 16; YaRN also gives a gain on cos and sin.
LINEAR = [0.25, 0.079056941, 0.025, 0.0079056947, 0.0025, 0.00079056947, 0.00025, 7.9056947e-05]
LLAMA3 = [
    *(1.0, 0.24438459, 0.013042256, 0.0039528473),
    *(0.00125, 0.00039528473, 0.000125, 3.9528473e-05),
]
YARN = [
    *(1.0, 0.11114246, 0.0079056947, 0.0014058533),
    *(0.00025, 4.4456985e-05, 7.9056936e-06, 1.4058534e-06),
]
YARN_GAIN = 1.138629436111989


@pytest.fixture(scope="module")
def families() -> dict[str, Model]:
    return {name: random_model(name) for name in CONFIGS}


@pytest.mark.parametrize("name", CONFIGS)
def test_logits_are_exact(name: str, families: dict[str, Model], isas: list[Isa]) -> None:
    model = families[name]
    ids = ids_for(model, 90)
    wanted = Exact(model).logits(ids)
    assert wanted.std() > 0.5  # small logits would prove nothing
    for isa in isas:
        with Engine.create(model, settings(isa)) as engine:
            assert np.abs(decode_logits(engine, ids) - wanted).max() < TOLERANCE
            assert np.abs(decode_logits(engine, ids, 70, 13) - wanted[70:]).max() < TOLERANCE


@pytest.mark.parametrize("name", CONFIGS)
def test_bf16_weights_cost_nothing_but_their_rounding(
    name: str, families: dict[str, Model], isas: list[Isa]
) -> None:
    rounded = round_to_bf16(families[name])
    ids = ids_for(rounded, 60)
    wanted = Exact(rounded).logits(ids)
    for isa in isas:
        how = settings(isa, DType.BF16, kv_dtype=DType.F32)
        with Engine.create(families[name], how) as engine:
            assert np.abs(decode_logits(engine, ids) - wanted).max() < 2 * TOLERANCE


@pytest.mark.parametrize("given", [DType.F32, DType.BF16])
def test_bf16_weights_of_long_rows_are_packed_whole(given: DType) -> None:
    """Rows of 1,102 values: more than twice what is packed at once."""
    base = random_model("smollm")
    config, rng = replace(base.config, hidden_dim=1_102), np.random.default_rng(7)
    shapes = config.tensor_shapes()
    made = {(k, layer): rng.normal(0.5 * (len(s) == 1), 0.1, s) for k, layer, s in shapes}
    rounded = round_to_bf16(Model(config, {key: Tensor.of(v) for key, v in made.items()}))
    tensors = {
        key: Tensor((t.data.view(np.uint32) >> 16).astype(np.uint16), DType.BF16)
        if given is DType.BF16 and t.data.ndim == 2
        else t
        for key, t in rounded.tensors.items()
    }
    ids = ids_for(rounded, 20)
    wanted = Exact(rounded).logits(ids)
    how = settings(Isa.AUTO, DType.BF16, kv_dtype=DType.F32)
    with Engine.create(Model(config, tensors), how) as engine:
        assert np.abs(decode_logits(engine, ids) - wanted).max() < 4 * TOLERANCE


@pytest.mark.parametrize("name", ["qwen3", "llama", "smollm"])
def test_greedy_tokens_are_exact(name: str, families: dict[str, Model], isas: list[Isa]) -> None:
    model = families[name]
    prompts = [ids_for(model, n, seed=n) for n in (1, 7, 33)]
    wanted = [Exact(model).greedy(ids, 12) for ids in prompts]
    for isa in isas:
        with Engine.create(model, settings(isa)) as engine:
            driver = Driver(engine, 64)
            rollouts = [driver.new(64) for _ in prompts]
            for rollout, ids in zip(rollouts, prompts, strict=True):
                driver.prefill(rollout, ids[:-1], 16)
            tokens, _ = driver.decode(rollouts, [ids[-1] for ids in prompts], 12)
            assert tokens.T.tolist() == wanted


@pytest.mark.parametrize(
    ("scaling", "theta", "wanted", "gain"),
    [
        (RopeScaling("linear", factor=4.0), 1e4, LINEAR, 1.0),
        (RopeScaling("llama3", factor=8.0, original_positions=64), 1e4, LLAMA3, 1.0),
        (RopeScaling("yarn", factor=4.0, original_positions=64), 1e6, YARN, YARN_GAIN),
    ],
)
def test_stretched_frequencies_are_those_that_transformers_prints(
    scaling: RopeScaling, theta: float, wanted: list[float], gain: float
) -> None:
    config = ModelConfig(
        **{**CONFIGS["llama"].__dict__, "head_dim": 16, "rope_theta": theta, "rope": scaling}
    )
    frequencies, found = rope_frequencies(config)
    assert frequencies.tolist() == pytest.approx(wanted, rel=1e-6)
    assert found == pytest.approx(gain, rel=1e-7)


COMPANY = list(itertools.product(["qwen3", "llama", "llama-biased-mha"], [DType.F32, DType.BF16]))


@pytest.mark.parametrize(("name", "dtype"), COMPANY)
def test_company_changes_no_bit(
    name: str, dtype: DType, families: dict[str, Model], isas: list[Isa]
) -> None:
    model = families[name]
    prompts = [ids_for(model, n, seed=n) for n in (1, 3, 17, 18, 40, 65, 2, 31)]
    for isa in isas:
        for threads in (1, 3):
            with Engine.create(model, settings(isa, dtype, threads=threads)) as engine:
                alone = [decode_logits(engine, ids)[-1] for ids in prompts]
                for order in (range(8), [5, 2, 7, 0, 1], [4, 3], [6, 5, 4, 3, 2, 1, 0, 7]):
                    together = last_logits(engine, [prompts[i] for i in order])
                    for i, logits in zip(order, together, strict=True):
                        assert np.array_equal(logits, alone[i])


@pytest.mark.parametrize(("name", "dtype"), COMPANY)
@pytest.mark.parametrize("block_tokens", [16, 32])
def test_shared_prefix_changes_no_bit(
    name: str,
    dtype: DType,
    block_tokens: int,
    families: dict[str, Model],
    isas: list[Isa],
) -> None:
    model = families[name]
    prefix = ids_for(model, 75)
    for isa in isas:
        how = settings(isa, dtype, block_tokens=block_tokens)
        with Engine.create(model, how) as engine:
            driver = Driver(engine, 128)
            root = driver.new(96)
            driver.prefill(root, prefix, 32)
            shared = [driver.fork(root, 96, _branch(i)) for i in range(9)]
            assert shared[0].shared_blocks > 0
            lonely = []
            for i in range(9):
                own = driver.new(96, _branch(i))
                driver.prefill(own, prefix, 32)
                lonely.append(own)
            tokens, logps = driver.decode(shared, list(range(9)), 12)
            for i, rollout in enumerate(lonely):
                alone, alone_logps = driver.decode([rollout], [i], 12)
                assert alone[:, 0].tolist() == tokens[:, i].tolist()
                assert np.array_equal(alone_logps[:, 0], logps[:, i])
            assert len({tuple(column) for column in tokens.T.tolist()}) > 1


def _branch(i: int) -> TokenSampling:
    return TokenSampling(temperature=1.0, seed=i)


def test_a_wrong_sharing_hint_is_not_believed(
    families: dict[str, Model],
) -> None:
    model = families["llama"]
    with Engine.create(model, settings()) as engine:
        driver = Driver(engine, 32)
        rollouts = [driver.new(48) for _ in range(2)]
        for rollout, ids in zip(
            rollouts, (ids_for(model, 33), ids_for(model, 33, 50)), strict=True
        ):
            driver.prefill(rollout, ids[:-1], 32)
        snapshot = [Rollout(r.blocks, r.sampling, r.length, 0) for r in rollouts]
        driver.step(snapshot, [[1], [2]])
        honest = [driver.logits(0), driver.logits(1)]
        for rollout in rollouts:
            rollout.shared_blocks = 2
        driver.step(rollouts, [[1], [2]])
        assert np.array_equal(driver.logits(0), honest[0])
        assert np.array_equal(driver.logits(1), honest[1])


@pytest.mark.parametrize(
    "sampling",
    [
        TokenSampling(temperature=1.0, seed=1),
        TokenSampling(temperature=0.6, top_k=20, seed=2),
        TokenSampling(temperature=1.3, top_p=0.8, seed=3),
        TokenSampling(temperature=0.9, min_p=0.05, seed=4),
        TokenSampling(temperature=0.8, top_k=50, top_p=0.9, min_p=0.02, seed=5),
    ],
)
def test_sampled_logps_are_exact(
    sampling: TokenSampling, families: dict[str, Model], isas: list[Isa]
) -> None:
    model = families["smollm"]
    for isa in isas:
        with Engine.create(model, settings(isa)) as engine:
            driver = Driver(engine, 64)
            rollout = driver.new(80, sampling)
            tokens, logps = driver.decode([rollout], [3], 60)
            ids = [3, *tokens[:, 0].tolist()]
            wanted = Exact(model).logits(ids[:-1])
            for at, (token, logp) in enumerate(zip(ids[1:], logps[:, 0], strict=True)):
                exact = math.log(probabilities(wanted[at], sampling)[token])
                assert abs(exact - logp) < TOLERANCE


def test_stories260k_tells_its_story(stories: Path, isas: list[Isa]) -> None:
    model = load_model(stories / "stories260K.bin")
    tokenizer = load_tokenizer(stories / "tok512.bin")
    for isa in isas:
        with Engine.create(model, settings(isa, threads=1)) as engine:
            driver = Driver(engine, 64)
            tokens, _ = driver.decode([driver.new(256)], [1], 200)
            ids = [1, *tokens[:, 0].tolist()]
            assert tokenizer.decode(ids).startswith(
                "Once upon a time, there was a little girl named Lily. "
                "She loved to play outside in the park."
            )
            wanted = Exact(model).logits(ids[:-1])
            assert wanted.argmax(-1).tolist() == ids[1:]
            assert np.abs(decode_logits(engine, ids[:-1]) - wanted).max() < TOLERANCE


@pytest.mark.timeout(600)
def test_smollm_answers_as_the_reference_does(smollm: Path) -> None:
    pytest.importorskip("tokenizers")
    model = load_model(smollm)
    tokenizer: Any = load_tokenizer(smollm)
    prompt = tokenizer.chat([{"role": "user", "content": "What is the capital of France?"}])
    ids = tokenizer.encode(prompt)
    with Engine.create(model, settings(seq_len_max=128)) as engine:
        driver = Driver(engine, 64)
        root = driver.new(96)
        driver.prefill(root, ids[:-1], 64)
        group = [driver.fork(root, 96, TokenSampling()) for _ in range(3)]
        tokens, _ = driver.decode([*group, root], [ids[-1]] * 4, 8)
        answer = tokens[:, 0].tolist()
        assert tokens.T.tolist() == [answer] * 4
        assert tokenizer.decode(answer).startswith("The capital of France is Paris.")
        wanted = Exact(model).logits([*ids, *answer])
        assert wanted[len(ids) - 1 : -1].argmax(-1).tolist() == answer
        found = decode_logits(engine, ids, 8, 8)
        assert np.abs(found - wanted[8 : len(ids)]).max() < TOLERANCE
