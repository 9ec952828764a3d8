"""Takes the bytes of tensors out of a serialized message, without copying them.

protobuf would copy them twice: into its own memory, and into the object that it returns.
"""

from __future__ import annotations

from typing import Final

from assay.v1 import rollout_pb2

DATA: Final = rollout_pb2.PushWeightsRequest.DATA_FIELD_NUMBER
VARINT_BYTES_MAX: Final = 10
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_FIXED: Final = {_FIXED64: 8, _FIXED32: 4}


def apart(body: bytes) -> tuple[bytes, memoryview]:
    """A `PushWeightsRequest` without the first value of its field `data`, and that value.

    What is not read here, because it is not a message or has no such field, is returned as it is:
    protobuf judges it.
    """
    try:
        begin, start, end = _first_data(body)
    except (IndexError, ValueError):
        return body, memoryview(b"")
    return body[:begin] + body[end:], memoryview(body)[start:end]


def _first_data(body: bytes) -> tuple[int, int, int]:
    """Where the field begins, where its bytes begin, and where they end.

    Raises:
        IndexError: the message ends before.
        ValueError: it is no message.
    """
    at = 0
    while True:
        begin = at
        tag, at = _varint(body, at)
        kind = tag & 7
        if kind == _VARINT:
            _, at = _varint(body, at)
        elif kind == _LENGTH:
            size, start = _varint(body, at)
            at = start + size
            if at > len(body):
                raise IndexError(at)
            if tag >> 3 == DATA:
                return begin, start, at
        elif kind in _FIXED:
            at += _FIXED[kind]
        else:
            raise ValueError(kind)


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = 0
    for i in range(VARINT_BYTES_MAX):
        byte = body[at + i]
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return value, at + i + 1
    raise ValueError(at)
