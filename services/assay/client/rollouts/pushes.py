"""The messages of a push of weights."""

from __future__ import annotations

import io
import math
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from assay.client import wire
from assay.client.rollouts import messages
from assay.core.errors import InvalidRequest
from assay.v1 import rollout_pb2

try:
    from isal.isal_zlib import crc32
except ImportError:  # without the extra `pushes`: the same values, in six times the time
    from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from assay.client.rollouts.types import Weight

    _Tensor = tuple[rollout_pb2.TensorHead, memoryview]

PIECE_BYTES: Final = 4 * 1024**2
"""Largest data of a message; larger tensors are sent in pieces."""
TOGETHER_BYTES: Final = 2 * 1024**2
"""Tensors below this size are sent together, up to this size: a message has a cost of its own."""
NEAR_BYTES: Final = 256 * 1024
"""Bytes that a cache still holds after they were copied."""
DATA_TAG: Final = bytes([rollout_pb2.PushWeightsRequest.DATA_FIELD_NUMBER << 3 | 2])
"""Of the field `data` on the wire, before its length; `PADDING_TAG`: of `padding`."""
PADDING_TAG: Final = bytes([rollout_pb2.PushWeightsRequest.PADDING_FIELD_NUMBER << 3 | 2])
CRC_TAG: Final = bytes([rollout_pb2.PushWeightsRequest.DATA_CRC32_FIELD_NUMBER << 3 | 5])
CRC_BYTES: Final = len(CRC_TAG) + 4
ALIGNMENT: Final = 8
KEPT_BYTES: Final = 4 * PIECE_BYTES
"""glibc's malloc keeps freed memory up to twice the largest block that was ever freed."""
WIDTHS: Final = {"F32": 4, "F16": 2, "BF16": 2}
ADAPTER_KINDS: Final = {
    "LORA": rollout_pb2.WEIGHTS_KIND_LORA,
    "OFT": rollout_pb2.WEIGHTS_KIND_OFT,
}


def full_push(version: int, core_share_max: float) -> rollout_pb2.PushWeightsRequest:
    with wire.holding("policy_version"):
        return rollout_pb2.PushWeightsRequest(policy_version=version, core_share_max=core_share_max)


def adapter_push(
    version: int, config: Mapping[str, Any], base_version: int | None, core_share_max: float
) -> rollout_pb2.PushWeightsRequest:
    kind = str(config.get("peft_type", "")).upper()
    if kind not in ADAPTER_KINDS:
        raise InvalidRequest("config: peft_type is LORA or OFT", field="config")
    with wire.holding("policy_version"):
        return rollout_pb2.PushWeightsRequest(
            policy_version=version,
            core_share_max=core_share_max,
            kind=ADAPTER_KINDS[kind],
            adapter=rollout_pb2.AdapterConfig(
                config_json=wire.object_text(config, "config"), base_version=base_version
            ),
        )


def activating(
    first: rollout_pb2.PushWeightsRequest, mode: str | None
) -> rollout_pb2.PushWeightsRequest:
    if mode is not None:
        first.activate = messages.activation_mode(mode)
    return first


def bodies(
    first: rollout_pb2.PushWeightsRequest,
    weights: Mapping[str, Weight],
    *,
    together_bytes: int = TOGETHER_BYTES,
    piece_bytes: int = PIECE_BYTES,
    checksums: bool = True,
) -> AsyncIterator[bytes]:
    """The messages of a push, serialized. Everything is checked before the first: gRPC ends a call
    whose messages raise as if it had been cancelled.

    Args:
        first: the push.
        weights: its tensors.
        together_bytes: small tensors are sent together up to this size.
        piece_bytes: largest data of a message with one tensor.
        checksums: with the CRC-32 of each message's data.

    Raises:
        InvalidRequest: a tensor's bytes are not contiguous, or its head cannot be written.
    """
    _keep_freed_memory()
    tensors = list(_described(weights))
    bundles = list(_bundles(tensors, together_bytes))
    return _bodies(first, bundles, piece_bytes, checksums=checksums)


@cache
def _keep_freed_memory() -> None:
    """Otherwise the memory of an adapter's message, and of gRPC's copy, goes back to the kernel
    after each push, and taking its pages again costs more CPU than the rest of the message."""
    bytes(KEPT_BYTES)  # no page of it is touched


