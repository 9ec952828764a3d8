"""The store interface of the services. `store.valkey` and `testing.memory_store` pass one suite.

Guarantees: an acknowledged request is durable and ends in exactly one outcome; a call may be
repeated after a lost reply (submit, open, seal, cancel and finish are idempotent; a repeated claim
only leaves a lease to expire); all instants are from the store's own clock.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Protocol

from assay.core.hosts.record import HostRecord
from assay.core.ids import (
    BatchId,
    GroupId,
    JobId,
    RequestId,
    StageName,
    TaskId,
    TenantId,
    WorkerId,
)
from assay.core.records import (
    BatchHistory,
    BatchRecord,
    BatchSpec,
    Claim,
    DeadLetter,
    HintRecord,
    Leadership,
    Lease,
    LogEntry,
    NewRequest,
    OpenWork,
    Quota,
    StageDepth,
    Submitted,
    TaskRecord,
)
from assay.core.records import Finished as Finished
from assay.core.records import Reaped as Reaped
from assay.core.records import Report as Report
from assay.core.store_limits import Fitness

Pace = Callable[[TenantId, int], Awaitable[None]]
"""Waits until the given number of a tenant's requests may continue."""


class WorkerStore(Protocol):
    """What a worker host needs; `edge.work.store` has it by gRPC, without access to the store.

    Every method raises `DependencyDown` when the store cannot be reached.
    """

    # -- workers -------------------------------------------------------------------------------
    async def claim(
        self,
        stage: StageName,
        *,
        claims_max: int,
        lease_s: float,
        worker: WorkerId,
        left_out: Collection[TenantId] = (),
    ) -> Sequence[Claim]:
        """Lease up to `claims_max` requests in the order of `core.ordering`: each from the tenant
        with the smallest virtual time; within a tenant, earliest batch deadline first (unless
        `prioritize` changed it), then arrival. If more waits, another caller of `wait_for_work` is
        woken: with `claims_max` 0, one that has no room passes that on. Requests of tenants that
        are `left_out` stay, earn their tenant no credit, and wake no one: `reap` does."""

    async def beat(
        self, stage: StageName, *, lease_s: float, leases: Sequence[Lease]
    ) -> Sequence[Lease]:
        """Renew leases; return those that are lost (expired, redelivered or cancelled, or held for
        `store.held_s_max`)."""

    async def finish(
        self, stage: StageName, reports: Sequence[Report], attempts_max: int
    ) -> Finished:
        """Report the ends of claims. A stale lease changes nothing. A failed attempt is delivered
        again in its old place; the `attempts_max`-th ends as INFRA_FAILED, a dead letter. A report
        that took effect is STALE when it is repeated after a lost reply."""

    async def give_back_undelivered(
        self, stage: StageName, *, worker: WorkerId, leases: Sequence[Lease]
    ) -> int:
        """Give back, without an attempt, what the worker's latest claims of the stage leased and
        it does not hold: an answer was lost, so none of that has begun. To be called while it has
        no claim of the stage in flight.

        Args:
            stage: of the claims.
            worker: it itself.
            leases: that it holds of the stage, or the `HELD_NAMED_MAX` of the largest fences.

        Returns:
            How many requests, or groups of them.
        """

    async def reap(self, stage: StageName, *, attempts_max: int, jobs_max: int) -> Reaped:
        """Take back expired leases (as failed attempts) and end requests of batches that are long
        past their deadline as EXPIRED; bounded by `jobs_max`."""

    async def wait_for_work(
        self, stages: Sequence[StageName], *, timeout_s: float
    ) -> StageName | None:
        """Wait until one of `stages` may have work (`None` on timeout); wakes one waiter."""

    async def depths(self, stages: Sequence[StageName]) -> Sequence[StageDepth]: ...

    # -- hosts ---------------------------------------------------------------------------------
    async def put_host(self, host: HostRecord, *, lease_s: float, owner: str = "") -> bool:
        """Keep the record of a worker host for `lease_s`, or renew it; True: it is new, and
        planners are woken. `owner`: whose host it is, where its kind of caller may be hostile.

        Raises:
            InvalidRequest: the record is out of its limits.
            Saturated: `store.hosts_max` are kept, or `HOSTS_PER_OWNER_MAX` of this owner.
        """

    async def drop_host(self, worker: WorkerId) -> None:
        """Forget a host that stops, and wake planners; its leases stay. Idempotent."""

    async def take_back(self, stage: StageName, worker: WorkerId, *, attempts_max: int) -> Reaped:
        """Take back the leases of a worker host that is known to be dead, as failed attempts,
        before they run out. Should it live after all, its reports are stale. Idempotent; it takes
        time in proportion to the leases of the stage."""

    # -- artifacts -----------------------------------------------------------------------------
    async def artifact_get(self, key: str) -> bytes | None: ...

    async def artifact_begin(self, key: str, *, lease_s: float) -> bool:
        """True: the caller makes it. False: another worker does; wait."""

    async def artifact_put(self, key: str, content: bytes) -> None:
        """Store it (bounded in size and time) and wake the waiters.

        Raises:
            TooLarge: it is not kept; the waiters see the making as abandoned.
        """

    async def artifact_abandon(self, key: str) -> None:
        """The making failed: let another worker start."""

    async def artifact_wait(self, key: str, *, timeout_s: float) -> bytes | None:
        """Wait for `artifact_put`; `None` on timeout, or when no one makes it any more."""

    # -- rate limits ---------------------------------------------------------------------------
    async def permit(
        self, tenant: TenantId, provider: str, limits: Mapping[str, tuple[int, int]]
    ) -> float:
        """Take leave for one call of a provider; returns 0, or the seconds to wait (then nothing is
        taken). `limits`: kind -> cost of the call and allowance per minute (0 = any number)."""

    # -- life cycle ----------------------------------------------------------------------------
    async def check(self) -> Fitness:
        """Check whether the server is fit to keep acknowledged work.

        Raises:
            FailedPrecondition: it is not; names the setting and the remedy.
            DependencyDown: it cannot be reached now, or cannot serve yet.
        """

    async def ping(self) -> float:
        """Return the round trip in seconds.

        Raises:
            DependencyDown: it cannot be reached, or is no longer fit.
        """

    async def close(self) -> None: ...


