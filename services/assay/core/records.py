"""The values that cross the store's boundary.

Instants are Unix time in nanoseconds by the store's clock; a worker reports durations only.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from assay.core.batches.record import BatchRecord as BatchRecord
from assay.core.batches.record import BatchState as BatchState
from assay.core.batches.record import StageDepth as StageDepth
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
from assay.core.tools.quick import quick


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
    group_stage: StageName | None = None
    """The one of `stages` that judges whole groups, if one does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpec:
    """Parameters of a new batch."""

    tenant: TenantId
    batch_id: BatchId
    task_id: TaskId
    size: int
    """Requests it will hold; reaching it seals it. 0 = open until sealed."""
    group_size: int
    """K; 0 = unknown."""
    deadline_after_ms: int
    """The deadline, as a duration from the opening; with `deadline_ns` the earliest one."""
    deadline_ns: int = 0
    """The deadline as an instant, in whole microseconds; 0 = `deadline_after_ms` says it."""
    weight: float = 1.0
    """The tenant's weight, above 0: its share of each stage relative to others (`ordering`)."""
    requests_reserved: int = 0
    bytes_reserved: int = 0
    """Quota that the batch takes when it opens: so many of its requests, with so many payload bytes
    in all, are not refused for the quota later. What is left when the batch ends is given back."""

    def deadline_of(self, opened_ns: int) -> int:
        """The deadline of a batch that was opened then."""
        return max(opened_ns + self.deadline_after_ms * 1_000_000, self.deadline_ns)


