"""Every instruction set rounds to bf16, and finds what is not finite, as the portable one does."""

from __future__ import annotations

import ctypes as ct
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from assay.rollout.library.binding import load

if TYPE_CHECKING:
    from assay.rollout.models.engine import Isa

TO_BF16, BELOW, POINTERS = 24, 25, 27
"""Of `assay_kernels` in kernels.h: where these functions are, and how many pointers there are."""
EDGES = [0, 1, 0x7FFFFF, 0x800000, 0x3F808000, 0x3F818000, 0x3F807FFF, 0x3F808001]
EDGES += [0x7F7F7FFF, 0x7F7F8000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FBFFFFF, 0x7FC00000]
EDGES += [0x7FFFFFFF]
BITS = st.sampled_from([*EDGES, *(0x80000000 | one for one in EDGES)]) | st.integers(0, 2**32 - 1)


def function(isa: Isa, at: int, kind: Any) -> Any:
    find = load().assay_kernels_for
    find.restype, find.argtypes = ct.c_void_p, (ct.c_uint32,)
    table = (ct.c_void_p * POINTERS).from_address(find(isa))
    return kind(table[at])


def rounded(bits: np.ndarray) -> np.ndarray:
    """To the nearest, ties to even; a NaN stays one."""
    nearest = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    is_nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return np.where(is_nan, bits >> 16 | 0x40, nearest).astype(np.uint16)


@given(values=st.lists(BITS, max_size=70), shift=st.integers(0, 3))
def test_bf16_is_the_nearest_in_every_instruction_set(
    isas: list[Isa], values: list[int], shift: int
) -> None:
    bits = np.array(values, dtype=np.uint32)
    source = b"\xff" * shift + bits.tobytes()  # not aligned: a message's bytes begin anywhere
    held = ct.create_string_buffer(source, len(source) + 1)
    for isa in isas:
        kind = ct.CFUNCTYPE(None, ct.c_void_p, ct.c_void_p, ct.c_uint32)
        found = np.full(len(values) + 1, 0xABCD, np.uint16)
        function(isa, TO_BF16, kind)(found.ctypes.data, ct.addressof(held) + shift, len(values))
        assert np.array_equal(found[:-1], rounded(bits.astype(np.uint64)))
        assert found[-1] == 0xABCD


@given(values=st.lists(BITS, max_size=70), end=st.sampled_from([0x7F800000, 0x7F7F8000]))
def test_what_is_not_below_is_found_in_every_instruction_set(
    isas: list[Isa], values: list[int], end: int
) -> None:
    held = np.array([*values, 0xFFFFFFFF], dtype=np.uint32)  # the last one is not looked at
    expected = all(one & 0x7FFFFFFF < end for one in values)
    for isa in isas:
        kind = ct.CFUNCTYPE(ct.c_int, ct.c_void_p, ct.c_size_t, ct.c_int32)
        assert bool(function(isa, BELOW, kind)(held.ctypes.data, len(values), end)) is expected
