"""What a client sends, on its way to gRPC: header blocks whole and measured, strangers at a pace.

gRPC parses frames and decodes header blocks before there is a call, and none of its options bounds
what that costs before the client has confirmed them. So a block goes on when it has ended and is
within the bounds that hold for every client. Until a call of the connection has shown a valid
token, streams, small frames and bytes are paced narrowly: a client's first calls pass at once, and
with the first of them that is found valid the rest does. From then on the pace is one that no
client needs: it bounds what it costs to look at each frame here.

Pure: time is an argument.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from assay.edge.connections.fields import FieldTable, NotFields
from assay.edge.connections.traffic import STRANGER_BYTES_PER_S

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FAREWELL: Final = bytes.fromhex("0000000400000000000000080700000000000000000000000001")
"""Empty settings and GOAWAY with PROTOCOL_ERROR: by these a client of HTTP/1.1 knows whose port it
is."""
FIELDS_MAX: Final = 128
"""Of a header block."""
BLOCK_BYTES_MAX: Final = 32 * 1024
"""Of a header block as it is sent, and of its fields. gRPC refuses calls of clients that confirmed
its settings at half of that."""
BLOCK_FRAMES_MAX: Final = 8
"""Frames of a header block."""
FRAME_BYTES_MAX: Final = 16 * 1024
"""As HTTP/2 begins with; the server offers no more."""

SMALL_BYTES: Final = 64
"""A frame with less, headers aside, costs as much as a larger one, and is counted."""

STREAM_FIELDS: Final = 16
STREAM_BYTES: Final = 2 * 1024
"""A call whose headers are more counts as several."""

STREAMS: Final = 8.0, 8.0
"""Of a stranger's connection: at once, and per second."""
FRAMES: Final = 64.0, 16.0
BYTES: Final = 80.0 * 1024, float(STRANGER_BYTES_PER_S)
"""At once: headers, and a window of a message."""
ADDRESS_STREAMS: Final = 32.0, 32.0
"""Of all strangers' connections of an address, besides the first of each."""

ADDRESS_BEGINS: Final = 64.0, 128.0
"""Connections of an address that begin: each costs the event loop time until its first call is
refused, and all other calls wait for those that begin at once."""

KNOWN_STREAMS: Final = 64.0, 1_024.0
"""Few at once: each costs the event loop 0.1 ms even if it is reset at once, and the calls of all
others wait for those that come together."""
KNOWN_FRAMES: Final = 2_048.0, 2_048.0
TENANT_STREAMS: Final = 64.0, 2_048.0
"""Of all connections of a tenant; more than one process handles."""
TENANT_FRAMES: Final = 2_048.0, 8_192.0
"""Looking at one takes some 2 us."""
TENANT_UNTAKEN: Final = 16.0, 128.0
"""Of all connections of a tenant: calls that have passed and that the event loop has not taken up.
gRPC hands over calls in the order in which they came, so those of all others wait for these. One
that is taken up makes room at once; those that gRPC refuses by itself make it with time."""
ENDLESS: Final = 1e12, 1e12
FREE_AFTER_S: Final = 10.0
"""A connection without calls for this long waits for no others: health checks go on."""

_HEAD_BYTES: Final = 9
_HEADERS, _CONTINUATION = 1, 9
_END_HEADERS, _PADDED, _PRIORITY = 0x04, 0x08, 0x20


class Broken(Exception):
    """The client has broken a bound: its connection is to be cut."""


class OtherProtocol(Broken):
    """It does not speak HTTP/2."""


@dataclass(slots=True)
class TokenBucket:
    """So much at once, and so much per second."""

    at_once: float
    per_s: float
    spent: float = 0.0
    at_s: float = 0.0

    def wait_s(self, amount: float, now_s: float) -> float:
        """How long until there is this much; an amount above `at_once` waits for all of it."""
        self._refill(now_s)
        over = self.spent + min(amount, self.at_once) - self.at_once
        return max(0.0, over / self.per_s)

    def spend(self, amount: float, now_s: float) -> None:
        """Spend this much; debts are no larger than the budget."""
        self._refill(now_s)
        self.spent = min(self.spent + amount, 2 * self.at_once)

    def give_back(self, amount: float) -> None:
        """Make room for this much, before its time."""
        self.spent = max(0.0, self.spent - amount)

    def _refill(self, now_s: float) -> None:
        self.spent = max(0.0, self.spent - max(0.0, now_s - self.at_s) * self.per_s)
        self.at_s = max(self.at_s, now_s)


