"""The store's behaviour as a pure model: plain data, and the time as an argument.

It is the simulator's queue and the reference for the Valkey scripts. Invariants:

* every accepted request ends in exactly one result in its batch's log (two, when an operator
  replays a dead letter), and `submitted = ended + queued + running` for every batch;
* the queue of a stage is served as `ordering` says: tenants by their virtual times, a tenant's
  requests by `order_key`; a request that is delivered again takes its old place (unless its batch
  was prioritized meanwhile) and is not charged again;
* only the holder of the newest fence may report.

Each call records its changes in `changed` (batches), `work` (stages) and `planning` (planners
should look again) for the caller to collect.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from typing import assert_never

from assay.core.fair_queue import FairQueue, Price
from assay.core.ids import (
    BatchId,
    GroupId,
    JobId,
    RequestId,
    StageName,
    TenantId,
    WorkerId,
)
from assay.core.ordering import Costs, advance_us, cost_us
from assay.core.outcome import Outcome
from assay.core.records import (
    BatchRecord,
    BatchSpec,
    BatchState,
    Claim,
    CompletedBatch,
    DeadLetter,
    EndRequest,
    FailAttempt,
    Finished,
    FinishStatus,
    GiveBack,
    GroupRecord,
    HandOver,
    Lease,
    LogEntry,
    NewRequest,
    OpenWork,
    Quota,
    Reaped,
    Report,
    RequestHistory,
    ResultRecord,
    StageDepth,
    StageReport,
    StageTiming,
    Submitted,
    TaskRecord,
)
from assay.core.store_limits import (
    LEASE_RAN_OUT,
    PLANS_MAX,
    check_plan,
    no_batch,
    other_batch,
    too_many_batches,
    too_much_open_work,
)
from assay.testing.queue_records import (
    Batch,
    BatchKey,
    Group,
    Held,
    Job,
    add_reward,
    admit,
    check_quota,
    done,
    leaves_stage,
    oldest,
    size_of,
    stages_gone,
    waits,
)
from assay.testing.queue_records import QueueLimits as QueueLimits
from assay.testing.queue_records import fresh as fresh_of
from assay.testing.queue_tasks import PlannerLead, TaskBook

BATCHES_A_SWEEP_MAX = 8


class QueueModel:
    """All operations of the store on requests and batches, synchronous and without a clock."""

    def __init__(self, limits: QueueLimits | None = None) -> None:
        self.changed: set[BatchId] = set()
        self.work: set[StageName] = set()
        self.planning = False
        self._limits = limits or QueueLimits()
        self.book = TaskBook(
            hints_kept_ns=self._limits.results_kept_ns,
            history_batches=self._limits.history_batches,
        )
        self.lead = PlannerLead()
        self._batches: dict[BatchKey, Batch] = {}
        self._over: dict[BatchKey, Batch] = {}  # in the order in which they expire
        self._held: dict[TenantId, Held] = defaultdict(Held)
        self._jobs: dict[JobId, Job] = {}
        self._queues: dict[StageName, FairQueue[TenantId, Job]] = defaultdict(
            lambda: FairQueue(waits)
        )
        self._costs: dict[StageName, Costs[TenantId]] = defaultdict(Costs)
        self._leases: dict[StageName, dict[JobId, Job]] = defaultdict(dict)
        self._letters: dict[StageName, dict[JobId, Job]] = defaultdict(dict)
        self._sequence = 0
        self._fence = 0
        self._joining: list[Job] = []
        self._touched: dict[BatchKey, tuple[Batch, dict[GroupId, None]]] = {}
        self._completed: list[CompletedBatch] = []

    # -- tasks and batches ---------------------------------------------------------------------

    def open_batch(
        self,
        spec: BatchSpec,
        quota: Quota,
        now_ns: int,
        *,
        implicit: TaskRecord | None = None,
    ) -> tuple[BatchRecord, bool]:
        """See `Store.open_batch`."""
        self._forget(now_ns)
        there = self._batches.get((spec.tenant, spec.batch_id))
        if there is not None:
            own = there.spec
            if (spec.task_id, spec.size, spec.group_size) != (
                *(own.task_id, own.size, own.group_size),
            ):
                raise other_batch(spec.batch_id)
            return there.record(), False
        if implicit is None:
            self.book.get_task(spec.tenant, spec.task_id)
        held = self._held[spec.tenant]
        if held.batches >= quota.batches_open_max:
            raise too_many_batches(quota)
        check_quota(held, quota, requests=spec.requests_reserved, payload_bytes=spec.bytes_reserved)
        if implicit is not None:  # it changes nothing if it refuses, and nothing refuses after it
            self.book.put_task(implicit, quota)
        task = self.book.get_task(spec.tenant, spec.task_id)
        held.batches += 1
        held.requests += spec.requests_reserved
        held.payload_bytes += spec.bytes_reserved
        deadline_ns = now_ns + spec.deadline_after_ms * 1_000_000
        batch = Batch(
            spec=spec,
            task=task,
            number=self.book.batch_opens((spec.tenant, spec.task_id)),
            opened_ns=now_ns,
            deadline_ns=deadline_ns,
            overdue_ns=deadline_ns + self._limits.batch_overdue_ns,
            results_kept_max=quota.results_kept_max,
            requests_reserved=spec.requests_reserved,
            bytes_reserved=spec.bytes_reserved,
        )
        self._batches[batch.key] = batch
        self.planning = True
        return batch.record(), True

    def submit(
        self,
        tenant: TenantId,
        batch_id: BatchId,
        requests: Sequence[NewRequest],
        quota: Quota,
        now_ns: int,
    ) -> Submitted:
        """See `Store.submit`."""
        batch = self._batch(tenant, batch_id, now_ns)
        fresh = fresh_of(batch, requests)
        if fresh:
            admit(batch, requests, fresh, self._held[tenant], quota)
            self._take_quota(batch, fresh.values())
            self.planning |= not batch.requests
        for request in fresh.values():
            self._take_in(batch, request, now_ns)
        self._join()
        if fresh and len(batch.requests) == batch.spec.size:
            self._seal(batch, now_ns)
        return Submitted(
            accepted=len(fresh),
            duplicates=len(requests) - len(fresh),
            sealed=not batch.open,
        )

    def _take_in(self, batch: Batch, request: NewRequest, now_ns: int) -> None:
        self._sequence += 1
        job = Job(
            job_id=JobId(f"{self._sequence:016d}"),
            batch=batch,
            request=request,
            stage=batch.task.stages[0],
            arrived_ns=now_ns,
            enqueued_ns=now_ns,
        )
        batch.requests[request.request_id] = request
        batch.live[job.job_id] = job
        if request.group_id:
            batch.groups.setdefault(request.group_id, Group()).submitted += 1
        self._jobs[job.job_id] = job
        self._enqueue(job)

    def _take_quota(self, batch: Batch, fresh: Collection[NewRequest]) -> None:
        """First what the batch has reserved, then the tenant's."""
        held, count, size = self._held[batch.spec.tenant], len(fresh), size_of(fresh)
        held.requests += count - min(count, batch.requests_reserved)
        held.payload_bytes += size - min(size, batch.bytes_reserved)
        batch.requests_reserved -= min(count, batch.requests_reserved)
        batch.bytes_reserved -= min(size, batch.bytes_reserved)

    def seal(self, tenant: TenantId, batch_id: BatchId, now_ns: int) -> BatchRecord:
        """See `Store.seal`."""
        batch = self._batch(tenant, batch_id, now_ns)
        if not batch.over:
            self._seal(batch, now_ns)
        self._take_completed()
        return batch.record()

    def _seal(self, batch: Batch, now_ns: int) -> None:
        batch.state = BatchState.SEALED
        self.changed.add(batch.spec.batch_id)
        self._tell_waiting(batch)
        self._finish_if_done(batch, now_ns)

    def _tell_waiting(self, batch: Batch) -> None:
        for group_id in sorted(batch.groups):
            self._tell_if_all_ended(batch, group_id)

    def cancel(self, tenant: TenantId, batch_id: BatchId, now_ns: int) -> tuple[BatchRecord, int]:
        """See `Store.cancel`."""
        batch = self._batch(tenant, batch_id, now_ns)
        ended = 0
        if not batch.over:
            ended = self._close(batch, Outcome.CANCELLED, now_ns)
            self._write_touched(now_ns)
            if not batch.over:
                self._seal(batch, now_ns)
        self._take_completed()
        return batch.record(), ended

    def _close(
        self, batch: Batch, outcome: Outcome, now_ns: int, jobs_max: int | None = None
    ) -> int:
        """End the requests that have not ended."""
        batch.closing = outcome
        if not batch.over:
            batch.state = BatchState.SEALED
        jobs = [batch.live[job_id] for job_id in sorted(batch.live)[:jobs_max]]
        self._cancel_jobs(jobs, outcome, now_ns)
        return len(jobs)

    def cancel_requests(
        self,
        tenant: TenantId,
        batch_id: BatchId,
        request_ids: Sequence[RequestId],
        group_ids: Sequence[GroupId],
        now_ns: int,
    ) -> tuple[BatchRecord, int]:
        """See `Store.cancel_requests`."""
        batch = self._batch(tenant, batch_id, now_ns)
        chosen: list[Job] = []
        if not batch.over and batch.closing is None:
            for _, job in sorted(batch.live.items()):
                request = job.request
                if request.request_id in request_ids or request.group_id in group_ids:
                    chosen.append(job)
        self._cancel_jobs(chosen, Outcome.CANCELLED, now_ns)
        self._write_touched(now_ns)
        self._take_completed()
        return batch.record(), len(chosen)

    def _cancel_jobs(self, jobs: Sequence[Job], outcome: Outcome, now_ns: int) -> None:
        for job in jobs:
            self._withdraw(job, now_ns)
            self._end(job, EndRequest(outcome=outcome, reward=None, body=b""))
            del self._jobs[job.job_id]

    def get_batch(self, tenant: TenantId, batch_id: BatchId, now_ns: int) -> BatchRecord:
        """See `Store.get_batch`."""
        return self._batch(tenant, batch_id, now_ns).record()

    def results(
        self, tenant: TenantId, batch_id: BatchId, *, cursor: int, entries_max: int, now_ns: int
    ) -> Sequence[LogEntry]:
        """See `Store.results`."""
        return self._batch(tenant, batch_id, now_ns).log[cursor : cursor + entries_max]

    def _batch(self, tenant: TenantId, batch_id: BatchId, now_ns: int) -> Batch:
        self._forget(now_ns)
        try:
            return self._batches[tenant, batch_id]
        except KeyError:
            raise no_batch(batch_id) from None

    def _forget(self, now_ns: int) -> None:
        """Drop the batches whose results have expired, and their dead letters."""
        while self._over:
            batch = next(iter(self._over.values()))
            if batch.gone_ns > now_ns:
                return
            self._drop_batch(batch)

    # -- workers -------------------------------------------------------------------------------

    def claim(
        self, stage: StageName, *, claims_max: int, lease_ns: int, worker: WorkerId, now_ns: int
    ) -> Sequence[Claim]:
        """See `Store.claim`."""
        queue = self._queues[stage]
        claims: list[Claim] = []
        while queue and len(claims) < claims_max:
            job, charged = queue.pop(self._price)
            if charged is not None:
                job.charged = charged
            claims.append(self._lease(job, now_ns, now_ns + lease_ns, worker))
        self.work.discard(stage)
        if queue:
            self.work.add(stage)
        return claims

    def _price(self, job: Job) -> Price | None:
        """`None` if it was already charged for this stage."""
        if self._queues[job.stage].shares.charged(job.charged, job.fence):
            return None
        tenant, weight = job.batch.spec.tenant, job.batch.spec.weight
        return Price(self._costs[job.stage].expected_us(tenant), weight)

    def _lease(self, job: Job, now_ns: int, expires_ns: int, worker: WorkerId) -> Claim:
        # The clock is the floor, so that a store that lost its last writes never repeats a fence.
        self._fence = max(self._fence, now_ns // 1_000) + 1
        job.state, job.fence, job.worker = "leased", self._fence, worker
        job.attempts += 1
        job.claims += 1
        job.claimed_ns, job.expires_ns = now_ns, expires_ns
        job.batch.running += 1
        self._leases[job.stage][job.job_id] = job
        return Claim(
            lease=Lease(job_id=job.job_id, fence=job.fence),
            stage=job.stage,
            task=job.batch.task,
            batch_id=job.batch.spec.batch_id,
            request_id=job.request.request_id,
            group_id=job.request.group_id,
            attempt=job.attempts,
            response=job.request.response,
            reference=job.request.reference,
            handover=job.handover,
            enqueued_ns=job.enqueued_ns,
            claimed_ns=now_ns,
            deadline_ns=job.batch.deadline_ns,
        )

    def _held_by(self, stage: StageName, lease: Lease) -> Job | None:
        job = self._leases[stage].get(lease.job_id)
        return job if job is not None and job.fence == lease.fence else None

    def beat(
        self, stage: StageName, *, lease_ns: int, leases: Sequence[Lease], now_ns: int
    ) -> Sequence[Lease]:
        """See `Store.beat`. An expired lease that has not been reaped yet is renewed."""
        lost: list[Lease] = []
        for lease in leases:
            job = self._held_by(stage, lease)
            if job is None:
                lost.append(lease)
            else:
                job.expires_ns = now_ns + lease_ns
        return lost

    def finish(
        self, stage: StageName, reports: Sequence[Report], attempts_max: int, now_ns: int
    ) -> Finished:
        """See `Store.finish`."""
        statuses: list[FinishStatus] = []
        served: dict[TenantId, list[int]] = defaultdict(list)
        corrections: Counter[TenantId] = Counter()
        for report in reports:
            job = self._held_by(stage, report.lease)
            if job is None:
                statuses.append(FinishStatus.STALE)
                continue
            self._release(job)
            if leaves_stage(job, report, attempts_max):
                account, tenant = report.report, job.batch.spec.tenant
                cost = cost_us(account.finished_after_ns - account.started_after_ns)
                served[tenant].append(cost)
                corrections[tenant] += self._correction_us(job, cost)
            self._act(job, report, attempts_max, now_ns)
            statuses.append(FinishStatus.DONE)
        for tenant, costs_us in served.items():
            self._costs[stage].learn(tenant, sum(costs_us), len(costs_us))
            self._queues[stage].shares.correct(tenant, corrections[tenant])
        self._write_touched(now_ns)
        return Finished(statuses=tuple(statuses), completed=self._take_completed())

    def _act(self, job: Job, report: Report, attempts_max: int, now_ns: int) -> None:
        finish = report.finish
        match finish:
            case EndRequest():
                self._leave_stage(job, report.report, now_ns)
                self._end(job, finish)
                del self._jobs[job.job_id]
            case HandOver():
                self._leave_stage(job, report.report, now_ns)
                job.stage, job.handover = finish.next_stage, finish.handover
                job.attempts, job.enqueued_ns, job.error = 0, now_ns, ""
                job.charged = 0
                self._enqueue(job)
            case FailAttempt() if job.attempts < attempts_max:
                job.error = finish.error
                self._enqueue(job)
            case FailAttempt():
                self._leave_stage(job, report.report, now_ns)
                self._bury(job, finish.error, now_ns)
            case GiveBack():
                job.attempts -= 1
                job.claims -= 1
                self._enqueue(job)
            case _:
                assert_never(finish)

    def reap(self, stage: StageName, *, attempts_max: int, jobs_max: int, now_ns: int) -> Reaped:
        """See `Store.reap`."""
        leases = self._leases[stage].values()
        lost = sorted(
            (job for job in leases if job.expires_ns <= now_ns),
            key=lambda job: (job.expires_ns, job.job_id),
        )[:jobs_max]
        dead = 0
        for job in lost:
            self._release(job)
            if job.attempts < attempts_max:
                job.error = LEASE_RAN_OUT
                self._enqueue(job)
            else:
                held = StageReport(
                    worker=job.worker,
                    started_after_ns=0,
                    finished_after_ns=now_ns - job.claimed_ns,
                )
                self._leave_stage(job, held, now_ns)
                job.services[job.stage] = 0
                self._bury(job, LEASE_RAN_OUT, now_ns)
                dead += 1
        self._write_touched(now_ns)
        overdue = self._overdue(now_ns)
        expired = 0
        for batch in overdue:
            outcome = batch.closing or Outcome.EXPIRED
            expired += self._close(batch, outcome, now_ns, jobs_max - expired)
        self._write_touched(now_ns)
        for batch in overdue:
            if not batch.over:
                self._seal(batch, now_ns)
        self._forget(now_ns)
        if self._queues[stage]:
            self.work.add(stage)
        return Reaped(
            redelivered=len(lost) - dead,
            dead=dead,
            expired=expired,
            completed=self._take_completed(),
        )

    def _overdue(self, now_ns: int) -> Sequence[Batch]:
        return sorted(
            (b for b in self._batches.values() if b.overdue_ns <= now_ns and not done(b)),
            key=lambda b: (b.overdue_ns, b.key),
        )[:BATCHES_A_SWEEP_MAX]

    # -- life cycle of a request ---------------------------------------------------------------

    def _enqueue(self, job: Job) -> None:
        """Put it into its queue at the end of the call, after the virtual times are corrected."""
        job.state = "queued"
        self._joining.append(job)

    def _join(self) -> None:
        for job in self._joining:
            tenant = job.batch.spec.tenant
            self._queues[job.stage].push(tenant, job.key, job, claims=self._fence)
            self.work.add(job.stage)
        self._joining.clear()

    def _withdraw(self, job: Job, now_ns: int) -> None:
        """Remove it from its queue or from a worker; worker time counts by the second if that is
        more than it was charged."""
        if job.state == "queued":
            job.state = "ended"
            self._queues[job.stage].drop(job.batch.spec.tenant)
            return
        held_us = (now_ns - job.claimed_ns) // 1_000_000_000 * 1_000_000
        more_us = max(self._correction_us(job, held_us), 0)
        self._queues[job.stage].shares.correct(job.batch.spec.tenant, more_us)
        self._release(job)

    def _correction_us(self, job: Job, cost_us: int) -> int:
        """Correct the request's charge to its actual cost."""
        if not self._queues[job.stage].shares.charged(job.charged, job.fence):
            return 0
        return advance_us(cost_us, job.batch.spec.weight) - job.charged

    def _release(self, job: Job) -> None:
        """Remove it from a worker, if one holds it."""
        if self._leases[job.stage].pop(job.job_id, None) is not None:
            job.batch.running -= 1

    def _leave_stage(self, job: Job, account: StageReport, now_ns: int) -> None:
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
        job.timings = (*job.timings, timing)
        job.services[job.stage] = account.finished_after_ns - account.started_after_ns

    def _end(self, job: Job, end: EndRequest, error: str = "") -> None:
        batch, request = job.batch, job.request
        job.state = "ended"
        del batch.live[job.job_id]
        result = ResultRecord(
            request_id=request.request_id,
            group_id=request.group_id,
            outcome=end.outcome,
            reward=end.reward,
            body=end.body,
            stages=job.timings,
            attempts=job.claims,
            error=error,
        )
        batch.log.append(result)
        batch.outcomes[end.outcome] += 1
        history = RequestHistory(
            arrived_after_ns=job.arrived_ns - batch.opened_ns,
            service_ns=tuple(job.services.get(stage, 0) for stage in batch.task.stages),
            outcome=end.outcome,
        )
        batch.history.append(history)
        natural_ns = history.arrived_after_ns + sum(history.service_ns)
        batch.ended_natural_ns = max(batch.ended_natural_ns, natural_ns)
        held = self._held[batch.spec.tenant]
        held.requests -= 1
        held.payload_bytes -= job.payload_bytes
        _, groups = self._touched.setdefault(batch.key, (batch, {}))
        if request.group_id:
            groups[request.group_id] = None
            add_reward(batch.groups[request.group_id], end.reward, replayed=job.replayed)

    def _bury(self, job: Job, error: str, now_ns: int) -> None:
        self._end(job, EndRequest(outcome=Outcome.INFRA_FAILED, reward=None, body=b""), error)
        job.state, job.error, job.died_ns = "dead", error, now_ns
        letters = self._letters[job.stage]
        letters[job.job_id] = job
        job.batch.dead[job.job_id] = job
        own = [one for one in letters.values() if one.batch.spec.tenant == job.batch.spec.tenant]
        if len(own) > self._limits.dead_letters_per_tenant_max:
            self._drop_letter(oldest(own))
        elif len(letters) > self._limits.dead_letters_max:
            self._drop_letter(oldest(own if len(own) > 1 else letters.values()))

    def _drop_letter(self, job: Job) -> None:
        del self._letters[job.stage][job.job_id]
        del job.batch.dead[job.job_id]
        del self._jobs[job.job_id]

    def _write_touched(self, now_ns: int) -> None:
        """Update groups and completed batches after the results of a call."""
        self._join()
        touched, self._touched = self._touched, {}
        for batch, groups in touched.values():
            self.changed.add(batch.spec.batch_id)
            for group_id in groups:
                self._tell_if_all_ended(batch, group_id)
            self._finish_if_done(batch, now_ns)

    def _tell_if_all_ended(self, batch: Batch, group_id: GroupId) -> None:
        group = batch.groups[group_id]
        ended = len(group.rewards)
        full = 0 < ended == batch.spec.group_size
        if not group.told and (full or (ended == group.submitted and not batch.open)):
            group.told = True
            batch.log.append(GroupRecord(group_id=group_id, rewards=tuple(group.rewards)))

    def _finish_if_done(self, batch: Batch, now_ns: int) -> None:
        if batch.live or batch.open:
            return
        if batch.state is BatchState.SEALED:
            self._tell_waiting(batch)
            cancelled = batch.closing is Outcome.CANCELLED
            batch.state = BatchState.CANCELLED if cancelled else BatchState.COMPLETE
            batch.completed_ns = now_ns
            self.planning = True
            held = self._held[batch.spec.tenant]
            held.batches -= 1
            held.requests -= batch.requests_reserved
            held.payload_bytes -= batch.bytes_reserved
            batch.requests_reserved = batch.bytes_reserved = 0
            if not cancelled:
                self.book.keep_history(batch)
                self._completed.append(_completed(batch))
        batch.gone_ns = now_ns + self._limits.results_kept_ns
        self._over[batch.key] = batch
        self._bound_results(batch)

    def _bound_results(self, ended: Batch) -> None:
        """Drop the tenant's oldest batches to make room for the results of the one that ended."""
        own = [b for b in self._over.values() if b.spec.tenant == ended.spec.tenant]
        kept = sum(len(batch.requests) + 1 for batch in own)
        for batch in own[:-1]:
            if kept > ended.results_kept_max:
                kept -= len(batch.requests) + 1
                self._drop_batch(batch)

    def _drop_batch(self, batch: Batch) -> None:
        for job in list(batch.dead.values()):
            self._drop_letter(job)
        del self._batches[batch.key], self._over[batch.key]

    def _take_completed(self) -> tuple[CompletedBatch, ...]:
        completed, self._completed = self._completed, []
        return tuple(completed)

    # -- operators -----------------------------------------------------------------------------

    def depths(self, stages: Sequence[StageName], now_ns: int) -> Sequence[StageDepth]:
        """See `Store.depths`."""
        return [self._depth(stage, now_ns) for stage in stages]

    def _depth(self, stage: StageName, now_ns: int) -> StageDepth:
        queued = list(self._queues[stage])
        oldest_ns = min((job.enqueued_ns for job in queued), default=now_ns)
        return StageDepth(
            stage=stage,
            queued=len(queued),
            running=len(self._leases[stage]),
            oldest_age_s=(now_ns - oldest_ns) / 1e9,
            dead_letters=len(self._letters[stage]),
        )

    def batches(self, *, batches_max: int) -> Sequence[BatchRecord]:
        """See `Store.batches`."""
        return [batch.record() for batch in self._not_over()[:batches_max]]

    def _not_over(self) -> Sequence[Batch]:
        not_over = (batch for batch in self._batches.values() if not batch.over)
        return sorted(not_over, key=lambda batch: (batch.deadline_ns, batch.key))

    def dead_letters(
        self, *, stage: StageName | None = None, letters_max: int
    ) -> Sequence[DeadLetter]:
        """See `Store.dead_letters`."""
        stages = list(self._letters) if stage is None else [stage]
        jobs = [job for one in stages for job in self._letters[one].values()]
        jobs.sort(key=lambda job: (job.died_ns, job.job_id), reverse=True)
        return [
            DeadLetter(
                job_id=job.job_id,
                tenant=job.batch.spec.tenant,
                batch_id=job.batch.spec.batch_id,
                request_id=job.request.request_id,
                stage=job.stage,
                attempts=job.attempts,
                error=job.error,
                died_ns=job.died_ns,
            )
            for job in jobs[:letters_max]
        ]

    def replay(self, job_id: JobId, now_ns: int) -> bool:
        """See `Store.replay`."""
        self._forget(now_ns)
        job = self._jobs.get(job_id)
        if job is None or job.state != "dead":
            return False
        batch = job.batch
        ending = batch.state is BatchState.SEALED and batch.closing is not None
        if ending or batch.state is BatchState.CANCELLED:
            return False
        del self._letters[job.stage][job_id], batch.dead[job_id]
        batch.live[job_id] = job
        batch.outcomes[Outcome.INFRA_FAILED] -= 1
        job.timings, job.services = stages_gone(job)
        job.attempts, job.enqueued_ns, job.error, job.replayed = 0, now_ns, "", True
        job.charged = 0
        held = self._held[batch.spec.tenant]
        held.requests += 1
        held.payload_bytes += job.payload_bytes
        if batch.over:
            self._over.pop(batch.key, None)  # gone since the replay of another of its requests
            batch.closing = None
            batch.overdue_ns = now_ns + self._limits.batch_overdue_ns
        self.changed.add(batch.spec.batch_id)
        self.planning = True
        self._enqueue(job)
        self._join()
        return True

    # -- planners ------------------------------------------------------------------------------

    def open_work(self, *, batches_max: int, requests_max: int) -> Sequence[OpenWork]:
        """See `Store.open_work`; here it is a consistent snapshot."""
        batches = self._not_over()[:batches_max]
        if sum(len(batch.live) for batch in batches) > requests_max:
            raise too_much_open_work(requests_max)
        return [batch.open_work() for batch in batches]

    def mark_at_risk(
        self, tenant: TenantId, batch_id: BatchId, *, at_risk: bool, now_ns: int
    ) -> None:
        """See `Store.mark_at_risk`."""
        batch = self._batch(tenant, batch_id, now_ns)
        if not batch.over and batch.at_risk != at_risk:
            batch.at_risk = at_risk
            self.changed.add(batch_id)

    def prioritize(
        self, tenant: TenantId, batch_id: BatchId, deadline_ns: int, now_ns: int
    ) -> None:
        """See `Store.prioritize`."""
        self._batch(tenant, batch_id, now_ns).prioritized_ns = deadline_ns

    def put_plan(self, tenant: TenantId, batch_id: BatchId, body: bytes, now_ns: int) -> None:
        """See `Store.put_plan`."""
        check_plan(body)
        plans = self._batch(tenant, batch_id, now_ns).plans
        plans.append(body)
        if len(plans) > PLANS_MAX:
            del plans[1]

    def plans(self, tenant: TenantId, batch_id: BatchId, now_ns: int) -> Sequence[bytes]:
        """See `Store.plans`."""
        return list(self._batch(tenant, batch_id, now_ns).plans)


def _completed(batch: Batch) -> CompletedBatch:
    slack_ms = (batch.deadline_ns - batch.completed_ns) // 1_000_000
    return CompletedBatch(tenant=batch.spec.tenant, batch_id=batch.spec.batch_id, slack_ms=slack_ms)
