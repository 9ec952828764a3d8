"""The model as a Hugging Face folder: what the runtime loads, and what is pushed later.

The tokenizer has one token per character; the one that ends a response is special, so that it is no
part of the text.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.core.tools.safetensors import Stored, packed
from assay.rollout.demo.task import ALPHABET, PAD, STOP

if TYPE_CHECKING:
    from pathlib import Path

    from assay.rollout.demo.transformer import Shape, Weights


def _config(shape: Shape) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": shape.dim,
        "intermediate_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.heads,
        "head_dim": shape.head_dim,
        "vocab_size": shape.vocabulary,
        "max_position_embeddings": shape.positions,
        "rms_norm_eps": shape.rms_eps,
        "rope_theta": shape.rope_theta,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "eos_token_id": STOP,
        "torch_dtype": "float32",
    }


def _tokenizer() -> dict[str, Any]:
    pad = "<pad>"
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    special = [(STOP, ALPHABET[STOP]), (PAD, pad)]
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": at, "content": text, "special": True, **flags} for at, text in special
        ],
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"Regex": "."},
            "behavior": "Isolated",
            "invert": False,
        },
        "decoder": {"type": "Fuse"},
        "model": {
            "type": "WordLevel",
            "vocab": {**{one: at for at, one in enumerate(ALPHABET)}, pad: PAD},
            "unk_token": pad,
        },
    }


def write_folder(folder: Path, shape: Shape, weights: Weights) -> Path:
    """Write `config.json`, `tokenizer.json` and `model.safetensors`; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(_config(shape)), encoding="utf-8")
    (folder / "tokenizer.json").write_text(json.dumps(_tokenizer()), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"eos_token": ALPHABET[STOP]}), encoding="utf-8"
    )
    stored = {
        name: Stored("F32", tensor.shape, np.ascontiguousarray(tensor, "<f4").tobytes())
        for name, tensor in weights.items()
    }
    (folder / "model.safetensors").write_bytes(packed(stored))
    return folder
