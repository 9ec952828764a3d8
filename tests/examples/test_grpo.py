"""`examples/grpo_smollm.py` on a model of random weights: all of its parts but the large model."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from assay.core.advantages import advantages

torch = pytest.importorskip("torch", reason="the example trains with torch")
transformers = pytest.importorskip("transformers", reason="the example reads models with it")
tokenizers = pytest.importorskip("tokenizers", reason="the model's tokenizer is made here")
pytest.importorskip("peft", reason="the example trains a LoRA adapter of peft")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "grpo_smollm.py"
TOKENS = ["<unk>", "<end>", *"0123456789 WhatisAnsweronumbly+?."]


@pytest.fixture
def grpo(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLE.parent))
    spec = importlib.util.spec_from_file_location("grpo_smollm", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["grpo_smollm"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_model(folder: Path) -> str:
    """A Llama of two layers, whose tokenizer has a token per character."""
    known = {text: at for at, text in enumerate(dict.fromkeys(TOKENS))}
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel(known, unk_token="<unk>"))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex("."), "isolated")
    backend.decoder = tokenizers.decoders.Fuse()
    own = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>")
    own.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    own.save_pretrained(folder)
    torch.manual_seed(3)
    config = transformers.LlamaConfig(
        vocab_size=len(known),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=128,
        eos_token_id=known["<end>"],
        tie_word_embeddings=True,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return str(folder)


def test_a_response_that_was_not_judged_is_left_out(grpo: ModuleType) -> None:
    def one(reward: float | None) -> Any:
        return SimpleNamespace(reward=reward, response_ids=[1, 2], rollout_logp=[-1.0, -2.0])

    rewards = [1.0, None, 0.0, 0.0]
    group = SimpleNamespace(
        prompt_ids=[5],
        trajectories=[one(reward) for reward in rewards],
        advantages=lambda: advantages(rewards),
    )
    found = [sample.advantage for sample in grpo.samples_of([group])]
    assert found == pytest.approx([2 * -found[1], found[1], found[1]])
    assert len(found) == 3


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # by peft
async def test_steps_are_trained_on_the_tokens_and_log_probs_of_the_runtime(
    grpo: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("ASSAY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(os, "environ", os.environ.copy())
    given = ["--model", write_model(tmp_path / "model"), "--steps", "3", "--prompts", "2"]
    given += ["--k", "16", "--tokens", "2", "--addend-max", "2", "--rate", "0.01"]
    steps = await grpo.main(grpo.arguments(given))
    assert [step.number for step in steps] == [1, 2, 3]
    assert sum(step.unscored for step in steps) == 0
    assert any(step.ratio_error > 0 for step in steps[1:]), "no group had rewards that differ"
    # With the adapter of the step before: pushed weights and log-probs are the trainer's.
    assert all(step.ratio_error < 1e-3 for step in steps)
