"""The messages of a push: however tensors are divided among them, the same tensors arrive."""

from __future__ import annotations

import asyncio
import json
import struct
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.client.rollouts import Weight
from assay.client.rollouts import pushes as client_pushes
from assay.core.tools.safetensors import Stored, packed
from assay.rollout.service import wire
from assay.rollout.service.weights import shared
from assay.rollout.service.weights.parts import Assembly, Head, whole_tensors
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
        divided = client_pushes.pieces(first, sent, together_bytes=together, piece_bytes=piece)
        messages = [one async for one in divided]

        async def parts() -> AsyncIterator[WeightPart]:
            for one in messages:
                body = one.SerializeToString()
                yield wire.part(rollout_pb2.PushWeightsRequest.FromString(body))

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
        return len([one async for one in client_pushes.pieces(first, small)])

    assert asyncio.run(count()) == 2
