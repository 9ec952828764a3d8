"""The messages of a push: however tensors are divided among them, the same tensors arrive."""

from __future__ import annotations

import asyncio
import json
import math
import platform
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from assay.client.rollouts import Weight
from assay.client.rollouts import pushes as client_pushes
from assay.core.tools.safetensors import Stored, packed
from assay.rollout.errors import InvalidWeights
from assay.rollout.library.binding import CRC32_UNIT, crc32, load
from assay.rollout.models.tensor_checks import Rows
from assay.rollout.service import wire
from assay.rollout.service.weights import apart, shared
from assay.rollout.service.weights.parts import Assembly, Head, Passage, Receiver, whole_tensors
from assay.v1 import rollout_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from random import Random

    from assay.rollout.service.weights.parts import WeightPart

DTYPES = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}


@st.composite
def weights(draw: st.DrawFn) -> dict[str, Weight]:
    found = {}
    for i in range(draw(st.integers(0, 12))):
        dtype = draw(st.sampled_from(sorted(DTYPES)))
        shape = tuple(draw(st.lists(st.integers(1, 40), min_size=1, max_size=2)))
        values = np.arange(i, i + np.prod(shape), dtype=DTYPES[dtype])
        found[f"t{i}"] = Weight(dtype=dtype, shape=shape, data=values.tobytes())
    return found


@given(
    sent=weights(),
    together=st.integers(1, 4_000),
    piece=st.integers(1, 4_000),
    skipped=st.sets(st.integers(0, 11)),
)
def test_however_they_are_divided_the_same_tensors_arrive(
    sent: dict[str, Weight], together: int, piece: int, skipped: set[int]
) -> None:
    kept = {name: one for name, one in sent.items() if int(name[1:]) not in skipped}

    def begin(head: Head, data: memoryview | None) -> Assembly | None:
        return Assembly(head, head.shape, data) if head.name in kept else None

    async def received() -> dict[str, bytes]:
        first = client_pushes.full_push(1, 0.0)
        divided = client_pushes.bodies(first, sent, together_bytes=together, piece_bytes=piece)
        bodies = [one async for one in divided]

        async def parts() -> AsyncIterator[WeightPart]:
            for body in bodies:
                yield part_of(body)

        found = [one async for some in whole_tensors(parts(), begin) for one in some]
        assert all(one.whole for one in found)
        assert all(one.tensor().data.flags.aligned for one in found)
        return {one.head.name: bytes(one.data) for one in found}

    arrived = asyncio.run(received())
    assert arrived == {name: bytes(one.data) for name, one in kept.items()}
    assert list(arrived) == list(kept)


@given(
    sent=weights(),
    together=st.integers(1, 4_000),
    skipped=st.sets(st.integers(0, 11)),
    order=st.randoms(use_true_random=False),
)
def test_however_a_file_is_read_the_same_tensors_arrive(
    sent: dict[str, Weight], together: int, skipped: set[int], order: Random
) -> None:
    stored = {n: Stored(one.dtype, one.shape, one.data) for n, one in sent.items()}
    body = packed(stored, {})
    (length,) = struct.unpack("<Q", body[:8])
    entries = list(json.loads(body[8 : 8 + length]).items())
    order.shuffle(entries)  # the order of the table is the writer's, not that of the bytes
    table = json.dumps(dict(entries)).encode()
    kept = {name: bytes(one.data) for name, one in sent.items() if int(name[1:]) not in skipped}

    def begin(head: Head, data: memoryview | None) -> Assembly | None:
        return Assembly(head, head.shape, data) if head.name in kept else None

    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patched:
        patched.setattr(shared, "TOGETHER_BYTES", together)
        Path(name, "one").write_bytes(struct.pack("<Q", len(table)) + table + body[8 + length :])
        found = list(shared.tensors_in(Path(name), "one", begin))
    assert all(one.whole and one.tensor().data.flags.aligned for one in found)
    assert {one.head.name: bytes(one.data) for one in found} == kept


def test_an_adapter_of_small_tensors_comes_in_few_messages() -> None:
    small = {f"t{i}": Weight(dtype="F32", shape=(8, 64), data=bytes(2_048)) for i in range(600)}

    async def count() -> int:
        first = client_pushes.full_push(1, 0.0)
        return len([one async for one in client_pushes.bodies(first, small)])

    assert asyncio.run(count()) == 1


# -- bytes that are not copied ---------------------------------------------------------------------
def part_of(body: bytes) -> WeightPart:
    """As the servicer reads it."""
    rest, data = apart(body)
    return wire.part(rollout_pb2.PushWeightsRequest.FromString(rest), data)


@given(sent=weights())
def test_tensors_that_come_whole_are_the_bytes_of_their_message(sent: dict[str, Weight]) -> None:
    sent = {name: one for name, one in sent.items() if one.dtype == "F32"}

    async def all_bodies() -> list[bytes]:
        return [one async for one in client_pushes.bodies(client_pushes.full_push(1, 0.0), sent)]

    for body in asyncio.run(all_bodies()):
        received = Receiver(lambda head, data: Assembly(head, head.shape, data))
        for one in received.take(part_of(body)):
            assert np.shares_memory(
                np.frombuffer(one.data, np.uint8), np.frombuffer(body, np.uint8)
            )


