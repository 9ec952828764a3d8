"""The decode engine's structures (`engine.h`)."""

from __future__ import annotations

import ctypes as ct

from assay.rollout.layout.ring import Sampler


class ModelShape(ct.Structure):
    """Sizes of a model, in elements."""

    _fields_ = (
        *((name, ct.c_uint32) for name in ("dim", "n_layers", "n_heads", "n_kv_heads", "head_dim")),
        *((name, ct.c_uint32) for name in ("hidden_dim", "vocab_size", "seq_len_max")),
        *((name, ct.c_float) for name in ("rms_eps", "rope_gain")),
        *((name, ct.c_uint8) for name in ("weight_dtype", "kv_dtype", "tied_embeddings")),
        *((name, ct.c_uint8) for name in ("qk_norm", "qkv_bias", "out_bias", "mlp_bias")),
        ("reserved", ct.c_uint8),
    )


class NativeEngineSettings(ct.Structure):
    """Mirror of `assay_engine_settings`."""

    _fields_ = (
        *((name, ct.c_uint32) for name in ("n_threads", "batch_max", "step_tokens_max")),
        *((name, ct.c_uint32) for name in ("block_tokens", "spin_max")),
        ("first_cpu", ct.c_int32),
        *((name, ct.c_uint32) for name in ("isa", "reserved")),
    )


class NativeEngineInfo(ct.Structure):
    """What an engine detected and allocated."""

    _fields_ = (
        ("isa", ct.c_char * 16),
        *((name, ct.c_uint32) for name in ("n_threads", "huge_pages")),
        *((name, ct.c_uint64) for name in ("weight_bytes", "matrix_bytes", "workspace_bytes")),
        *((name, ct.c_uint64) for name in ("kv_block_bytes", "parks")),
    )


class SeqStep(ct.Structure):
    """One rollout's share of one step."""

    _fields_ = (
        ("tokens", ct.c_void_p),
        *((name, ct.c_uint32) for name in ("n_tokens", "pos0")),
        ("block_table", ct.c_void_p),
        *((name, ct.c_uint32) for name in ("n_blocks", "shared_blocks")),
        ("want_logits", ct.c_uint8),
        ("sampler", ct.POINTER(Sampler)),
        ("out_token", ct.c_int32),
        ("out_logp", ct.c_float),
        ("policy_version", ct.c_uint64),
    )


class Piece(ct.Structure):
    """Rows `start` to `end` of a tensor to stage; `data` is row `start`."""

    _fields_ = (
        *((name, ct.c_uint32) for name in ("tensor", "layer", "dtype", "rows", "cols")),
        *((name, ct.c_uint32) for name in ("start", "end", "reserved")),
        ("data", ct.c_void_p),
    )


class AdapterPiece(ct.Structure):
    """The adapter of one projection."""

    _fields_ = (
        *((name, ct.c_uint32) for name in ("tensor", "layer", "kind", "dtype", "rows", "cols")),
        *((name, ct.c_uint32) for name in ("size", "n_blocks", "terms")),
        ("scale", ct.c_float),
        ("a", ct.c_void_p),
        ("b", ct.c_void_p),
    )
