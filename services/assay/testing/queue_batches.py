"""The batches of the store's model: how their requests ended, their groups, and what is kept.

Invariants: a request is live, ended or a dead letter of its batch; its end counts for the quota,
the outcomes and the log at once, for its group and its batch at the end of the call
(`write_touched`).
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from assay.core.advantages import zero_shift_micro
from assay.core.ids import BatchId, GroupId, JobId, StageName, TenantId
from assay.core.outcome import Outcome
from assay.core.records import (
    BatchSpec,
    BatchState,
    CompletedBatch,
    DeadLetter,
    EndRequest,
    GroupRecord,
    Quota,
    RequestHistory,
    ResultRecord,
    TaskRecord,
)
from assay.core.store_limits import (
    PLANS_MAX,
    check_plan,
    no_batch,
    other_batch,
    too_many_batches,
)
from assay.testing.queue_groups import FAILED, JUDGED_WITHOUT, gather, group_of, open_groups
from assay.testing.queue_records import (
    BatchKey,
    Changes,
    Held,
    Job,
    ModelBatch,
    ModelGroup,
    QueueLimits,
    add_reward,
    check_fits,
    check_quota,
    done,
    oldest,
    stages_gone,
)
from assay.testing.queue_stages import StageQueues
from assay.testing.queue_tasks import TaskBook

BATCHES_PER_SWEEP_MAX = 8


@dataclass(slots=True)
class _Touched:
    """A batch that a call changes."""

    batch: ModelBatch
    has_ends: bool = False
    ended: dict[GroupId, None] = field(default_factory=dict)
    """Groups of requests that ended."""
    gathered: set[GroupId] = field(default_factory=set)
    """Groups that one stage judges, with requests that ended or arrived there."""


class BatchBook:
    """Batches, their requests by id, dead letters, and the usage of tenants."""

    def __init__(
        self, limits: QueueLimits, tasks: TaskBook, changes: Changes, stages: StageQueues
    ) -> None:
        self.batches: dict[BatchKey, ModelBatch] = {}
        self.over: dict[BatchKey, ModelBatch] = {}  # in the order in which they expire
        self.held: dict[TenantId, Held] = defaultdict(Held)
        self.jobs: dict[JobId, Job] = {}
        self.letters: dict[StageName, dict[JobId, Job]] = defaultdict(dict)
        self._limits = limits
        self._tasks = tasks
        self._stages = stages
        self._changes = changes
        self._touched: dict[BatchKey, _Touched] = {}
        self._sequence = 0
        self._completed: list[CompletedBatch] = []

    def get(self, tenant: TenantId, batch_id: BatchId, now_ns: int) -> ModelBatch:
        """The batch, unless its results have expired.

        Raises:
            NotFound: there is none.
        """
        self.forget(now_ns)
        try:
            return self.batches[tenant, batch_id]
        except KeyError:
            raise no_batch(batch_id) from None

    def put_plan(self, tenant: TenantId, batch_id: BatchId, body: bytes, now_ns: int) -> None:
        """See `Store.put_plan`."""
        check_plan(body)
        plans = self.get(tenant, batch_id, now_ns).plans
        plans.append(body)
        if len(plans) > PLANS_MAX:
            del plans[1]

    def plans(self, tenant: TenantId, batch_id: BatchId, now_ns: int) -> Sequence[bytes]:
        """See `Store.plans`."""
        return list(self.get(tenant, batch_id, now_ns).plans)

    def same(self, there: ModelBatch, spec: BatchSpec) -> ModelBatch:
        """The batch of that name.

        Raises:
            Conflict: it was opened otherwise.
        """
        own = there.spec
        if (spec.task_id, spec.size, spec.group_size) != (own.task_id, own.size, own.group_size):
            raise other_batch(spec.batch_id)
        return there

    def check_opening(
        self, spec: BatchSpec, quota: Quota, now_ns: int, implicit: TaskRecord | None
    ) -> ModelBatch:
        """A batch that `open` may open; changes nothing.

        Raises:
            NotFound, Conflict, Saturated: see `Store.open_batch`.
        """
        if implicit is None:
            task = self._tasks.get_task(spec.tenant, spec.task_id)
        more, more_bytes = spec.requests_reserved, spec.bytes_reserved
        check_fits(quota, requests=more, payload_bytes=more_bytes, sent=more)
        held = self.held[spec.tenant]
        if held.batches >= quota.batches_open_max:
            raise too_many_batches(quota)
        check_quota(held, quota, requests=more, payload_bytes=more_bytes)
        if implicit is not None:
            self._tasks.check_task(implicit, quota)
            task = implicit
        deadline_ns = spec.deadline_of(now_ns)
        return ModelBatch(
            spec=spec,
            task=task,
            number=self._tasks.opened((spec.tenant, spec.task_id)),
            opened_ns=now_ns,
            deadline_ns=deadline_ns,
            overdue_ns=deadline_ns + self._limits.batch_overdue_ns,
            results_kept_max=quota.results_kept_max,
            requests_reserved=spec.requests_reserved,
            bytes_reserved=spec.bytes_reserved,
        )

    def open(self, batch: ModelBatch, implicit: TaskRecord | None) -> None:
        """Open a batch that was checked, with its task if that is not there."""
        spec = batch.spec
        if implicit is not None:
            self._tasks.put_task(implicit)
        self.held[spec.tenant] = self.held[spec.tenant].with_batch(spec)
        self._tasks.batch_opens((spec.tenant, spec.task_id))
        self.batches[batch.key] = batch

    def forget(self, now_ns: int) -> None:
        """Drop the batches whose results have expired, and their dead letters."""
        while self.over:
            batch = next(iter(self.over.values()))
            if batch.gone_ns > now_ns:
                return
            self._drop_batch(batch)

    @property
    def sequence(self) -> int:
        """Jobs so far, of requests and of groups; their ids are counted."""
        return self._sequence

    def next_number(self) -> int:
        """The number of the next job."""
        self._sequence += 1
        return self._sequence

    def add(self, job: Job) -> None:
        """A request of an open batch is accepted."""
        batch, request = job.batch, job.request
        batch.requests[request.request_id] = request
        batch.live[job.job_id] = job
        if request.group_id:
            group = batch.groups.setdefault(request.group_id, ModelGroup())
            group.submitted += 1
            group.live += 1
        self._take_quota(batch, job.payload_bytes)
        self.jobs[job.job_id] = job

    def _take_quota(self, batch: ModelBatch, size: int) -> None:
        """For one request: first what the batch has reserved, then the tenant's."""
        held = self.held[batch.spec.tenant]
        reserved, reserved_bytes = min(1, batch.requests_reserved), min(size, batch.bytes_reserved)
        batch.requests_reserved -= reserved
        batch.bytes_reserved -= reserved_bytes
        held.requests += 1 - reserved
        held.payload_bytes += size - reserved_bytes

    def seal(self, batch: ModelBatch, now_ns: int) -> None:
        """It gets no more requests."""
        batch.state = BatchState.SEALED
        self._changes.batches.add(batch.spec.batch_id)
        self._tell_waiting(batch)
        self.open_groups(batch, batch.groups, now_ns)
        self._finish_if_done(batch, now_ns)

    def open_groups(self, batch: ModelBatch, names: Iterable[GroupId], now_ns: int) -> None:
        """Queue those of these groups that are complete."""
        for job in open_groups(batch, names, self.next_number, now_ns):
            self.jobs[job.job_id] = job
            self._stages.enqueue(job)
            self._stages.join()

    def touch(self, batch: ModelBatch) -> _Touched:
        """A call changes the batch."""
        return self._touched.setdefault(batch.key, _Touched(batch))

    def arrive(self, job: Job) -> None:
        """A request reaches the stage that judges its group."""
        touched = self.touch(job.batch)
        if gather(job):
            touched.gathered.add(job.request.group_id)
        else:
            self.end(job, FAILED, JUDGED_WITHOUT)
            del self.jobs[job.job_id]

    def leave(self, job: Job, now_ns: int) -> None:
        """A member leaves its group; with the last one the group's own job goes."""
        group = group_of(job)
        del group.members[job.job_id]
        if (own := group.own) is None:
            return
        if own.state == "leased":
            job.batch.running -= 1
        if not group.members:
            self._stages.withdraw(own, now_ns)
            self.drop_group_job(own, judged=False)

    def drop_group_job(self, own: Job, *, judged: bool) -> None:
        """The own job of a group goes; `judged`: for good."""
        group = group_of(own)
        own.state = "ended"
        group.own, group.judged = None, judged
        group.members = {}
        del self.jobs[own.job_id]

    def _tell_waiting(self, batch: ModelBatch) -> None:
        for group_id in sorted(batch.groups):
            self._tell_if_all_ended(batch, group_id)

    def end(self, job: Job, end: EndRequest, error: str = "") -> None:
        """Record its result."""
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
        held = self.held[batch.spec.tenant]
        held.requests -= 1
        held.payload_bytes -= job.payload_bytes
        touched = self.touch(batch)
        touched.has_ends = True
        if request.group_id:
            touched.ended[request.group_id] = None
            touched.gathered.add(request.group_id)
            batch.groups[request.group_id].live -= 1
            add_reward(batch.groups[request.group_id], end.reward, replayed=job.replayed)

    def bury(self, job: Job, error: str, now_ns: int) -> None:
        """End it, or all members of its group, as failed, and keep it as a dead letter."""
        if job.group is None:
            self.end(job, FAILED, error)
        else:
            for _, member in sorted(job.group.members.items()):
                member.claims += job.claims
                self.end(member, FAILED, error)
                member.claims -= job.claims
        job.state, job.error, job.died_ns = "dead", error, now_ns
        letters = self.letters[job.stage]
        letters[job.job_id] = job
        job.batch.dead[job.job_id] = job
        own = [one for one in letters.values() if one.batch.spec.tenant == job.batch.spec.tenant]
        if len(own) > self._limits.dead_letters_per_tenant_max:
            self._drop_letter(oldest(own))
        elif len(letters) > self._limits.dead_letters_max:
            self._drop_letter(oldest(own if len(own) > 1 else letters.values()))

    def revive(self, job: Job, now_ns: int) -> None:
        """Make a dead letter, and with a group its members, live with fresh attempts."""
        batch = job.batch
        del self.letters[job.stage][job.job_id], batch.dead[job.job_id]
        job.attempts, job.enqueued_ns, job.error = 0, now_ns, ""
        job.charged = 0
        held = self.held[batch.spec.tenant]
        for one in [job] if job.group is None else job.group.members.values():
            batch.live[one.job_id] = one
            batch.outcomes[Outcome.INFRA_FAILED] -= 1
            one.timings, one.services = stages_gone(one)
            one.replayed = True
            if one.group is None and job.group is not None:
                one.state = "gathered"
            if one.request.group_id:
                batch.groups[one.request.group_id].live += 1
            held.requests += 1
            held.payload_bytes += one.payload_bytes
        if batch.over:
            # Gone already after a replay of another of its requests.
            self.over.pop(batch.key, None)
            batch.closing = None
            batch.overdue_ns = now_ns + self._limits.batch_overdue_ns

    def _drop_letter(self, job: Job) -> None:
        del self.letters[job.stage][job.job_id]
        del job.batch.dead[job.job_id]
        if job.group is None:
            del self.jobs[job.job_id]
            return
        for member in job.group.members:
            del self.jobs[member]
        self.drop_group_job(job, judged=True)

    def write_touched(self, now_ns: int) -> None:
        """Update groups and completed batches after the results of a call."""
        touched, self._touched = self._touched, {}
        for one in touched.values():
            batch = one.batch
            for group_id in one.ended:
                self._tell_if_all_ended(batch, group_id)
            self.open_groups(batch, one.gathered, now_ns)
            if one.has_ends:
                self._changes.batches.add(batch.spec.batch_id)
                self._finish_if_done(batch, now_ns)

    def _tell_if_all_ended(self, batch: ModelBatch, group_id: GroupId) -> None:
        group = batch.groups[group_id]
        ended = len(group.rewards)
        full = 0 < ended == batch.spec.group_size
        if not group.told and (full or (ended == group.submitted and not batch.open)):
            group.told = True
            group.grouped, group.shift_micro = ended, zero_shift_micro(group.rewards)
            batch.log.append(GroupRecord(group_id=group_id, rewards=tuple(group.rewards)))

    def _finish_if_done(self, batch: ModelBatch, now_ns: int) -> None:
        if batch.live or batch.open:
            return
        if batch.state is BatchState.SEALED:
            self._tell_waiting(batch)
            cancelled = batch.closing is Outcome.CANCELLED
            batch.state = BatchState.CANCELLED if cancelled else BatchState.COMPLETE
            batch.completed_ns = now_ns
            self._changes.planning = True
            held = self.held[batch.spec.tenant]
            held.batches -= 1
            held.requests -= batch.requests_reserved
            held.payload_bytes -= batch.bytes_reserved
            batch.requests_reserved = batch.bytes_reserved = 0
            if not cancelled:
                self._tasks.keep_history(batch)
                self._completed.append(_completed(batch))
        batch.gone_ns = now_ns + self._limits.results_kept_ns
        self.over[batch.key] = batch
        self._bound_results(batch)

    def _bound_results(self, ended: ModelBatch) -> None:
        """Drop the tenant's oldest batches to make room for the results of the one that ended."""
        own = [b for b in self.over.values() if b.spec.tenant == ended.spec.tenant]
        kept = sum(len(batch.requests) + 1 for batch in own)
        for batch in own[:-1]:
            if kept > ended.results_kept_max:
                kept -= len(batch.requests) + 1
                self._drop_batch(batch)

    def _drop_batch(self, batch: ModelBatch) -> None:
        for job in list(batch.dead.values()):
            self._drop_letter(job)
        del self.batches[batch.key], self.over[batch.key]

    def take_completed(self) -> tuple[CompletedBatch, ...]:
        """The batches that this call completed."""
        completed, self._completed = self._completed, []
        return tuple(completed)

    def overdue(self, now_ns: int) -> Sequence[ModelBatch]:
        """Batches that a sweep closes now."""
        return sorted(
            (b for b in self.batches.values() if b.overdue_ns <= now_ns and not done(b)),
            key=lambda b: (b.overdue_ns, b.key),
        )[:BATCHES_PER_SWEEP_MAX]

    def not_over(self) -> Sequence[ModelBatch]:
        """The batches that have not ended, the earliest deadline first."""
        not_over = (batch for batch in self.batches.values() if not batch.over)
        return sorted(not_over, key=lambda batch: (batch.deadline_ns, batch.key))

    def dead_letters(self, stage: StageName | None, letters_max: int) -> Sequence[DeadLetter]:
        """See `Store.dead_letters`."""
        stages = list(self.letters) if stage is None else [stage]
        jobs = [job for one in stages for job in self.letters[one].values()]
        jobs.sort(key=lambda job: (job.died_ns, job.job_id), reverse=True)
        return [
            DeadLetter(
                job_id=job.job_id,
                tenant=job.batch.spec.tenant,
                batch_id=job.batch.spec.batch_id,
                request_id=job.request.request_id,
                group_id=job.request.group_id,
                stage=job.stage,
                attempts=job.attempts,
                error=job.error,
                died_ns=job.died_ns,
            )
            for job in jobs[:letters_max]
        ]


def _completed(batch: ModelBatch) -> CompletedBatch:
    slack_ms = (batch.deadline_ns - batch.completed_ns) // 1_000_000
    return CompletedBatch(batch=batch.record(), slack_ms=slack_ms)
