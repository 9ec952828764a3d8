"""Records of the store's model for batches and requests, and its admission checks."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from assay.core.ids import BatchId, GroupId, JobId, RequestId, StageName, TaskId, TenantId, WorkerId
from assay.core.ordering import OrderKey, order_key
from assay.core.outcome import Outcome
from assay.core.records import (
    BatchRecord,
    BatchSpec,
    BatchState,
    FailAttempt,
    GiveBack,
    InFlight,
    LogEntry,
    NewRequest,
    OpenWork,
    Quota,
    Report,
    RequestHistory,
    StageReport,
    StageTiming,
    TaskRecord,
)
from assay.core.store_limits import (
    BATCH_REQUESTS_MAX,
    GROUP_JUDGED_MAX,
    batch_closed,
    batch_full,
    group_full,
    never_fits,
    no_group,
    other_request,
    too_many_bytes,
    too_many_requests,
)

BatchKey = tuple[TenantId, BatchId]
TaskKey = tuple[TenantId, TaskId]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    """Retention limits of the store; defaults as in the settings."""

    batch_overdue_ns: int = 3_600 * 10**9
    results_kept_ns: int = 3_600 * 10**9
    history_batches: int = 20
    dead_letters_max: int = 10_000
    dead_letters_per_tenant_max: int = 2_000
    hosts_max: int = 1_024
    held_ns_max: int = 86_400 * 10**9


@dataclass(slots=True)
class Changes:
    """What a call changed, for the caller to announce."""

    batches: set[BatchId] = field(default_factory=set)
    work: set[StageName] = field(default_factory=set)
    """Stages with new work."""
    planning: bool = False
    """Planners should look again."""


@dataclass(slots=True, kw_only=True)
class ModelGroup:
    submitted: int = 0
    rewards: list[float | None] = field(default_factory=list)
    told: bool = False
    grouped: int = 0
    shift_micro: int = 0
    """What its batch counts for it."""
    live: int = 0
    """Requests that have not ended."""
    members: dict[JobId, "Job"] = field(default_factory=dict)
    """Requests at the stage that judges the group as a whole."""
    own: "Job | None" = None
    """The job of the group as a whole, once it is complete."""
    judged: bool = False
    """As a whole, so that no other request may join."""


@dataclass(slots=True, kw_only=True)
class Job:
    job_id: JobId
    batch: "ModelBatch"
    request: NewRequest
    stage: StageName
    arrived_ns: int
    enqueued_ns: int
    state: str = "queued"
    attempts: int = 0
    claims: int = 0
    fence: int = 0
    worker: WorkerId = field(default=WorkerId(""))
    claimed_ns: int = 0
    expires_ns: int = 0
    handover: bytes = b""
    timings: tuple[StageTiming, ...] = ()
    services: dict[StageName, int] = field(default_factory=dict)
    replayed: bool = False
    error: str = ""
    died_ns: int = 0
    charged: int = 0
    """The charge to the tenant's virtual time at this stage; 0 = none."""
    group: ModelGroup | None = None
    """Of the job that stands for a whole group."""

    @property
    def requests(self) -> int:
        """How many it stands for."""
        return 1 if self.group is None else len(self.group.members)

    @property
    def payload_bytes(self) -> int:
        return self.request.payload_bytes

    @property
    def key(self) -> OrderKey:
        return order_key(deadline_ns=self.batch.order_deadline_ns, sequence=int(self.job_id[1:]))

    def in_flight(self) -> InFlight:
        return InFlight(
            arrived_after_ns=self.arrived_ns - self.batch.opened_ns,
            stage=self.stage,
            service_ns=tuple(self.services.get(stage, 0) for stage in self.batch.task.stages),
            enqueued_ns=self.enqueued_ns,
            claimed_ns=self.claimed_ns if self.state == "leased" else 0,
        )


