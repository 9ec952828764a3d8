"""Connections of a gRPC server that send what no call accounts for are cut.

gRPC parses frames and header blocks before there is a call, in threads of its own, and none of its
options bounds what that costs. It holds a client to the largest header block only from the moment
the client has confirmed that setting; one that never does is given 128 bytes of memory for each
byte that names a field again, and frames without data delay all other calls (grpcio 1.85).

The watch takes no part in what is sent. The kernel counts the bytes that each connection received
(TCP_INFO); the edge counts the messages that it read of it, and the calls with a valid token. A
connection with more than its allowance of the difference is reset, and what it still had in the
kernel's buffer is dropped.

A connection whose caller cancels calls unread beyond its budget (`Cancelled`) is reset too. An
address whose connections are reset again and again connects again at a pace (`Gate`).

When memory is short all the same, the connection with most of the difference goes first, with a
token or not.
"""

import asyncio
import ctypes
import math
import os
import socket
import stat
from collections.abc import Callable, Hashable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import structlog

from assay.edge.connections.cancelled import Cancelled
from assay.edge.connections.gate import FRUITLESS_SHARE, Gate, close_to
from assay.edge.connections.sockets import (
    Counts,
    Peer,
    copied,
    counts_of,
    descriptors,
    listens,
    peer_named,
    plain_host,
    reset,
    while_same,
)
from assay.edge.connections.traffic import INDUCED_BYTES_MAX, Traffic
from assay.edge.lifecycle import wait_at_most

MEMORY_BYTES_MAX: Final = 192 * 1024**2
"""Growth of this process beyond which connections are cut by size, from `EXCESS_BYTES` on."""
EXCESS_BYTES: Final = 256 * 1024
LOOK_EVERY_S: Final = 0.1
LOOK_ALONE_S: Final = 0.5
"""While there is no connection: one that comes is seen at once, unless gRPC is faster. A look costs
an idle service 0.2 ms."""
LOOK_CALM_S: Final = 5.0
"""While nothing moves on any connection, which only a front tells."""
LOOK_AGAIN_S: Final = 0.004
"""While strangers send, or memory is short."""
BUSY_S: Final = 0.1
"""How long after the last sign of that."""
CANCELLED_MAX: Final = 64
"""When a caller has spent its budget of cancelled calls, those of its connections with more of
them than this are cut."""
STIRRING_BYTES: Final = 16 * 1024
"""A stranger who has sent less is no reason to look often."""
REST: Final = 9
"""The pause after a look is this multiple of its duration: with thousands of connections it takes
longer."""
GRACE_S: Final = 0.003
"""A connection that exceeds its allowance is cut by a later look than the one that found it: a call
that has arrived is seen first."""
GRACE_BUSY_S: Final = 0.1
"""While calls are taken up, or the event loop is late: a client that opens hundreds of calls at
once on a new connection has sent megabytes before its first call is seen."""
LATE_S: Final = 0.002
PAGE_BYTES: Final = os.sysconf("SC_PAGESIZE")
CUT_LOGGED_EVERY_S: Final = 1.0
TRIM_EVERY_S: Final = 1.0
_libc = ctypes.CDLL(None, use_errno=True)

log = structlog.get_logger(__name__)


class Origin(Protocol):
    """A client whose connection comes to gRPC through another one."""

    @property
    def address(self) -> str:
        """The peer's host, without its port."""

    @property
    def peer(self) -> str:
        """It, as gRPC would write it."""

    @property
    def names(self) -> tuple[str, ...]:
        """In the certificate that it has shown."""

    def opened(self, caller: Hashable) -> None:
        """A call of it is the first to show this caller's token."""

    def taken_up(self) -> None:
        """A call of it has shown a valid token."""


@dataclass(slots=True, kw_only=True)
class SeenConnection:
    """A connection's descriptor in this process, which belongs to gRPC."""

    descriptor: int
    inode: int
    peer: Peer


