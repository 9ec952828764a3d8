"""Where the requests of the store's model are: in the queue of a stage, or leased to a worker.

Invariants: a request that has not ended is in one of the two; fences only grow; a queue is served
in the order of `core.ordering`. Requests join their queues at the end of a call (`join`), after the
virtual times are corrected.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from assay.core.fair_queue import FairQueue, Price
from assay.core.ids import JobId, StageName, TenantId, WorkerId
from assay.core.ordering import Costs, advance_us
from assay.core.records import Claim, Lease, StageDepth
from assay.core.store_limits import ANSWERS_NOTED
from assay.testing.queue_groups import members_of
from assay.testing.queue_hours import WorkerTime
from assay.testing.queue_records import Changes, Job, waits


@dataclass(slots=True)
class _Answers:
    """The latest answers to the claims of one worker."""

    jobs: deque[Sequence[Job]] = field(default_factory=lambda: deque(maxlen=ANSWERS_NOTED))
    until_ns: int = 0


class StageQueues:
    """The queues and the leases of all stages."""

    def __init__(self, changes: Changes) -> None:
        self.queues: dict[StageName, FairQueue[TenantId, Job]] = defaultdict(
            lambda: FairQueue(waits)
        )
        self.costs: dict[StageName, Costs[TenantId]] = defaultdict(Costs)
        self.leases: dict[StageName, dict[JobId, Job]] = defaultdict(dict)
        self.hours = WorkerTime()
        self._changes = changes
        self._fence = 0
        self._joining: list[Job] = []
        self._answers: dict[tuple[StageName, WorkerId], _Answers] = {}

    def claim(
        self,
        stage: StageName,
        *,
        claims_max: int,
        lease_ns: int,
        worker: WorkerId,
        left_out: Collection[TenantId],
        now_ns: int,
    ) -> Sequence[Claim]:
        """See `Store.claim`."""
        queue = self.queues[stage]
        claims: list[Claim] = []
        while queue.others(left_out) and len(claims) < claims_max:
            job, charged = queue.pop(self._price, left_out)
            if charged is not None:
                job.charged = charged
            claims.append(self._lease(job, now_ns, now_ns + lease_ns, worker))
        if claims:
            queue.shares.leave_out(left_out)
            self._note_answer(stage, worker, claims, now_ns=now_ns, until_ns=now_ns + lease_ns)
        if queue.others(left_out):
            self._changes.work.add(stage)
        elif not queue:
            self._changes.work.discard(stage)
        return claims

    def _note_answer(
        self,
        stage: StageName,
        worker: WorkerId,
        claims: Sequence[Claim],
        *,
        now_ns: int,
        until_ns: int,
    ) -> None:
        known = self._answers.get((stage, worker))
        if known is None or known.until_ns <= now_ns:
            known = self._answers[stage, worker] = _Answers()
        leases = self.leases[stage]
        known.jobs.append([leases[claim.lease.job_id] for claim in claims])
        known.until_ns = until_ns

    def undelivered(
        self, stage: StageName, worker: WorkerId, leases: Collection[Lease], now_ns: int
    ) -> Sequence[Job]:
        """What the worker was leased last and does not hold."""
        known = self._answers.get((stage, worker))
        if known is None or known.until_ns <= now_ns:
            return []
        held = {(lease.job_id, lease.fence) for lease in leases}
        leased = self.leases[stage]
        unknown = {
            job.job_id: job
            for jobs in known.jobs
            for job in jobs
            if leased.get(job.job_id) is job
            and job.worker == worker
            and (job.job_id, job.fence) not in held
            and job.expires_ns > now_ns
        }
        return list(unknown.values())

    def _price(self, job: Job) -> Price | None:
        """`None` if it was already charged for this stage."""
        if self.queues[job.stage].shares.charged(job.charged, job.fence):
            return None
        tenant, weight = job.batch.spec.tenant, job.batch.spec.weight
        return Price(self.costs[job.stage].expected_us(tenant), weight)

    def _lease(self, job: Job, now_ns: int, expires_ns: int, worker: WorkerId) -> Claim:
        # The clock is the floor, so that a store that lost its last writes never repeats a fence.
        self._fence = max(self._fence, now_ns // 1_000) + 1
        job.state, job.fence, job.worker = "leased", self._fence, worker
        job.attempts += 1
        job.claims += 1
        job.claimed_ns, job.expires_ns = now_ns, expires_ns
        job.batch.running += job.requests
        self.leases[job.stage][job.job_id] = job
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
            messages=job.request.messages,
            artifacts=job.request.artifacts,
            members=() if job.group is None else members_of(job.group),
            submitted=0 if job.group is None else job.group.submitted,
        )

    def held_by(self, stage: StageName, lease: Lease) -> Job | None:
        """The request of the lease, unless a newer fence holds it."""
        job = self.leases[stage].get(lease.job_id)
        return job if job is not None and job.fence == lease.fence else None

    def beat(
        self,
        stage: StageName,
        *,
        lease_ns: int,
        held_ns_max: int,
        leases: Sequence[Lease],
        now_ns: int,
    ) -> Sequence[Lease]:
        """See `Store.beat`. An expired lease that has not been reaped yet is renewed."""
        lost: list[Lease] = []
        for lease in leases:
            job = self.held_by(stage, lease)
            if job is None or now_ns >= job.claimed_ns + held_ns_max:
                lost.append(lease)
            else:
                job.expires_ns = min(now_ns + lease_ns, job.claimed_ns + held_ns_max)
        return lost

    def expired(self, stage: StageName, *, jobs_max: int, now_ns: int) -> Sequence[Job]:
        """The requests whose leases have expired, the first first."""
        leases = self.leases[stage].values()
        return sorted(
            (job for job in leases if job.expires_ns <= now_ns),
            key=lambda job: (job.expires_ns, job.job_id),
        )[:jobs_max]

    def enqueue(self, job: Job) -> None:
        """It is to join its queue at the end of the call."""
        job.state = "queued"
        self._joining.append(job)

    def join(self) -> None:
        """Put what waits for it into its queue."""
        for job in self._joining:
            tenant = job.batch.spec.tenant
            self.queues[job.stage].push(tenant, job.key, job, claims=self._fence)
            self._changes.work.add(job.stage)
        self._joining.clear()

    def withdraw(self, job: Job, now_ns: int) -> None:
        """Remove it from its queue or from a worker; worker time counts by the second if that is
        more than it was charged."""
        if job.state == "queued":
            job.state = "ended"
            self.queues[job.stage].drop(job.batch.spec.tenant)
            return
        held_us = (now_ns - job.claimed_ns) // 1_000_000_000 * 1_000_000
        more_us = max(self.correction_us(job, held_us), 0)
        self.queues[job.stage].shares.correct(job.batch.spec.tenant, more_us)
        self.hours.spend(job.batch.spec.tenant, held_us, now_ns)
        self.release(job)

    def correction_us(self, job: Job, cost_us: int) -> int:
        """Correct the request's charge to its actual cost."""
        if not self.queues[job.stage].shares.charged(job.charged, job.fence):
            return 0
        return advance_us(cost_us, job.batch.spec.weight) - job.charged

    def release(self, job: Job) -> None:
        """Remove it from a worker, if one holds it."""
        if self.leases[job.stage].pop(job.job_id, None) is not None:
            job.batch.running -= job.requests

    def learn(
        self,
        stage: StageName,
        costs_us: Mapping[TenantId, Sequence[int]],
        corrections_us: Counter[TenantId],
    ) -> None:
        """Requests have left the stage: what they cost, and what their tenants were not charged."""
        for tenant, costs in costs_us.items():
            self.costs[stage].learn(tenant, sum(costs), len(costs))
            self.queues[stage].shares.correct(tenant, corrections_us[tenant])

    def depth(self, stage: StageName, *, dead_letters: int, now_ns: int) -> StageDepth:
        queued = list(self.queues[stage])
        oldest_ns = min((job.enqueued_ns for job in queued), default=now_ns)
        return StageDepth(
            stage=stage,
            queued=len(queued),
            running=len(self.leases[stage]),
            oldest_age_s=(now_ns - oldest_ns) / 1e9,
            dead_letters=dead_letters,
        )
