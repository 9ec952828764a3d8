"""What a connection may send that no call accounts for.

A client may have sent what is not read yet: one window of each call, the message that is being
read. What it sends besides (answers to pings, leave to send on) is in proportion to its time and to
what we sent. So allowances are wide for those with a token, and narrow for strangers.
"""

import math
from collections.abc import Callable, Hashable, Iterator
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
ANSWER_BYTES: Final = 16 * 1024
"""Head and end of an answer, with its error."""
INDUCED_BYTES_MAX: Final = 512 * 1024
"""Enough for thousands of streams that are refused while others are still ending."""
RECEIVED_PER_BYTE: Final = 64
"""We send at most one byte (window updates) for so many of a client's."""
REFUSAL_BYTES: Final = 13
"""Of a stream that the library refuses by itself (RST_STREAM). It does so to an honest client that
gives up many calls and has more waiting: those given up are not quite over here."""
REFUSED_BYTES: Final = 66 * 1024
"""What a client has sent of a stream by then; no call of it is seen here."""
REFUSED_BYTES_MAX: Final = 128 * 1024**2
STRANGER_CANCELLED_MAX: Final = 64
"""Calls that are given up on a connection on which none has shown a valid token."""
MESSAGE_BYTES: Final = 64
"""Of a message besides its bytes: heads of frames, TLS."""
FRAMES_PER_BYTE: Final = 128
"""A message is longer by at most one byte in so many: heads of frames, TLS."""
CALLERS_MAX: Final = 8
"""A connection of more callers is a proxy's."""
SENT_PER_BYTE: Final = 16
"""A client sends at most one byte (window updates) for so many of ours."""


@dataclass(slots=True)
class Traffic:
    """What is known of one connection."""

    since_s: float
    address: str = ""
    """The client's."""
    opened: Callable[[Hashable], None] | None = None
    """Called with each of `callers`."""
    on_known_call: Callable[[], None] | None = None
    """Called for each call with a valid token."""
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
    fruitful: bool = False
    """A message was read of it."""
    foreign: bool = False
    """It came to gRPC's own port, not through the front, which asks clients for certificates."""
    was_cut: bool = False
    taken_up: bool = False
    """A call came over it, with a token or without."""
    callers: set[Hashable] = field(default_factory=set)
    """Whose calls came over it; at most `CALLERS_MAX`."""
    spent: set[Hashable] = field(default_factory=set)
    """Those of them that cancelled more calls unread than they may."""
    cancelled: int = 0
    """Calls that were cancelled unread."""
    answers_bytes: int = 0
    """Of the messages that were sent."""
    heads_bytes: int = 0
    """Upper bound of what was sent with them: heads and ends of answers, heads of frames."""

    def identify(self, caller: Hashable) -> None:
        """A call over it has shown a valid token."""
        self.known = True
        self.explained_bytes += CALL_BYTES
        self.heads_bytes += ANSWER_BYTES
        if caller not in self.callers and len(self.callers) < CALLERS_MAX:
            self.callers.add(caller)
            if self.opened is not None:
                self.opened(caller)
        if self.on_known_call is not None:
            self.on_known_call()

    def cancel(self) -> None:
        """A call over it was cancelled before a message of it was read."""
        self.cancelled += 1

    def spend(self, caller: Hashable) -> bool:
        """A caller has cancelled more calls unread than it may; returns whether the connection has
        to be cut."""
        if len(self.spent) < CALLERS_MAX:
            self.spent.add(caller)
        return self.condemned

    @property
    def condemned(self) -> bool:
        """Whether it has to be cut. Callers that kept within their budget lose no calls by it."""
        if self.foreign or (not self.known and self.cancelled > STRANGER_CANCELLED_MAX):
            return True
        return bool(self.spent) and self.callers <= self.spent and len(self.spent) < CALLERS_MAX

    def answer(self, size: int) -> None:
        """A message of this size is sent over it."""
        self.answers_bytes += size
        self.heads_bytes += size // FRAMES_PER_BYTE + MESSAGE_BYTES

    def read(self, size: int) -> None:
        """A message of this size came over it."""
        self.fruitful = True
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
        explained = self.explained_bytes + sent // SENT_PER_BYTE
        if self.known:
            refused = max(0, sent - self.answers_bytes) // REFUSAL_BYTES
            explained += min(refused * REFUSED_BYTES, REFUSED_BYTES_MAX)
        return received - explained

    def induced(self, *, received: int, sent: int, now_s: float) -> int:
        """Bytes sent that are no answers, beyond what an honest client may cause; below 0: none.

        Answers to pings and settings, and streams that the library refuses.
        """
        age_s = max(0.0, now_s - self.since_s)
        allowed = INDUCED_BYTES_MAX + int(age_s * KNOWN_BYTES_PER_S)
        answers = self.answers_bytes + self.heads_bytes + received // RECEIVED_PER_BYTE
        return sent - answers - allowed

    def allowance(self, now_s: float) -> int:
        """Largest `excess` that an honest client may have."""
        age_s = max(0.0, now_s - self.since_s)
        if not self.known:
            return STRANGER_BYTES_MAX + int(age_s * STRANGER_BYTES_PER_S)
        return KNOWN_BYTES_MAX + int(age_s * KNOWN_BYTES_PER_S) + self.reading_bytes
