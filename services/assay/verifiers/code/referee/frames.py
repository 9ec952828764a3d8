"""Length-prefixed JSON messages between candidate and referee.

The same frames as `assay.core.tools.framing`, in a module of its own: nothing of `assay.core` is
loaded beside a candidate.
"""

from __future__ import annotations

import json
import os
import struct
from typing import TYPE_CHECKING, Final

from assay.verifiers.code.referee.values import Malformed, WireForm

if TYPE_CHECKING:
    from collections.abc import Callable

FRAME_BYTES_MAX: Final = 32 * 1024 * 1024
_LENGTH: Final = struct.Struct(">I")
_ENCODER: Final = json.JSONEncoder(check_circular=False, separators=(",", ":"))
_READ_MAX: Final = 1 << 20
_READ_AHEAD: Final = 4096
"""A short message costs one read; more would be copied at each of many short messages."""


class Frames:
    """Length-prefixed JSON messages over one socket."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._ahead = b""
        """Bytes that were read behind the last message."""

    def send(self, message: WireForm) -> None:
        """Write a message.

        Raises:
            Malformed: it is too large.
            OSError: the peer is gone.
        """
        body = _ENCODER.encode(message).encode("ascii")
        if len(body) > FRAME_BYTES_MAX:
            message = f"a message of {len(body)} bytes"
            raise Malformed(message)
        view = memoryview(_LENGTH.pack(len(body)) + body)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def receive(self, wait: Callable[[], None]) -> WireForm:
        """Read a message, calling `wait` before each read.

        Raises:
            EOFError: the peer is gone.
            Malformed: the bytes are not a message.
        """
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size, wait))
        if length > FRAME_BYTES_MAX:
            message = f"a message of {length} bytes"
            raise Malformed(message)
        try:
            return json.loads(self._exactly(length, wait))
        except (ValueError, RecursionError):
            raise Malformed("a message that is not JSON") from None

    def _exactly(self, count: int, wait: Callable[[], None]) -> bytes:
        parts = [self._ahead]
        count -= len(self._ahead)
        while count > 0:
            wait()
            part = os.read(self._descriptor, min(max(count, _READ_AHEAD), _READ_MAX))
            if not part:
                raise EOFError
            parts.append(part)
            count -= len(part)
        whole = b"".join(parts)
        at = len(whole) + min(count, 0)
        self._ahead = whole[at:]
        return whole[:at]
