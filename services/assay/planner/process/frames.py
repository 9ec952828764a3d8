"""Frames between the planner and its planning process: one pickled value per frame.

Pickle, because both ends are our own processes and read from no one else; data from outside is
plain values inside. Invariant: no frame is longer than `FRAME_BYTES_MAX`.
"""

import pickle
from typing import BinaryIO, Final

from assay.core.tools.framing import FramingError, body_bytes, frame, read_body

FRAME_BYTES_MAX: Final = 1024**3


def encode(value: object) -> bytes:
    """One frame.

    Raises:
        FramingError: the value is too large.
    """
    body = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    return frame(body, bytes_max=FRAME_BYTES_MAX)


def decode(body: bytes) -> object:
    """The value of a frame's body.

    Raises:
        FramingError: the body holds no value.
    """
    try:
        return pickle.loads(body)  # noqa: S301 - from our own child or parent, see above
    except (pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError) as error:
        raise FramingError(repr(error)) from error


def length_of(head: bytes) -> int:
    """Bytes of the body that follows a head of `HEAD.size` bytes.

    Raises:
        FramingError: longer than any frame.
    """
    return body_bytes(head, bytes_max=FRAME_BYTES_MAX)


def receive(stream: BinaryIO) -> object | None:
    """Wait for the next value; `None` at the end of the stream.

    Raises:
        FramingError: the stream holds no frame of ours, or ends inside one.
    """
    body = read_body(stream, bytes_max=FRAME_BYTES_MAX)
    return None if body is None else decode(body)
