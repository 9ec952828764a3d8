"""What identifies a tensor's bytes: the same value however they come, on any machine."""

from __future__ import annotations

import hashlib
import zlib
from random import Random

import pytest

pytest.importorskip("numpy")

from hypothesis import example, given
from hypothesis import strategies as st

from assay.rollout.library import binding
from assay.rollout.library.binding import SHA256_BYTES, SHA256_LANES, sha256_pieces
from assay.rollout.models.tensor_checks import HASHED_BYTES, TensorDigest


def expected(data: bytes) -> str:
    """By its definition."""
    parts = (data[at : at + HASHED_BYTES] for at in range(0, len(data), HASHED_BYTES))
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


@given(
    pieces=st.lists(st.integers(0, 40 * HASHED_BYTES), max_size=6),
    seed=st.integers(0, 1 << 32),
)
@example(pieces=[], seed=None)
@example(pieces=[2 * SHA256_LANES * HASHED_BYTES], seed=None)
@example(pieces=[1, HASHED_BYTES - 1, HASHED_BYTES, 1], seed=None)
def test_the_digest_is_that_of_its_definition_however_the_bytes_come(
    pieces: list[int], seed: int | None
) -> None:
    some = bytes(range(251)) * (sum(pieces) // 251 + 1)
    data = some if seed is None else Random(seed).randbytes(sum(pieces))
    data, digest, at = data[: sum(pieces)], TensorDigest(), 0
    for n in pieces:
        digest.update(memoryview(data)[at : at + n])
        at += n
    assert digest.hexdigest() == expected(data)
    assert digest.hexdigest() == expected(data), "reading it changes nothing"


@pytest.mark.parametrize("here", [True, False])
@pytest.mark.parametrize("piece_bytes", [64, 1_024, HASHED_BYTES])
def test_each_piece_has_its_own_sha256_in_any_number(
    piece_bytes: int, here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not here:
        monkeypatch.setattr(binding, "_sha256_is_here", lambda: False)
    for n in range(3 * SHA256_LANES + 1):
        # One byte beyond the begin: bytes of a message begin anywhere.
        data = memoryview(bytes((7 * i + i // 251) % 256 for i in range(n * piece_bytes + 1)))[1:]
        found = sha256_pieces(data, piece_bytes)
        for i in range(n):
            piece = data[i * piece_bytes : (i + 1) * piece_bytes]
            at = i * SHA256_BYTES
            assert found[at : at + SHA256_BYTES] == hashlib.sha256(piece).digest(), (n, i)
        assert len(found) == n * SHA256_BYTES


@given(data=st.binary(max_size=5_000), value=st.integers(0, 2**32 - 1))
def test_a_sender_with_the_faster_checksum_sends_the_same(data: bytes, value: int) -> None:
    isal = pytest.importorskip("isal.isal_zlib")
    assert isal.crc32(data, value) == zlib.crc32(data, value)
