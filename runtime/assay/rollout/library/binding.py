"""The compiled library, loaded and checked once.

A call costs about a microsecond and releases the GIL. Nothing here is called per
token: the host submits groups, polls completions in batches and reads tokens out of the shared
memory.
"""

from __future__ import annotations

import ctypes as ct
import hashlib
import os
import zlib
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from assay.rollout.errors import NativeUnavailable
from assay.rollout.layout import SIZED

LIBRARY_VARIABLE = "ASSAY_ROLLOUT_LIBRARY"
"""Environment variable naming another build of the library (a sanitizer build, say)."""

CRC32_MIN, CRC32_UNIT = 1 << 12, 16
"""Fewer bytes than the first are left to zlib; the library takes multiples of the second."""
SHA256_LANES, SHA256_BYTES = 16, 32
"""Pieces that the library hashes at once, and the size of a hash."""

_P, _U64, _U32, _I64, _INT = ct.c_void_p, ct.c_uint64, ct.c_uint32, ct.c_int64, ct.c_int
_SIZE = ct.c_size_t

_SIGNATURES: dict[str, tuple[object, tuple[object, ...]]] = {
    "assay_abi_sizes": (_U32, (_P, _U32)),
    "assay_clock_of": (_P, ()),
    # rings, queues, words
    "assay_ring_bytes_of": (_U64, (_U64,)),
    "assay_ring_init_at": (None, (_P, _U64, _U64)),
    "assay_ring_push_n": (_U64, (_P, _P, _U64)),
    "assay_ring_pop_n": (_U64, (_P, _P, _U64)),
    "assay_queue_bytes_of": (_U64, (_U64,)),
    "assay_queue_init_at": (None, (_P, _U64, _U64)),
    "assay_queue_push_one": (_INT, (_P, _P)),
    "assay_queue_pop_one": (_INT, (_P, _P)),
    "assay_transition_try": (_INT, (_P, _U32, _INT, _INT)),
    "assay_credit_try": (_INT, (_P, _I64)),
    "assay_credit_init_at": (None, (_P, _I64)),
    "assay_credit_give_back": (None, (_P, _I64)),
    "assay_seal_line": (None, (_P,)),
    # the region
    "assay_region_bytes": (_U64, (_P,)),
    "assay_region_init": (None, (_P, _P)),
    "assay_prefix_hash": (_U64, (_P, _U32)),
    "assay_submit": (_INT, (_P, _P, _P, _U32, _P, _U32, _U64, _P)),
    "assay_cancel": (_INT, (_P, _U64, _U64)),
    "assay_limit_now": (_INT, (_P,)),
    "assay_reward_take": (_INT, (_P, _P)),
    "assay_score": (_INT, (_P, _U64, ct.c_double, _U64)),
    "assay_order_take": (_INT, (_P, _P)),
    "assay_prefilled": (_INT, (_P, _U64, _U64)),
    "assay_decoded": (_INT, (_P, _U64, _U64)),
    "assay_trajectory_take": (_INT, (_P, _U64, _P)),
    "assay_end": (_INT, (_P, _U64, _INT, _INT, _U64)),
    "assay_collect": (_U64, (_P, _P, _U64)),
    "assay_release": (_U64, (_P, _P, _U64)),
    "assay_census": (None, (_P, _P)),
    # the waiting set
    "assay_waiting_bytes": (_SIZE, (_U32,)),
    # the runtime
    "assay_host_open": (_U64, (_P, _P, _P)),
    "assay_host_close": (_INT, (_U64, _U64)),
    "assay_host_start": (_INT, (_U64,)),
    "assay_host_submit": (_INT, (_U64, _P, _P, _U32, _P, _U32, _P)),
    "assay_host_cancel": (_INT, (_U64, _U64)),
    "assay_host_limit": (_INT, (_U64, _P)),
    "assay_host_score": (_INT, (_U64, _U64, ct.c_double)),
    "assay_host_poll": (_INT, (_U64, _P, _U64, _P)),
    "assay_host_reward_take": (_INT, (_U64, _P, _U64, _P)),
    "assay_host_contents": (_INT, (_U64, _P, _P, _P, _P)),
    "assay_host_asked": (_INT, (_U64, _P, _P)),
    "assay_host_release": (_INT, (_U64, _P, _U64)),
    "assay_host_copy": (_INT, (_U64, _U64, _P, _U32)),
    "assay_host_peek": (_INT, (_U64, _U64, _U32, _U32, _P, _P, _P, _P)),
    "assay_host_bell": (_INT, (_U64, _P)),
    "assay_host_wait": (_INT, (_U64, _U32, _U64, _P)),
    "assay_host_pause": (_INT, (_U64, _P, _U32, _U64)),
    "assay_host_resume": (_INT, (_U64, _P)),
    "assay_host_set_policy_version": (_INT, (_U64, _U32)),
    "assay_host_bury": (_INT, (_U64,)),
    "assay_host_audit": (_INT, (_U64, _P)),
    "assay_host_step": (_INT, (_U64, _P)),
    "assay_host_nudge": (_INT, (_U64,)),
    "assay_host_trace_on": (_INT, (_U64, _U32)),
    "assay_host_trace_read": (_INT, (_U64, _U64, _P, _U64, _P, _P, _P)),
    "assay_host_stats": (_INT, (_U64, _P)),
    "assay_probe_ops": (None, (_P, _U32, _U32, _U32, _P)),
    # the engine
    "assay_engine_ops_of": (None, (_P, _P)),
    "assay_engine_create": (_P, (_P, _P, _P, ct.c_char_p, _SIZE)),
    "assay_engine_destroy": (None, (_P,)),
    "assay_engine_load": (_INT, (_P, _U32, _U32, _P, _U32, _U32, _U32)),
    "assay_engine_seal": (_INT, (_P,)),
    "assay_engine_second_in_file": (_INT, (_P, _INT)),
    "assay_engine_stage_begin": (_INT, (_P,)),
    "assay_engine_stage": (_INT, (_P, _P)),
    "assay_engine_stage_adapter_begin": (_INT, (_P, _P, _U32)),
    "assay_engine_stage_adapter": (_INT, (_P, _P)),
    "assay_engine_stage_end": (_INT, (_P,)),
    "assay_engine_swap": (_INT, (_P, _U64)),
    "assay_engine_set_policy_version": (None, (_P, _U64)),
    "assay_engine_policy_version": (_U64, (_P,)),
    "assay_engine_kv_copy": (None, (_P, _P, _P, _U32)),
    "assay_engine_step": (_INT, (_P, _P, _P, _U32)),
    "assay_engine_decode_run": (_INT, (_P, _P, _P, _U32, _U32, _P, _P)),
    "assay_engine_logits": (_P, (_P, _U32)),
    "assay_engine_get_info": (None, (_P, _P)),
    "assay_rotation_room": (_SIZE, (_U32,)),
    "assay_rotation": (_P, (_P, _U32, _U32, _U32, _P)),
    "assay_engine_status_text": (ct.c_char_p, (_INT,)),
    "assay_engine_best_isa": (_U32, ()),
    "assay_read_sweep_seconds": (ct.c_double, (_P, _SIZE, _U32, _U32)),
    "assay_sample_many": (_INT, (_P, _U32, _P, _U64, _U32, _U32, _P, _P)),
    "assay_uniform": (ct.c_double, (_U64, _U64)),
    "assay_crc32_is_here": (_INT, ()),
    "assay_crc32": (_U32, (_U32, _P, _SIZE)),
    "assay_sha256_is_here": (_INT, ()),
    "assay_sha256_pieces": (None, (_P, _SIZE, _SIZE, _P)),
    # the guard
    "assay_guard_arm": (None, ()),
    "assay_guard_disarm": (None, ()),
    "assay_guard_read": (None, (_P,)),
}


