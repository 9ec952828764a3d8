"""llama.cpp on the same weights: writes them as GGUF and decodes through its C API."""

from __future__ import annotations

import contextlib
import ctypes
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np

from assay.rollout.bench.engine.rival import Decoder, Load, Opener, Rival, seconds_of
from assay.rollout.bench.engine.work import Contender
from assay.rollout.models.model import DType, Model, TensorKind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

PLAIN, FLASH = "llama.cpp, no flash attention", "llama.cpp, flash attention"

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


def _interleaved(values: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Convert rotate-half order to interleaved pairs, as llama.cpp expects for llama models."""
    rows, cols = values.shape
    halves = values.reshape(heads, 2, rows // heads // 2, cols)
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(rows, cols)


def write_gguf(model: Model, dtype: DType, path: Path) -> Path:
    """Write the model as a GGUF of that dtype without a vocabulary; see `Rival.refusal`."""
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


@cache
def _begin_silently() -> object:
    """Once per process. The result is what llama.cpp calls for each log line: `cache` keeps it."""
    import llama_cpp as ll

    silence = ll.llama_log_callback(lambda _level, _text, _data: None)
    ll.llama_log_set(silence, ctypes.c_void_p(0))
    ll.llama_backend_init()
    return silence


@contextlib.contextmanager
def _open(path: Path, load: Load, *, flash: bool) -> Iterator[Decoder]:
    """`load.batch` sequences per step on fed tokens; logits computed, nothing sampled.

    Args:
        path: the GGUF file.
        load: batch, context, tokens and threads.
        flash: use llama.cpp's fused attention kernel; which is faster depends on the context.
    """
    batch, first = load.batch, load.context - 1
    import llama_cpp as ll

    _begin_silently()
    model = ll.llama_model_load_from_file(str(path).encode(), ll.llama_model_default_params())
    if not model:
        raise RuntimeError(f"llama.cpp does not load {path}")
    params = ll.llama_context_default_params()
    params.n_ctx = batch * (-(-(load.context + load.tokens) // 256) * 256)
    params.n_batch = params.n_ubatch = 512
    params.n_seq_max = batch
    params.n_threads = params.n_threads_batch = load.threads
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

    def rewind() -> None:
        memory = ll.llama_get_memory(context)
        for i in range(batch):
            ll.llama_memory_seq_rm(memory, i, first, -1)

    def decode_all(n: int) -> None:
        for position in range(first, first + n):
            decode_at(position)

    def decode(n: int) -> float:
        rewind()
        return seconds_of(decode_all, n)

    for position in range(first):
        decode_at(position)
    try:
        yield decode
    finally:
        ll.llama_batch_free(step)
        ll.llama_free(context)
        ll.llama_model_free(model)


def _prepare(model: Model, dtype: DType, folder: Path) -> dict[str, Opener]:
    path = write_gguf(model, dtype, folder / "model.gguf")
    return {name: partial(_open, path, flash=name == FLASH) for name in (PLAIN, FLASH)}


LLAMA_CPP = Rival(
    Contender.LLAMA_CPP,
    (("gguf", "gguf"), ("llama_cpp", "llama-cpp-python")),
    _prepare,
)