class GrpcConnections:
    """The connections to one port of this process."""

    def __init__(
        self, *, time_s: Callable[[], float], memory_bytes: Callable[[], int] | None = None
    ) -> None:
        """Watch nothing until `listen`.

        Args:
            time_s: monotonic, in seconds.
            memory_bytes: of this process.
        """
        self._time_s = time_s
        self._memory_bytes = memory_bytes or resident_bytes
        self._port = 0
        self._memory_first = 0
        self._accounts: dict[Peer, Traffic] = {}
        self._seen: dict[int, SeenConnection | int] = {}
        self._logged_s = self._trimmed_s = float("-inf")
        self._cancelled = Cancelled()
        self._gate = Gate()
        self._closed: Sequence[str] = ()
        self._listening: Sequence[int] = ()
        self._gated: list[socket.socket] = []
        self._stirred, self._moved = asyncio.Event(), asyncio.Event()
        self.origins: dict[Peer, Origin] = {}
        """Clients in front, by the address and port from which they are joined to gRPC."""
        self._taken_up_s, self._late = -math.inf, False
        self.fronted = False
        """Whether calls come through the front alone: TLS ends there."""
        self.cut = 0
        """Connections that were reset."""

    def listen(self, port: int) -> None:
        """Watch the connections of this port."""
        self._port = port
        self._memory_first = self._memory_bytes()

    def gate_at(self, listener: socket.socket) -> None:
        """Hold addresses off here, where clients connect, instead of where gRPC listens."""
        self._gated.append(listener)

    def moved(self) -> None:
        """A client in front, or gRPC to it, has sent something."""
        self._moved.set()

    def _stir(self) -> None:
        self._stirred.set()
        self._moved.set()

    def cut_in_front(self, origin: Origin, why: str) -> None:
        """A client was cut before what it sent came to gRPC."""
        now_s = self._time_s()
        for peer, each in self.origins.items():
            if each is origin and peer in self._accounts:
                self._accounts[peer].was_cut = True
        self.cut += 1
        self._gate.cut(origin.address, now_s)
        self._log_cut(origin.address, now_s, excess=0, why=why)
        self._stir()

    def fruitless(self, address: str) -> None:
        """A connection has sent something, and has ended before any of it came to gRPC."""
        self._gate.cut(address, self._time_s(), FRUITLESS_SHARE)
        self._stir()

    def origin(self, peer: str) -> Origin | None:
        """The client behind the peer that gRPC sees."""
        return self.origins.get(peer_named(peer))

    @property
    def port(self) -> int:
        """Where gRPC listens."""
        return self._port

    def account(self, peer: str) -> Traffic:
        """Of the connection of a call that is taken up; `peer` as gRPC writes it."""
        self._taken_up_s = self._time_s()
        found = self._account(peer_named(peer))
        found.taken_up = True
        found.foreign = self.fronted and peer_named(peer) not in self.origins
        return found

    def _account(self, peer: Peer) -> Traffic:
        found = self._accounts.get(peer)
        if found is None:
            found = self._accounts[peer] = Traffic(since_s=self._time_s(), address=peer[0])
        if (origin := self.origins.get(peer)) is not None:  # it may come after a first look
            found.address, found.opened = origin.address, origin.opened
            found.on_known_call = origin.taken_up
        return found

    @property
    def held_off(self) -> Sequence[str]:
        """Addresses that may not connect now."""
        return self._closed

    def message_read(self, caller: Hashable) -> None:
        """A call's first message was read."""
        self._cancelled.read(caller)

    def call_cancelled(self, account: Traffic, caller: Hashable) -> None:
        """A call was cancelled before a message of it was read."""
        account.cancel()
        if self._cancelled.exceeds(caller, self._time_s()) and not account.condemned:
            account.spend(caller)
            for each in self._accounts.values():
                if each.cancelled > CANCELLED_MAX and caller in each.callers:
                    each.spend(caller)
        if account.condemned:
            self._stir()

    async def run(self) -> None:
        """Look until cancelled: often while there is something to see."""
        loop = asyncio.get_running_loop()
        arrived = self._stirred
        listeners = self._listening = self._listeners()
        for descriptor in listeners:
            loop.add_reader(descriptor, self._stir)
        busy_s = -math.inf
        try:
            while True:
                self._moved.clear()
                begun_s = self._time_s()
                if self._try_look():
                    busy_s = self._time_s()
                rest_s = REST * (self._time_s() - begun_s)
                busy = self._time_s() < busy_s + BUSY_S
                if not busy and self._gated and not self._closed:
                    await wait_at_most(LOOK_CALM_S, self._moved)
                often_s = LOOK_EVERY_S if self._accounts else LOOK_ALONE_S
                pause_s = max(rest_s, LOOK_AGAIN_S if busy else often_s)
                due_s = self._time_s() + pause_s
                await wait_at_most(pause_s, arrived)
                if arrived.is_set():
                    busy_s = self._time_s()
                    arrived.clear()
                    due_s = self._time_s() + max(rest_s, LOOK_AGAIN_S)
                    await asyncio.sleep(max(rest_s, LOOK_AGAIN_S))
                self._late = self._time_s() > due_s + LATE_S
        finally:
            for descriptor in listeners:
                loop.remove_reader(descriptor)
            self._listening = ()

    def _try_look(self) -> bool:
        """Look, and survive a failure: a flood may take the last descriptor for a moment."""
        try:
            return self.look()
        except OSError as failed:
            now_s = self._time_s()
            if now_s >= self._logged_s + CUT_LOGGED_EVERY_S:
                self._logged_s = now_s
                log.warning("connections_not_seen", error=str(failed))
            return False

    def look(self) -> bool:
        """Cut the connections that exceed their allowance; a few microseconds per connection.

        Returns:
            Whether there is a reason to look again soon.

        Raises:
            OSError: this process has no descriptor left to look with.
        """
        if not self._port:
            return False
        now_s = self._time_s()
        is_eventful = False
        excesses: list[tuple[int, SeenConnection]] = []
        present: set[Peer] = set()
        for watched in self._connections():
            present.add(watched.peer)
            counts = counts_of(watched.descriptor)
            if counts is None:
                continue
            account = self._account(watched.peer)
            excess = account.excess(received=counts.received, sent=counts.sent)
            is_eventful |= self._judge(watched, account, counts, excess, now_s)
            if excess > EXCESS_BYTES + account.reading_bytes:
                excesses.append((excess - account.reading_bytes, watched))
        self._forget_all_but(present, now_s)
        self._cancelled.forget(now_s)
        self._keep_gate(now_s)
        return self._save_memory(excesses, now_s) or is_eventful

    def _judge(
        self, watched: SeenConnection, account: Traffic, counts: Counts, excess: int, now_s: float
    ) -> bool:
        """Cut one connection if it has to go; whether there is a reason to look again soon."""
        stirs = counts.received > account.received and excess > STIRRING_BYTES
        account.received = counts.received
        induced = account.induced(received=counts.received, sent=counts.sent, now_s=now_s)
        if account.condemned or induced > 0:
            why = "calls" if account.condemned else "answers to frames"
            self._end(watched, account, now_s, excess=excess, why=why)
            return True
        if excess > account.allowance(now_s):
            account.exceeded_s = min(account.exceeded_s, now_s)
            if now_s >= account.exceeded_s + self._grace_s(account, now_s):
                self._end(watched, account, now_s, excess=excess, why="allowance")
            return True
        account.exceeded_s = math.inf
        return (stirs and not account.known) or induced > -INDUCED_BYTES_MAX // 2

    def _end(
        self, watched: SeenConnection, account: Traffic, now_s: float, *, excess: int, why: str
    ) -> None:
        account.was_cut = True
        self._cut(watched, now_s, excess=excess, why=why)

    def _forget_all_but(self, present: Set[Peer], now_s: float) -> None:
        """Close the accounts of connections that are gone; one that came to nothing counts."""
        for gone in self._accounts.keys() - present:
            ended = self._accounts.pop(gone)
            if ended.received and not ended.fruitful and not ended.was_cut:
                large = ended.received > STIRRING_BYTES
                self._gate.cut(ended.address, now_s, 1.0 if large else FRUITLESS_SHARE)

    def _grace_s(self, account: Traffic, now_s: float) -> float:
        """How long a connection may exceed its allowance: its calls may not have been seen yet."""
        if account.taken_up and not account.known:
            return GRACE_S  # its first call has been seen, and was a stranger's
        calm = not self._late and now_s >= self._taken_up_s + GRACE_S
        return GRACE_S if calm else GRACE_BUSY_S

    def _keep_gate(self, now_s: float) -> None:
        """Have the kernel hold off the addresses that are closed now."""
        closed = self._gate.closed(now_s)
        if closed == self._closed:
            return
        self._closed = closed
        gated = [listener.fileno() for listener in self._gated] or self._listening
        for descriptor in gated:
            try:
                with copied(descriptor) as listener:
                    close_to(listener, closed)
            except OSError as failed:
                log.warning("addresses_not_held_off", error=str(failed))
        log.warning("addresses_held_off", addresses=list(closed))

    def _save_memory(self, excesses: list[tuple[int, SeenConnection]], now_s: float) -> bool:
        if self._memory_bytes() - self._memory_first <= MEMORY_BYTES_MAX:
            return False
        if excesses:
            excess, largest = max(excesses, key=lambda each: each[0])
            self._cut(largest, now_s, excess=excess, why="memory")
        self._trim(now_s)
        return bool(excesses)

    def _listeners(self) -> list[int]:
        """Where connections arrive."""
        found = []
        for descriptor in descriptors():
            with suppress(OSError), copied(descriptor) as one:
                tcp = one.family in {socket.AF_INET, socket.AF_INET6}
                if tcp and listens(one) and one.getsockname()[1] == self._port:
                    found.append(descriptor)
        return found

    def _connections(self) -> Iterator[SeenConnection]:
        seen, self._seen = self._seen, {}
        for descriptor in descriptors():
            try:
                status = os.fstat(descriptor)
            except OSError:
                continue  # closed meanwhile
            if not stat.S_ISSOCK(status.st_mode):
                continue
            known = seen.get(descriptor)
            if isinstance(known, SeenConnection) and known.inode == status.st_ino:
                found: SeenConnection | int = known
            elif known == status.st_ino:
                found = known
            else:
                try:
                    peer = self._peer_of(descriptor, status.st_ino)
                except OSError:
                    continue  # closed meanwhile, or no descriptor left to see it with: not known
                found = status.st_ino
                if peer is not None:
                    found = SeenConnection(descriptor=descriptor, inode=status.st_ino, peer=peer)
            self._seen[descriptor] = found
            if isinstance(found, SeenConnection):
                yield found

    def _peer_of(self, descriptor: int, inode: int) -> Peer | None:
        """The other end, if it is a connection to this port.

        Raises:
            OSError: that cannot be told now.
        """
        with while_same(descriptor, inode) as connection:
            if connection.family not in {socket.AF_INET, socket.AF_INET6}:
                return None
            if connection.getsockname()[1] != self._port or listens(connection):
                return None
            host, port = connection.getpeername()[:2]
            return plain_host(host), port

    def _cut(self, watched: SeenConnection, now_s: float, *, excess: int, why: str) -> None:
        address = self._account(watched.peer).address
        with suppress(OSError), while_same(watched.descriptor, watched.inode) as connection:
            reset(connection)
            self.cut += 1
            if why != "memory":  # which may be an honest one
                self._gate.cut(address, now_s)
        self._log_cut(address, now_s, excess=excess, why=why)

    def _log_cut(self, address: str, now_s: float, *, excess: int, why: str) -> None:
        if now_s >= self._logged_s + CUT_LOGGED_EVERY_S:
            self._logged_s = now_s
            log.warning("connection_cut", peer=address, excess_bytes=excess, why=why, cut=self.cut)

    def _trim(self, now_s: float) -> None:
        """Give back what those that were cut had; the allocator keeps it otherwise."""
        if now_s >= self._trimmed_s + TRIM_EVERY_S:
            self._trimmed_s = now_s
            with suppress(AttributeError, RuntimeError):  # another libc; no loop any more
                asyncio.get_running_loop().run_in_executor(None, _libc.malloc_trim, 0)


def resident_bytes() -> int:
    """Memory of this process."""
    return int(Path("/proc/self/statm").read_bytes().split()[1]) * PAGE_BYTES
