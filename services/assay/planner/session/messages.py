"""Messages to and from the planning process: plain values, stages and batches by name.

The controller, which must stay light, builds a `Snapshot` from the store and the worker hosts; the
planning process returns a `Decision`. Invariant: nothing here needs numpy.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from assay.core.errors import AssayError
from assay.core.ids import BatchId, StageName, TaskId, TenantId
from assay.core.records import BatchHistory, HintRecord, OpenWork, TaskRecord
from assay.planner.session.plan_view import BatchKey, PlanView

TaskKey = tuple[TenantId, TaskId]

READY: Final = "ready"
"""The planning process sends this once it accepts questions."""

HINTED: Final = BatchId("")
"""Placeholder for a batch that a hint announced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLimits:
    """Limits within which the planner may size a stage."""

    stage: StageName
    timeout_ns: int
    slots_min: int
    """Slots kept warm without work."""
    slots_max: int
    cost: float
    """Cost of a slot-second, in GPU-seconds."""
    startup_ns: int
    batch_max: int = 1
    """Requests that a slot takes at once."""
    change_price_ns: int = 0
    """What a change of the pool's size costs while nothing is planned, in slot-nanoseconds."""
    keep_price_ns: int = 0
    """What it costs to release one of its lowest slots and to have it again, besides its start, in
    its own nanoseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Cores and memory that worker slots share."""

    cores: int
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup:
    """How long slots took to start, of the latest that were measured."""

    measured: int = 0
    p50_ns: int = 0
    p90_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostState:
    """One worker host (or pod), as operators see it."""

    host: str
    address: str = ""
    state: str
    """`Counted`, or why it is not counted on."""
    sandbox_mode: str = ""
    machine: Machine | None = None
    """`None`: not known."""
    slots_max: int = 0
    """Most slots per stage that it takes; 0 = not known."""
    pools: tuple["PoolState", ...] = ()
    core_cost: float | None = None
    """Cost of its core-second, in GPU-seconds; `None` = the settings' common one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """A stage's pool: sums over all worker hosts."""

    stage: StageName
    desired: int
    ready: int
    busy: int
    slots_max: int | None = None
    """What the pool's hosts can give at present; `None` = not known to be less than the settings'
    cap."""
    startup_ns: int | None = None
    """Measured time from asking for a slot until it is ready; `None` = too few were measured."""
    startup_cold_ns: int | None = None
    """The same where a machine had to be added first; `None` = too few were measured."""
    machines: tuple[Machine, ...] = ()
    """Of the hosts that serve it; empty = not known."""
    condition: str = ""
    """What is wrong with it, `NAME: details`; empty = nothing that is known."""
    startup: Startup = Startup()
    """What `startup_ns` was taken from."""
    core_cost: float | None = None
    """Mean cost of a core-second of its hosts, in GPU-seconds; `None` = the settings'."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskHistory:
    """The last finished batches of a task, newest first."""

    task: TaskRecord
    batches: tuple[BatchHistory, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The platform at one instant."""

    now_ns: int
    """Time of the store's clock."""
    origin_ns: int
    """Instant 0 of the planning; the same in all snapshots of one planner."""
    leader: bool
    stages: tuple[StageLimits, ...]
    """In the order in which requests pass them; stages without a pool are omitted."""
    pools: tuple[PoolState, ...]
    work: tuple[OpenWork, ...]
    hints: tuple[tuple[HintRecord, TaskRecord], ...]
    histories: tuple[TaskHistory, ...] = ()
    """Those that changed since the last snapshot; the session remembers the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSlots:
    """Set the size of a stage's pool."""

    stage: StageName
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPriority:
    """Serve the batch as if this were its deadline; 0 = its own."""

    batch: BatchKey
    deadline_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRisk:
    """Mark that the batch's deadline may be missed, or that it is no longer at risk."""

    batch: BatchKey
    at_risk: bool
    late_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do after a snapshot."""

    ready: bool
    why: str
    wake_after_ns: int
    slots: tuple[SetSlots, ...] = ()
    priorities: tuple[SetPriority, ...] = ()
    risks: tuple[SetRisk, ...] = ()
    plan: PlanView | None = None
    """The present plan."""
    made: bool = False
    """It was made from this snapshot."""
    awaits: bool = False
    """A batch may open soon for which slots are held, or will be: ask again without open work."""
    planning_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Other conditions to plan with; `None` or absent = unchanged."""

    delay_budget_ns: int | None = None
    epsilon: float | None = None
    slots_max: dict[str, int] = field(default_factory=dict)
    cost: dict[str, float] = field(default_factory=dict)
    startup_ns: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternatives:
    """Two plans of one instant, from the same observation and the same futures."""

    present: PlanView
    """Under the conditions as they are."""
    plan: PlanView
    """Under the changed ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A question that could not be answered."""

    error: AssayError | None = None
    """The question was invalid."""
    traceback: str = ""
    """Traceback of a bug; empty = no bug."""


def resting(stages: Sequence[StageLimits], pools: Sequence[PoolState]) -> tuple[SetSlots, ...]:
    """Every pool at its floor: what to set while there is nothing to plan."""
    floors = {limits.stage: limits.slots_min for limits in stages}
    return tuple(
        SetSlots(stage=pool.stage, slots=floors[pool.stage])
        for pool in pools
        if pool.stage in floors and pool.desired != floors[pool.stage]
    )


def fits_floor(
    stages: Sequence[StageLimits],
    work: Sequence[OpenWork],
    hints: Sequence[tuple[HintRecord, TaskRecord]],
) -> bool:
    """Whether no request could wait even if all arrived at one stage at once: nothing to plan."""
    floors = {limits.stage: limits.slots_min for limits in stages}
    need: dict[StageName, int] = {}
    coming = [(hint.size or task.batch_size, task) for hint, task in hints]
    for one in work:
        left = len(one.requests)
        if not one.batch.over:
            left = max(left, one.batch.size - one.batch.ended)
        if one.batch.size == 0 and one.batch.state == "OPEN":
            return False
        coming.append((left, one.task))
    for size, task in coming:
        if size == 0:
            return False
        for stage in task.stages:
            if stage in floors:
                need[stage] = need.get(stage, 0) + size
    return all(count <= floors[stage] for stage, count in need.items())
