"""Commands of worker hosts: claims, beats, reports, reaping; depths of queues.

* Each request has one outcome, and its own reward.
* Order: a claim is the first of its tenant by batch deadline, then arrival; no tenant that
  waits falls behind another by more than a bounded amount of service.
* Leases: fences only grow; only the newest holder's report counts; attempts are counted exactly; a
  lease that expired is taken back, one that did not is not, unless its worker is known to be dead:
  then all that this worker holds is taken back, and nothing else.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from assay.core.errors import AssayError
from assay.core.ids import StageName, WorkerId
from assay.core.outcome import Outcome
from assay.core.records import (
    Claim,
    EndRequest,
    FailAttempt,
    Finished,
    FinishGroup,
    FinishStatus,
    GiveBack,
    HandOver,
    Member,
    NewRequest,
    Reaped,
    Report,
    StageDepth,
)
from assay.core.store_limits import ANSWERS_NOTED
from assay.sim.platform.ledger.books import Books
from assay.sim.platform.ledger.entries import BatchEntry, Entry, Take, require
from assay.sim.platform.pipelines import script_of
from assay.sim.platform.store import SimulatedCall

SWEEP_BATCHES_MAX: Final = 8


@dataclass(slots=True)
class _Answers:
    """What the store remembers of a worker's claims at a stage."""

    entries: deque[Sequence[Entry]] = field(default_factory=lambda: deque(maxlen=ANSWERS_NOTED))
    until_ns: int = 0


