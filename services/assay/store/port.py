"""The store as the services see it. `store.valkey` and `testing.memory_store` pass one suite.

Promises: an acknowledged request is durable and ends in exactly one outcome; a call may be repeated
after a lost answer (submit, open, seal, cancel and finish are idempotent; a repeated claim only
leaves a lease to expire); all instants are the store's own.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from assay.core.ids import BatchId, JobId, StageName, TaskId, TenantId, WorkerId
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitness:
    """A server that is fit, and what an operator should know of it."""

    server: str
    """`valkey 9.1.0`; empty: it does not say."""
    appends: bool | None
    """It has an append-only file; `None`: it does not say."""
    appendfsync: str
    """Empty: it does not say."""
    notes: tuple[str, ...] = ()
    """Risks that the settings accept, and what could not be found out."""


Pace = Callable[[TenantId, int], Awaitable[None]]
"""Waits until so many requests of a tenant may go on."""


class Store(Protocol):
    """Every method raises `DependencyDown` when the store cannot be reached."""

    # -- tasks and batches ---------------------------------------------------------------------
    async def put_task(
        self, task: TaskRecord, quota: Quota | None = None, *, implicit: bool = False
    ) -> bool:
        """Register; False when the very same task is there. An `implicit` one is forgotten sooner.

        Raises:
            Conflict: a task of that name differs.
            Saturated: the tenant has `tasks_max`.
        """

    async def get_task(self, tenant: TenantId, task_id: TaskId) -> TaskRecord:
        """Raises NotFound."""

    async def open_batch(self, spec: BatchSpec, quota: Quota) -> tuple[BatchRecord, bool]:
        """Open, or return the batch of that name (False) when its spec agrees.

        Raises:
            NotFound: no such task.
            Conflict: a batch of that name differs in task, size or group size.
            Saturated: the tenant holds `batches_open_max`.
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
        """Take in all or none; durable on return.

        `pace` is awaited before each part of a large message becomes claimable; all of it is
        accepted before the first wait.

        Raises:
            NotFound: no such batch.
            FailedPrecondition: the batch takes no new requests, or more than its size, or a group
                more than the batch's group size. What is there already may be sent again.
            Conflict: a `request_id` is there with other content; `field` is
                `requests[i].request_id`.
            Saturated: a quota would be passed.
        """

    async def seal(self, tenant: TenantId, batch_id: BatchId) -> BatchRecord:
        """Take no more requests; idempotent."""

    async def cancel(self, tenant: TenantId, batch_id: BatchId) -> tuple[BatchRecord, int]:
        """End all that has not ended as CANCELLED; idempotent (0 the second time). Leases are lost,
        which the next `beat` tells their workers."""

    async def get_batch(self, tenant: TenantId, batch_id: BatchId) -> BatchRecord:
        """Raises NotFound."""

    async def results(
        self, tenant: TenantId, batch_id: BatchId, *, cursor: int, entries_max: int
    ) -> Sequence[LogEntry]:
        """Entries `cursor`, `cursor + 1` ... of the batch's log, without waiting."""

    def watch(self, batch_id: BatchId) -> AsyncGenerator[None, None]:
        """Yield at once, and then whenever the batch may have changed (and at least every few
        seconds); many changes may be one yield. The state is in `get_batch` and `results`."""

    async def hint(self, tenant: TenantId, task_id: TaskId, size: int) -> None:
        """Keep that a rollout phase has begun, for the planner; a later hint replaces it."""

    # -- workers -------------------------------------------------------------------------------
    async def claim(
        self, stage: StageName, *, claims_max: int, lease_s: float, worker: WorkerId
    ) -> Sequence[Claim]:
        """Lease up to `claims_max` requests, as `core.ordering` says: each next one of the tenant
        with the smallest virtual time; of a tenant's, earliest batch deadline first (unless
        `prioritize` said otherwise), then arrival."""

    async def beat(
        self, stage: StageName, *, lease_s: float, leases: Sequence[Lease]
    ) -> Sequence[Lease]:
        """Renew; return those that are lost (expired, redelivered or cancelled)."""

    async def finish(
        self, stage: StageName, reports: Sequence[Report], attempts_max: int
    ) -> Finished:
        """Report claims' ends. A stale lease changes nothing. An attempt that failed is delivered
        again in its old place; the `attempts_max`-th ends as INFRA_FAILED, a dead letter. A report
        that took effect is STALE when it is said again after a lost answer."""

    async def reap(self, stage: StageName, *, attempts_max: int, jobs_max: int) -> Reaped:
        """Take back expired leases (as failed attempts), end requests of batches that are long past
        their deadline as EXPIRED; bounded by `jobs_max`."""

    async def wait_for_work(
        self, stages: Sequence[StageName], *, timeout_s: float
    ) -> StageName | None:
        """Sleep until one of `stages` may have work (`None` at the time-out); wakes one sleeper."""

    # -- operators -----------------------------------------------------------------------------
    async def depths(self, stages: Sequence[StageName]) -> Sequence[StageDepth]: ...

    async def batches(self, *, batches_max: int) -> Sequence[BatchRecord]:
        """Batches of all tenants that are not over, earliest deadline first."""

    async def dead_letters(
        self, *, stage: StageName | None = None, letters_max: int
    ) -> Sequence[DeadLetter]: ...

    async def replay(self, job_id: JobId) -> bool:
        """Put a dead letter back in its queue with fresh attempts; its batch gets a second, final
        log entry for it, and its group too. A batch that is over stays over; it is kept until the
        request has ended again. False when there is no such letter, or its batch was cancelled or
        is kept no longer."""

    async def history(
        self, tenant: TenantId, task_id: TaskId, *, batches_max: int
    ) -> Sequence[BatchHistory]:
        """The last finished batches, newest first, the settings' `history_batches` at most. It
        outlives restarts, and its task as long as that is registered; batches differ in size."""

    # -- planners ------------------------------------------------------------------------------
    async def open_work(self, *, batches_max: int, requests_max: int) -> Sequence[OpenWork]:
        """The `batches_max` batches that are not over and have the earliest deadlines, in that
        order, with their requests that have not ended.

        It is read in pieces, so that the store is never held up for long, and each piece is as of
        its own instant: a request that ends meanwhile may be there or not, one that comes or moves
        on meanwhile is seen before or after that, none is there twice. The counters and
        `ended_natural_ns` of a batch are taken after its requests, so a request that is missing
        here is in them. A dead letter replayed into a batch that is over is not seen here (but in
        `depths`).

        Raises:
            Saturated: more than `requests_max` requests have not ended.
        """

    async def tasks(self, *, tasks_max: int) -> Sequence[TaskRecord]:
        """Registered tasks of all tenants, the last used (registered, or a batch opened or
        completed) first. The store lists some thousands; a task that was not used for a month is
        registered no longer."""

    async def hints(self) -> Sequence[HintRecord]:
        """Hints that no batch of their task opened after, oldest first; each is kept as long as
        results are."""

    async def lead(self, planner: str, *, lease_s: float) -> Leadership:
        """Take the lead where nobody has it, renew it where `planner` has it, and say who has it.
        `planner` must be unique to its process. Repeated after a lost answer it renews."""

    async def resign(self, planner: str) -> None:
        """Give the lead up, if `planner` has it, and wake the planners that stand by."""

    def watch_planning(self) -> AsyncGenerator[None, None]:
        """Yield at once, and then whenever planners should look again: a batch opened, got its
        first request, ended or was cancelled; a hint came; a dead letter was replayed; the leader
        resigned. Not for each result, and not as time passes. Many events may be one yield, and a
        lost connection is one too, once the store is back. Every watcher sees every event."""

    async def mark_at_risk(
        self, tenant: TenantId, batch_id: BatchId, *, at_risk: bool = True
    ) -> None:
        """Set the batch's `deadline_at_risk`, or take it back. A batch that is over keeps the last
        word said before.

        Raises:
            NotFound: no such batch.
        """

    async def prioritize(self, tenant: TenantId, batch_id: BatchId, deadline_ns: int) -> None:
        """Order the batch's requests that join a queue from now on (submitted, handed over or
        delivered again) among its tenant's as if its deadline were that; 0 = by its own again. The
        deadline that is announced stays; requests that wait already keep their places.

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
        """Oldest first. Raises NotFound."""

    # -- artifacts -----------------------------------------------------------------------------
    async def artifact_get(self, key: str) -> bytes | None: ...

    async def artifact_begin(self, key: str, *, lease_s: float) -> bool:
        """True: the caller makes it. False: somebody does, wait."""

    async def artifact_put(self, key: str, content: bytes) -> None:
        """Keep (bounded in size and time) and wake those who wait.

        Raises:
            TooLarge: it is not kept; those who wait are told that the making was abandoned.
        """

    async def artifact_abandon(self, key: str) -> None:
        """The making failed: let another one begin."""

    async def artifact_wait(self, key: str, *, timeout_s: float) -> bytes | None:
        """Wait for `artifact_put`; `None` at the time-out, or when nobody makes it any more."""

    # -- life cycle ----------------------------------------------------------------------------
    async def check(self) -> Fitness:
        """Tell whether the server is fit to keep acknowledged work.

        Raises:
            FailedPrecondition: it is not; names the setting and the remedy.
            DependencyDown: it cannot be reached now, or cannot serve yet.
        """

    async def ping(self) -> float:
        """Round trip in seconds.

        Raises:
            DependencyDown: it cannot be reached, or is not fit any more.
        """

    async def close(self) -> None: ...
