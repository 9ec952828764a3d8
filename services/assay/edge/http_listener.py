"""Connection limits of an HTTP service, enforced before the caller is known.

uvicorn leaves open how many connections there are, in total and per peer address, how long the
headers and body of a request may take to arrive, and how large the headers may be. A connection
over a limit is closed without an answer: a client that sends slowly does not listen.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_S_MAX: Final = 10.0
"""From the connection, or a request's first byte, to the end of its headers."""
HEAD_BYTES_MAX: Final = 64 * 1024
BODY_SLACK_S: Final = 5.0
"""Added to the edge's own limit, so that a slow body gets an answer first."""

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class Connections:
    """Connections of one listener, in total and per peer address."""

    connections_max: int
    per_peer_max: int
    body_s_max: float
    per_peer: Counter[str] = field(default_factory=Counter)
    count: int = 0

    def add(self, peer: str) -> bool:
        """Count one more; returns false when that is one too many."""
        if self.count >= self.connections_max or self.per_peer[peer] >= self.per_peer_max:
            log.warning("connection_refused", peer=peer, connections=self.count)
            return False
        self.count += 1
        self.per_peer[peer] += 1
        return True

    def remove(self, peer: str) -> None:
        """Count one less."""
        self.count -= 1
        self.per_peer[peer] -= 1
        if not self.per_peer[peer]:
            del self.per_peer[peer]


def bounded_protocol(connections: Connections) -> type[HttpToolsProtocol]:
    """The value for `uvicorn.Config(http=...)`: a protocol class with these limits."""

    class Bounded(HttpToolsProtocol):
        _due: asyncio.TimerHandle | None = None
        _peer: str | None = None
        _head_bytes = 0
        _in_head = True

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
            super().connection_made(transport)
            peer = self.client[0] if self.client else ""
            if connections.add(peer):
                self._peer = peer
                self._expect(HEAD_S_MAX)
            else:
                transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            self._expect(None)
            if self._peer is not None:
                connections.remove(self._peer)
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            self._head_bytes += len(data)
            super().data_received(data)
            if self._in_head and self._head_bytes > HEAD_BYTES_MAX:
                self.transport.abort()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._in_head = True
            self._expect(HEAD_S_MAX)

        def on_headers_complete(self) -> None:
            self._in_head = False
            self._expect(connections.body_s_max + BODY_SLACK_S)
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self._head_bytes = 0
            self._in_head = True
            self._expect(None)
            super().on_message_complete()

        def _expect(self, seconds: float | None) -> None:
            """Close the connection unless this is called again within `seconds`."""
            if self._due is not None:
                self._due.cancel()
            self._due = None
            if seconds is not None:
                self._due = self.loop.call_later(seconds, self.transport.abort)

    return Bounded
