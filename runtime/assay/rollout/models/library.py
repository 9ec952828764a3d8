"""The native library as ctypes sees it. Field orders are those of engine.h and assay_seam.h."""

from __future__ import annotations

import ctypes
import functools
import os
from pathlib import Path
from typing import Any, ClassVar

LIBRARY_NAME = "libassay_rollout.so"
LIBRARY_VARIABLE = "ASSAY_ROLLOUT_LIBRARY"
"""Environment variable that names another build of the library (sanitizers, experiments)."""

_u8, _u32, _u64, _f32 = ctypes.c_uint8, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_float
_i32, _size, _pointer, _int = ctypes.c_int32, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int

Fields = list[tuple[str, Any]]


class NativeLibraryMissing(ImportError):
    """The native library was not built; installing the package with a C compiler builds it."""


class ModelShape(ctypes.Structure):
    """assay_model_shape"""

    _fields_: ClassVar[Fields] = [
        *((name, _u32) for name in ("dim", "n_layers", "n_heads", "n_kv_heads", "head_dim")),
        *((name, _u32) for name in ("hidden_dim", "vocab_size", "seq_len_max")),
        *((name, _f32) for name in ("rms_eps", "rope_gain")),
        *((name, _u8) for name in ("weight_dtype", "kv_dtype", "tied_embeddings", "qk_norm")),
        *((name, _u8) for name in ("qkv_bias", "out_bias", "mlp_bias", "reserved")),
    ]


class Settings(ctypes.Structure):
    """assay_engine_settings"""

    _fields_: ClassVar[Fields] = [
        *((name, _u32) for name in ("n_threads", "batch_max", "step_tokens_max")),
        *((name, _u32) for name in ("block_tokens", "spin_max")),
        ("first_cpu", _i32),
        *((name, _u32) for name in ("isa", "reserved")),
    ]


class RawInfo(ctypes.Structure):
    """assay_engine_info"""

    _fields_: ClassVar[Fields] = [
        ("isa", ctypes.c_char * 16),
        *((name, _u32) for name in ("n_threads", "huge_pages")),
        *((name, _u64) for name in ("weight_bytes", "matrix_bytes", "workspace_bytes")),
        *((name, _u64) for name in ("kv_block_bytes", "parks")),
    ]


class RawSampler(ctypes.Structure):
    """assay_sampler"""

    _fields_: ClassVar[Fields] = [
        *((name, _f32) for name in ("temperature", "top_p", "min_p")),
        ("top_k", _u32),
        *((name, _u64) for name in ("seed", "reserved")),
    ]


class RawStep(ctypes.Structure):
    """assay_seq_step"""

    _fields_: ClassVar[Fields] = [
        ("tokens", _pointer),
        *((name, _u32) for name in ("n_tokens", "pos0")),
        ("block_table", _pointer),
        *((name, _u32) for name in ("n_blocks", "shared_blocks")),
        ("want_logits", _u8),
        ("sampler", ctypes.POINTER(RawSampler)),
        ("out_token", _i32),
        ("out_logp", _f32),
        ("policy_version", _u64),
    ]


_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "assay_engine_create": (_pointer, [_pointer, _pointer, _pointer, ctypes.c_char_p, _size]),
    "assay_engine_destroy": (None, [_pointer]),
    "assay_engine_load": (_int, [_pointer, _u32, _u32, _pointer, _u32, _u32, _u32]),
    "assay_engine_seal": (_int, [_pointer]),
    "assay_engine_set_policy_version": (None, [_pointer, _u64]),
    "assay_engine_policy_version": (_u64, [_pointer]),
    "assay_engine_kv_block_bytes": (_size, [_pointer, _u32]),
    "assay_engine_kv_copy": (None, [_pointer, _pointer, _pointer, _u32]),
    "assay_engine_step": (_int, [_pointer, _pointer, _pointer, _u32]),
    "assay_engine_decode_run": (
        _int,
        [_pointer, _pointer, _pointer, _u32, _u32, _pointer, _pointer],
    ),
    "assay_engine_logits": (_pointer, [_pointer, _u32]),
    "assay_engine_get_info": (None, [_pointer, _pointer]),
    "assay_engine_status_text": (ctypes.c_char_p, [_int]),
    "assay_engine_best_isa": (_u32, []),
    "assay_read_sweep_seconds": (ctypes.c_double, [_pointer, _size, _u32, _u32]),
    "assay_sample_many": (
        _int,
        [_pointer, _u32, _pointer, _u64, _u32, _u32, _pointer, _pointer],
    ),
    "assay_uniform": (ctypes.c_double, [_u64, _u64]),
}


def library_path() -> Path:
    """Where the library should be: beside its sources, or where the environment says."""
    override = os.environ.get(LIBRARY_VARIABLE)
    return Path(override) if override else Path(__file__).parents[1] / "native" / LIBRARY_NAME


@functools.cache
def load_library() -> ctypes.CDLL:
    """The library with its signatures set; loaded once a process."""
    path = library_path()
    if not path.is_file():
        raise NativeLibraryMissing(f"{path} is not there")
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library
