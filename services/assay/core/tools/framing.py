"""Frames on a byte stream: the length of a body (four bytes, big-endian), then the body. Pure.

The encoding of a body (msgpack, JSON, pickle) and `bytes_max` are up to its protocol. Invariant: at
most `bytes_max` bytes plus one piece of input are buffered, whatever length the peer announces.
"""

import struct
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final, Generic, TypeVar

HEAD: Final = struct.Struct(">I")
"""The head before each body."""

T = TypeVar("T")


class FramingError(Exception):
    """A body is too long (received or to be sent), or the stream ends inside a frame."""


def frame(body: bytes, *, bytes_max: int) -> bytes:
    """The frame of a body.

    Raises:
        FramingError: the body is longer than `bytes_max`.
    """
    return HEAD.pack(_checked(len(body), bytes_max)) + body


def body_bytes(head: bytes, *, bytes_max: int) -> int:
    """How many bytes follow a head of `HEAD.size` bytes.

    Raises:
        FramingError: more than `bytes_max`.
    """
    (length,) = HEAD.unpack(head)
    return _checked(length, bytes_max)


def read_body(stream: BinaryIO, *, bytes_max: int) -> bytes | None:
    """Block until the next body has been read; `None` at the end of the stream.

    Raises:
        FramingError: the body is longer than `bytes_max`, or the stream ends inside the frame.
    """
    head = stream.read(HEAD.size)
    if not head:
        return None
    body = stream.read(body_bytes(head, bytes_max=bytes_max)) if len(head) == HEAD.size else b""
    if len(head) < HEAD.size or len(body) < HEAD.unpack(head)[0]:
        raise FramingError("the stream ends inside a frame")
    return body


class FrameReader(Generic[T]):
    """Assembles frames from pieces of a stream, however it was cut."""

    def __init__(self, decode: Callable[[memoryview], T], *, bytes_max: int) -> None:
        """`decode` turns a body into a value. It must not keep the view that it gets."""
        self._decode = decode
        self._bytes_max = bytes_max
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[T]:
        """Yield the values of the frames that `data` completes.

        Raises:
            FramingError: a body is longer than `bytes_max`.
        """
        self._buffer += data
        start = 0
        try:
            while len(self._buffer) - start >= HEAD.size:
                (length,) = HEAD.unpack_from(self._buffer, start)
                end = start + HEAD.size + _checked(length, self._bytes_max)
                if len(self._buffer) < end:
                    break
                with memoryview(self._buffer) as whole, whole[start + HEAD.size : end] as body:
                    value = self._decode(body)
                start = end
                yield value
        finally:
            del self._buffer[:start]


def _checked(length: int, bytes_max: int) -> int:
    if length > bytes_max:
        message = f"a frame of {length} bytes, at most {bytes_max} are allowed"
        raise FramingError(message)
    return int(length)
