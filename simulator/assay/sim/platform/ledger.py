"""Invariants of the store, checked from outside: from the commands and their results alone.

The ledger tracks where each accepted request is (queued, leased, ended), and checks every result
against that. It does not depend on how the store works. A violated invariant is a `Finding`.

* Conservation: every accepted request is in exactly one place; the reported counters of a batch are
  those of the ledger, and `submitted = ended + queued + running`.
* Each request has one outcome, and its own reward.
* Order: a claim is the first of its tenant by batch deadline, then arrival; no tenant that
  waits falls behind another by more than a bounded amount of service.
* Quotas are never exceeded, and nothing is refused below them.
* Leases: fences only grow; only the newest holder's report counts; attempts are counted exactly; a
  lease that expired is taken back, one that did not is not.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from assay.core.errors import AssayError, NotFound, Saturated
from assay.core.ids import BatchId, JobId, StageName, TaskId, TenantId
from assay.core.outcome import Outcome
from assay.core.records import (
    BatchRecord,
    BatchState,
    Claim,
    EndRequest,
    FailAttempt,
    Finished,
    FinishStatus,
    GiveBack,
    HandOver,
    Lease,
    LogEntry,
    NewRequest,
    Quota,
    Reaped,
    Report,
    ResultRecord,
    StageDepth,
    Submitted,
    TaskRecord,
)
from assay.sim.platform.entries import BatchEntry, Entry, Lead, Races, payload_bytes, require
from assay.sim.platform.pipelines import script_of
from assay.sim.platform.store import LIMITS, Command

BatchKey = tuple[TenantId, BatchId]

SWEEP_BATCHES_MAX: Final = 8


class Ledger:
    """Folds commands; `met` is called for every check that passed."""

    def __init__(self, *, is_calm: bool) -> None:
        """`is_calm`: no faults in this run, except what the requests themselves do."""
        self.is_calm = is_calm
        self.tasks: dict[tuple[TenantId, TaskId], TaskRecord] = {}
        self.batches: dict[BatchKey, BatchEntry] = {}
        self.queued: dict[StageName, dict[TenantId, dict[Entry, None]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        self.leased: dict[StageName, dict[JobId, Entry]] = defaultdict(dict)
        self.open_by_tenant: Counter[TenantId] = Counter()
        self.bytes_by_tenant: Counter[TenantId] = Counter()
        self.reserving: dict[BatchKey, BatchEntry] = {}
        """Batches that hold quota for requests to come."""
        self.races: dict[StageName, Races] = defaultdict(Races)
        self.fence = 0
        self._lead = Lead()
        self.ended = 0
        self.withdrawn: dict[Lease, int] = {}
        """Leases of requests that ended while a worker held them, and when."""
        self._number = 0
        self._now_ns = 0
        self._takes: dict[str, Callable[[Command], None]] = {
            "put_task": self._put_task,
            "open_batch": self._open_batch,
            "submit": self._submit,
            "seal": self._seal,
            "cancel": self._cancel,
            "cancel_requests": self._cancel_requests,
            "get_batch": self._get_batch,
            "results": self._results,
            "claim": self._claim,
            "beat": self._beat,
            "finish": self._finish,
            "reap": self._reap,
            "prioritize": self._prioritize,
            "depths": self._depths,
            "lead": self._lead.take_lead,
            "resign": self._lead.take_resign,
        }

    def take(self, command: Command) -> None:
        """Check one command against the known state.

        Raises:
            Finding: an invariant is violated.
        """
        self._now_ns = command.now_ns
        take = self._takes.get(command.name)
        if take is not None:
            take(command)

    # -- tasks and batches ---------------------------------------------------------------------
    def _put_task(self, command: Command) -> None:
        if not isinstance(command.answer, AssayError):
            task: TaskRecord = command.args[0]
            self.tasks[task.tenant, task.task_id] = task

    def _open_batch(self, command: Command) -> None:
        spec, quota = command.args
        mine = [b for b in self.batches.values() if b.spec.tenant == spec.tenant and not b.over]
        if isinstance(command.answer, Saturated):
            over = len(mine) >= quota.batches_open_max
            over |= self._over_quota(
                spec.tenant, quota, more=spec.requests_reserved, size=spec.bytes_reserved
            )
            require(over, "a batch was refused below the quota")
        if isinstance(command.answer, AssayError):
            return
        implicit = command.options.get("implicit")
        if implicit is not None:
            self.tasks[implicit.tenant, implicit.task_id] = implicit
        record, created = command.answer
        key = spec.tenant, spec.batch_id
        require(created == (key not in self.batches), "a batch was opened twice", batch=key)
        if created:
            self.batches[key] = BatchEntry(
                spec=spec,
                task=self.tasks[spec.tenant, spec.task_id],
                quota=quota,
                opened_ns=command.now_ns,
                overdue_ns=spec.deadline_of(command.now_ns) + LIMITS.batch_overdue_ns,
            )
            require(len(mine) + 1 <= quota.batches_open_max, "more batches open than the quota")
            if spec.requests_reserved:
                self.reserving[key] = self.batches[key]
            over = self._over_quota(spec.tenant, quota, more=0, size=0)
            require(not over, "over the quota")
        self._same(self.batches[key], record)

    def _over_quota(self, tenant: TenantId, quota: Quota, *, more: int, size: int) -> bool:
        """Whether so much more, beside what is open and what is reserved, is over the quota."""
        own = [b for b in self.reserving.values() if b.spec.tenant == tenant]
        count = self.open_by_tenant[tenant] + sum(b.requests_reserved for b in own) + more
        held = self.bytes_by_tenant[tenant] + sum(b.bytes_reserved for b in own) + size
        return count > quota.requests_open_max or held > quota.bytes_open_max

    def _submit(self, command: Command) -> None:
        tenant, batch_id, requests, quota = command.args
        batch = self.batches.get((tenant, batch_id))
        if isinstance(command.answer, AssayError):
            self._refused(batch, command)
            return
        submitted: Submitted = command.answer
        require(batch is not None, "requests were accepted into no batch", batch=batch_id)
        assert batch is not None  # noqa: S101 - for the checker
        fresh = {r.request_id: r for r in requests if r.request_id not in batch.requests}
        require(submitted.accepted == len(fresh), "accepted another number of requests")
        require(submitted.duplicates == len(requests) - len(fresh), "counted other duplicates")
        require(not fresh or not batch.sealed, "a sealed batch took requests", batch=batch_id)
        for request in fresh.values():
            self._number += 1
            self._enter(batch, request)
        require(not self._over_quota(tenant, quota, more=0, size=0), "over the quota")
        if fresh and len(batch.requests) == batch.spec.size:
            batch.sealed = True
        require(not batch.spec.size or len(batch.requests) <= batch.spec.size, "over its size")
        require(submitted.sealed == batch.sealed, "says another state of the batch")
        groups = Counter(one.request.group_id for one in batch.requests.values())
        groups.pop("", None)  # type: ignore[call-overload]  # ids are strings
        most = max(groups.values(), default=0)
        require(not batch.spec.group_size or most <= batch.spec.group_size, "over the group size")

    def _enter(self, batch: BatchEntry, request: NewRequest) -> None:
        stage = batch.task.stages[0]
        entry = Entry(batch, request, self._number, stage, (0, 0))
        batch.requests[request.request_id] = entry
        self.open_by_tenant[batch.spec.tenant] += 1
        self.bytes_by_tenant[batch.spec.tenant] += payload_bytes(request)
        self._queue(entry)

    def _refused(self, batch: BatchEntry | None, command: Command) -> None:
        tenant, _, requests, quota = command.args
        if isinstance(command.answer, Saturated) and batch is not None:
            fresh = [r for r in requests if r.request_id not in batch.requests]
            size = sum(map(payload_bytes, fresh)) - batch.bytes_reserved
            more = len(fresh) - batch.requests_reserved
            over = self._over_quota(tenant, quota, more=max(0, more), size=max(0, size))
            require(over, "requests were refused below the quota", tenant=tenant)
        if isinstance(command.answer, NotFound):
            require(batch is None, "a batch that is there was not found", batch=command.args[1])

    def _seal(self, command: Command) -> None:
        if not isinstance(command.answer, AssayError):
            batch = self.batches[command.args]
            batch.sealed = True
            self._settle(batch)
            self._same(batch, command.answer)

    def _cancel(self, command: Command) -> None:
        if isinstance(command.answer, AssayError):
            return
        batch = self.batches[command.args]
        record, count = command.answer
        live = batch.live
        if not batch.over:
            require(count == len(live), "cancelled another number of requests")
            batch.sealed, batch.closing = True, Outcome.CANCELLED
            for entry in live:
                self._end(entry, Outcome.CANCELLED, None)
            self._settle(batch)
        else:
            require(count == 0, "cancelled what had ended")
        self._same(batch, record)

    def _cancel_requests(self, command: Command) -> None:
        if isinstance(command.answer, AssayError):
            return
        batch = self.batches[command.args]
        names, groups = command.options["request_ids"], command.options["group_ids"]
        record, count = command.answer
        chosen = [
            entry
            for entry in ([] if batch.closing else batch.live)
            if entry.request.request_id in names or entry.request.group_id in groups
        ]
        require(count == len(chosen), "cancelled another number of requests", known=len(chosen))
        for entry in chosen:
            self._end(entry, Outcome.CANCELLED, None)
        self._settle(batch)
        self._same(batch, record)

    def _get_batch(self, command: Command) -> None:
        batch = self.batches.get(command.args[:2])
        if isinstance(command.answer, AssayError):
            require(batch is None, "a batch that is there was not found", batch=command.args)
        else:
            require(batch is not None, "a batch was found that is not there")
            assert batch is not None  # noqa: S101 - for the checker
            self._same(batch, command.answer)

    def _same(self, batch: BatchEntry, record: BatchRecord) -> None:
        """A batch's counters must equal the ledger's."""
        facts = (len(batch.requests), batch.outcomes.total(), batch.running)
        shown = (record.submitted, record.ended, record.running)
        require(facts == shown, "a batch shows other counters", known=facts, shown=shown)
        require(
            record.submitted == record.ended + record.queued + record.running,
            "a batch's counters do not balance",
        )
        outcomes = {outcome: count for outcome, count in batch.outcomes.items() if count}
        require(outcomes == record.outcomes, "a batch shows other outcomes", known=outcomes)
        require(record.deadline_ns == batch.deadline_ns, "a batch shows another deadline")
        state = BatchState.SEALED if batch.sealed else BatchState.OPEN
        if batch.over:
            cancelled = batch.closing is Outcome.CANCELLED
            state = BatchState.CANCELLED if cancelled else BatchState.COMPLETE
        require(record.state == state, "a batch shows another state", known=state)

    def _results(self, command: Command) -> None:
        if isinstance(command.answer, AssayError):
            return
        batch = self.batches[command.args[:2]]
        entries: Sequence[LogEntry] = command.answer
        for found in entries:
            if isinstance(found, ResultRecord):
                entry = batch.requests.get(found.request_id)
                require(entry is not None, "a result of no request", id=found.request_id)
                assert entry is not None  # noqa: S101 - for the checker
                require(entry.outcomes == [found.outcome], "a result with another outcome")
                require(entry.reward == found.reward, "a result with another reward")

    # -- workers -------------------------------------------------------------------------------
    def _queue(self, entry: Entry) -> None:
        entry.place, entry.lease, entry.queued_ns = "queued", None, self._now_ns
        order_ms = -(-entry.batch.order_ns // 1_000_000)
        entry.rank = (order_ms, entry.number)
        tenants = self.queued[entry.stage]
        tenant = entry.batch.spec.tenant
        if not tenants[tenant]:
            self.races[entry.stage].join(tenant, self._waiting(entry.stage, tenant))
        tenants[tenant][entry] = None

    def waits_since_ns(self, stage: StageName) -> int | None:
        """Since when the request that joined the stage's queue first waits; `None` = none waits."""
        firsts = (next(iter(one), None) for one in self.queued[stage].values())
        return min((entry.queued_ns for entry in firsts if entry is not None), default=None)

    def _unqueue(self, entry: Entry) -> None:
        del self.queued[entry.stage][entry.batch.spec.tenant][entry]

    def _claim(self, command: Command) -> None:
        if isinstance(command.answer, AssayError):
            return
        stage: StageName = command.args[0]
        claims: Sequence[Claim] = command.answer
        claims_max = command.options["claims_max"]
        require(len(claims) <= claims_max, "more was claimed than asked for")
        for claim in claims:
            self._one_claim(stage, claim, command)
        waiting = sum(len(one) for one in self.queued[stage].values())
        require(len(claims) == claims_max or not waiting, "not all was claimed that could be")

    def _one_claim(self, stage: StageName, claim: Claim, command: Command) -> None:
        batch = self.batches.get((claim.task.tenant, claim.batch_id))
        entry = batch.requests.get(claim.request_id) if batch is not None else None
        require(entry is not None, "what was claimed was never accepted", id=claim.request_id)
        assert entry is not None  # noqa: S101 - for the checker
        require(entry.place == "queued", "claimed where it does not wait", place=entry.place)
        require(entry.stage == stage == claim.stage, "claimed at another stage")
        require(claim.lease.fence > self.fence, "a fence that is not new", fence=claim.lease.fence)
        require(claim.response == entry.request.response, "claimed with another response")
        require(claim.messages == entry.request.messages, "claimed with another transcript")
        require(claim.artifacts == entry.request.artifacts, "claimed with other artifacts")
        require(claim.attempt == entry.attempts + 1, "another attempt than is counted")
        require(claim.deadline_ns == entry.batch.deadline_ns, "claimed with another deadline")
        require(entry.job_id in {None, claim.lease.job_id}, "a request under another name")
        tenant = claim.task.tenant
        first = min(self.queued[stage][tenant], key=lambda one: one.rank)
        require(first is entry, "not the first of its tenant", first=first.rank, got=entry.rank)
        self.fence = claim.lease.fence
        self._serve(stage, entry)
        self._unqueue(entry)
        entry.place, entry.lease, entry.job_id = "leased", claim.lease, claim.lease.job_id
        entry.attempts += 1
        entry.claimed_ns = command.now_ns
        entry.expires_ns = command.now_ns + int(command.options["lease_s"] * 1e9)
        entry.batch.running += 1
        self.leased[stage][claim.lease.job_id] = entry

    def _serve(self, stage: StageName, entry: Entry) -> None:
        """Others that wait fall behind by what this one costs."""
        if entry.attempts:
            return
        tenant = entry.batch.spec.tenant
        cost = script_of(entry.request.response).holds_s(stage) / entry.batch.spec.weight
        self.races[stage].serve(tenant, cost, self._waiting(stage, tenant))

    def _waiting(self, stage: StageName, apart_from: TenantId) -> list[TenantId]:
        """The other tenants that wait at the stage."""
        return [one for one, some in self.queued[stage].items() if some and one != apart_from]

    def _beat(self, command: Command) -> None:
        if isinstance(command.answer, AssayError):
            return
        stage, leases = command.args[0], command.options["leases"]
        held = {one.lease for one in self.leased[stage].values()}
        lost = [lease for lease in leases if lease not in held]
        require(list(command.answer) == lost, "a beat loses other leases", known=lost)
        for entry in self.leased[stage].values():
            if entry.lease in leases:
                entry.expires_ns = command.now_ns + int(command.options["lease_s"] * 1e9)

    def _finish(self, command: Command) -> None:
        if isinstance(command.answer, AssayError):
            return
        stage, reports, attempts_max = command.args
        finished: Finished = command.answer
        touched: dict[BatchEntry, None] = {}
        for report, status in zip(reports, finished.statuses, strict=True):
            entry = self.leased[stage].get(report.lease.job_id)
            is_held = entry is not None and entry.lease == report.lease
            require(is_held == (status is FinishStatus.DONE), "a stale report counts, or none does")
            if entry is not None and is_held:
                self._report(entry, report, attempts_max)
                touched[entry.batch] = None
        self._completed(touched, finished)

    def _completed(self, touched: dict[BatchEntry, None], answer: Finished | Reaped) -> None:
        before = {batch for batch in touched if batch.over}
        for batch in touched:
            self._settle(batch)
        done = {
            (batch.spec.tenant, batch.spec.batch_id)
            for batch in touched
            if batch.over and batch not in before and batch.closing is not Outcome.CANCELLED
        }
        said = {(one.tenant, one.batch_id) for one in answer.completed}
        require(said == done, "other batches are complete", known=done, said=said)

    def _report(self, entry: Entry, report: Report, attempts_max: int) -> None:
        finish = report.finish
        held_ns = report.report.finished_after_ns - report.report.started_after_ns
        spec = entry.batch.spec
        self.races[entry.stage].costs(spec.tenant, held_ns / 1e9 / spec.weight)
        self._release(entry)
        require(entry.attempts <= attempts_max, "more attempts than allowed")
        match finish:
            case EndRequest():
                self._judge(entry, finish)
                self._end(entry, finish.outcome, finish.reward)
            case HandOver():
                stages = entry.batch.task.stages
                require(entry.stage != stages[-1], "the last stage hands over")
                following = stages[stages.index(entry.stage) + 1]
                require(finish.next_stage == following, "handed over to another stage")
                entry.stage, entry.attempts = following, 0
                self._queue(entry)
            case FailAttempt() if self.is_calm and script_of(entry.request.response).is_sound:
                require(False, "an attempt failed where nothing fails", finish=finish)  # noqa: FBT003
            case FailAttempt() if entry.attempts >= attempts_max:
                self._end(entry, Outcome.INFRA_FAILED, None)
            case FailAttempt():
                self._queue(entry)
            case GiveBack():
                entry.attempts -= 1
                self._queue(entry)

    def _judge(self, entry: Entry, finish: EndRequest) -> None:
        """A verdict is the one that the very request must get."""
        script = script_of(entry.request.response)
        require(finish.outcome is script.outcome, "judged otherwise", got=finish.outcome)
        require(finish.reward == script.reward, "another reward", script=script, got=finish.reward)
        stage = entry.batch.task.stages[-1]
        if script.outcome is Outcome.SCORED:
            require(entry.stage == stage, "it ended before its last stage")

    def _release(self, entry: Entry) -> None:
        assert entry.lease is not None  # noqa: S101 - for the checker
        del self.leased[entry.stage][entry.lease.job_id]
        entry.batch.running -= 1
        entry.lease = None

    def _end(self, entry: Entry, outcome: Outcome, reward: float | None) -> None:
        if entry.place == "queued":
            self._unqueue(entry)
        elif entry.lease is not None:
            self.withdrawn[entry.lease] = self._now_ns
            # A claim that is withdrawn is charged for the time that it held its worker, even if it
            # waited there behind another.
            held_s = (self._now_ns - entry.claimed_ns) / 1e9
            spec = entry.batch.spec
            self.races[entry.stage].costs(spec.tenant, held_s / spec.weight)
            self._release(entry)
        require(not entry.outcomes, "a second outcome", had=entry.outcomes, got=outcome)
        entry.place, entry.reward = "ended", reward
        entry.outcomes.append(outcome)
        entry.batch.outcomes[outcome] += 1
        tenant = entry.batch.spec.tenant
        self.open_by_tenant[tenant] -= 1
        self.bytes_by_tenant[tenant] -= payload_bytes(entry.request)
        self.ended += 1
        if self.is_calm and outcome is Outcome.INFRA_FAILED:
            script = script_of(entry.request.response)
            require(script.outcome is outcome, "it failed where nothing fails", script=script)

    def _settle(self, batch: BatchEntry) -> None:
        if batch.sealed and not batch.over and not batch.live:
            batch.over = True
            self.reserving.pop((batch.spec.tenant, batch.spec.batch_id), None)

    def _reap(self, command: Command) -> None:
        if isinstance(command.answer, AssayError):
            return
        reaped: Reaped = command.answer
        stage, attempts_max = command.args[0], command.options["attempts_max"]
        jobs_max = command.options["jobs_max"]
        lost = sorted(
            (e for e in self.leased[stage].values() if e.expires_ns <= command.now_ns),
            key=lambda e: (e.expires_ns, e.job_id or ""),
        )[:jobs_max]
        require(not self.is_calm or not lost, "a lease ran out though nothing went wrong")
        dead = [entry for entry in lost if entry.attempts >= attempts_max]
        counts = (len(lost) - len(dead), len(dead))
        said = (reaped.redelivered, reaped.dead)
        require(counts == said, "other leases were taken back", known=counts, said=said)
        touched: dict[BatchEntry, None] = {}
        for entry in lost:
            touched[entry.batch] = None
            self._release(entry)
            if entry in dead:
                self._end(entry, Outcome.INFRA_FAILED, None)
            else:
                self._queue(entry)
        expired = self._expire(command.now_ns, jobs_max, touched)
        require(expired == reaped.expired, "other requests expired", known=expired)
        self._completed(touched, reaped)

    def _expire(self, now_ns: int, jobs_max: int, touched: dict[BatchEntry, None]) -> int:
        overdue = sorted(
            (b for b in self.batches.values() if b.overdue_ns <= now_ns and not b.over),
            key=lambda b: (b.overdue_ns, b.spec.tenant, b.spec.batch_id),
        )[:SWEEP_BATCHES_MAX]
        expired = 0
        for batch in overdue:
            live = sorted(batch.live, key=lambda e: e.number)[: jobs_max - expired]
            batch.closing = batch.closing or Outcome.EXPIRED
            batch.sealed = True
            for entry in live:
                self._end(entry, batch.closing, None)
            expired += len(live)
            touched[batch] = None
        return expired

    def _prioritize(self, command: Command) -> None:
        if not isinstance(command.answer, AssayError):
            tenant, batch_id, deadline_ns = command.args
            self.batches[tenant, batch_id].prioritized_ns = deadline_ns

    # -- operators ----------------------------------------------------------------
    def _depths(self, command: Command) -> None:
        depths: Sequence[StageDepth] = command.answer
        for depth in depths:
            queued = sum(len(one) for one in self.queued[depth.stage].values())
            known = (queued, len(self.leased[depth.stage]))
            shown = (depth.queued, depth.running)
            require(known == shown, "a queue shows another depth", known=known, shown=shown)


def refold(commands: Sequence[Command], *, is_calm: bool) -> Ledger:
    """The ledger of a truncated log, after a failover."""
    ledger = Ledger(is_calm=is_calm)
    for command in commands:
        ledger.take(command)
    return ledger