@dataclass(frozen=True, slots=True)
class Unit:
    """Bytes that pass together, or have to wait together."""

    size: int
    """Bytes that are here."""
    rest: int = 0
    """Further bytes that pass as they come."""
    streams: float = 0.0
    frames: int = 0
    begins: bool = False
    """A connection begins with it."""


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class Buckets:
    """Budgets of one connection, or of several together; `None`: unlimited."""

    streams: TokenBucket
    frames: TokenBucket | None = None
    bytes: TokenBucket | None = None
    begins: TokenBucket | None = None
    untaken: TokenBucket | None = None

    def wait_s(self, unit: Unit, now_s: float) -> float:
        """How long until a unit may pass."""
        return max(
            (budget.wait_s(amount, now_s) for budget, amount in self._costs(unit)), default=0.0
        )

    def spend(self, unit: Unit, now_s: float) -> None:
        """Charge a unit that passes to its budgets."""
        for budget, amount in self._costs(unit):
            budget.spend(amount, now_s)

    def _costs(self, unit: Unit) -> Iterator[tuple[TokenBucket, float]]:
        if unit.streams:
            yield self.streams, unit.streams
        if unit.streams and self.untaken is not None:
            yield self.untaken, 1
        if unit.frames and self.frames is not None:
            yield self.frames, unit.frames
        if self.bytes is not None:
            yield self.bytes, unit.size + unit.rest
        if unit.begins and self.begins is not None:
            yield self.begins, 1


def strangers_pace() -> Buckets:
    """Of all connections of one address over which no call has shown a valid token."""
    begins = TokenBucket(*ADDRESS_BEGINS)
    return Buckets(streams=TokenBucket(*ADDRESS_STREAMS), begins=begins)


def lone_strangers_pace() -> Buckets:
    """The same of a service with one tenant: no one else waits for those that begin."""
    return Buckets(streams=TokenBucket(*ADDRESS_STREAMS))


def own_pace() -> Buckets:
    """The pace of a connection over which a call has shown a valid token."""
    return Buckets(streams=TokenBucket(*KNOWN_STREAMS), frames=TokenBucket(*KNOWN_FRAMES))


def endless_pace() -> Buckets:
    """The pace for a service with one tenant: no one else waits."""
    return Buckets(streams=TokenBucket(*ENDLESS))


def tenants_pace() -> Buckets:
    """The pace of all connections of one tenant together."""
    return Buckets(
        streams=TokenBucket(*TENANT_STREAMS),
        frames=TokenBucket(*TENANT_FRAMES),
        untaken=TokenBucket(*TENANT_UNTAKEN),
    )