def library_path() -> str:
    """Where the library is: beside its sources, or where `ASSAY_ROLLOUT_LIBRARY` says."""
    beside = files("assay.rollout").joinpath("native", "libassay_rollout.so")
    return os.environ.get(LIBRARY_VARIABLE) or str(beside)


def declare(library: ct.CDLL, signatures: dict[str, tuple[object, tuple[object, ...]]]) -> None:
    """Set the argument and result types of the functions of `library`."""
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments


def _check_sizes(library: ct.CDLL) -> None:
    sizes = (ct.c_uint64 * len(SIZED))()
    count = library.assay_abi_sizes(sizes, len(SIZED))
    here = [ct.sizeof(structure) for structure in SIZED]
    if count != len(SIZED) or list(sizes) != here:
        wrong = [s.__name__ for s, n, m in zip(SIZED, here, sizes, strict=True) if n != m]
        raise NativeUnavailable(
            f"the library was built from other sources: {wrong} differ; reinstall"
        )


@cache
def build_id() -> str:
    """SHA-256 of the library, hex: identifies the compiled code of a rollout."""
    return hashlib.sha256(Path(library_path()).read_bytes()).hexdigest()


@cache
def load() -> ct.CDLL:
    """The library, with typed functions and structure sizes checked."""
    path = library_path()
    try:
        library = ct.CDLL(path)
    except OSError as error:
        raise NativeUnavailable(
            f"{path}: {error}; install assay on a machine with a C compiler"
        ) from error
    declare(library, _SIGNATURES)
    _check_sizes(library)
    return library