class Artifact(NamedTuple):
    """A file that comes with a request."""

    name: str
    content: bytes
    sha256: str = ""
    """Of one that was uploaded before; admission puts the content in its place."""


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class NewRequest:
    """A validated request to be stored."""

    request_id: RequestId
    group_id: GroupId
    response: bytes
    reference: bytes
    messages: bytes = b""
    """The transcript: a JSON list of chat messages; empty: none."""
    artifacts: tuple[Artifact, ...] = ()

    @property
    def payload_bytes(self) -> int:
        """What counts for quotas."""
        return payload_bytes(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """Result of one submit call (all of it was accepted)."""

    accepted: int
    duplicates: int
    sealed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What a tenant may hold at once: above, `Saturated`; what can never fit, `TooLarge`."""

    requests_open_max: int = 200_000
    bytes_open_max: int = 4 * 1024**3
    batches_open_max: int = 1_000
    tasks_max: int = 1_000
    results_kept_max: int = 1_000_000
    """Results (and as many batches) kept of finished batches; beyond that the oldest batches are
    removed early."""
    worker_s_per_day_max: float | None = None
    """Seconds of workers in the last day, by the hour; at it, requests are refused with the time
    until enough of them are a day old. `None` = any."""
    uploads_bytes_max: int = 1024**3
    """Files that were uploaded ahead of their requests."""


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A worker's right to a request until it expires. Only the holder of the newest fence may
    report. No fence is ever issued twice, not even by a store that lost its last writes."""

    job_id: JobId
    fence: int


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A request of a group that is leased as a whole."""

    job_id: JobId
    request_id: RequestId
    response: bytes
    reference: bytes
    handover: bytes = b""
    messages: bytes = b""
    artifacts: tuple[Artifact, ...] = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A request leased to a worker, or a whole group: then `members` are its requests, and what
    belongs to one request is empty."""

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
    """Hand-over of the previous stage; empty at the first."""
    enqueued_ns: int
    claimed_ns: int
    deadline_ns: int
    messages: bytes = b""
    artifacts: tuple[Artifact, ...] = ()
    members: tuple[Member, ...] = ()
    """In order of arrival."""
    submitted: int = 0
    """Requests of the group, with those that are not among the members."""


def payload_bytes(request: NewRequest | Claim | Member) -> int:
    """Size of a request's contents."""
    size = len(request.response) + len(request.reference) + len(request.messages)
    for artifact in request.artifacts:
        size += len(artifact.content)
    return size


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class StageReport:
    """A worker's report on one claim, as durations since the claim."""

    worker: WorkerId
    started_after_ns: int
    finished_after_ns: int


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class EndRequest:
    """Finish: the request ends. `body` is opaque to the store (evidence and resource use)."""

    outcome: Outcome
    reward: float | None
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """Finish: the request continues with the next stage."""

    next_stage: StageName
    handover: bytes
    gathers: bool = False
    """The next stage judges whole groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailAttempt:
    """Finish: the infrastructure failed; the attempt counts, the last one makes a dead letter."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveBack:
    """Finish: a draining worker did not start it; the attempt does not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishGroup:
    """Finish: a group was judged. `FailAttempt` of a member: it could not be judged while others
    could, so it ends as INFRA_FAILED; a member that is not named ends so too. Members that were
    cancelled meanwhile stay cancelled."""

    members: tuple[tuple[JobId, EndRequest | HandOver | FailAttempt], ...]


Finish = EndRequest | HandOver | FailAttempt | GiveBack | FinishGroup


class FinishStatus(StrEnum):
    """STALE: the lease was lost, the report was discarded, another worker has the request."""

    DONE = "DONE"
    STALE = "STALE"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedBatch:
    """A batch that a store call completed; `slack_ms` < 0 = after its deadline."""

    batch: BatchRecord
    slack_ms: int

    @property
    def tenant(self) -> TenantId:
        """The batch's tenant."""
        return self.batch.tenant

    @property
    def batch_id(self) -> BatchId:
        """The batch's name."""
        return self.batch.batch_id


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A worker's report at the end of one claim."""

    lease: Lease
    report: StageReport
    finish: Finish


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """Statuses of a list of reports, in order, and the batches that they completed."""

    statuses: tuple[FinishStatus, ...]
    completed: tuple[CompletedBatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaped:
    """Result of one sweep of a stage."""

    redelivered: int
    dead: int
    expired: int
    completed: tuple[CompletedBatch, ...]


@quick
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


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRecord:
    """How one request ended, as the trainer sees it."""

    request_id: RequestId
    group_id: GroupId
    outcome: Outcome
    reward: float | None
    body: bytes
    stages: tuple[StageTiming, ...]
    attempts: int
    error: str = ""
    """Why the request could not be judged; set by the store on INFRA_FAILED (empty `body`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """A group whose requests have all ended; `None` = ended without a reward."""

    group_id: GroupId
    rewards: tuple[float | None, ...]


LogEntry = ResultRecord | GroupRecord
"""A batch's results are an append-only log; its index is the cursor of `StreamResults`."""


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHistory:
    """What the planner learns from: when a request arrived (since its batch opened) and how long
    each of the pipeline's stages held a worker (0 = never reached)."""

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

    @property
    def natural_span_ns(self) -> int:
        """T: from the opening to the last `t_i`; 0 without requests."""
        return max(
            (request.arrived_after_ns + sum(request.service_ns) for request in self.requests),
            default=0,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A request that ran out of attempts; an operator may replay it. An empty `request_id`: a whole
    group."""

    job_id: JobId
    tenant: TenantId
    batch_id: BatchId
    request_id: RequestId
    group_id: GroupId
    stage: StageName
    attempts: int
    error: str
    died_ns: int


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight:
    """One request that has not ended, as a planner sees it."""

    arrived_after_ns: int
    """Arrival, since its batch opened."""
    stage: StageName
    """The stage where it waits or runs."""
    service_ns: tuple[int, ...]
    """How long each of the pipeline's stages held a worker, in order; 0 where not finished."""
    enqueued_ns: int
    """When it joined the queue of `stage`; a repeated attempt keeps it."""
    claimed_ns: int
    """When a worker took it; 0 = queued."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWork:
    """A batch that is not complete, and its requests that have not ended."""

    batch: BatchRecord
    task: TaskRecord
    number: int
    """Counts the task's batches from 0; never used twice while the task is registered."""
    order_deadline_ns: int
    """Orders requests that join a queue now: the batch's own deadline unless `Store.prioritize` set
    another."""
    weight: float = 1.0
    """The tenant's weight at the opening of the batch."""
    ended_natural_ns: int
    """Largest arrival plus service times (without queueing) of the requests that ended, since the
    opening; 0 = none."""
    requests: tuple[InFlight, ...]
    """In order of arrival."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HintRecord:
    """A rollout phase of a task has begun, and no batch of it opened since."""

    tenant: TenantId
    task_id: TaskId
    size: int
    """Requests that will follow; 0 = not known."""
    hinted_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """Which planner leads at one instant."""

    leads: bool
    """The asking planner leads, until `expires_ns`."""
    planner: str
    """The leading planner."""
    fence: int
    """Grows whenever the lead is taken again; a leader that renews in time keeps it."""
    expires_ns: int
    """When another planner may take the lead, unless it is renewed."""
