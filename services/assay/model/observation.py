"""What a policy sees: the present, and finished batches. Nothing of the future.

The simulator builds these from its arrays; the live planner builds them from the store's records.
"""

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from assay.core.errors import InvalidRequest
from assay.model.arrays import Flags, Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PastBatch:
    """A finished batch; times count from its opening. Rows ascend by arrival."""

    arrived_ns: Ints
    """(n,)"""
    service_ns: Ints
    """(n, stages): 0 = the stage was not reached."""
    by_service: Ints
    """(stages, n): rows sorted by their time at the stage."""
    columns: Ints | None = None
    """(stages,): the stage of the observation that each column is of, -1 = of none; `None` = all
    of them, in order."""

    @property
    def natural_ns(self) -> int:
        """T: when it would have ended without any queueing; 0 for an empty batch."""
        if len(self.arrived_ns) == 0:
            return 0
        return int((self.arrived_ns + self.service_ns.sum(axis=1)).max())


def past_batch(arrived_ns: Ints, service_ns: Ints) -> PastBatch:
    """Check and sort.

    Raises:
        InvalidRequest: shapes that do not fit, or negative times.
    """
    if service_ns.ndim != 2 or len(arrived_ns) != len(service_ns):
        raise InvalidRequest("one row of service times per request", field="service_ns")
    for name, values in (("arrived_ns", arrived_ns), ("service_ns", service_ns)):
        if not np.issubdtype(values.dtype, np.integer):
            raise InvalidRequest(f"{name} must be whole nanoseconds", field=name)
        if (values < 0).any():
            raise InvalidRequest(f"{name} has a negative entry", field=name)
    order = np.argsort(arrived_ns, kind="stable")
    service_ns = np.ascontiguousarray(service_ns[order])
    return PastBatch(
        arrived_ns=np.ascontiguousarray(arrived_ns[order]),
        service_ns=service_ns,
        by_service=np.ascontiguousarray(np.argsort(service_ns, axis=0, kind="stable").T),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenBatch:
    """An open batch. The arrays hold the requests that arrived and have not ended."""

    number: int
    """Number of the batch in its task."""
    opened_ns: int
    deadline_ns: int
    size: int
    """0 = not known."""
    arrived: int
    """Requests so far, including those that ended."""
    ended_natural_ns: int
    """Latest t_i (equation 1) of the ended requests, after the opening; 0 = none."""
    stage: Ints
    elapsed_ns: Ints
    """Time at the present stage; -1 = queued."""
    natural_ns: Ints
    """After the opening: arrival + times at finished stages + `elapsed_ns`."""
    sequence: Ints
    """Order of arrival."""
    passed_ns: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    """(m, stages): times at the stages finished so far, 0 = not finished; of all requests that
    arrived, or of a fair sample of them. Empty = nothing is known of those that ended."""
    reached: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """(m,): the last stage that each of them came to; -1 = none."""
    arrivals_ns: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """(k,): when requests arrived, after the opening, ascending: all that did, or every n-th of
    them. Empty = not known."""

    @property
    def running(self) -> Flags:
        """Mask of the requests that hold a slot."""
        return self.elapsed_ns >= 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaskView:
    """The present state of a task."""

    pool_of: Ints
    """(stages,)"""
    timeout_ns: Ints
    """(stages,): 0 = not in the pipeline."""
    batch_size: int
    delay_budget_ns: int | None
    """D; `None` = the default."""
    weight: float
    trainer_cost: float
    """Cost per second of its trainer."""
    history: tuple[PastBatch, ...]
    """Newest first."""
    open: OpenBatch | None
    tenant: str = "default"
    """Tenants share the stages by `weight`."""
    gaps_ns: tuple[int, ...] = ()
    """Times from the end of a batch to the next opening, newest first."""
    rested_ns: int | None = None
    """Since its last batch ended; `None` = not known."""
    barrier: bool = True
    """Its trainer waits for whole batches: d is the batch's. Without one it uses rewards as they
    come: d is the largest over the requests, each against its own end without queueing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """The machines of a pool, where they are bought and released too."""

    slots: int
    """Slots that fit onto one."""
    ready: int
    starting: int
    cap: int
    cost: float
    """Price of a node-second, besides the cost of the slots on it."""
    startup_ns: int
    """Typical time from ordering a node until slots can start on it."""

    @property
    def room(self) -> int:
        """Slots that the nodes which are ready hold."""
        return self.ready * self.slots


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolView:
    """The present state of a pool."""

    stage: int
    target: int
    idle: int
    running: int
    starting: int
    waiting: int
    cap: int
    cost: float
    """Cost of a slot-second."""
    startup_ns: int
    """Typical time from requesting a slot until it is ready."""
    started_ago_ns: int | None = None
    """How long ago, on average, those that are starting were ordered; `None` = not known."""
    nodes: NodeView | None = None
    """`None`: machines are there, or are not the planner's to order."""
    batch_max: int = 1
    """Requests that a slot takes at once."""

    @property
    def held(self) -> int:
        """Slots that are paid for."""
        return self.starting + self.idle + self.running

    @property
    def awaited(self) -> int:
        """Slots that could take at once all that waits."""
        return -(-self.waiting // self.batch_max)


class Cause(StrEnum):
    """Why a policy is asked to decide."""

    START = "start"
    HINT = "hint"
    """The rollouts of a batch start."""
    FIRST_REQUEST = "first_request"
    BATCH_END = "batch_end"
    WAKE = "wake"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Observation:
    """A snapshot of the platform."""

    now_ns: int
    cause: Cause
    pools: tuple[PoolView, ...]
    tasks: tuple[TaskView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """The decision of a policy."""

    targets: tuple[int, ...]
    """Slots per pool from now on; the platform limits them to the caps."""
    wake_ns: int | None = None
    """Latest time at which to ask again; `None` = at the next event."""
    nodes: tuple[int, ...] = ()
    """Nodes per pool to hold at least, also empty; those that slots need are ordered anyway.
    Empty = none beyond these."""
    order: tuple[int, ...] = ()
    """Tasks with an open batch, first served first: swaps their deadlines, within each tenant, for
    requests that join a queue from now on. Empty = order by the deadlines."""
