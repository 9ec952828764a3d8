"""Places of connections: never more than allowed, and given back exactly once."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from assay.edge.connections.places import Connections

if TYPE_CHECKING:
    from collections.abc import Sequence

PEERS = ("a", "b", "c")
STEPS = st.lists(
    st.tuples(st.sampled_from(("open", "rest", "work", "end")), st.integers(0, 99)), max_size=80
)


@dataclass(eq=False)
class Connection:
    """As the listener's: it has a place until it gives it back."""

    peer: str
    places: Connections
    open: bool = True

    def give_way(self) -> None:
        assert self.open
        self.open = False
        self.places.works(self.peer, self)
        self.places.remove(self.peer)


@given(STEPS, st.integers(1, 6), st.integers(1, 4))
def test_a_place_is_taken_once_and_only_those_without_a_call_give_way(
    steps: Sequence[tuple[str, int]], connections_max: int, per_peer_max: int
) -> None:
    places = Connections(connections_max=connections_max, per_peer_max=per_peer_max, body_s_max=1.0)
    held: list[Connection] = []
    resting: list[Connection] = []
    for (step, number), now_s in zip(steps, itertools.count(), strict=False):
        one = held[number % len(held)] if held else None
        if step == "open":
            peer = PEERS[number % len(PEERS)]
            own = [c for c in resting if c.peer == peer]
            full_peer = sum(c.peer == peer for c in held) == per_peer_max
            full = full_peer or len(held) == connections_max
            room = places.add(peer, float(now_s))
            assert room == (not full or bool(own if full_peer else resting))
            closed = [c for c in held if not c.open]
            assert len(closed) == (room and full)
            assert all(c in resting for c in closed), "one with a call gave way"
            if closed:
                [gone] = closed
                of_peer = [c for c in resting if c.peer == gone.peer]
                assert gone is of_peer[0], "not the one that has rested for longest"
                most = max(sum(c.peer == p for c in resting) for p in PEERS)
                assert full_peer or len(of_peer) == most, "not of the peer that rests most"
            held = [c for c in held if c.open]
            resting = [c for c in resting if c.open]
            if room:
                held.append(Connection(peer, places))
        elif one is not None and step == "rest":
            if one not in resting:
                resting.append(one)
                places.rests(one.peer, one)
        elif one is not None:
            if one in resting:
                resting.remove(one)
            if step == "end":
                held.remove(one)
                one.give_way()
            else:
                places.works(one.peer, one)
        assert places.count == len(held) <= connections_max
        assert places.per_peer == Counter(c.peer for c in held)
        assert sum(map(len, places.idle.values())) == len(resting)