@cache
def _crc32_is_here() -> bool:
    """Whether the library has a faster CRC-32 than zlib on this machine."""
    try:
        return bool(load().assay_crc32_is_here())
    except NativeUnavailable:
        return False


def crc32(data: bytes | memoryview, value: int = 0) -> int:
    """As `zlib.crc32`, at the speed of memory where the machine can; releases the GIL."""
    whole = len(data) // CRC32_UNIT * CRC32_UNIT
    if whole < CRC32_MIN or not _crc32_is_here():
        return zlib.crc32(data, value)
    address = np.frombuffer(data, dtype=np.uint8).ctypes.data
    return zlib.crc32(memoryview(data)[whole:], load().assay_crc32(value, address, whole))


@cache
def _sha256_is_here() -> bool:
    """Whether the library computes many SHA-256 at once on this machine."""
    try:
        return bool(load().assay_sha256_is_here())
    except NativeUnavailable:
        return False


def sha256_pieces(data: memoryview, piece_bytes: int) -> bytes:
    """The SHA-256 of each piece of `data`, one after the other; releases the GIL.

    Args:
        data: contiguous; its length is a multiple of `piece_bytes`.
        piece_bytes: a multiple of 64.
    """
    n = len(data) // piece_bytes
    over = n % SHA256_LANES
    together = n if over >= SHA256_LANES // 2 else n - over
    if not together or not _sha256_is_here():
        together = 0
    found = np.empty(together * SHA256_BYTES, dtype=np.uint8)
    if together:
        address = np.frombuffer(data, dtype=np.uint8).ctypes.data
        load().assay_sha256_pieces(address, piece_bytes, together, found.ctypes.data)
    rest = range(together * piece_bytes, n * piece_bytes, piece_bytes)
    each = (hashlib.sha256(data[at : at + piece_bytes]).digest() for at in rest)
    return b"".join((found.tobytes(), *each))


class _Clock(ct.Structure):
    """`assay_clock`: how ticks become nanoseconds of CLOCK_MONOTONIC."""

    _fields_ = (("ticks0", ct.c_uint64), ("ns0", ct.c_uint64), ("ns_per_tick", ct.c_double))


@cache
def _clock() -> _Clock:
    return _Clock.from_address(load().assay_clock_of())


def monotonic_ns(ticks: int) -> int:
    """CLOCK_MONOTONIC at a stamp of the library (`posted`)."""
    clock = _clock()
    return int(clock.ns0 + round((ticks - clock.ticks0) * clock.ns_per_tick))


def ref_word(slot: int, generation: int) -> int:
    """`assay_ref` by value: eight bytes in one register, on every ABI this runs on."""
    return slot | generation << 32
