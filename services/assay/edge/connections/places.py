"""How many connections an HTTP listener has, in total and per peer address, and which give way.

A connection takes a place until it ends. When there is none for a new one, a connection without a
call is closed in its favour: the peer's own if the peer has all it may have, otherwise one of the
peer that rests most of them. So a client may keep its connections for long, and those it forgot do
not keep others out.
"""

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Final, Protocol

import structlog

REFUSED_PER_S: Final = 50.0
"""Connections that are closed for what they sent, after the first `REFUSED_AT_ONCE`."""
REFUSED_AT_ONCE: Final = 16
REFUSED_S_MAX: Final = 10.0
"""How long such a connection is kept at most."""
REFUSED_LOGGED_EVERY_S: Final = 1.0

log = structlog.get_logger(__name__)


class Idle(Protocol):
    """A connection without a call."""

    def give_way(self) -> None:
        """Close it, and give its place back at once."""


@dataclass(slots=True, kw_only=True)
class Connections:
    """Connections of one listener, in total and per peer address."""

    connections_max: int
    per_peer_max: int
    body_s_max: float
    per_peer: Counter[str] = field(default_factory=Counter)
    idle: dict[str, dict[Idle, None]] = field(default_factory=dict)
    """Those without a call, by peer; the one that has been so for longest comes first."""
    count: int = 0
    refused: int = 0
    refused_logged_s: float = -math.inf
    turn_s: float = -math.inf

    def add(self, peer: str, now_s: float) -> bool:
        """Count one more; returns false when that is one too many and none can give way."""
        if not self._room_for(peer):
            self.refused += 1
            if now_s >= self.refused_logged_s + REFUSED_LOGGED_EVERY_S:
                self.refused_logged_s = now_s
                connections, refused = self.count, self.refused
                log.warning(
                    "connection_refused", peer=peer, connections=connections, refused=refused
                )
            return False
        self.count += 1
        self.per_peer[peer] += 1
        return True

    def _room_for(self, peer: str) -> bool:
        """Whether there is room for one more of this peer, after an idle one has given way."""
        if self.per_peer[peer] >= self.per_peer_max:
            giving = peer
        elif self.count >= self.connections_max:
            giving = max(self.idle, key=lambda one: len(self.idle[one]), default="")
        else:
            return True
        oldest = next(iter(self.idle.get(giving, ())), None)
        if oldest is not None:
            oldest.give_way()
        return oldest is not None

    def rests(self, peer: str, connection: Idle) -> None:
        """A connection of this peer has no call any more."""
        self.idle.setdefault(peer, {})[connection] = None

    def works(self, peer: str, connection: Idle) -> None:
        """A connection of this peer has a call again, or has ended."""
        resting = self.idle.get(peer)
        if resting is not None:
            resting.pop(connection, None)
            if not resting:
                del self.idle[peer]

    def wait_s(self, now_s: float) -> float:
        """Take the next turn to close a connection for what it sent; returns how far off it is."""
        earliest_s = now_s - REFUSED_AT_ONCE / REFUSED_PER_S
        turn_s = max(self.turn_s, earliest_s) + 1 / REFUSED_PER_S
        self.turn_s = min(turn_s, now_s + REFUSED_S_MAX)
        return max(self.turn_s - now_s, 0.0)

    def remove(self, peer: str) -> None:
        """Count one less."""
        self.count -= 1
        self.per_peer[peer] -= 1
        if not self.per_peer[peer]:
            del self.per_peer[peer]