@given(data=st.binary(max_size=300), more=st.integers(0, 9_000), at=st.integers(0, 15))
def test_the_fast_crc_32_is_that_of_zlib_wherever_the_bytes_begin(
    data: bytes, more: int, at: int
) -> None:
    body = data + bytes(range(256)) * (more // 256) + data[: more % 256]
    assert crc32(memoryview(body)[at:]) == zlib.crc32(body[at:])


@given(data=st.binary(min_size=64, max_size=1_100), value=st.integers(0, 2**32 - 1))
def test_the_compiled_crc_32_is_that_of_zlib_for_every_length_and_beginning(
    data: bytes, value: int
) -> None:
    library = load()
    if not library.assay_crc32_is_here():
        pytest.skip("the machine has no carry-less multiplication")
    whole = len(data) // CRC32_UNIT * CRC32_UNIT
    assert library.assay_crc32(value, data, whole) == zlib.crc32(data[:whole], value)


@given(row=st.integers(1, 60), pieces=st.lists(st.binary(max_size=90), max_size=12))
def test_bytes_cut_into_rows_are_the_same_bytes(row: int, pieces: list[bytes]) -> None:
    rows = Rows(row)
    cut = [bytes(one) for piece in pieces for one in rows.cut(memoryview(piece))]
    whole = b"".join(pieces)
    assert b"".join(cut) == whole[: len(whole) // row * row]
    assert all(len(one) % row == 0 for one in cut)


MESSAGES = st.builds(
    rollout_pb2.PushWeightsRequest,
    policy_version=st.integers(-(1 << 63), (1 << 63) - 1),
    core_share_max=st.floats(allow_nan=False),
    tensor=st.none() | st.builds(rollout_pb2.TensorHead, name=st.text(max_size=9)),
    data=st.binary(max_size=300),
    kind=st.sampled_from([0, 1, 2, 3, 99]),
    shared_file=st.text(max_size=9),
    tensors=st.lists(st.builds(rollout_pb2.TensorHead, shape=st.lists(st.integers(0, 9)))),
    padding=st.binary(max_size=9),
    data_crc32=st.none() | st.integers(0, (1 << 32) - 1),
).map(lambda message: message.SerializeToString())
SPOILT = st.builds(
    lambda body, at, byte: body[: at % (len(body) + 1)] + byte + body[at % (len(body) + 1) :],
    MESSAGES,
    st.integers(0, 400),
    st.binary(max_size=3),
)

CUT = st.builds(lambda body, n: body[: -n or None], MESSAGES, st.integers(0, 40))


@given(body=MESSAGES | SPOILT | CUT | st.tuples(MESSAGES, MESSAGES).map(b"".join) | st.binary())
def test_what_is_taken_out_of_a_message_is_what_protobuf_would_read(body: bytes) -> None:
    rest, data = apart(body)
    try:
        expected = rollout_pb2.PushWeightsRequest.FromString(body)
    except DecodeError:
        with pytest.raises(DecodeError):
            rollout_pb2.PushWeightsRequest.FromString(rest)
        return
    found = rollout_pb2.PushWeightsRequest.FromString(rest)
    found.data = found.data or bytes(data)
    assert found == expected or not expected.data  # the last of several values was empty


@pytest.mark.parametrize("shape", [(3, 2), (2, 2), (0, 6), (-2, -3), (6, 0), ()])
def test_a_tensor_of_another_shape_is_refused_by_its_name_before_its_bytes(
    shape: tuple[int, ...],
) -> None:
    if math.prod(shape) == 6 and min(shape) > 0:
        assert Passage(Head("t", "F32", shape), (2, 3)).size == 24  # the same elements
        return
    for make in (Passage, Assembly):
        with pytest.raises(InvalidWeights) as refused:
            make(Head("t", "F32", shape), (2, 3))
        assert refused.value.field == "tensors.t"
        assert "shape" in refused.value.message


@given(sizes=st.lists(st.integers(0, 30), min_size=1, max_size=5))
def test_a_tensor_is_refused_with_its_first_byte_too_many(sizes: list[int]) -> None:
    passing, came = Passage(Head("t", "F32", (2, 3)), (2, 3)), 0
    for size in sizes:
        came += size
        if came > 24:
            with pytest.raises(InvalidWeights, match="more than 24 bytes") as refused:
                passing.add(bytes(size))
            assert refused.value.field == "tensors.t"
            return
        passing.add(bytes(size))
        assert passing.whole == (came == 24)


PUSHED_AGAIN = """
import asyncio, resource, sys
from assay.client.rollouts import Weight, pushes

weights = {f"t{i}": Weight(dtype="F32", shape=(4000,), data=bytes(16_000)) for i in range(120)}

async def push():
    messages = pushes.bodies(pushes.full_push(1, 0.0), weights)
    return sum([len(bytes(memoryview(one))) async for one in messages])  # copied, as gRPC does

for _ in range(20):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    asyncio.run(push())
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another malloc has other rules")
def test_the_memory_of_a_push_is_used_again_by_the_next_one() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PUSHED_AGAIN], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 200  # page faults; of 960 for the message and its copy
