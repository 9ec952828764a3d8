"""Nodes under the slots of one pool: ordered, started, packed and released.

Packing is perfect: slots are always on as few nodes as hold them, so a node is empty as soon as
the others have room. An empty node that is not wanted is released at once. Both favour all policies
equally; they differ in when they order nodes, and how many.
"""

from assay.core.errors import InvalidRequest
from assay.model.arrays import FAR_NS, SECOND_NS, to_ns
from assay.model.observation import NodeView
from assay.sim.pools.cluster import Nodes


class NodeGroup:
    """The nodes of one pool. Invariant: those that are ready hold the slots that exist."""

    def __init__(self, nodes: Nodes) -> None:
        if nodes.slots < 1 or nodes.cap < 0 or not 0 <= nodes.startup_s < 1e9:
            raise InvalidRequest(f"{nodes}", field="nodes")
        self.nodes = nodes
        self.ready = 0
        self.starting: list[int] = []
        """When each will be ready, ascending."""
        self.ordered = 0
        self.held_ns = 0
        self._since_ns = 0

    @property
    def room(self) -> int:
        """Slots that fit onto the nodes that are ready."""
        return self.ready * self.nodes.slots

    @property
    def next_ready_ns(self) -> int:
        """When the next node is ready."""
        return self.starting[0] if self.starting else FAR_NS

    @property
    def held_s(self) -> float:
        """Node-seconds so far: from the order to the release."""
        return self.held_ns / SECOND_NS

    def advance(self, now_ns: int) -> None:
        """Charge the time since the last call; nodes that have started are ready."""
        held = self.ready + len(self.starting)
        self.held_ns += held * (now_ns - self._since_ns)
        self._since_ns = now_ns
        while self.starting and self.starting[0] <= now_ns:
            del self.starting[0]
            self.ready += 1

    def settle(self, now_ns: int, wanted: int, slots: int) -> None:
        """Order what is missing; release what is neither wanted nor in use.

        Args:
            now_ns: the present; `advance` was called for it.
            wanted: nodes to hold.
            slots: that exist; their nodes stay.
        """
        least = max(min(wanted, self.nodes.cap), self.needed(slots))
        missing = least - self.ready - len(self.starting)
        if missing > 0:
            self.ordered += missing
            self.starting += [now_ns + to_ns(self.nodes.startup_s)] * missing
            return
        cancelled = min(-missing, len(self.starting))
        del self.starting[len(self.starting) - cancelled :]
        self.ready += missing + cancelled

    def needed(self, slots: int) -> int:
        """Nodes for this many slots."""
        return -(-slots // self.nodes.slots)

    def view(self) -> NodeView:
        """As policies see them."""
        return NodeView(
            slots=self.nodes.slots,
            ready=self.ready,
            starting=len(self.starting),
            cap=self.nodes.cap,
            cost=self.nodes.cost,
            startup_ns=to_ns(self.nodes.startup_s),
        )
