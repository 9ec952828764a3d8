"""The simulated platform: requests move through pools of slots until their batches are complete.

Two implementations of one `PoolWorld`: `FastWorld`, in compiled loops, and the readable one,
`reference.ReferenceWorld`, on the queue of `core.fair_queue`. Tests compare their logs. Both stop
early, after the instant in which a batch completed, so that a policy can react; `set_target` takes
effect at the instant at which it is called.
"""

from dataclasses import dataclass
from typing import Protocol

from assay.core.errors import InvalidRequest
from assay.core.ordering import order_key
from assay.model.arrays import Ints
from assay.sim.pools import kernel
from assay.sim.pools.cluster import Pools
from assay.sim.pools.state import State, build_state
from assay.sim.pools.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Positions of a batch's requests in the arrays."""

    batch: int
    first: int
    end: int


def places(workload: Workload) -> tuple[tuple[Place, ...], ...]:
    """`places[task][iteration]`."""
    first = batch = 0
    table = []
    for task in workload.batches:
        row = []
        for load in task:
            end = first + len(load.arrived_ns)
            row.append(Place(batch=batch, first=first, end=end))
            first, batch = end, batch + 1
        table.append(tuple(row))
    return tuple(table)


class PoolWorld(Protocol):
    """The simulated platform as the runner uses it."""

    state: State
    places: tuple[tuple[Place, ...], ...]

    @property
    def now_ns(self) -> int:
        """The virtual time."""

    def open_batch(self, task: int, iteration: int, deadline_ns: int) -> None:
        """Open a batch: its rollouts start now."""

    def set_target(self, pool: int, target: int) -> None:
        """Hold this many slots from now on."""

    def advance(self, until_ns: int) -> int:
        """Run up to and including `until_ns`, or to the completion of a batch."""


class BaseWorld:
    """Shared by both implementations: the arrays, and how batches are opened."""

    def __init__(
        self,
        workload: Workload,
        pools: Pools,
        deaths_ns: Ints,
        *,
        attempts_max: int = 3,
        fcfs: bool = False,
    ) -> None:
        self.workload = workload
        self.pools = pools
        self.places = places(workload)
        self.state = build_state(workload, pools, deaths_ns)
        self.attempts_max = attempts_max
        self.fcfs = fcfs

    @property
    def now_ns(self) -> int:
        """The virtual time."""
        return int(self.state.now_ns[0])

    def open_batch(self, task: int, iteration: int, deadline_ns: int) -> None:
        """Open a batch: its rollouts start now. One batch per task is open at a time."""
        state, place = self.state, self.places[task][iteration]
        if state.next_request[task] != state.end_request[task]:
            raise InvalidRequest(f"task {task} has an open batch", field="task")
        arrivals = self.workload.batches[task][iteration].arrived_ns
        state.arrived_ns[place.first : place.end] = self.now_ns + arrivals
        state.opened_ns[place.batch] = self.now_ns
        state.rank[place.batch] = order_key(deadline_ns=deadline_ns, sequence=0).deadline_ms
        state.next_request[task], state.end_request[task] = place.first, place.end

    def check_target(self, pool: int, target: int) -> None:
        """Check a target.

        Raises:
            InvalidRequest: the pool cannot hold this many slots.
        """
        room = min(int(self.pools.caps[pool]), self.state.ready_ns.shape[1])
        if not 0 <= target <= room:
            message = f"pool {pool}: {target} slots are not in [0, {room}]"
            raise InvalidRequest(message, field="target")


class FastWorld(BaseWorld):
    """In compiled loops."""

    def set_target(self, pool: int, target: int) -> None:
        """Hold this many slots from now on."""
        self.check_target(pool, target)
        kernel.apply_target(self.state, pool, target)

    def advance(self, until_ns: int) -> int:
        """Run up to and including `until_ns`, or to the completion of a batch."""
        elastic, attempts = self.pools.elastic, self.attempts_max
        return kernel.advance(self.state, until_ns, self.fcfs, elastic, attempts)
