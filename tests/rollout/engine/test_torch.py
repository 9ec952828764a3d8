"""The engine's numbers against torch: transformers' own models, and llama2.c's arithmetic.

The second reference. What needs no torch is held to numpy in `test_correctness.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.rollout.engine.exact import Exact, ids_for, round_to_bf16
from tests.rollout.engine.feeding import TOLERANCE, decode_logits, settings

from assay.rollout.models import DType, Engine, Model, load_model, load_tokenizer
from assay.rollout.models.driver import Driver, TokenSampling
from assay.rollout.models.engine import Isa

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from tests.rollout.engine.reference import (  # noqa: E402
    SHAPES,
    Floats,
    Llama2c,
    greedy,
    logits_of,
    random_model,
    smollm_from_gguf,
)

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # transformers' own


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, Model]]:
    """Each random model as torch has it, and as it reads back from its saved folder."""
    pairs = {}
    for name in SHAPES:
        folder = tmp_path_factory.mktemp(name)
        reference = random_model(name)
        reference.save_pretrained(folder)
        pairs[name] = (reference, load_model(folder))
    return pairs


@pytest.mark.parametrize("name", SHAPES)
def test_the_two_references_agree(name: str, families: dict[str, tuple[Any, Model]]) -> None:
    reference, model = families[name]
    ids = ids_for(model, 90)
    assert np.abs(Exact(model).logits(ids) - logits_of(reference, ids)).max() < TOLERANCE / 2


@pytest.mark.parametrize("name", SHAPES)
def test_logits_are_torchs(
    name: str, families: dict[str, tuple[Any, Model]], isas: list[Isa]
) -> None:
    reference, model = families[name]
    ids = ids_for(model, 90)
    wanted = logits_of(reference, ids)
    assert wanted.std() > 0.5  # small logits would prove nothing
    for isa in isas:
        with Engine.create(model, settings(isa)) as engine:
            assert np.abs(decode_logits(engine, ids) - wanted).max() < TOLERANCE
            assert np.abs(decode_logits(engine, ids, 70, 13) - wanted[70:]).max() < TOLERANCE


@pytest.mark.parametrize("name", SHAPES)
def test_bf16_weights_cost_nothing_but_their_rounding(
    name: str, families: dict[str, tuple[Any, Model]], isas: list[Isa]
) -> None:
    reference, model = families[name]
    rounded = round_to_bf16(model)
    with torch.no_grad():
        twin = random_model(name)
        twin.load_state_dict(reference.state_dict())
        for parameter in twin.parameters():
            if parameter.ndim == 2:
                parameter.copy_(parameter.bfloat16().float())
    ids = ids_for(model, 60)
    wanted = logits_of(twin, ids)
    for isa in isas:
        how = settings(isa, DType.BF16, kv_dtype=DType.F32)
        with Engine.create(rounded, how) as engine:
            assert np.abs(decode_logits(engine, ids) - wanted).max() < 2 * TOLERANCE


@pytest.mark.parametrize("name", ["qwen3", "llama", "smollm"])
def test_greedy_tokens_are_torchs(
    name: str, families: dict[str, tuple[Any, Model]], isas: list[Isa]
) -> None:
    reference, model = families[name]
    prompts = [ids_for(model, n, seed=n) for n in (1, 7, 33)]
    wanted = [greedy(reference, ids, 12) for ids in prompts]
    for isa in isas:
        with Engine.create(model, settings(isa)) as engine:
            driver = Driver(engine, 64)
            rollouts = [driver.new(64) for _ in prompts]
            for rollout, ids in zip(rollouts, prompts, strict=True):
                driver.prefill(rollout, ids[:-1], 16)
            tokens, _ = driver.decode(rollouts, [ids[-1] for ids in prompts], 12)
            assert tokens.T.tolist() == wanted


def reference_logp(logits: Floats, sampling: TokenSampling, token: int) -> float:
    """log-prob of a token after temperature and filters, by full sorts in float64."""
    scaled = torch.from_numpy(logits).double() / sampling.temperature
    order = scaled.argsort(descending=True, stable=True)
    if sampling.top_k:
        order = order[: sampling.top_k]
    kept = scaled[order].softmax(0)
    if sampling.top_p < 1:
        before = kept.cumsum(0) - kept
        order = order[before < sampling.top_p]
        kept = scaled[order].softmax(0)
    if sampling.min_p:
        order = order[kept >= sampling.min_p * kept.max()]
    logps = scaled[order].log_softmax(0)
    return float(logps[(order == token).nonzero()[0, 0]])


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
def test_sampled_logps_are_torchs(
    sampling: TokenSampling, families: dict[str, tuple[Any, Model]], isas: list[Isa]
) -> None:
    reference, model = families["smollm"]
    for isa in isas:
        with Engine.create(model, settings(isa)) as engine:
            driver = Driver(engine, 64)
            rollout = driver.new(80, sampling)
            tokens, logps = driver.decode([rollout], [3], 60)
            ids = [3, *tokens[:, 0].tolist()]
            wanted = logits_of(reference, ids[:-1])
            for at, (token, logp) in enumerate(zip(ids[1:], logps[:, 0], strict=True)):
                assert abs(reference_logp(wanted[at], sampling, token) - logp) < TOLERANCE


def test_stories260k_is_llama2cs(stories: Path, isas: list[Isa]) -> None:
    model = load_model(stories / "stories260K.bin")
    tokenizer = load_tokenizer(stories / "tok512.bin")
    reference = Llama2c(stories / "stories260K.bin")
    for isa in isas:
        with Engine.create(model, settings(isa, threads=1)) as engine:
            driver = Driver(engine, 64)
            tokens, _ = driver.decode([driver.new(256)], [1], 200)
            ids = [1, *tokens[:, 0].tolist()]
            assert tokenizer.decode(ids).startswith(
                "Once upon a time, there was a little girl named Lily. "
                "She loved to play outside in the park."
            )
            wanted = reference.logits(ids[:-1])
            assert wanted.argmax(-1).tolist() == ids[1:]
            assert np.abs(decode_logits(engine, ids[:-1]) - wanted).max() < TOLERANCE


@pytest.fixture(scope="module")
def smollm_pair(smollm: Path) -> tuple[Any, Model]:
    """SmolLM2 as transformers computes it, and as we read it."""
    pytest.importorskip("gguf")
    return smollm_from_gguf(smollm), load_model(smollm)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("isa", [Isa.AVX2, Isa.AVX512, Isa.AMX])
def test_smollm_is_torchs(
    isa: Isa, isas: list[Isa], smollm: Path, smollm_pair: tuple[Any, Model]
) -> None:
    if isa not in isas:
        pytest.skip(f"this machine lacks {isa.name}")
    reference, model = smollm_pair
    tokenizer: Any = load_tokenizer(smollm)
    prompt = tokenizer.chat([{"role": "user", "content": "What is the capital of France?"}])
    ids = tokenizer.encode(prompt)
    wanted = logits_of(reference, ids)
    with Engine.create(model, settings(isa, seq_len_max=128)) as engine:
        assert np.abs(decode_logits(engine, ids, 8, 8) - wanted[8:]).max() < TOLERANCE
        driver = Driver(engine, 64)
        root = driver.new(96)
        driver.prefill(root, ids[:-1], 64)
        group = [driver.fork(root, 96, TokenSampling()) for _ in range(3)]
        tokens, _ = driver.decode([*group, root], [ids[-1]] * 4, 8)
        wanted_tokens = greedy(reference, ids, 8)
        assert tokens.T.tolist() == [wanted_tokens] * 4
        assert tokenizer.decode(wanted_tokens).startswith("The capital of France is Paris.")


@pytest.mark.timeout(600)
def test_smollm_sampled_logps_are_torchs(smollm_pair: tuple[Any, Model]) -> None:
    reference, model = smollm_pair
    how = TokenSampling(temperature=0.9, top_p=0.95, seed=11)
    with Engine.create(model, settings(seq_len_max=128)) as engine:
        driver = Driver(engine, 16)
        tokens, logps = driver.decode([driver.new(64, how)], [1], 40)
        ids = [1, *tokens[:, 0].tolist()]
        wanted = logits_of(reference, ids[:-1])
        for at, (token, logp) in enumerate(zip(ids[1:], logps[:, 0], strict=True)):
            assert abs(reference_logp(wanted[at], how, token) - logp) < TOLERANCE
