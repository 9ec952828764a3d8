"""Batches and queues at one instant: what who looks at a platform reads.

Apart from the other records, of which a command that only looks makes none.
"""

from dataclasses import dataclass
from enum import StrEnum

from assay.core.ids import BatchId, StageName, TaskId, TenantId
from assay.core.outcome import Outcome


class BatchState(StrEnum):
    """OPEN accepts requests; SEALED waits for them to end; the other two are final."""

    OPEN = "OPEN"
    SEALED = "SEALED"
    COMPLETE = "COMPLETE"
    CANCELLED = "CANCELLED"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """A batch at one instant. `submitted = ended + queued + running` always."""

    tenant: TenantId
    batch_id: BatchId
    task_id: TaskId
    state: BatchState
    size: int
    group_size: int
    opened_ns: int
    deadline_ns: int
    completed_ns: int
    submitted: int
    ended: int
    queued: int
    running: int
    outcomes: dict[Outcome, int]
    deadline_at_risk: bool = False
    """Set by the planner: with the present capacity, the deadline may be missed."""
    grouped: int = 0
    """Requests of the groups that have ended as a whole."""
    shift_micro: int = 0
    """Sum over these of how far zeros would have moved their advantages, in millionths."""

    @property
    def unjudged(self) -> dict[Outcome, float]:
        """Share of the ended requests that no judge saw, by cause."""
        causes = {outcome: n for outcome, n in self.outcomes.items() if not outcome.carries_reward}
        return {outcome: count / self.ended for outcome, count in causes.items()}

    @property
    def bias_avoided(self) -> float:
        """How far zeros in place of missing rewards would have moved the GRPO advantages of the
        grouped requests, on average; 0 where every one was judged."""
        return self.shift_micro / 1e6 / self.grouped if self.grouped > 0 else 0.0

    @property
    def over(self) -> bool:
        """No more results will come."""
        return self.state in {BatchState.COMPLETE, BatchState.CANCELLED}


@dataclass(frozen=True, slots=True, kw_only=True)
class StageDepth:
    """A stage's queue at one instant."""

    stage: StageName
    queued: int
    running: int
    oldest_age_s: float
    dead_letters: int