@dataclass(slots=True, kw_only=True)
class ModelBatch:
    spec: BatchSpec
    task: TaskRecord
    number: int
    opened_ns: int
    deadline_ns: int
    overdue_ns: int
    results_kept_max: int
    requests_reserved: int = 0
    bytes_reserved: int = 0
    prioritized_ns: int = 0
    at_risk: bool = False
    ended_natural_ns: int = 0
    plans: list[bytes] = field(default_factory=list)
    state: BatchState = BatchState.OPEN
    closing: Outcome | None = None
    completed_ns: int = 0
    gone_ns: int = 0
    running: int = 0
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    requests: dict[RequestId, NewRequest] = field(default_factory=dict)
    groups: dict[GroupId, ModelGroup] = field(default_factory=dict)
    log: list[LogEntry] = field(default_factory=list)
    live: dict[JobId, Job] = field(default_factory=dict)
    dead: dict[JobId, Job] = field(default_factory=dict)
    history: list[RequestHistory] = field(default_factory=list)

    @property
    def key(self) -> BatchKey:
        return self.spec.tenant, self.spec.batch_id

    @property
    def order_deadline_ns(self) -> int:
        return self.prioritized_ns or self.deadline_ns

    @property
    def open(self) -> bool:
        return self.state is BatchState.OPEN

    @property
    def over(self) -> bool:
        return self.state in {BatchState.COMPLETE, BatchState.CANCELLED}

    def record(self) -> BatchRecord:
        submitted, ended = len(self.requests), self.outcomes.total()
        return BatchRecord(
            tenant=self.spec.tenant,
            batch_id=self.spec.batch_id,
            task_id=self.spec.task_id,
            state=self.state,
            size=self.spec.size,
            group_size=self.spec.group_size,
            opened_ns=self.opened_ns,
            deadline_ns=self.deadline_ns,
            completed_ns=self.completed_ns,
            submitted=submitted,
            ended=ended,
            queued=submitted - ended - self.running,
            running=self.running,
            outcomes={outcome: count for outcome, count in self.outcomes.items() if count},
            deadline_at_risk=self.at_risk,
            grouped=sum(group.grouped for group in self.groups.values()),
            shift_micro=sum(group.shift_micro for group in self.groups.values()),
        )

    def open_work(self) -> OpenWork:
        return OpenWork(
            batch=self.record(),
            task=self.task,
            number=self.number,
            order_deadline_ns=self.order_deadline_ns,
            weight=self.spec.weight,
            ended_natural_ns=self.ended_natural_ns,
            requests=tuple(self.live[job_id].in_flight() for job_id in sorted(self.live)),
        )


@dataclass(slots=True, kw_only=True)
class Held:
    """A tenant's usage, compared with its quota."""

    requests: int = 0
    payload_bytes: int = 0
    batches: int = 0

    def with_batch(self, spec: BatchSpec) -> "Held":
        """The usage once this batch is open."""
        return Held(
            requests=self.requests + spec.requests_reserved,
            payload_bytes=self.payload_bytes + spec.bytes_reserved,
            batches=self.batches + 1,
        )


def waits(job: Job) -> bool:
    """False for a queue entry whose request ended while it waited."""
    return job.state == "queued"


def leaves_stage(job: Job, report: Report, attempts_max: int) -> bool:
    """Whether this report contains its time at the stage."""
    match report.finish:
        case GiveBack():
            return False
        case FailAttempt():
            return job.attempts >= attempts_max
    return True


def leave_stage(job: Job, account: StageReport, now_ns: int) -> None:
    """Record its time at the stage; of a group, for each member its share."""
    timing = StageTiming(
        stage=job.stage,
        enqueued_ns=job.enqueued_ns,
        claimed_ns=job.claimed_ns,
        started_ns=job.claimed_ns + account.started_after_ns,
        finished_ns=job.claimed_ns + account.finished_after_ns,
        released_ns=now_ns,
        attempts=job.attempts,
        worker=job.worker,
    )
    held_ns = account.finished_after_ns - account.started_after_ns
    for one in [job] if job.group is None else job.group.members.values():
        one.timings = (*one.timings, timing)
        one.services[job.stage] = held_ns // job.requests


