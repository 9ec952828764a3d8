"""What a connection may send that no call accounts for.

A client may have sent what is not read yet: one window of each call, the message that is being
read. What it sends besides (answers to pings, leave to send on) is in proportion to its time and to
what we sent. So allowances are wide for those with a token, and narrow for strangers.
"""

import math
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

STRANGER_BYTES_MAX: Final = 128 * 1024
"""A first call may come with its headers and a window of its message before it is seen here."""
STRANGER_BYTES_PER_S: Final = 4 * 1024
"""Enough for health checks, which need no token."""
KNOWN_BYTES_MAX: Final = 32 * 1024**2
"""As many streams as a connection may have, with a window each that is not seen here yet."""
KNOWN_BYTES_PER_S: Final = 64 * 1024
CALL_BYTES: Final = 128 * 1024
"""Of a call with a valid token: headers, and the window in which a client may send unread."""
MESSAGE_BYTES: Final = 64
"""Of a message besides its bytes: heads of frames, TLS."""
FRAMES_PER_BYTE: Final = 128
"""A message is longer by at most one byte in so many: heads of frames, TLS."""
CALLERS_MAX: Final = 2
"""More than one is all that matters."""
SENT_PER_BYTE: Final = 16
"""A client sends at most one byte (window updates) for so many of ours."""


@dataclass(slots=True)
class Traffic:
    """What is known of one connection."""

    since_s: float
    known: bool = False
    """A call with a valid token came over it."""
    explained_bytes: int = 0
    """Of its calls and of the messages that were read."""
    reading_bytes: int = 0
    """Largest messages that are being read."""
    received: int = 0
    """By the last look."""
    exceeded_s: float = math.inf
    """Since when it exceeds its allowance."""
    callers: set[Hashable] = field(default_factory=set)
    """Whose calls came over it; at most `CALLERS_MAX`."""
    condemned: bool = False
    """It is cut by the next look."""

    def identify(self, caller: Hashable) -> None:
        """A call over it has shown a valid token."""
        self.known = True
        self.explained_bytes += CALL_BYTES
        if len(self.callers) < CALLERS_MAX:
            self.callers.add(caller)

    def condemn(self, caller: Hashable) -> bool:
        """Have it cut for what a caller does, unless that would cut another's calls too."""
        if self.callers - {caller}:
            return False
        self.condemned = True
        return True

    def read(self, size: int) -> None:
        """A message of this size came over it."""
        self.explained_bytes += size + size // FRAMES_PER_BYTE + MESSAGE_BYTES

    @contextmanager
    def reading(self, bytes_max: int) -> Iterator[None]:
        """Of one message of at most so many bytes."""
        self.reading_bytes += bytes_max
        try:
            yield
        finally:
            self.reading_bytes -= bytes_max

    def excess(self, *, received: int, sent: int) -> int:
        """Bytes received that no call accounts for."""
        return received - self.explained_bytes - sent // SENT_PER_BYTE

    def allowance(self, now_s: float) -> int:
        """Largest `excess` that an honest client may have."""
        age_s = max(0.0, now_s - self.since_s)
        if not self.known:
            return STRANGER_BYTES_MAX + int(age_s * STRANGER_BYTES_PER_S)
        return KNOWN_BYTES_MAX + int(age_s * KNOWN_BYTES_PER_S) + self.reading_bytes
