"""The store's behaviour as a pure model: plain data, and the time as an argument.

It is the simulator's queue and the reference for the Valkey scripts. Invariants:

* every accepted request ends in exactly one result in its batch's log (two, when an operator
  replays a dead letter), and `submitted = ended + queued + running` for every batch;
* the queue of a stage is served as `ordering` says: tenants by their virtual times, a tenant's
  requests by `order_key`; a request that is delivered again takes its old place (unless its batch
  was prioritized meanwhile) and is not charged again;
* only the holder of the newest fence may report.

Each call records its changes in `changes` for the caller to collect.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from typing import assert_never

from assay.core.hosts.record import HOST_GONE
from assay.core.ids import BatchId, GroupId, JobId, RequestId, StageName, TenantId, WorkerId
from assay.core.ordering import cost_us
from assay.core.outcome import Outcome
from assay.core.records import (
    BatchRecord,
    BatchSpec,
    BatchState,
    Claim,
    DeadLetter,
    EndRequest,
    FailAttempt,
    Finished,
    FinishGroup,
    FinishStatus,
    GiveBack,
    HandOver,
    Lease,
    LogEntry,
    NewRequest,
    OpenWork,
    Quota,
    Reaped,
    Report,
    StageDepth,
    StageReport,
    Submitted,
    TaskRecord,
)
from assay.core.store_limits import (
    LEASE_RAN_OUT,
    too_much_open_work,
    too_much_worker_time,
)
from assay.testing.queue_batches import BatchBook
from assay.testing.queue_groups import FAILED, JUDGED_WITHOUT, gather, group_of
from assay.testing.queue_hosts import HostBook
from assay.testing.queue_records import (
    Changes,
    Held,
    Job,
    ModelBatch,
    admit,
    leave_stage,
    leaves_stage,
)
from assay.testing.queue_records import QueueLimits as QueueLimits
from assay.testing.queue_records import fresh as fresh_of
from assay.testing.queue_stages import StageQueues
from assay.testing.queue_tasks import PlannerLead, TaskBook


class QueueModel:
    """All operations of the store on requests and batches, synchronous and without a clock."""

    def __init__(self, limits: QueueLimits | None = None) -> None:
        self._limits = limits or QueueLimits()
        self.changes = Changes()
        self.task_book = TaskBook(
            hints_kept_ns=self._limits.results_kept_ns,
            history_batches=self._limits.history_batches,
        )
        self.lead = PlannerLead()
        self.hosts = HostBook(self._limits.hosts_max)
        self.stages = StageQueues(self.changes)
        self.batch_book = BatchBook(self._limits, self.task_book, self.changes, self.stages)

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
        self.batch_book.forget(now_ns)
        there = self.batch_book.batches.get((spec.tenant, spec.batch_id))
        if there is not None:
            return self.batch_book.same(there, spec).record(), False
        batch = self.batch_book.check_opening(spec, quota, now_ns, implicit)
        self.batch_book.open(batch, implicit)
        self.changes.planning = True
        return batch.record(), True

    def open_filled(
        self,
        spec: BatchSpec,
        requests: Sequence[NewRequest],
        quota: Quota,
        now_ns: int,
        *,
        implicit: TaskRecord | None = None,
    ) -> Submitted:
        """See `Store.open_filled`."""
        self.batch_book.forget(now_ns)
        if (spec.tenant, spec.batch_id) not in self.batch_book.batches:
            batch = self.batch_book.check_opening(spec, quota, now_ns, implicit)
            held = self.batch_book.held[spec.tenant].with_batch(spec)
            self._check_requests(batch, requests, held, quota, now_ns)
        self.open_batch(spec, quota, now_ns, implicit=implicit)
        return self.submit(spec.tenant, spec.batch_id, requests, quota, now_ns)

    def _check_requests(
        self,
        batch: ModelBatch,
        requests: Sequence[NewRequest],
        held: Held,
        quota: Quota,
        now_ns: int,
    ) -> dict[int, NewRequest]:
        """Those that the batch does not have, by their place."""
        fresh = fresh_of(batch, requests)
        if fresh:
            admit(batch, requests, fresh, held, quota)
            most_s = quota.worker_s_per_day_max
            if most_s is not None and (
                rest := self.stages.hours.rest_s(batch.spec.tenant, most_s, now_ns)
            ):
                raise too_much_worker_time(quota, retry_after_s=rest)
        return fresh

    def submit(
        self,
        tenant: TenantId,
        batch_id: BatchId,
        requests: Sequence[NewRequest],
        quota: Quota,
        now_ns: int,
    ) -> Submitted:
        """See `Store.submit`."""
        batch = self.batch_book.get(tenant, batch_id, now_ns)
        held = self.batch_book.held[tenant]
        fresh = self._check_requests(batch, requests, held, quota, now_ns)
        self.changes.planning |= bool(fresh) and not batch.requests
        for request in fresh.values():
            self._take_in(batch, request, now_ns)
        self.stages.join()
        if batch.task.group_stage == batch.task.stages[0]:
            groups = {request.group_id for request in fresh.values()}
            self.batch_book.open_groups(batch, groups, now_ns)
        if fresh and len(batch.requests) == batch.spec.size:
            self.batch_book.seal(batch, now_ns)
        return Submitted(
            accepted=len(fresh),
            duplicates=len(requests) - len(fresh),
            sealed=not batch.open,
        )

    def _take_in(self, batch: ModelBatch, request: NewRequest, now_ns: int) -> None:
        job = Job(
            job_id=JobId(f"{self.batch_book.next_number():016d}"),
            batch=batch,
            request=request,
            stage=batch.task.stages[0],
            arrived_ns=now_ns,
            enqueued_ns=now_ns,
        )
        self.batch_book.add(job)
        if job.stage != batch.task.group_stage or not gather(job):
            self.stages.enqueue(job)

    def seal(self, tenant: TenantId, batch_id: BatchId, now_ns: int) -> BatchRecord:
        """See `Store.seal`."""
        batch = self.batch_book.get(tenant, batch_id, now_ns)
        if not batch.over:
            self.batch_book.seal(batch, now_ns)
        self.batch_book.take_completed()
        return batch.record()

    def _write_touched(self, now_ns: int) -> None:
        self.stages.join()
        self.batch_book.write_touched(now_ns)

    def cancel(self, tenant: TenantId, batch_id: BatchId, now_ns: int) -> tuple[BatchRecord, int]:
        """See `Store.cancel`."""
        batch = self.batch_book.get(tenant, batch_id, now_ns)
        ended = 0
        if not batch.over:
            ended = self._close(batch, Outcome.CANCELLED, now_ns)
            self._write_touched(now_ns)
            if not batch.over:
                self.batch_book.seal(batch, now_ns)
        self.batch_book.take_completed()
        return batch.record(), ended

    def _close(
        self, batch: ModelBatch, outcome: Outcome, now_ns: int, jobs_max: int | None = None
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
        batch = self.batch_book.get(tenant, batch_id, now_ns)
        chosen: list[Job] = []
        if not batch.over and batch.closing is None:
            for _, job in sorted(batch.live.items()):
                request = job.request
                if request.request_id in request_ids or request.group_id in group_ids:
                    chosen.append(job)
        self._cancel_jobs(chosen, Outcome.CANCELLED, now_ns)
        self._write_touched(now_ns)
        self.batch_book.take_completed()
        return batch.record(), len(chosen)

    def _cancel_jobs(self, jobs: Sequence[Job], outcome: Outcome, now_ns: int) -> None:
        for job in jobs:
            if job.state == "gathered":
                self.batch_book.leave(job, now_ns)
            else:
                self.stages.withdraw(job, now_ns)
            self.batch_book.end(job, EndRequest(outcome=outcome, reward=None, body=b""))
            del self.batch_book.jobs[job.job_id]

    def get_batch(self, tenant: TenantId, batch_id: BatchId, now_ns: int) -> BatchRecord:
        """See `Store.get_batch`."""
        return self.batch_book.get(tenant, batch_id, now_ns).record()

    def results(
        self, tenant: TenantId, batch_id: BatchId, *, cursor: int, entries_max: int, now_ns: int
    ) -> Sequence[LogEntry]:
        """See `Store.results`."""
        return self.batch_book.get(tenant, batch_id, now_ns).log[cursor : cursor + entries_max]

    # -- workers -------------------------------------------------------------------------------

    def claim(
        self, stage: StageName, *, claims_max: int, lease_ns: int, worker: WorkerId,
        left_out: Collection[TenantId] = (), now_ns: int,
    ) -> Sequence[Claim]:  # fmt: skip
        """See `Store.claim`."""
        return self.stages.claim(
            stage, claims_max=claims_max, lease_ns=lease_ns, worker=worker, left_out=left_out,
            now_ns=now_ns,
        )  # fmt: skip

    def beat(
        self, stage: StageName, *, lease_ns: int, leases: Sequence[Lease], now_ns: int
    ) -> Sequence[Lease]:
        """See `Store.beat`."""
        most_ns = self._limits.held_ns_max
        return self.stages.beat(
            stage, lease_ns=lease_ns, held_ns_max=most_ns, leases=leases, now_ns=now_ns
        )

    def finish(
        self, stage: StageName, reports: Sequence[Report], attempts_max: int, now_ns: int
    ) -> Finished:
        """See `Store.finish`."""
        statuses: list[FinishStatus] = []
        served: dict[TenantId, list[int]] = defaultdict(list)
        corrections: Counter[TenantId] = Counter()
        for report in reports:
            job = self.stages.held_by(stage, report.lease)
            if job is None:
                statuses.append(FinishStatus.STALE)
                continue
            self.stages.release(job)
            if leaves_stage(job, report, attempts_max):
                account, tenant = report.report, job.batch.spec.tenant
                cost = cost_us(account.finished_after_ns - account.started_after_ns)
                served[tenant].append(cost)
                corrections[tenant] += self.stages.correction_us(job, cost)
            if not isinstance(report.finish, FailAttempt | GiveBack):
                self.hosts.ended[job.worker][stage] += 1
            self._act(job, report, attempts_max, now_ns)
            statuses.append(FinishStatus.DONE)
        self.stages.learn(stage, served, corrections)
        for tenant, costs in served.items():
            self.stages.hours.spend(tenant, sum(costs), now_ns)
        self._write_touched(now_ns)
        return Finished(statuses=tuple(statuses), completed=self.batch_book.take_completed())

    def _act(self, job: Job, report: Report, attempts_max: int, now_ns: int) -> None:
        finish = report.finish
        self.batch_book.touch(job.batch)
        match finish:
            case EndRequest():
                leave_stage(job, report.report, now_ns)
                self.batch_book.end(job, finish)
                del self.batch_book.jobs[job.job_id]
            case HandOver():
                leave_stage(job, report.report, now_ns)
                self._hand_over(job, finish, now_ns)
            case FinishGroup():
                leave_stage(job, report.report, now_ns)
                self._judge_group(job, finish, now_ns)
            case FailAttempt() if job.attempts < attempts_max:
                job.error = finish.error
                self.stages.enqueue(job)
            case FailAttempt():
                leave_stage(job, report.report, now_ns)
                self.batch_book.bury(job, finish.error, now_ns)
            case GiveBack():
                self._give_back(job)
            case _:
                assert_never(finish)

    def _hand_over(self, job: Job, finish: HandOver, now_ns: int) -> None:
        job.stage, job.handover = finish.next_stage, finish.handover
        job.attempts, job.enqueued_ns, job.error = 0, now_ns, ""
        job.charged = 0
        if finish.gathers:
            self.batch_book.arrive(job)
        else:
            self.stages.enqueue(job)

    def _judge_group(self, own: Job, finish: FinishGroup, now_ns: int) -> None:
        left = dict(sorted(group_of(own).members.items()))
        for job_id, said in (*finish.members, *((job_id, None) for job_id in left)):
            member = left.pop(job_id, None)
            if member is None:  # cancelled meanwhile, or already done
                continue
            member.claims += own.claims
            if isinstance(said, HandOver):
                self._hand_over(member, said, now_ns)
                continue
            end = said if isinstance(said, EndRequest) else FAILED
            error = said.error if isinstance(said, FailAttempt) else JUDGED_WITHOUT
            self.batch_book.end(member, end, "" if end is said else error)
            del self.batch_book.jobs[job_id]
        self.batch_book.drop_group_job(own, judged=True)

    def reap(self, stage: StageName, *, attempts_max: int, jobs_max: int, now_ns: int) -> Reaped:
        """See `Store.reap`."""
        lost = self.stages.expired(stage, jobs_max=jobs_max, now_ns=now_ns)
        dead = self._lose(lost, LEASE_RAN_OUT, attempts_max, now_ns)
        self._write_touched(now_ns)
        overdue = self.batch_book.overdue(now_ns)
        expired = 0
        for batch in overdue:
            outcome = batch.closing or Outcome.EXPIRED
            expired += self._close(batch, outcome, now_ns, jobs_max - expired)
        self._write_touched(now_ns)
        for batch in overdue:
            if not batch.over:
                self.batch_book.seal(batch, now_ns)
        self.batch_book.forget(now_ns)
        self.changes.work.discard(stage)
        if self.stages.queues[stage]:
            self.changes.work.add(stage)
        return Reaped(
            redelivered=len(lost) - dead,
            dead=dead,
            expired=expired,
            completed=self.batch_book.take_completed(),
        )

    def give_back_undelivered(
        self, stage: StageName, *, worker: WorkerId, leases: Sequence[Lease], now_ns: int
    ) -> int:
        """See `Store.give_back_undelivered`."""
        lost = self.stages.undelivered(stage, worker, leases, now_ns)
        for job in lost:
            self.stages.release(job)
            self.batch_book.touch(job.batch)
            self._give_back(job)
        self._write_touched(now_ns)
        return len(lost)

    def _give_back(self, job: Job) -> None:
        job.attempts -= 1
        job.claims -= 1
        self.stages.enqueue(job)

    def take_back(
        self, stage: StageName, worker: WorkerId, *, attempts_max: int, now_ns: int
    ) -> Reaped:
        """See `Store.take_back`."""
        leases = self.stages.leases[stage].values()
        lost = sorted(  # the order of a short sorted set; of a long one a store may choose another
            (job for job in leases if job.worker == worker),
            key=lambda job: (job.expires_ns, job.job_id),
        )
        dead = self._lose(lost, HOST_GONE, attempts_max, now_ns)
        self._write_touched(now_ns)
        completed = self.batch_book.take_completed()
        return Reaped(redelivered=len(lost) - dead, dead=dead, expired=0, completed=completed)

    def _lose(self, lost: Sequence[Job], why: str, attempts_max: int, now_ns: int) -> int:
        """Leases are taken back as failed attempts; returns how many requests died of it."""
        dead = 0
        for job in lost:
            self.stages.release(job)
            self.batch_book.touch(job.batch)
            if job.attempts < attempts_max:
                job.error = why
                self.stages.enqueue(job)
            else:
                held_ns = now_ns - job.claimed_ns
                held = StageReport(worker=job.worker, started_after_ns=0, finished_after_ns=held_ns)
                leave_stage(job, held, now_ns)
                for one in [job] if job.group is None else job.group.members.values():
                    one.services[job.stage] = 0
                self.batch_book.bury(job, why, now_ns)
                dead += 1
        return dead

    # -- operators -----------------------------------------------------------------------------

    def depths(self, stages: Sequence[StageName], now_ns: int) -> Sequence[StageDepth]:
        """See `Store.depths`."""
        letters = self.batch_book.letters
        return [
            self.stages.depth(stage, dead_letters=len(letters[stage]), now_ns=now_ns)
            for stage in stages
        ]

    def batches(self, *, batches_max: int) -> Sequence[BatchRecord]:
        """See `Store.batches`."""
        return [batch.record() for batch in self.batch_book.not_over()[:batches_max]]

    def dead_letters(
        self, *, stage: StageName | None = None, letters_max: int
    ) -> Sequence[DeadLetter]:
        """See `Store.dead_letters`."""
        return self.batch_book.dead_letters(stage, letters_max)

    def replay(self, job_id: JobId, now_ns: int) -> bool:
        """See `Store.replay`."""
        self.batch_book.forget(now_ns)
        job = self.batch_book.jobs.get(job_id)
        if job is None or job.state != "dead":
            return False
        batch = job.batch
        ending = batch.state is BatchState.SEALED and batch.closing is not None
        if ending or batch.state is BatchState.CANCELLED:
            return False
        if job.request.group_id and batch.groups[job.request.group_id].judged:
            return False
        self.batch_book.revive(job, now_ns)
        self.changes.batches.add(batch.spec.batch_id)
        self.changes.planning = True
        self.stages.enqueue(job)
        self.stages.join()
        return True

    # -- planners ------------------------------------------------------------------------------

    def open_work(self, *, batches_max: int, requests_max: int) -> Sequence[OpenWork]:
        """See `Store.open_work`; here it is a consistent snapshot."""
        batches = self.batch_book.not_over()[:batches_max]
        if sum(len(batch.live) for batch in batches) > requests_max:
            raise too_much_open_work(requests_max)
        return [batch.open_work() for batch in batches]

    def mark_at_risk(
        self, tenant: TenantId, batch_id: BatchId, *, at_risk: bool, now_ns: int
    ) -> None:
        """See `Store.mark_at_risk`."""
        batch = self.batch_book.get(tenant, batch_id, now_ns)
        if not batch.over and batch.at_risk != at_risk:
            batch.at_risk = at_risk
            self.changes.batches.add(batch_id)

    def prioritize(
        self, tenant: TenantId, batch_id: BatchId, deadline_ns: int, now_ns: int
    ) -> None:
        """See `Store.prioritize`."""
        self.batch_book.get(tenant, batch_id, now_ns).prioritized_ns = deadline_ns
