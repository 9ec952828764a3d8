"""How fast the connections of an address come to gRPC before they have shown a valid token. Pure.

To take up a connection and refuse its first call costs a millisecond or two, for which all other
calls wait: 500 that begin at once would take a second. So a few do at once and the others at a
pace, the newest first: who comes amid a crowd goes on. One that has shown a valid token costs its
address nothing, so that a client with hundreds of connections has them as fast as it calls.
"""

from typing import Final, Generic, TypeVar

from assay.edge.connections.passage import TokenBucket

C = TypeVar("C")

JOINS: Final = 16.0, 128.0
"""At once, and per second."""


class Joining(Generic[C]):
    """Connections of one address that are to come to gRPC."""

    def __init__(self) -> None:
        self._pace = TokenBucket(*JOINS)
        self._waiting: dict[C, None] = {}
        self.has_timer = False
        """Someone looks again when the next may come."""

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, client: C) -> None:
        """It has said something that may pass."""
        self._waiting[client] = None

    def remove(self, client: C) -> None:
        """It is gone."""
        self._waiting.pop(client, None)

    def take(self, now_s: float) -> C | None:
        """The next, if one may come now."""
        if not self._waiting or self._pace.wait_s(1.0, now_s) > 0:
            return None
        self._pace.spend(1.0, now_s)
        return self._waiting.popitem()[0]

    def wait_s(self, now_s: float) -> float:
        """How long until the next may come."""
        return self._pace.wait_s(1.0, now_s)

    def known(self) -> None:
        """One that came has shown a valid token."""
        self._pace.give_back(1.0)
