"""Frames between the host and its slots; each is one packed list (`core.codec`).

Never pickle: a slot reads hostile text, so its frames are treated as data. Invariants: a frame
longer than `FRAME_BYTES_MAX` is never read, and anything that is not a frame of packed values
raises `ProtocolError`, for which the peer is killed.
"""

import socket
from collections.abc import Iterator
from typing import Final

from assay.core.codec import CodecError, pack, unpack
from assay.core.tools import framing

FRAME_BYTES_MAX: Final = 96 * 1024**2
"""The largest artifact plus headroom."""
_RECEIVE_BYTES: Final = 256 * 1024


class ProtocolError(Exception):
    """The peer violated the protocol."""


def encode(*parts: object) -> bytes:
    """Return one frame that holds `parts` as a list.

    Raises:
        ProtocolError: it would be too long, or cannot be packed.
    """
    try:
        return framing.frame(pack(parts), bytes_max=FRAME_BYTES_MAX)
    except (CodecError, framing.FramingError) as error:
        raise ProtocolError(str(error)) from error


class SlotFrameReader:
    """Assembles frames from the pieces that arrive."""

    def __init__(self) -> None:
        self._reader = framing.FrameReader(_decode, bytes_max=FRAME_BYTES_MAX)

    def feed(self, data: bytes) -> Iterator[list[object]]:
        """Yield the frames that `data` completes.

        Raises:
            ProtocolError: the bytes are not frames.
        """
        try:
            yield from self._reader.feed(data)
        except framing.FramingError as error:
            raise ProtocolError(str(error)) from error


def _decode(packed: memoryview) -> list[object]:
    try:
        frame = unpack(packed)
    except CodecError as error:
        raise ProtocolError(str(error)) from error
    if not isinstance(frame, list) or not frame:
        raise ProtocolError("a frame without a kind")
    return frame


class BlockingFrames:
    """A slot's end: one thread, one frame at a time."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._reader = SlotFrameReader()
        self._waiting: list[list[object]] = []

    def receive(self) -> list[object] | None:
        """Wait for the next frame; `None` if the host is gone."""
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
            ProtocolError: it is too long, or cannot be packed; nothing was sent.
            ConnectionError: the host is gone.
        """
        self._channel.sendall(encode(*parts))
