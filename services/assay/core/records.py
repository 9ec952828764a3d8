"""The values that cross the store's boundary.

Instants are Unix time in nanoseconds by the store's clock; a worker reports durations only.
"""

from dataclasses import dataclass
from enum import StrEnum

from assay.core.ids import (
    BatchId,
    GroupId,
    JobId,
    PipelineName,
    RequestId,
    StageName,
    TaskId,
    TenantId,
    WorkerId,
)
from assay.core.outcome import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRecord:
    """One RL training job. Never changes once registered: workers keep it."""

    tenant: TenantId
    task_id: TaskId
    pipeline: PipelineName
    stages: tuple[StageName, ...]
    settings_json: bytes
    """The pipeline's settings, validated and complete (defaults filled in)."""
    batch_size: int = 0
    delay_budget_ms: int | None = None
    trainer_cost_rate: float = 0.0


class BatchState(StrEnum):
    """OPEN takes requests; SEALED waits for them; the other two are final."""

    OPEN = "OPEN"
    SEALED = "SEALED"
    COMPLETE = "COMPLETE"
    CANCELLED = "CANCELLED"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpec:
    """What opens a batch."""

    tenant: TenantId
    batch_id: BatchId
    task_id: TaskId
    size: int
    """Requests it will hold; reaching it seals it. 0 = open until sealed."""
    group_size: int
    """K; 0 = unknown."""
    deadline_after_ms: int
    """The deadline, counted from the opening."""
    weight: float = 1.0
    """The tenant's, above 0: its share of each stage against the other tenants' (`ordering`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """A batch as of one instant. `submitted = ended + queued + running` always."""

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
    """The planner's word: with the capacity there is, the deadline may be missed."""

    @property
    def over(self) -> bool:
        """Nothing more will come."""
        return self.state in {BatchState.COMPLETE, BatchState.CANCELLED}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRequest:
    """A validated request on its way in."""

    request_id: RequestId
    group_id: GroupId
    response: bytes
    reference: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """What became of one submit call (all of it was taken in)."""

    accepted: int
    duplicates: int
    sealed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What a tenant may hold at once; reaching it is `Saturated`."""

    requests_open_max: int = 200_000
    bytes_open_max: int = 4 * 1024**3
    batches_open_max: int = 1_000
    tasks_max: int = 1_000
    results_kept_max: int = 1_000_000
    """Results (and as many batches) that are kept of batches that are over: the oldest batches go
    before their time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A worker's timed right to a request. Only the holder of the newest fence may report. A fence
    is never given twice, not even by a store that lost its last writes."""

    job_id: JobId
    fence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A request in a worker's hands."""

    lease: Lease
    stage: StageName
    task: TaskRecord
    batch_id: BatchId
    request_id: RequestId
    group_id: GroupId
    attempt: int
    """1 for the first claim of this stage."""
    response: bytes
    reference: bytes
    handover: bytes
    """What the previous stage left; empty at the first."""
    enqueued_ns: int
    claimed_ns: int
    deadline_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StageReport:
    """A worker's account of one claim, as durations since the claim."""

    worker: WorkerId
    started_after_ns: int
    finished_after_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRequest:
    """Finish: the request ends. `body` is opaque to the store (evidence and resource use)."""

    outcome: Outcome
    reward: float | None
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """Finish: the request goes on to the next stage."""

    next_stage: StageName
    handover: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FailAttempt:
    """Finish: the infrastructure failed; the attempt counts, the last one is a dead letter."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveBack:
    """Finish: a draining worker did not begin; the attempt does not count."""


Finish = EndRequest | HandOver | FailAttempt | GiveBack


class FinishStatus(StrEnum):
    """STALE: the lease was lost, the report was thrown away, somebody else has the request."""

    DONE = "DONE"
    STALE = "STALE"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedBatch:
    """A batch that a store call brought to its end; `slack_ms` < 0 = after its deadline."""

    tenant: TenantId
    batch_id: BatchId
    slack_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a worker says at the end of one claim."""

    lease: Lease
    report: StageReport
    finish: Finish


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """Answers to a list of reports, in order, and the batches that they completed."""

    statuses: tuple[FinishStatus, ...]
    completed: tuple[CompletedBatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaped:
    """What one sweep of a stage did."""

    redelivered: int
    dead: int
    expired: int
    completed: tuple[CompletedBatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTiming:
    """History of one request at one stage."""

    stage: StageName
    enqueued_ns: int
    claimed_ns: int
    started_ns: int
    finished_ns: int
    released_ns: int
    attempts: int
    worker: WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRecord:
    """How one request ended, as the trainer will see it."""

    request_id: RequestId
    group_id: GroupId
    outcome: Outcome
    reward: float | None
    body: bytes
    stages: tuple[StageTiming, ...]
    attempts: int
    error: str = ""
    """Why nobody could judge it; the store's word on INFRA_FAILED, whose `body` is empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """A group whose requests have all ended; `None` = ended without a reward."""

    group_id: GroupId
    rewards: tuple[float | None, ...]


LogEntry = ResultRecord | GroupRecord
"""A batch's results are a log that only grows; its index is the cursor of `StreamResults`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHistory:
    """What the planner learns from: when a request came (since its batch opened) and how long each
    of the pipeline's stages held a worker (0 = never reached)."""

    arrived_after_ns: int
    service_ns: tuple[int, ...]
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHistory:
    """One finished batch of a task."""

    batch_id: BatchId
    opened_ns: int
    completed_ns: int
    deadline_ns: int
    requests: tuple[RequestHistory, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A request that ran out of attempts; an operator may replay it."""

    job_id: JobId
    tenant: TenantId
    batch_id: BatchId
    request_id: RequestId
    stage: StageName
    attempts: int
    error: str
    died_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StageDepth:
    """A stage's queue as of one instant."""

    stage: StageName
    queued: int
    running: int
    oldest_age_s: float
    dead_letters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight:
    """One request that has not ended, as a planner sees it."""

    arrived_after_ns: int
    """Since its batch opened."""
    stage: StageName
    """Where it waits or runs."""
    service_ns: tuple[int, ...]
    """How long each of the pipeline's stages held a worker, in order; 0 where not finished."""
    enqueued_ns: int
    """When it joined the queue of `stage`; an attempt that is made again keeps it."""
    claimed_ns: int
    """When a worker took it; 0 = queued."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWork:
    """A batch that is not over, and its requests that have not ended."""

    batch: BatchRecord
    task: TaskRecord
    number: int
    """Counts the task's batches from 0; never used twice while the task is registered."""
    order_deadline_ns: int
    """By which requests that join a queue now are ordered: the batch's own deadline unless
    `Store.prioritize` said otherwise."""
    weight: float = 1.0
    """The tenant's, as it was when the batch was opened."""
    ended_natural_ns: int
    """Largest arrival plus service times (queueing left out) of the requests that ended, since the
    opening; 0 = none."""
    requests: tuple[InFlight, ...]
    """In the order of arrival."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HintRecord:
    """A rollout phase of a task has begun; no batch of it opened since."""

    tenant: TenantId
    task_id: TaskId
    size: int
    """Requests that will follow; 0 = not known."""
    hinted_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """Who leads the planners as of one instant."""

    leads: bool
    """The asker does, until `expires_ns`."""
    planner: str
    """Who does."""
    fence: int
    """Grows whenever the lead is taken anew; a leader keeps it while it renews in time."""
    expires_ns: int
    """When somebody else may take the lead, unless it is renewed."""
