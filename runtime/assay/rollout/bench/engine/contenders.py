"""The same weights in other engines: llama.cpp and torch. Only benches import this."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.rollout.models.model import DType, Model, TensorKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

_GGUF_NAMES = {
    TensorKind.EMBED: "token_embd",
    TensorKind.LM_HEAD: "output",
    TensorKind.FINAL_NORM: "output_norm",
    TensorKind.ATTN_NORM: "attn_norm",
    TensorKind.FFN_NORM: "ffn_norm",
    TensorKind.WQ: "attn_q",
    TensorKind.WK: "attn_k",
    TensorKind.WV: "attn_v",
    TensorKind.WO: "attn_output",
    TensorKind.W_GATE: "ffn_gate",
    TensorKind.W_UP: "ffn_up",
    TensorKind.W_DOWN: "ffn_down",
}
_HF_NAMES = {
    TensorKind.EMBED: "model.embed_tokens",
    TensorKind.LM_HEAD: "lm_head",
    TensorKind.FINAL_NORM: "model.norm",
    TensorKind.ATTN_NORM: "input_layernorm",
    TensorKind.FFN_NORM: "post_attention_layernorm",
    TensorKind.WQ: "self_attn.q_proj",
    TensorKind.WK: "self_attn.k_proj",
    TensorKind.WV: "self_attn.v_proj",
    TensorKind.WO: "self_attn.o_proj",
    TensorKind.W_GATE: "mlp.gate_proj",
    TensorKind.W_UP: "mlp.up_proj",
    TensorKind.W_DOWN: "mlp.down_proj",
}


def _is_plain_llama(model: Model) -> bool:
    config = model.config
    return not (config.qk_norm or config.qkv_bias or config.out_bias or config.mlp_bias)


def _interleaved(values: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Convert rotate-half order to interleaved pairs, as llama.cpp expects for llama models."""
    rows, cols = values.shape
    halves = values.reshape(heads, 2, rows // heads // 2, cols)
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(rows, cols)


def gguf_refusal(model: Model) -> str | None:
    """Why this model cannot be passed to llama.cpp here; None when it can."""
    for package, name in (("gguf", "gguf"), ("llama_cpp", "llama-cpp-python")):
        if importlib.util.find_spec(package) is None:
            return f"the package {name} is not installed"
    return None if _is_plain_llama(model) else "only plain Llama models are written for it"


def write_gguf(model: Model, dtype: DType, path: Path) -> Path:
    """Write the model as a GGUF of that dtype without a vocabulary; see `gguf_refusal`."""
    import gguf

    config = model.config
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(config.positions_max)
    writer.add_embedding_length(config.dim)
    writer.add_block_count(config.n_layers)
    writer.add_feed_forward_length(config.hidden_dim)
    writer.add_head_count(config.n_heads)
    writer.add_head_count_kv(config.n_kv_heads)
    writer.add_layer_norm_rms_eps(config.rms_eps)
    writer.add_rope_freq_base(config.rope_theta)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("no_vocab")
    kind_of = gguf.GGMLQuantizationType
    for (kind, layer), tensor in model.tensors.items():
        values = tensor.to_float32()
        if kind in {TensorKind.WQ, TensorKind.WK}:
            values = _interleaved(
                values, config.n_heads if kind is TensorKind.WQ else config.n_kv_heads
            )
        name = f"{_GGUF_NAMES[kind]}.weight"
        name = f"blk.{layer}.{name}" if kind.per_layer else name
        if values.ndim == 2 and dtype is DType.BF16:
            packed = gguf.quantize(values, kind_of.BF16)
            writer.add_tensor(name, packed, raw_dtype=kind_of.BF16)
        else:
            writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@contextlib.contextmanager
def llama_cpp_decoder(
    path: Path, batch: int, threads: int, positions: tuple[int, int], *, flash: bool
) -> Iterator[Callable[[int], None]]:
    """llama.cpp decoding `batch` sequences per step; logits computed, nothing sampled.

    Args:
        positions: tokens in the context, plus the most tokens to decode after them.
        flash: use llama.cpp's fused attention kernel; which is faster depends on the context.
    """
    context_tokens, tokens = positions
    first = context_tokens - 1
    import llama_cpp as ll

    silence = ll.llama_log_callback(lambda _level, _text, _data: None)
    ll.llama_log_set(silence, ctypes.c_void_p(0))
    ll.llama_backend_init()
    model = ll.llama_model_load_from_file(str(path).encode(), ll.llama_model_default_params())
    if not model:
        raise RuntimeError(f"llama.cpp does not load {path}")
    params = ll.llama_context_default_params()
    params.n_ctx = batch * (-(-(context_tokens + tokens) // 256) * 256)
    params.n_batch = params.n_ubatch = 512
    params.n_seq_max = batch
    params.n_threads = params.n_threads_batch = threads
    if hasattr(params, "flash_attn_type"):
        params.flash_attn_type = int(flash)
    else:
        params.flash_attn = flash
    context = ll.llama_init_from_model(model, params)
    step = ll.llama_batch_init(batch, 0, 1)
    step.n_tokens = batch

    def decode_at(position: int) -> None:
        for i in range(batch):
            step.token[i], step.pos[i], step.n_seq_id[i] = 1 + position % 200, position, 1
            step.seq_id[i][0], step.logits[i] = i, 1
        if ll.llama_decode(context, step) != 0:
            raise RuntimeError("llama_decode failed")

    def decode(n: int) -> None:
        memory = ll.llama_get_memory(context)
        for i in range(batch):
            ll.llama_memory_seq_rm(memory, i, first, -1)
        for position in range(first, first + n):
            decode_at(position)

    for position in range(first):
        decode_at(position)
    try:
        yield decode
    finally:
        ll.llama_batch_free(step)
        ll.llama_free(context)
        ll.llama_model_free(model)


def torch_decoder(
    model: Model, dtype: DType, batch: int, threads: int, prompt: int
) -> Callable[[int], None]:
    """transformers' Llama on torch CPU, with its own growing KV cache; logits, nothing sampled."""
    import torch

    torch.set_num_threads(threads)
    twin = _torch_model(model, torch.bfloat16 if dtype is DType.BF16 else torch.float32)
    begun = torch.arange(1, prompt).repeat(batch, 1)

    @torch.inference_mode()
    def decode(n: int) -> None:
        cache = twin(begun, use_cache=True).past_key_values
        fed = torch.ones(batch, 1, dtype=torch.long)
        for _ in range(n):
            out = twin(fed, past_key_values=cache, use_cache=True)
            cache = out.past_key_values

    return decode


def _torch_model(model: Model, dtype: Any) -> Any:  # noqa: ANN401 - torch is an extra
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
        name = f"{_HF_NAMES[kind]}.weight"
        name = f"model.layers.{layer}.{name}" if kind.per_layer else name
        state[name] = torch.from_numpy(np.array(tensor.to_float32()))
    twin.load_state_dict(state, strict=False)
    return twin.to(dtype).eval()
