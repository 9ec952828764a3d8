"""Frames between the planner and its planning process: a length, then one pickled value.

Pickle, because both ends are ours, started by us and fed by nobody else; what comes from outside is
plain data inside the values. Invariant: no frame is longer than `FRAME_BYTES_MAX`.
"""

import pickle
import struct
from typing import BinaryIO, Final

FRAME_BYTES_MAX: Final = 1024**3
LENGTH: Final = struct.Struct(">Q")


class FrameError(Exception):
    """The other end is gone, or does not speak our protocol."""


def encode(value: object) -> bytes:
    """One frame."""
    body = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    if len(body) > FRAME_BYTES_MAX:
        message = f"a frame of {len(body)} bytes"
        raise FrameError(message)
    return LENGTH.pack(len(body)) + body


def length_of(head: bytes) -> int:
    """How long the body is that follows.

    Raises:
        FrameError: longer than any frame.
    """
    (length,) = LENGTH.unpack(head)
    if length > FRAME_BYTES_MAX:
        message = f"a frame of {length} bytes"
        raise FrameError(message)
    return int(length)


def decode(body: bytes) -> object:
    """The value of a frame's body.

    Raises:
        FrameError: it is none.
    """
    try:
        return pickle.loads(body)  # noqa: S301 - from our own child or parent, see above
    except (pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError) as error:
        raise FrameError(repr(error)) from error


def receive(stream: BinaryIO) -> object | None:
    """Wait for the next frame; `None` at the end of the stream."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    length = length_of(head)
    body = stream.read(length)
    return decode(body) if len(body) == length else None
