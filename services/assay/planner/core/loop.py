"""The planner's loop without its shell: `observe -> decide -> effects`.

The shell looks at the store (or fails to), calls `step`, and carries the effects out. Always true:

* pools are touched only by the leader, and only after a look that succeeded;
* whatever goes wrong, pools stay as they are and the readiness says why;
* no target is above its pool's cap or below 0;
* every step asks to be woken again.
"""

from dataclasses import dataclass
from typing import Final

from assay.core.errors import AssayError
from assay.model.arrays import to_ns
from assay.model.observation import Observation
from assay.model.policy import Policy
from assay.planner.core.plan import Plan
from assay.planner.core.policy import Assay

IDLE_LOOK_NS: Final = to_ns(15.0)
"""How often to look while no batch is open."""
RETRY_NS: Final = to_ns(2.0)
"""How soon to look again after a failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The store answered."""

    observation: Observation
    leader: bool
    """This planner holds the lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blind:
    """The store could not be read."""

    now_ns: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """Want this many workers."""

    pool: int
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reorder:
    """Serve these tasks' open batches in this order (their deadlines change places)."""

    tasks: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AtRisk:
    """Say on the batch that its deadline may be missed (`deadline_at_risk`)."""

    task: int
    number: int
    late_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """What the health service says."""

    ready: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wake:
    """Look again by then."""

    at_ns: int


Look = Seen | Blind
Effect = Resize | Reorder | AtRisk | Readiness | Wake


class PlannerLoop:
    """One planner, leading or standing by."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy or Assay()
        self._said_at_risk: set[tuple[int, int]] = set()

    @property
    def plan(self) -> Plan | None:
        """The present plan, for GetPlan and ExplainPlan."""
        return self.policy.plan if isinstance(self.policy, Assay) else None

    def step(self, look: Look) -> tuple[Effect, ...]:
        """Answer one look."""
        if isinstance(look, Blind):
            return (Readiness(ready=False, why=look.why), Wake(at_ns=look.now_ns + RETRY_NS))
        observation = look.observation
        if not look.leader:
            self._said_at_risk.clear()
            later = Wake(at_ns=observation.now_ns + IDLE_LOOK_NS)
            return (Readiness(ready=True, why="standing by"), later)
        try:
            decision = self.policy.decide(observation)
        except AssayError as error:
            why = f"cannot plan: {error.field}: {error.message}"
            return (Readiness(ready=False, why=why), Wake(at_ns=observation.now_ns + RETRY_NS))
        wake_ns = decision.wake_ns or observation.now_ns + IDLE_LOOK_NS
        return (
            *resizes(observation, decision.targets),
            *([Reorder(tasks=decision.order)] if decision.order else []),
            *self.warnings(),
            Readiness(ready=True, why="leading"),
            Wake(at_ns=wake_ns),
        )

    def warnings(self) -> tuple[AtRisk, ...]:
        """Once a batch."""
        if self.plan is None:
            return ()
        risky = [batch for batch in self.plan.batches if batch.at_risk]
        fresh = [b for b in risky if (b.task, b.number) not in self._said_at_risk]
        open_now = {(b.task, b.number) for b in self.plan.batches}
        self._said_at_risk = (self._said_at_risk & open_now) | {(b.task, b.number) for b in risky}
        return tuple(AtRisk(task=b.task, number=b.number, late_share=b.late_share) for b in fresh)


def resizes(observation: Observation, targets: tuple[int, ...]) -> tuple[Resize, ...]:
    """What differs, cut at the caps."""
    wanted = [
        max(0, min(target, pool.cap))
        for target, pool in zip(targets, observation.pools, strict=True)
    ]
    return tuple(
        Resize(pool=p, target=n)
        for p, (n, pool) in enumerate(zip(wanted, observation.pools, strict=True))
        if n != pool.target
    )