def done(batch: ModelBatch) -> bool:
    return batch.over and not batch.live


def stages_gone(job: Job) -> tuple[tuple[StageTiming, ...], dict[StageName, int]]:
    """Its usage without the stage in which it died."""
    timings = tuple(timing for timing in job.timings if timing.stage != job.stage)
    services = {stage: held for stage, held in job.services.items() if stage != job.stage}
    return timings, services


def fresh(batch: ModelBatch, requests: Sequence[NewRequest]) -> dict[int, NewRequest]:
    """The requests that do not exist yet, by index.

    Raises:
        Conflict: one exists with other content.
    """
    fresh: dict[int, NewRequest] = {}
    seen: dict[RequestId, NewRequest] = {}
    for index, request in enumerate(requests):
        there = batch.requests.get(request.request_id) or seen.get(request.request_id)
        if there is None:
            fresh[index] = seen[request.request_id] = request
            if batch.task.group_stage is not None and not request.group_id:
                raise no_group(index)
        elif there != request:
            raise other_request(request.request_id, index)
    return fresh


def admit(
    batch: ModelBatch,
    requests: Sequence[NewRequest],
    fresh: dict[int, NewRequest],
    held: Held,
    quota: Quota,
) -> None:
    """Check that the batch and the tenant have room.

    Raises:
        FailedPrecondition: the batch has no room.
        Saturated: the tenant has no room.
        TooLarge: the tenant never has so much.
    """
    spec = batch.spec
    if not batch.open:
        raise batch_closed(spec.batch_id)
    size_max = spec.size or BATCH_REQUESTS_MAX
    if len(batch.requests) + len(fresh) > size_max:
        raise batch_full(spec.batch_id)
    added: Counter[GroupId] = Counter()
    for index, request in fresh.items():
        added[request.group_id] += bool(request.group_id)
        group = batch.groups.get(request.group_id, ModelGroup())
        gathers = batch.task.group_stage is not None
        most = spec.group_size or (GROUP_JUDGED_MAX if gathers else 0)
        if 0 < most < group.submitted + added[request.group_id]:
            raise group_full(request.group_id, index)
    more_bytes = max(0, size_of(fresh.values()) - batch.bytes_reserved)
    more = max(0, len(fresh) - batch.requests_reserved)
    check_fits(quota, requests=more, payload_bytes=more_bytes, sent=len(requests))
    check_quota(held, quota, requests=more, payload_bytes=more_bytes)


def size_of(requests: Iterable[NewRequest]) -> int:
    """Their size, as quotas count it."""
    return sum(request.payload_bytes for request in requests)


def check_fits(quota: Quota, *, requests: int, payload_bytes: int, sent: int) -> None:
    """Check that a tenant may hold so much at all, if it sends `sent` requests at once.

    Raises:
        TooLarge: it may not.
    """
    if requests > quota.requests_open_max:
        raise never_fits("requests_open_max", quota.requests_open_max, sent)
    if payload_bytes > quota.bytes_open_max:
        raise never_fits("bytes_open_max", quota.bytes_open_max, sent)


def check_quota(held: Held, quota: Quota, *, requests: int, payload_bytes: int) -> None:
    """Check that the tenant may hold so much more.

    Raises:
        Saturated: it may not.
    """
    if requests and held.requests + requests > quota.requests_open_max:
        raise too_many_requests()
    if payload_bytes and held.payload_bytes + payload_bytes > quota.bytes_open_max:
        raise too_many_bytes()


def add_reward(group: ModelGroup, reward: float | None, *, replayed: bool) -> None:
    """A replayed request replaces its first end, which had no reward."""
    if replayed and None in group.rewards:
        group.rewards[group.rewards.index(None)] = reward
    else:
        group.rewards.append(reward)
    if replayed:
        group.told = False


def oldest(letters: Iterable[Job]) -> Job:
    return min(letters, key=lambda one: (one.died_ns, one.job_id))
