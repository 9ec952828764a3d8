"""Torch references the engine is held to: transformers' own models, and llama2.c's arithmetic."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pathlib import Path

Floats = NDArray[np.float32]

COMMON = {
    "hidden_size": 96,
    "num_hidden_layers": 3,
    "intermediate_size": 176,
    "vocab_size": 331,
    "max_position_embeddings": 256,
    "initializer_range": 0.12,
    "attn_implementation": "eager",
}


@dataclass(frozen=True)
class Shape:
    """A small random model of one family."""

    family: str
    options: dict[str, Any]


SHAPES = {
    "llama": Shape("Llama", {"num_attention_heads": 6, "num_key_value_heads": 2}),
    "llama-biased-mha": Shape(
        "Llama",
        {
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "attention_bias": True,
            "mlp_bias": True,
        },
    ),
    "llama3-rope": Shape(
        "Llama",
        {
            "num_attention_heads": 6,
            "num_key_value_heads": 3,
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 10000.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            },
        },
    ),
    "llama-linear-rope": Shape(
        "Llama",
        {
            "num_attention_heads": 6,
            "num_key_value_heads": 6,
            "rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0},
        },
    ),
    "qwen2": Shape("Qwen2", {"num_attention_heads": 6, "num_key_value_heads": 2}),
    "qwen3-yarn": Shape(
        "Qwen3",
        {
            "num_attention_heads": 8,
            "num_key_value_heads": 2,
            "head_dim": 48,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 1000000.0,
                "factor": 4.0,
                "original_max_position_embeddings": 64,
            },
        },
    ),
    "qwen3": Shape(
        "Qwen3",
        {
            "num_attention_heads": 4,
            "num_key_value_heads": 1,
            "head_dim": 128,
            "tie_word_embeddings": True,
        },
    ),
    "smollm": Shape(
        "Llama",
        {"num_attention_heads": 3, "num_key_value_heads": 1, "tie_word_embeddings": True},
    ),
}


def random_model(name: str) -> Any:
    """A transformers model with random weights, norms and biases included."""
    import transformers

    shape = SHAPES[name]
    config = getattr(transformers, f"{shape.family}Config")(**COMMON, **shape.options)
    generator = torch.Generator().manual_seed(len(name))
    model = getattr(transformers, f"{shape.family}ForCausalLM")(config).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.12, generator=generator)
            if parameter.ndim == 1:
                parameter.add_(0.5)
    return model


@torch.no_grad()
def logits_of(model: Any, ids: list[int]) -> Floats:
    """(positions, vocab_size) of one sequence."""
    return np.asarray(model(torch.tensor([ids])).logits[0].float().numpy())


@torch.no_grad()
def greedy(model: Any, ids: list[int], n: int) -> list[int]:
    """n greedy tokens after ids."""
    ids = list(ids)
    for _ in range(n):
        ids.append(int(logits_of(model, ids)[-1].argmax()))
    return ids[-n:]


class Llama2c:
    """llama2.c's forward pass in torch float32, rotary pairs interleaved as in its run.c."""

    def __init__(self, path: Path) -> None:
        raw = path.read_bytes()
        head = struct.unpack_from("<7i", raw)
        self.dim, self.hidden, self.layers, self.heads, self.kv_heads, self.vocab, self.seq = head
        self._values = torch.from_numpy(np.frombuffer(raw, "<f4", offset=28).copy())
        self._at = 0
        kv = self.kv_heads * self.dim // self.heads
        self.embed = self._take(self.vocab, self.dim)
        self.att_norm = self._take(self.layers, self.dim)
        self.wq = self._take(self.layers, self.dim, self.dim)
        self.wk = self._take(self.layers, kv, self.dim)
        self.wv = self._take(self.layers, kv, self.dim)
        self.wo = self._take(self.layers, self.dim, self.dim)
        self.ffn_norm = self._take(self.layers, self.dim)
        self.w1 = self._take(self.layers, self.hidden, self.dim)
        self.w2 = self._take(self.layers, self.dim, self.hidden)
        self.w3 = self._take(self.layers, self.hidden, self.dim)
        self.norm = self._take(self.dim)

    def _take(self, *shape: int) -> torch.Tensor:
        n = int(np.prod(shape))
        self._at += n
        return self._values[self._at - n : self._at].reshape(*shape)

    def logits(self, ids: list[int]) -> Floats:
        """(positions, vocab_size) of one sequence."""
        x = self.embed[torch.tensor(ids)]
        for layer in range(self.layers):
            x = x + self._attention(layer, _rms(x, self.att_norm[layer]))
            h = _rms(x, self.ffn_norm[layer])
            gate = torch.nn.functional.silu(h @ self.w1[layer].T)
            x = x + (gate * (h @ self.w3[layer].T)) @ self.w2[layer].T
        return (_rms(x, self.norm) @ self.embed.T).numpy()

    def _attention(self, layer: int, h: torch.Tensor) -> torch.Tensor:
        n, size = h.shape[0], self.dim // self.heads
        q = _turn((h @ self.wq[layer].T).view(n, self.heads, size))
        k = _turn((h @ self.wk[layer].T).view(n, self.kv_heads, size))
        v = (h @ self.wv[layer].T).view(n, self.kv_heads, size)
        k = k.repeat_interleave(self.heads // self.kv_heads, 1)
        v = v.repeat_interleave(self.heads // self.kv_heads, 1)
        scores = torch.einsum("qhd,khd->hqk", q, k) / size**0.5
        scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf)
        mixed = torch.einsum("hqk,khd->qhd", scores.softmax(-1), v)
        return mixed.reshape(n, self.dim) @ self.wo[layer].T


def _rms(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight


def _turn(x: torch.Tensor) -> torch.Tensor:
    """x: (positions, heads, size); pairs (0, 1), (2, 3) ... turn together."""
    n, _, size = x.shape
    frequencies = 10000.0 ** (-torch.arange(0, size, 2).float() / size)
    angles = torch.arange(n).float()[:, None] * frequencies
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(2)


_GGUF_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def smollm_from_gguf(path: Path) -> Any:
    """SmolLM2-135M as transformers' Llama, read with the `gguf` package and not with our reader."""
    import gguf
    import transformers

    config = transformers.LlamaConfig(
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        vocab_size=49152,
        max_position_embeddings=8192,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 100000.0},
        tie_word_embeddings=True,
    )
    state = {}
    for tensor in gguf.GGUFReader(str(path)).tensors:
        values = torch.from_numpy(gguf.dequantize(tensor.data, tensor.tensor_type))
        stem = tensor.name.removesuffix(".weight")
        prefix = ""
        if stem.startswith("blk."):
            _, layer, stem = stem.split(".")
            prefix = f"model.layers.{layer}."
        if stem in {"attn_q", "attn_k"}:
            heads = values.shape[0] // 64
            values = values.view(heads, 32, 2, 576).transpose(1, 2).reshape(-1, 576)
        state[f"{prefix}{_GGUF_NAMES[stem]}.weight"] = values
    model: Any = transformers.LlamaForCausalLM(config)
    missing, unexpected = model.load_state_dict(state, strict=False)
    if missing not in ([], ["lm_head.weight"]) or unexpected:
        raise AssertionError(f"missing {missing}, unexpected {unexpected}")
    return model.float().eval()
