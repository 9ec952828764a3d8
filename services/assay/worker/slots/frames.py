"""Frames between the host and its slots: a length, then one packed value.

Never pickle: a slot reads hostile text, and what it says is data. Invariants: nobody reads a frame
longer than `FRAME_BYTES_MAX`, and what is not a frame of packed values raises `Nonsense`, which
costs the peer its life.
"""

import socket
import struct
from collections.abc import Iterator
from typing import Final

from assay.core.codec import CodecError, pack, unpack

FRAME_BYTES_MAX: Final = 96 * 1024**2
"""The largest artifact, and room around it."""
_LENGTH: Final = struct.Struct(">I")
_RECEIVE_BYTES: Final = 256 * 1024


class Nonsense(Exception):
    """The peer does not speak our protocol (any more)."""


def encode(*parts: object) -> bytes:
    """One frame that holds `parts` as a list.

    Raises:
        Nonsense: it would be too long, or cannot be packed.
    """
    try:
        packed = pack(parts)
    except CodecError as error:
        raise Nonsense(str(error)) from error
    if len(packed) > FRAME_BYTES_MAX:
        message = f"a frame of {len(packed)} bytes"
        raise Nonsense(message)
    return _LENGTH.pack(len(packed)) + packed


class FrameReader:
    """Puts frames together from whatever pieces arrive."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[list[object]]:
        """Yield the frames that `data` completes.

        Raises:
            Nonsense: the bytes are no frames of ours.
        """
        self._buffer += data
        start = 0
        try:
            while len(self._buffer) - start >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(self._buffer, start)
                if length > FRAME_BYTES_MAX:
                    message = f"a frame of {length} bytes"
                    raise Nonsense(message)
                end = start + _LENGTH.size + length
                if len(self._buffer) < end:
                    break
                with memoryview(self._buffer) as view:
                    frame = _decode(view[start + _LENGTH.size : end])
                start = end
                yield frame
        finally:
            del self._buffer[:start]


def _decode(packed: memoryview) -> list[object]:
    with packed:
        try:
            frame = unpack(packed)
        except CodecError as error:
            raise Nonsense(str(error)) from error
    if not isinstance(frame, list) or not frame:
        raise Nonsense("a frame without a kind")
    return frame


class BlockingFrames:
    """A slot's end: one thread, one frame at a time."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._reader = FrameReader()
        self._waiting: list[list[object]] = []

    def receive(self) -> list[object] | None:
        """Wait for the next frame; `None` when the host is gone."""
        while not self._waiting:
            try:
                data = self._channel.recv(_RECEIVE_BYTES)
            except ConnectionError:
                return None
            if not data:
                return None
            self._waiting.extend(self._reader.feed(data))
        return self._waiting.pop(0)

    def send(self, *parts: object) -> None:
        """Send one frame.

        Raises:
            Nonsense: it is too long, or cannot be packed; nothing was sent.
            ConnectionError: the host is gone.
        """
        self._channel.sendall(encode(*parts))
