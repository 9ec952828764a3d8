"""Accepts the connections of a gRPC port, and hands gRPC what passes of them.

gRPC listens on a port of the loopback interface. A client's connection is joined to one of those
once it has sent something that may pass (`Passage`). Of a connection that has to wait nothing is
read meanwhile, so that the kernel holds its client.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final, cast
from weakref import WeakValueDictionary

from assay.edge.auth import in_url
from assay.edge.connections.passage import (
    FAREWELL,
    Broken,
    Buckets,
    OtherProtocol,
    Passage,
    endless_pace,
    lone_strangers_pace,
    own_pace,
    strangers_pace,
    tenants_pace,
)
from assay.edge.connections.sockets import BACKLOG, bound_socket, plain_host
from assay.edge.connections.tls import NoSession, TlsSession

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable, Hashable

    from assay.edge.connections.watch import GrpcConnections, Origin

READ_BYTES_MAX: Final = 64 * 1024
"""Bytes that are read at once: all other calls wait while they are examined."""
BEGIN_S_MAX: Final = 10.0
"""From the connection to a client's first words."""
HELD_S_MAX: Final = 15.0
"""A stranger that has sent more than its pace allows for this long is cut."""
PAUSE_S_LEAST: Final = 0.005
"""Shortest wait of a connection: what becomes due in that time passes together."""
PAUSE_S_EACH: Final = 0.001
"""Added to the wait per waiting connection: examining one costs a fiftieth of that."""
CLOSE_S_MAX: Final = 10.0
"""How long what was sent before one side ended a connection may take to reach the other."""
STOP_S_MAX: Final = 3.0
"""The same at the end of the service."""
NEWCOMERS_MAX: Final = 512
"""Connections that have shown no valid token. Of more, the oldest of the address with most goes."""
LOOPBACK: Final = "127.0.0.1"
ANY_IPV4: Final = "0.0.0.0"  # noqa: S104 compared with what the operator chose
ANY_IPV6: Final = "::"
"""Also takes IPv4, as gRPC does for both."""


class Front:
    """The front of one port: takes connections and passes them on to gRPC."""

    def __init__(
        self,
        *,
        connections: GrpcConnections,
        connections_max: int,
        time_s: Callable[[], float],
        one_tenant: bool = False,
    ) -> None:
        """Prepare a port.

        Args:
            connections: notified of what is cut, and of whose connection is whose.
            connections_max: concurrent ones.
            time_s: monotonic, in seconds.
            one_tenant: all who have a token, or need none, are one; no one else waits for it.
        """
        self.connections = connections
        self.time_s = time_s
        self.waiting = 0
        """Connections that have to wait."""
        self.buffer = memoryview(bytearray(READ_BYTES_MAX))
        self._connections_max = connections_max
        self._one_tenant = one_tenant
        self._strangers: WeakValueDictionary[str, Buckets] = WeakValueDictionary()
        self._tenants: WeakValueDictionary[Hashable, Buckets] = WeakValueDictionary()
        self._newcomers: dict[_Client, None] = {}
        self._clients: set[_Client] = set()
        self._joining: set[asyncio.Task[None]] = set()
        self._socket: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._inner_port = 0
        self.tls: ssl.SSLContext | None = None

    def bind(self, host: str, port: int, *, setting: str) -> str:
        """Take the port; returns `host:port`. Connections wait until `serve`.

        Raises:
            OSError: the port is taken, or the address is not of this machine.
        """
        if host == ANY_IPV4:
            with suppress(OSError):  # no IPv6, or the port is taken, which is said below
                self._socket = bound_socket(ANY_IPV6, port, setting)
        if self._socket is None:
            self._socket = bound_socket(host, port, setting)
        return f"{in_url(host)}:{self._socket.getsockname()[1]}"

    async def serve(self, inner_port: int, *, tls: ssl.SSLContext | None = None) -> None:
        """Accept connections, for a gRPC server that listens on this port of the loopback, without
        TLS.

        Args:
            inner_port: where it listens.
            tls: clients speak it; it ends here.
        """
        assert self._socket is not None  # noqa: S101 for the checker: bound before
        self._inner_port, self.tls = inner_port, tls
        self.connections.fronted = tls is not None
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Client(self), sock=self._socket, backlog=BACKLOG
        )
        self.connections.gate_at(self._socket)

    def stop_accepting(self) -> None:
        """Accept no more connections; those that exist go on."""
        if self._server is not None:
            self._server.close()
        elif self._socket is not None:
            self._socket.close()

    async def stop(self) -> None:
        """End all connections; those that gRPC has ended may send what they still have."""
        self.stop_accepting()
        for task in self._joining:
            task.cancel()
        for client in tuple(self._clients):
            client.abort_unless_joined()
        if self._clients:
            await asyncio.wait([client.ended for client in self._clients], timeout=STOP_S_MAX)
        for client in tuple(self._clients):
            client.abort()

    # -- of a client ---------------------------------------------------------------------------
    def passage(self, client: _Client) -> Passage | None:
        """For a new connection; `None`: there are too many."""
        if len(self._clients) >= self._connections_max:
            return None
        if len(self._newcomers) >= NEWCOMERS_MAX:
            self._make_room()
        self._clients.add(client)
        self._newcomers[client] = None
        shared = self._strangers.get(client.address)
        if shared is None:
            pace = lone_strangers_pace if self._one_tenant else strangers_pace
            shared = self._strangers[client.address] = pace()
        return Passage(shared=shared)

    def _make_room(self) -> None:
        crowd, _ = Counter(client.address for client in self._newcomers).most_common(1)[0]
        oldest = next(client for client in self._newcomers if client.address == crowd)
        del self._newcomers[oldest]
        oldest.abort()

    def known(self, client: _Client, caller: Hashable) -> tuple[Buckets, Buckets]:
        """Count a connection as this caller's; returns the pace that the caller's connections
        share, and its own."""
        self._newcomers.pop(client, None)
        if self._one_tenant:
            return endless_pace(), endless_pace()
        shared = self._tenants.get(caller)
        if shared is None:
            shared = self._tenants[caller] = tenants_pace()
        return shared, own_pace()

    def gone(self, client: _Client) -> None:
        """Its connection has ended."""
        self._clients.discard(client)
        self._newcomers.pop(client, None)

    def join(self, client: _Client) -> None:
        """Connect a client to gRPC."""
        task = asyncio.create_task(self._join(client), name="join")
        self._joining.add(task)
        task.add_done_callback(self._joining.discard)

    async def _join(self, client: _Client) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: _Server(client), LOOPBACK, self._inner_port)
        except OSError:
            client.abort()