class Passage:
    """The bytes of one connection."""

    def __init__(self, *, shared: Buckets) -> None:
        """Nothing has passed yet; `shared` with other connections of its address."""
        self._held = b""
        self._rest = 0
        self._speaks = False
        self._begun = False
        self._may_begin = False
        self._table = FieldTable()
        self._opened_s = -math.inf
        self._passed = 0
        """Units, of the last call of `take`."""
        self._measured: Unit | None = None
        """The header block that is next."""
        self._pace = Buckets(
            streams=TokenBucket(*STREAMS),
            frames=TokenBucket(*FRAMES),
            bytes=TokenBucket(*BYTES),
        )
        self._shared = shared
        self.known = False
        """A call has shown a valid token."""

    def widen(self, shared: Buckets, own: Buckets) -> None:
        """A call has shown a valid token; `shared` with other connections of its tenant, `own` from
        its first such call on."""
        self._shared = shared
        if not self.known:
            self.known, self._pace = True, own

    def taken_up(self) -> None:
        """A call that has passed, with a valid token, is taken up."""
        if self._shared.untaken is not None:
            self._shared.untaken.give_back(1)

    @property
    def held(self) -> int:
        """Bytes that have not passed."""
        return len(self._held)

    @property
    def begun(self) -> bool:
        """The client speaks HTTP/2."""
        return self._speaks

    def begin(self, now_s: float) -> float:
        """How long until a connection may begin whose first words cost time to read (TLS)."""
        if self._may_begin or self._begun:
            return 0.0
        first = Unit(0, begins=True)
        wait_s = self._shared.wait_s(first, now_s)
        if not wait_s:
            self._shared.spend(first, now_s)
            self._may_begin = True
        return wait_s

    def take(self, data: bytes, now_s: float, *, small: int = 0) -> tuple[bytes, float]:
        """The client has sent this; returns what passes, and how long the next bytes have to wait:
        0 if they are not here yet.

        Args:
            data: what it sent.
            now_s: monotonic.
            small: parts of less than `SMALL_BYTES` in which it came; what they are more than
                frames counts as frames do.

        Raises:
            Broken: it has broken a bound.
        """
        here = self._held + data if self._held else data
        self._passed = 0
        at, wait_s = self._frame_by_frame(here, now_s)
        if small > self._passed:
            parts = Unit(0, frames=small - self._passed)
            self._pace.spend(parts, now_s)
            self._shared.spend(parts, now_s)
            one = Unit(0, frames=1)
            wait_s = max(wait_s, self._pace.wait_s(one, now_s), self._shared.wait_s(one, now_s))
        if at == len(here):
            self._held = b""
            return here, wait_s
        self._held = here[at:]
        return here[:at], wait_s

    def _frame_by_frame(self, here: bytes, now_s: float) -> tuple[int, float]:
        at = 0
        while True:
            passing = min(self._rest, len(here) - at)
            at += passing
            self._rest -= passing
            unit = None if self._rest else self._unit(here, at)
            if unit is None:
                return at, 0.0
            if wait_s := self._wait_s(unit, now_s):
                return at, wait_s
            self._pace.spend(unit, now_s)
            self._shared.spend(unit, now_s)
            if unit.streams:
                self._opened_s = now_s
            self._passed += 1
            self._begun = True
            self._measured = None
            at += unit.size
            self._rest = unit.rest

    def _wait_s(self, unit: Unit, now_s: float) -> float:
        wait_s = self._pace.wait_s(unit, now_s)
        if unit.streams and now_s >= self._opened_s + FREE_AFTER_S:
            return wait_s
        return max(wait_s, self._shared.wait_s(unit, now_s))

    def _unit(self, here: bytes, at: int) -> Unit | None:
        """The next one; `None`: it is not here yet."""
        if not self._begun:
            return self._preface(here, at)
        if len(here) - at < _HEAD_BYTES:
            return None
        length, kind = int.from_bytes(here[at : at + 3], "big"), here[at + 3]
        if length > FRAME_BYTES_MAX:
            raise Broken("a frame is too large")
        if kind == _HEADERS:
            if self._measured is None and (size := _block_bytes(here, at)):
                self._measured = Unit(size, streams=self._streams_of(_joined(here, at)))
            return self._measured
        if kind == _CONTINUATION:
            raise Broken("a CONTINUATION frame that continues no headers")
        return Unit(_HEAD_BYTES, rest=length, frames=int(length < SMALL_BYTES))

    def _preface(self, here: bytes, at: int) -> Unit | None:
        shown = here[at : at + len(PREFACE)]
        if not PREFACE.startswith(shown):
            raise OtherProtocol("not HTTP/2")
        if len(shown) < len(PREFACE):
            return None
        self._speaks = True
        return Unit(len(PREFACE), begins=not self._may_begin)

    def _streams_of(self, block: bytes) -> float:
        """The number of streams for which a call with these headers counts."""
        try:
            count, size = self._table.measure(block, fields_max=FIELDS_MAX)
        except NotFields:
            raise Broken("malformed headers") from None
        if count > FIELDS_MAX or size > BLOCK_BYTES_MAX:
            raise Broken("too many headers, or too large")
        return max(1.0, count / STREAM_FIELDS, size / STREAM_BYTES)


def _block_bytes(here: bytes, begins: int) -> int:
    """Length of a header block to its end; 0: it is not here yet.

    Raises:
        Broken: it exceeds its bounds.
    """
    at, stream = begins, here[begins + 5 : begins + 9]
    for _ in range(BLOCK_FRAMES_MAX):
        head = here[at : at + _HEAD_BYTES]
        if len(head) < _HEAD_BYTES:
            return 0
        of_block = at == begins or (head[3] == _CONTINUATION and head[5:9] == stream)
        length = int.from_bytes(head[:3], "big")
        at += _HEAD_BYTES + length
        if not of_block or length > FRAME_BYTES_MAX or at - begins > BLOCK_BYTES_MAX:
            raise Broken("headers are too large, or interrupted by another frame")
        if at > len(here):
            return 0
        if head[4] & _END_HEADERS:
            return at - begins
    raise Broken("headers in too many frames")


def _joined(here: bytes, at: int) -> bytes:
    """The bytes of a whole header block without what frames put around them.

    Raises:
        Broken: there are none.
    """
    parts = []
    while True:
        length, flags = int.from_bytes(here[at : at + 3], "big"), here[at + 4]
        first, last = at + _HEAD_BYTES, at + _HEAD_BYTES + length
        if here[at + 3] == _HEADERS:
            if flags & _PADDED:
                last -= here[first] if length else 0
                first += 1
            if flags & _PRIORITY:
                first += 5
        if first > last:
            raise Broken("malformed headers")
        parts.append(here[first:last])
        if flags & _END_HEADERS:
            return parts[0] if len(parts) == 1 else b"".join(parts)
        at += _HEAD_BYTES + length