class WorkerCommands:
    """Checks them against the books and keeps the books."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._answers: dict[tuple[StageName, WorkerId], _Answers] = {}
        self.takes: dict[str, Take] = {
            "claim": self._claim,
            "beat": self._beat,
            "finish": self._finish,
            "reap": self._reap,
            "take_back": self._take_back,
            "give_back_undelivered": self._undelivered,
            "depths": self._depths,
        }

    def _claim(self, command: SimulatedCall) -> None:
        if isinstance(command.answer, AssayError):
            return
        stage: StageName = command.args[0]
        claims: Sequence[Claim] = command.answer
        claims_max = command.options["claims_max"]
        require(len(claims) <= claims_max, "more was claimed than asked for")
        for claim in claims:
            self._one_claim(stage, claim, command)
        if claims:
            self._note_answer(stage, claims, command)
        waiting = sum(len(one) for one in self._books.queued[stage].values())
        require(len(claims) == claims_max or not waiting, "not all was claimed that could be")

    def _note_answer(
        self, stage: StageName, claims: Sequence[Claim], command: SimulatedCall
    ) -> None:
        """The store remembers the latest answers for as long as a lease lasts that none renews."""
        key = stage, command.options["worker"]
        known = self._answers.get(key)
        if known is None or known.until_ns <= command.now_ns:
            known = self._answers[key] = _Answers()
        leased = self._books.leased[stage]
        known.entries.append([leased[claim.lease.job_id] for claim in claims])
        known.until_ns = command.now_ns + int(command.options["lease_s"] * 1e9)

    def _one_claim(self, stage: StageName, claim: Claim, command: SimulatedCall) -> None:
        batch = self._books.batches.get((claim.task.tenant, claim.batch_id))
        entry = None if batch is None else _claimed(batch, claim)
        require(entry is not None, "what was claimed was never accepted", id=claim.request_id)
        assert entry is not None  # noqa: S101 - for the checker
        require(entry.place == "queued", "claimed where it does not wait", place=entry.place)
        require(entry.stage == stage == claim.stage, "claimed at another stage")
        fence = claim.lease.fence
        require(fence > self._books.fence, "a fence that is not new", fence=fence)
        require(claim.response == entry.request.response, "claimed with another response")
        self._members(entry, claim)
        require(claim.messages == entry.request.messages, "claimed with another transcript")
        require(claim.artifacts == entry.request.artifacts, "claimed with other artifacts")
        require(claim.attempt == entry.attempts + 1, "another attempt than is counted")
        require(claim.deadline_ns == entry.batch.deadline_ns, "claimed with another deadline")
        require(entry.job_id in {None, claim.lease.job_id}, "a request under another name")
        tenant = claim.task.tenant
        first = min(self._books.queued[stage][tenant], key=lambda one: one.rank)
        require(first is entry, "not the first of its tenant", first=first.rank, got=entry.rank)
        self._books.fence = fence
        self._serve(stage, entry)
        self._books.unqueue(entry)
        entry.place, entry.lease, entry.job_id = "leased", claim.lease, claim.lease.job_id
        entry.worker = command.options["worker"]
        entry.attempts += 1
        entry.claimed_ns = command.now_ns
        entry.expires_ns = command.now_ns + int(command.options["lease_s"] * 1e9)
        entry.batch.running += entry.requests
        self._books.leased[stage][claim.lease.job_id] = entry

    def _members(self, entry: Entry, claim: Claim) -> None:
        """A group is claimed with all of its requests that have not ended, each as it is."""
        members = sorted(entry.members or (), key=lambda one: one.number)
        known = [(one.job_id, one.request.request_id, *_content(one.request)) for one in members]
        got = [(one.job_id, one.request_id, *_content(one)) for one in claim.members]
        require(got == known, "a group with other requests", known=known, got=got)
        submitted = len(entry.batch.group(entry.request.group_id)) if members else 0
        require(claim.submitted == submitted, "a group of another size", known=submitted)

    def _serve(self, stage: StageName, entry: Entry) -> None:
        """Others that wait fall behind by what this one costs."""
        if entry.attempts:
            return
        tenant = entry.batch.spec.tenant
        parts = [entry] if entry.members is None else entry.members
        held_s = max(script_of(one.request).holds_s(stage) for one in parts)
        leased = self._books.leased[stage].values()
        running = sum(one.batch.spec.tenant == tenant for one in leased)
        waiting = self._books.waiting(stage, tenant)
        self._books.races[stage].serve(tenant, held_s, entry.batch.spec.weight, waiting, running)

    def _beat(self, command: SimulatedCall) -> None:
        if isinstance(command.answer, AssayError):
            return
        stage, leases = command.args[0], command.options["leases"]
        held = {one.lease for one in self._books.leased[stage].values()}
        lost = [lease for lease in leases if lease not in held]
        require(list(command.answer) == lost, "a beat loses other leases", known=lost)
        for entry in self._books.leased[stage].values():
            if entry.lease in leases:
                entry.expires_ns = command.now_ns + int(command.options["lease_s"] * 1e9)

    def _finish(self, command: SimulatedCall) -> None:
        if isinstance(command.answer, AssayError):
            return
        stage, reports, attempts_max = command.args
        finished: Finished = command.answer
        touched: dict[BatchEntry, None] = {}
        for report, status in zip(reports, finished.statuses, strict=True):
            entry = self._books.leased[stage].get(report.lease.job_id)
            is_held = entry is not None and entry.lease == report.lease
            require(is_held == (status is FinishStatus.DONE), "a stale report counts, or none does")
            if entry is not None and is_held:
                self._report(entry, report, attempts_max)
                touched[entry.batch] = None
        self._completed(touched, finished)

    def _completed(self, touched: dict[BatchEntry, None], answer: Finished | Reaped) -> None:
        before = {batch for batch in touched if batch.over}
        for batch in touched:
            self._books.settle(batch)
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
        self._books.races[entry.stage].end(spec.tenant, held_ns / 1e9, spec.weight)
        self._books.release(entry)
        require(entry.attempts <= attempts_max, "more attempts than allowed")
        match finish:
            case EndRequest():
                self._judge(entry, finish)
                self._books.end(entry, finish.outcome, finish.reward)
            case HandOver():
                stages = entry.batch.task.stages
                require(entry.stage != stages[-1], "the last stage hands over")
                following = stages[stages.index(entry.stage) + 1]
                require(finish.next_stage == following, "handed over to another stage")
                entry.stage, entry.attempts = following, 0
                gathers = following == entry.batch.task.group_stage
                require(finish.gathers == gathers, "handed over to a group, or to none")
                (self._books.gather if gathers else self._books.queue)(entry)
            case FinishGroup():
                self._judge_group(entry, finish)
            case FailAttempt() if self._books.is_calm and _is_sound(entry):
                require(False, "an attempt failed where nothing fails", finish=finish)  # noqa: FBT003
            case FailAttempt() if entry.attempts >= attempts_max:
                self._books.fail(entry)
            case FailAttempt():
                self._books.queue(entry)
            case GiveBack():
                entry.attempts -= 1
                self._books.queue(entry)

    def _judge_group(self, entry: Entry, finish: FinishGroup) -> None:
        """Each member has its own verdict; those that left the group meanwhile keep theirs."""
        require(entry.members is not None, "one request is judged as a group")
        members = {one.job_id: one for one in entry.members or ()}
        self._books.close_group(entry)
        for job_id, said in finish.members:
            member = members.pop(job_id, None)
            if member is None:
                continue
            require(isinstance(said, EndRequest), "a member of a group has no verdict", got=said)
            assert isinstance(said, EndRequest)  # noqa: S101 - for the checker
            self._judge(member, said)
            self._books.end(member, said.outcome, said.reward)
        require(not members, "members of a group have no verdict", members=list(members))

    def _judge(self, entry: Entry, finish: EndRequest) -> None:
        """A verdict is the one that the very request must get."""
        script = script_of(entry.request)
        require(finish.outcome is script.outcome, "judged otherwise", got=finish.outcome)
        require(finish.reward == script.reward, "another reward", script=script, got=finish.reward)
        stage = entry.batch.task.stages[-1]
        if script.outcome is Outcome.SCORED:
            require(entry.stage == stage, "it ended before its last stage")

    def _reap(self, command: SimulatedCall) -> None:
        if isinstance(command.answer, AssayError):
            return
        reaped: Reaped = command.answer
        stage, attempts_max = command.args[0], command.options["attempts_max"]
        jobs_max = command.options["jobs_max"]
        lost = sorted(
            (e for e in self._books.leased[stage].values() if e.expires_ns <= command.now_ns),
            key=lambda e: (e.expires_ns, e.job_id or ""),
        )[:jobs_max]
        require(not self._books.is_calm or not lost, "a lease ran out though nothing went wrong")
        touched = self._lose(lost, attempts_max, reaped)
        expired = self._expire(command.now_ns, jobs_max, touched)
        require(expired == reaped.expired, "other requests expired", known=expired)
        self._completed(touched, reaped)

    def _undelivered(self, command: SimulatedCall) -> None:
        """What the worker was leased by its latest claims and does not know goes back as if never
        claimed, also what it has judged where the store forgot that."""
        if isinstance(command.answer, AssayError):
            return
        stage, worker = command.args[0], command.options["worker"]
        known = set(command.options["leases"])
        noted = self._answers.get((stage, worker), _Answers())
        remembered = {id(one) for answer in noted.entries for one in answer}
        unknown = [
            one
            for one in self._books.leased[stage].values()
            if one.worker == worker
            and one.lease not in known
            and one.expires_ns > command.now_ns
            and noted.until_ns > command.now_ns
            and id(one) in remembered
        ]
        require(len(unknown) == command.answer, "other leases were given back", known=unknown)
        for entry in unknown:
            self._books.release(entry)
            entry.attempts -= 1
            self._books.queue(entry)

    def _take_back(self, command: SimulatedCall) -> None:
        """All that a worker holds at a stage is lost at once, and nothing else."""
        if isinstance(command.answer, AssayError):
            return
        stage, worker = command.args
        held = [one for one in self._books.leased[stage].values() if one.worker == worker]
        require(not self._books.is_calm or not held, "a sound worker is given up")
        touched = self._lose(held, command.options["attempts_max"], command.answer)
        self._completed(touched, command.answer)

    def _lose(
        self, lost: "Sequence[Entry]", attempts_max: int, reaped: Reaped
    ) -> dict[BatchEntry, None]:
        """These leases count as failed attempts; returns the batches concerned."""
        dead = [entry for entry in lost if entry.attempts >= attempts_max]
        counts = (len(lost) - len(dead), len(dead))
        said = (reaped.redelivered, reaped.dead)
        require(counts == said, "other leases were taken back", known=counts, said=said)
        touched: dict[BatchEntry, None] = {}
        for entry in lost:
            touched[entry.batch] = None
            self._books.release(entry)
            if entry in dead:
                self._books.fail(entry)
            else:
                self._books.queue(entry)
        return touched

    def _expire(self, now_ns: int, jobs_max: int, touched: dict[BatchEntry, None]) -> int:
        overdue = sorted(
            (b for b in self._books.batches.values() if b.overdue_ns <= now_ns and not b.over),
            key=lambda b: (b.overdue_ns, b.spec.tenant, b.spec.batch_id),
        )[:SWEEP_BATCHES_MAX]
        expired = 0
        for batch in overdue:
            live = sorted(batch.live, key=lambda e: e.number)[: jobs_max - expired]
            batch.closing = batch.closing or Outcome.EXPIRED
            batch.sealed = True
            for entry in live:
                self._books.end(entry, batch.closing, None)
            expired += len(live)
            touched[batch] = None
        return expired

    def _depths(self, command: SimulatedCall) -> None:
        depths: Sequence[StageDepth] = command.answer
        for depth in depths:
            queued = sum(len(one) for one in self._books.queued[depth.stage].values())
            known = (queued, len(self._books.leased[depth.stage]))
            shown = (depth.queued, depth.running)
            require(known == shown, "a queue shows another depth", known=known, shown=shown)


def _claimed(batch: BatchEntry, claim: Claim) -> Entry | None:
    """What a claim is of: a request, or a group."""
    if claim.members:
        return batch.whole.get(claim.group_id)
    return batch.requests.get(claim.request_id)


def _content(said: NewRequest | Member) -> tuple[Any, ...]:
    """What the trainer sent."""
    return said.response, said.messages, said.artifacts


def _is_sound(entry: Entry) -> bool:
    parts = [entry] if entry.members is None else entry.members
    return all(script_of(one.request).is_sound for one in parts)
