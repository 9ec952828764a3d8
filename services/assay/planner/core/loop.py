"""One step of the planner, pure: an observation goes in, effects come out.

The controller reads the store (or fails to), calls `step`, and applies the effects. Invariants:

* pools are changed only by the leader, and only after a successful observation;
* whatever fails, pools stay as they are and the readiness says why;
* no target is above its pool's cap or below 0;
* every step asks to be called again.
"""

from dataclasses import dataclass
from typing import Final

from assay.core.errors import AssayError
from assay.model.arrays import to_ns
from assay.model.observation import Observation
from assay.model.policy import Policy
from assay.planner.core.policy import Assay
from assay.planner.core.shape import Plan

IDLE_STEP_NS: Final = to_ns(15.0)
"""Time to the next step while no batch is open."""
RETRY_NS: Final = to_ns(2.0)
"""Time to the next step after a failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The store could be read."""

    observation: Observation
    leader: bool
    """This planner holds the lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreDown:
    """The store could not be read."""

    now_ns: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """Set the number of slots of a pool."""

    pool: int
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reorder:
    """Serve the open batches of these tasks in this order: their deadlines are swapped."""

    tasks: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AtRisk:
    """Mark the batch: its deadline may be missed (`deadline_at_risk`)."""

    task: int
    number: int
    late_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """What the health service reports."""

    ready: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wake:
    """Call `step` again by then."""

    at_ns: int


LoopInput = Observed | StoreDown
Effect = Resize | Reorder | AtRisk | Readiness | Wake


class PlannerLoop:
    """One planner, leading or standing by."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy or Assay()
        self._marked_at_risk: set[tuple[int, int]] = set()

    @property
    def plan(self) -> Plan | None:
        """The present plan, for GetPlan and ExplainPlan."""
        return self.policy.plan if isinstance(self.policy, Assay) else None

    @property
    def awaits(self) -> bool:
        """Whether slots are held, or will be, for work that is not there yet."""
        return isinstance(self.policy, Assay) and self.policy.holds_on

    def step(self, found: LoopInput) -> tuple[Effect, ...]:
        """Decide what to do."""
        if isinstance(found, StoreDown):
            return (Readiness(ready=False, why=found.why), Wake(at_ns=found.now_ns + RETRY_NS))
        observation = found.observation
        if not found.leader:
            self._marked_at_risk.clear()
            later = Wake(at_ns=observation.now_ns + IDLE_STEP_NS)
            return (Readiness(ready=True, why="standing by"), later)
        try:
            sizing = self.policy.decide(observation)
        except AssayError as error:
            why = f"cannot plan: {error.field}: {error.message}"
            return (Readiness(ready=False, why=why), Wake(at_ns=observation.now_ns + RETRY_NS))
        return (
            *resizes(observation, sizing.targets),
            *([Reorder(tasks=sizing.order)] if sizing.order else []),
            *self.warnings(),
            Readiness(ready=True, why="leading"),
            Wake(at_ns=sizing.wake_ns or observation.now_ns + IDLE_STEP_NS),
        )

    def warnings(self) -> tuple[AtRisk, ...]:
        """Batches at risk that were not at risk in the step before."""
        if self.plan is None:
            return ()
        risky = [batch for batch in self.plan.batches if batch.at_risk]
        fresh = [b for b in risky if (b.task, b.number) not in self._marked_at_risk]
        open_now = {(b.task, b.number) for b in self.plan.batches}
        marked = {(b.task, b.number) for b in risky}
        self._marked_at_risk = (self._marked_at_risk & open_now) | marked
        return tuple(AtRisk(task=b.task, number=b.number, late_share=b.late_share) for b in fresh)


def resizes(observation: Observation, targets: tuple[int, ...]) -> tuple[Resize, ...]:
    """The targets that differ from the present ones, limited to the caps."""
    pools = observation.pools
    within = [max(0, min(n, pool.cap)) for n, pool in zip(targets, pools, strict=True)]
    return tuple(
        Resize(pool=p, target=n)
        for p, (n, pool) in enumerate(zip(within, pools, strict=True))
        if n != pool.target
    )