class Store(WorkerStore, Protocol):
    """Every method raises `DependencyDown` when the store cannot be reached."""

    async def round_trip(self) -> float:
        """Return the round trip in seconds. Unlike `ping` it writes nothing, so it does not wait
        for the server's disk, and a store that is unfit answers too."""

    # -- tasks and batches ---------------------------------------------------------------------
    async def put_task(
        self, task: TaskRecord, quota: Quota | None = None, *, replaces: TaskRecord | None = None
    ) -> bool:
        """Register; returns False if the same task exists, or `replaces`, whose place it takes.

        Raises:
            Conflict: a task of that name differs.
            Saturated: the tenant has `tasks_max`.
        """

    async def get_task(self, tenant: TenantId, task_id: TaskId) -> TaskRecord:
        """The record of a task. Raises NotFound."""

    async def open_batch(
        self, spec: BatchSpec, quota: Quota, *, implicit: TaskRecord | None = None
    ) -> tuple[BatchRecord, bool]:
        """Open a batch, or return the one of that name (and False) if its spec agrees.

        A task that is not there yet and comes as `implicit` is registered with the batch, or, if
        the batch is refused, not at all.

        Raises:
            NotFound: no such task.
            Conflict: a batch of that name differs in task, size or group size.
            Saturated: a quota would be exceeded: `batches_open_max`, that of what the batch
                reserves, or with `implicit` `tasks_max`.
            TooLarge: the batch reserves more than a whole quota.
        """

    async def submit(
        self,
        tenant: TenantId,
        batch_id: BatchId,
        requests: Sequence[NewRequest],
        quota: Quota,
        *,
        pace: Pace | None = None,
    ) -> Submitted:
        """Accept all requests or none; durable on return.

        `pace` is awaited before each part of a large message becomes claimable; all of it is
        accepted before the first wait.

        Raises:
            NotFound: no such batch.
            FailedPrecondition: the batch accepts no new requests, or more than its size, or a group
                more than the batch's group size. Requests that it already has may be sent again.
            Conflict: a `request_id` exists with other content; `field` is `requests[i].request_id`.
            Saturated: a quota would be exceeded.
            TooLarge: the requests are more than a whole quota.
        """

    async def open_filled(
        self,
        spec: BatchSpec,
        requests: Sequence[NewRequest],
        quota: Quota,
        *,
        implicit: TaskRecord | None = None,
    ) -> Submitted:
        """`open_batch` and `submit` of all requests, or neither. It is one step of the server, in
        proportion to the requests: for few of them. A batch that is new does not wake its watchers.

        Raises:
            what `open_batch` and `submit` raise; a batch that was not there is not there then.
        """

    async def seal(self, tenant: TenantId, batch_id: BatchId) -> BatchRecord:
        """Accept no more requests; idempotent."""

    async def cancel(self, tenant: TenantId, batch_id: BatchId) -> tuple[BatchRecord, int]:
        """End all requests that have not ended as CANCELLED; idempotent (0 the second time). Their
        leases are lost, which the next `beat` reports to the workers."""

    async def cancel_requests(
        self,
        tenant: TenantId,
        batch_id: BatchId,
        *,
        request_ids: Sequence[RequestId],
        group_ids: Sequence[GroupId],
    ) -> tuple[BatchRecord, int]:
        """End as CANCELLED the requests with these ids, or of these groups, that have not ended;
        return how many. Ids that the batch does not have are ignored; idempotent. The batch stays
        as it is, and is complete when it is sealed and its other requests have ended. It takes time
        in proportion to the batch's requests that have not ended: name many at once."""

    async def get_batch(self, tenant: TenantId, batch_id: BatchId) -> BatchRecord:
        """The state of a batch. Raises NotFound."""

    async def results(
        self, tenant: TenantId, batch_id: BatchId, *, cursor: int, entries_max: int
    ) -> Sequence[LogEntry]:
        """Entries from `cursor` on of the batch's log, without waiting."""

    def watch(self, batch_id: BatchId) -> AsyncGenerator[None, None]:
        """Yield at once, and then whenever the batch may have changed (and at least every few
        seconds); several changes may give one yield. `get_batch` and `results` return the state."""

    async def hint(self, tenant: TenantId, task_id: TaskId, size: int) -> None:
        """Store that a rollout phase has begun, for the planner; a later hint replaces it."""

    # -- operators -----------------------------------------------------------------------------
    async def batches(self, *, batches_max: int) -> Sequence[BatchRecord]:
        """Batches of all tenants that are not complete, earliest deadline first."""

    async def dead_letters(
        self, *, stage: StageName | None = None, letters_max: int
    ) -> Sequence[DeadLetter]: ...

    async def replay(self, job_id: JobId) -> bool:
        """Put a dead letter back in its queue with fresh attempts; its batch gets a second, final
        log entry for it, and its group too. A completed batch stays complete; it is kept until the
        request has ended again. Returns False if there is no such letter, or its batch was
        cancelled or is no longer kept."""

    async def history(
        self, tenant: TenantId, task_id: TaskId, *, batches_max: int
    ) -> Sequence[BatchHistory]:
        """The last finished batches, newest first, at most `history_batches` of the settings. It
        survives restarts, and lasts as long as its task is registered; batches differ in size."""

    async def natural_spans_ns(self, tenant: TenantId, task_id: TaskId) -> Sequence[int]:
        """T of the last `NATURAL_SPANS_KEPT` completed batches that had requests, in no particular
        order: nanoseconds from the opening to the last `t_i`. A few bytes, whatever their size."""

    # -- planners ------------------------------------------------------------------------------
    async def hosts(self) -> Sequence[HostRecord]:
        """The worker hosts whose records have not run out, at most `store.hosts_max`."""

    async def ended_by(
        self, workers: Sequence[WorkerId]
    ) -> Mapping[WorkerId, Mapping[StageName, int]]:
        """How many requests (or groups) worker hosts judged, by stage: reports that took effect,
        without failed attempts. A count begins again at 0 after a day."""

    async def open_work(self, *, batches_max: int, requests_max: int) -> Sequence[OpenWork]:
        """The `batches_max` open batches with the earliest deadlines, in that order, with their
        requests that have not ended.

        It is read in pieces, so that the store is never blocked for long, and each piece has its
        own instant: a request that ends meanwhile may be included or not, one that arrives or moves
        on meanwhile is seen before or after that, none is included twice. The counters and
        `ended_natural_ns` of a batch are read after its requests, so they include a request that is
        missing here. A dead letter replayed into a completed batch is not included (but is counted
        in `depths`).

        Raises:
            Saturated: more than `requests_max` requests have not ended.
        """

    async def tasks(self, *, tasks_max: int) -> Sequence[TaskRecord]:
        """Registered tasks of all tenants, the last used (registered, or a batch opened or
        completed) first. The store lists some thousands; a task that was not used for a month is no
        longer registered."""

    async def hints(self) -> Sequence[HintRecord]:
        """Hints without a later batch of their task, oldest first; each is kept as long as
        results."""

    async def lead(self, planner: str, *, lease_s: float) -> Leadership:
        """Take the lead if no planner has it, renew it if `planner` has it, and return the leader.
        `planner` must be unique to its process. Repeated after a lost reply it renews."""

    async def resign(self, planner: str) -> None:
        """Give up the lead, if `planner` has it, and wake the standby planners."""

    def watch_planning(self) -> AsyncGenerator[None, None]:
        """Yield at once, and then whenever planners should look again: a batch opened, got its
        first request, ended or was cancelled; a hint arrived; a dead letter was replayed; the
        leader resigned. Not for each result, and not as time passes. Several events may give one
        yield, and so does a lost connection once the store is back. Every watcher sees every
        event."""

    async def mark_at_risk(
        self, tenant: TenantId, batch_id: BatchId, *, at_risk: bool = True
    ) -> None:
        """Set or clear the batch's `deadline_at_risk`. No effect once the batch is complete.

        Raises:
            NotFound: no such batch.
        """

    async def prioritize(self, tenant: TenantId, batch_id: BatchId, deadline_ns: int) -> None:
        """Order the batch's requests that join a queue from now on (submitted, handed over or
        delivered again) among its tenant's as if this were its deadline; 0 = by its own again. The
        announced deadline does not change; requests that already wait keep their places.

        Raises:
            NotFound: no such batch.
        """

    async def put_plan(self, tenant: TenantId, batch_id: BatchId, body: bytes) -> None:
        """Add a plan to the batch's record, kept as long as its results. The first and the last
        `assay.core.store_limits.PLANS_MAX - 1` stay.

        Raises:
            NotFound: no such batch.
            TooLarge: it is over `assay.core.store_limits.PLAN_BYTES_MAX`.
        """

    async def plans(self, tenant: TenantId, batch_id: BatchId) -> Sequence[bytes]:
        """The kept plans of a batch, oldest first. Raises NotFound."""

    # -- uploads -------------------------------------------------------------------------------
    async def upload_put(self, tenant: TenantId, sha256: str, content: bytes, quota: Quota) -> int:
        """Keep a file of the tenant; putting it again keeps it longer. Returns until when.

        Raises:
            Saturated: the tenant has `uploads_bytes_max`.
            TooLarge: the file is larger than that.
        """

    async def upload_get(self, tenant: TenantId, sha256: str) -> bytes | None:
        """Return the tenant's file of that hash; `None`: it has none."""