class _Client(asyncio.BufferedProtocol):
    """The client's side of a connection."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self._tls = None if front.tls is None else TlsSession(front.tls)
        self._sealed = b""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None
        self._server: asyncio.Transport | None = None
        self._passage: Passage | None = None
        self._early: list[bytes] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._held_s = math.inf
        self._full = self._paused = self._received = False
        self.address = ""
        self.peer = ""

    # -- from the client -----------------------------------------------------------------------
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast("asyncio.Transport", transport)  # uvloop's is not one
        host, port = (transport.get_extra_info("peername") or ("", 0))[:2]
        self.address = plain_host(str(host))
        family = "ipv6" if ":" in self.address else "ipv4"
        self.peer = f"{family}:{in_url(self.address)}:{port}"
        self._passage = self._front.passage(self)
        if self._passage is None:
            transport.abort()
            return
        self._timer = asyncio.get_running_loop().call_later(BEGIN_S_MAX, self.abort)

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return self._front.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._received = True
        self._front.connections.moved()
        self._pass_on(bytes(self._front.buffer[:nbytes]))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._front.connections.moved()
        self.ended.set_result(None)
        self._hold(math.inf)
        self._wait(None)
        if self._passage is None:
            return
        self._front.gone(self)
        if self._server is not None:
            self._server.close()
            asyncio.get_running_loop().call_later(CLOSE_S_MAX, self._server.abort)
        elif self._received and not self._passage.known:
            self._front.connections.fruitless(self.address)

    def pause_writing(self) -> None:
        if self._server is not None:
            self._server.pause_reading()

    def resume_writing(self) -> None:
        if self._server is not None:
            self._server.resume_reading()

    def _pass_on(self, data: bytes = b"") -> None:
        if self._passage is None or self._transport is None or self._transport.is_closing():
            return
        now_s = self._front.time_s()
        try:
            passed, wait_s = self._passed(self._passage, data, now_s)
        except OtherProtocol:
            self._write(FAREWELL)
            self._transport.close()
            return
        except NoSession:
            self._write(b"")
            self._transport.close()
            return
        except Broken as broken:
            self._cut(str(broken))
            return
        if passed:
            self._give(passed)
        self._hold(now_s if wait_s else math.inf)
        if not self._passage.known and now_s >= self._held_s + HELD_S_MAX:
            self._cut("more than a stranger may send")
        elif wait_s:
            self._wait(wait_s)
        elif self._passage.begun:
            self._wait(None)

    def _passed(self, passage: Passage, data: bytes, now_s: float) -> tuple[bytes, float]:
        """What passes of it, and how long the rest has to wait."""
        if self._tls is None:
            return passage.take(data, now_s)
        self._sealed += data
        if wait_s := passage.begin(now_s):
            return b"", wait_s
        data, self._sealed = self._sealed, b""
        said = self._tls.receive(data) if data else b""
        self._write(b"")
        small = self._tls.small_records if data else 0
        return passage.take(said, now_s, small=small)

    def _write(self, data: bytes) -> None:
        if self._transport is None:
            return
        sealed = data if self._tls is None else self._tls.send(data)
        if sealed:
            self._transport.write(sealed)

    def _hold(self, since_s: float) -> None:
        """It has to wait; infinity: it has not."""
        was = self._held_s < math.inf
        self._held_s = min(self._held_s, since_s) if since_s < math.inf else math.inf
        self._front.waiting += (since_s < math.inf) - was

    def _wait(self, seconds: float | None) -> None:
        """Pass on no more, and read nothing, for this long; `None`: go on."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if seconds is not None:
            pause_s = max(seconds, PAUSE_S_LEAST, PAUSE_S_EACH * self._front.waiting)
            self._timer = asyncio.get_running_loop().call_later(pause_s, self._pass_on)
        self._read_or_not()

    def _read_or_not(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        paused = self._full or self._held_s < math.inf
        if paused == self._paused:
            return
        self._paused = paused
        if paused:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _give(self, passed: bytes) -> None:
        if self._server is not None:
            self._server.write(passed)
        elif self._early is not None:
            self._early.append(passed)
        else:
            self._early = [passed]
            self._front.join(self)

    def _cut(self, why: str) -> None:
        self._front.connections.cut_in_front(self, why)
        self.abort()

    def abort(self) -> None:
        """End it at once."""
        if self._transport is not None:
            self._transport.abort()

    def abort_unless_joined(self) -> None:
        """End it if gRPC is not connected."""
        if self._server is None and (self._transport is None or not self._transport.is_closing()):
            self.abort()

    def opened(self, caller: Hashable) -> None:
        """A call of it has shown this tenant's token. That of several is a proxy, which shares with
        what comes from its address."""
        if self._passage is not None:
            several = self._passage.known
            shared, own = self._front.known(self, (self.address,) if several else caller)
            self._passage.widen(shared, own)
            self._pass_on()

    def taken_up(self) -> None:
        """A call of it with a valid token is taken up."""
        if self._passage is not None:
            self._passage.taken_up()

    # -- from gRPC -----------------------------------------------------------------------------
    @property
    def names(self) -> tuple[str, ...]:
        """In the certificate that it has shown."""
        return () if self._tls is None else self._tls.names

    @property
    def origins(self) -> dict[tuple[str, int], Origin]:
        """Whose connection gRPC has, by what it takes for the peer."""
        return self._front.connections.origins

    def joined(self, server: asyncio.Transport) -> None:
        """Join the connection to gRPC, and send it what came early."""
        if self._transport is None:
            server.abort()
            return
        self._server = server
        server.writelines(self._early or ())
        self._early = None

    def said(self, data: bytes) -> None:
        """Pass on what gRPC sends to the client."""
        self._front.connections.moved()
        self._write(data)

    def server_full(self, *, full: bool) -> None:
        """gRPC takes no more for now, or does again."""
        self._full = full
        self._read_or_not()

    def server_lost(self, exc: Exception | None) -> None:
        """gRPC has ended the connection; with an error if it was cut."""
        self._server = None
        if self._transport is None:
            return
        if exc is not None:
            self._transport.abort()
            return
        self._transport.close()
        asyncio.get_running_loop().call_later(CLOSE_S_MAX, self.abort)


class _Server(asyncio.Protocol):
    """The side of gRPC."""

    def __init__(self, client: _Client) -> None:
        self._client = client
        self._peer: tuple[str, int] | None = None
        self._origins: dict[tuple[str, int], Origin] = client.origins

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast("asyncio.Transport", transport)  # uvloop's is not one
        host, port = transport.get_extra_info("sockname")[:2]
        self._peer = (host, port)
        self._origins[self._peer] = self._client
        self._client.joined(transport)

    def data_received(self, data: bytes) -> None:
        self._client.said(data)

    def pause_writing(self) -> None:
        self._client.server_full(full=True)

    def resume_writing(self) -> None:
        self._client.server_full(full=False)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._peer is not None:
            self._origins.pop(self._peer, None)
        self._client.server_lost(exc)
