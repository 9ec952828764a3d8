"""transformers' Llama on torch with the same weights: a rival, and what others convert from."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.rollout.bench.engine.rival import (
    HF_NAMES,
    Decoder,
    Load,
    Opener,
    Rival,
    prompt_of,
    seconds_of,
)
from assay.rollout.bench.engine.work import Contender
from assay.rollout.models.model import DType, Model

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def torch_twin(model: Model) -> Any:  # noqa: ANN401 - torch is an extra
    """The model in float32 as a `transformers.LlamaForCausalLM`."""
    import torch
    import transformers

    config = model.config
    twin = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            hidden_size=config.dim,
            intermediate_size=config.hidden_dim,
            num_hidden_layers=config.n_layers,
            num_attention_heads=config.n_heads,
            num_key_value_heads=config.n_kv_heads,
            head_dim=config.head_dim,
            vocab_size=config.vocab_size,
            max_position_embeddings=config.positions_max,
            rms_norm_eps=config.rms_eps,
            rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
            tie_word_embeddings=config.tied_embeddings,
        )
    )
    state = {}
    for (kind, layer), tensor in model.tensors.items():
        name = f"{HF_NAMES[kind]}.weight"
        name = f"model.layers.{layer}.{name}" if kind.per_layer else name
        state[name] = torch.from_numpy(np.array(tensor.to_float32()))
    twin.load_state_dict(state, strict=False)
    return twin.eval()


@contextlib.contextmanager
def _open(model: Model, dtype: DType, load: Load) -> Iterator[Decoder]:
    """Fed tokens after a prefilled cache; logits computed, nothing sampled."""
    import torch

    torch.set_num_threads(load.threads)
    twin = torch_twin(model).to(torch.bfloat16 if dtype is DType.BF16 else torch.float32)
    begun = torch.tensor([prompt_of(load)] * load.batch)
    fed = torch.ones(load.batch, 1, dtype=torch.long)
    with torch.inference_mode():
        cache = twin(begun, use_cache=True, logits_to_keep=1).past_key_values

    @torch.inference_mode()
    def steps(n: int) -> None:
        for _ in range(n):
            twin(fed, past_key_values=cache, use_cache=True)

    def decode(n: int) -> float:
        extra = cache.get_seq_length() - (load.context - 1)
        if extra:
            cache.crop(-extra)
        return seconds_of(steps, n)

    yield decode


def _prepare(model: Model, dtype: DType, _folder: Path) -> dict[str, Opener]:
    return {"torch": partial(_open, model, dtype)}


TORCH = Rival(Contender.TORCH, (("torch", "torch"), ("transformers", "transformers")), _prepare)