def _described(weights: Mapping[str, Weight]) -> Iterator[_Tensor]:
    name = ""
    try:
        for name, weight in weights.items():
            head = rollout_pb2.TensorHead(name=name, dtype=weight.dtype, shape=weight.shape)
            yield head, memoryview(weight.data).cast("B")
    except (TypeError, ValueError, OverflowError) as error:
        field = f"weights.{name}"
        raise InvalidRequest(f"{field}: {error}", field=field) from None


async def _bodies(
    first: rollout_pb2.PushWeightsRequest,
    bundles: Sequence[Sequence[_Tensor]],
    piece_bytes: int,
    *,
    checksums: bool,
) -> AsyncIterator[bytes]:
    body = _checked_body if checksums else _body
    message = first
    for number, (heads, data) in enumerate(_divided(bundles, piece_bytes)):
        if len(heads) > 1:
            message.tensors.extend(heads)
        elif heads:
            message.tensor.CopyFrom(heads[0])
        message.number = number
        yield body(message, data)
        message = rollout_pb2.PushWeightsRequest()


def _divided(
    bundles: Sequence[Sequence[_Tensor]], piece_bytes: int
) -> Iterator[tuple[Sequence[rollout_pb2.TensorHead], Sequence[memoryview]]]:
    """What each message has: the tensors that begin in it, and its bytes."""
    for together in bundles:
        heads = [head for head, _ in together]
        if len(heads) > 1:
            yield heads, [data for _, data in together]
            continue
        [(_, whole)] = together
        for start in range(0, max(1, len(whole)), piece_bytes):
            yield heads if start == 0 else (), (whole[start : start + piece_bytes],)


def _body(message: rollout_pb2.PushWeightsRequest, data: Sequence[memoryview]) -> bytes:
    """The message with these bytes as its `data`: they are copied once, and begin aligned."""
    return b"".join((_before(message, data), *data))


def _checked_body(message: rollout_pb2.PushWeightsRequest, data: Sequence[memoryview]) -> bytes:
    """As `_body`, with the CRC-32 of the bytes at this place in the push.

    Each part is read by the checksum right after it was copied, from the cache: the checksum alone
    reads main memory at half of its own speed. It therefore follows the bytes in the message.
    """
    checksum, before = message.number, _before(message, data)
    body = io.BytesIO()
    body.seek(len(before) + sum(map(len, data)) + CRC_BYTES - 1)
    body.write(b"\0")  # takes its memory at once, which is not copied again
    body.seek(0)
    body.write(before)
    for one in data:
        for start in range(0, len(one), NEAR_BYTES):
            part = one[start : start + NEAR_BYTES]
            body.write(part)
            checksum = crc32(part, checksum)
    body.write(CRC_TAG + checksum.to_bytes(4, "little"))
    return body.getvalue()


def _before(message: rollout_pb2.PushWeightsRequest, data: Sequence[memoryview]) -> bytes:
    """The message up to its bytes, which begin aligned."""
    length = _varint(sum(map(len, data)))
    head = message.SerializeToString()
    beyond = (len(head) + len(DATA_TAG) + len(length)) % ALIGNMENT
    if beyond:
        n = (2 * ALIGNMENT - beyond - len(PADDING_TAG) - 1) % ALIGNMENT
        head += PADDING_TAG + bytes([n]) + bytes(n)
    return head + DATA_TAG + length


def _varint(value: int) -> bytes:
    """As protobuf writes lengths."""
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))


def _bundles(tensors: Sequence[_Tensor], bytes_max: int) -> Iterator[Sequence[_Tensor]]:
    """Tensors that fit into one message, and others by themselves; in their order.

    One whose bytes are not those of its head goes by itself: the service then names it.
    """
    together: list[_Tensor] = []
    size = 0
    for head, data in tensors:
        alone = len(data) != math.prod(head.shape) * WIDTHS.get(head.dtype, 0)
        if together and (alone or size + len(data) > bytes_max):
            yield together
            together, size = [], 0
        together.append((head, data))
        size = bytes_max if alone else size + len(data)
    if together:
        yield together
