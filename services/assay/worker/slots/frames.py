"""Frames between the host and its slots; each is one packed list (`core.codec`).

Never pickle: a slot reads hostile text, so its frames are treated as data. Invariants: a frame
longer than `FRAME_BYTES_MAX` is never read, and anything that is not a frame of packed values
raises `ProtocolError`, for which the peer is killed.
"""

import contextlib
import socket
from collections.abc import Container, Iterator
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
    """A slot's end, for one thread at a time."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._reader = SlotFrameReader()
        self._waiting: list[list[object]] = []

    def receive(self, *, leaving: Container[object] = ()) -> list[object] | None:
        """Wait for the next frame; `None` if the host is gone.

        Args:
            leaving: kinds of frames that are left for a later call.
        """
        at = 0
        while True:
            while at < len(self._waiting):
                if self._waiting[at][0] not in leaving:
                    return self._waiting.pop(at)
                at += 1
            if not self._read():
                return None

    def next_is(self, kind: str) -> bool:
        """Whether the next frame has arrived and is of this kind; it is then taken."""
        if not self._waiting:
            with contextlib.suppress(BlockingIOError):
                self._read(socket.MSG_DONTWAIT)
        if not self._waiting or self._waiting[0][0] != kind:
            return False
        del self._waiting[0]
        return True

    def _read(self, flags: int = 0) -> bool:
        """Read what has arrived, or wait for some; False if the host is gone."""
        try:
            data = self._channel.recv(_RECEIVE_BYTES, flags)
        except ConnectionError:
            return False
        self._waiting.extend(self._reader.feed(data))
        return bool(data)

    def send(self, *parts: object) -> None:
        """Send one frame.

        Raises:
            ProtocolError: it is too long, or cannot be packed; nothing was sent.
            ConnectionError: the host is gone.
        """
        self._channel.sendall(encode(*parts))
