"""Commands of the reward service: tasks, batches, requests, results.

* Conservation: the reported counters of a batch are those of the books, and
  `submitted = ended + queued + running`.
* Quotas are never exceeded, and nothing is refused below them.
"""

from collections import Counter
from collections.abc import Sequence

from assay.core.errors import AssayError, NotFound, Saturated
from assay.core.ids import TenantId
from assay.core.outcome import Outcome
from assay.core.records import (
    BatchRecord,
    BatchSpec,
    BatchState,
    LogEntry,
    NewRequest,
    Quota,
    ResultRecord,
    Submitted,
    TaskRecord,
)
from assay.sim.platform.ledger.books import Books
from assay.sim.platform.ledger.entries import BatchEntry, Take, require
from assay.sim.platform.store import LIMITS, SimulatedCall


class TrainerCommands:
    """Checks them against the books and keeps the books."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self.takes: dict[str, Take] = {
            "put_task": self._put_task,
            "open_batch": self._open_batch,
            "open_filled": self._open_filled,
            "submit": self._submit,
            "seal": self._seal,
            "cancel": self._cancel,
            "cancel_requests": self._cancel_requests,
            "get_batch": self._get_batch,
            "results": self._results,
            "prioritize": self._prioritize,
        }

    def _put_task(self, command: SimulatedCall) -> None:
        if not isinstance(command.answer, AssayError):
            task: TaskRecord = command.args[0]
            self._books.tasks[task.tenant, task.task_id] = task

    def _open_batch(self, command: SimulatedCall) -> None:
        spec, quota = command.args
        if isinstance(command.answer, Saturated):
            require(self._may_not_open(spec, quota), "a batch was refused below the quota")
        if isinstance(command.answer, AssayError):
            return
        record, created = command.answer
        key = spec.tenant, spec.batch_id
        require(created == (key not in self._books.batches), "a batch was opened twice", batch=key)
        self._enter_batch(spec, quota, command)
        _same(self._books.batches[key], record)

    def _may_not_open(self, spec: BatchSpec, quota: Quota) -> bool:
        """Whether the quota is too small for one more batch."""
        size = spec.bytes_reserved
        return len(self._open_of(spec.tenant)) >= quota.batches_open_max or self._books.over_quota(
            spec.tenant, quota, more=spec.requests_reserved, size=size
        )

    def _open_of(self, tenant: TenantId) -> list[BatchEntry]:
        return [b for b in self._books.batches.values() if b.spec.tenant == tenant and not b.over]

    def _enter_batch(self, spec: BatchSpec, quota: Quota, command: SimulatedCall) -> None:
        """A batch is open, and its task is registered."""
        implicit = command.options.get("implicit")
        if implicit is not None:
            self._books.tasks[implicit.tenant, implicit.task_id] = implicit
        key = spec.tenant, spec.batch_id
        if key in self._books.batches:
            return
        mine = len(self._open_of(spec.tenant))
        self._books.batches[key] = BatchEntry(
            spec=spec,
            task=self._books.tasks[spec.tenant, spec.task_id],
            quota=quota,
            opened_ns=command.now_ns,
            overdue_ns=spec.deadline_of(command.now_ns) + LIMITS.batch_overdue_ns,
        )
        require(mine + 1 <= quota.batches_open_max, "more batches open than the quota")
        if spec.requests_reserved:
            self._books.reserving[key] = self._books.batches[key]
        over = self._books.over_quota(spec.tenant, quota, more=0, size=0)
        require(not over, "over the quota")

    def _open_filled(self, command: SimulatedCall) -> None:
        """Of one that is refused, neither a batch nor a request is there."""
        spec, requests, quota = command.args
        key = spec.tenant, spec.batch_id
        there = self._books.batches.get(key)
        if isinstance(command.answer, AssayError):
            if isinstance(command.answer, Saturated) and there is None:
                require(self._may_not_open(spec, quota), "a batch was refused below the quota")
            return
        self._enter_batch(spec, quota, command)
        self._accepted(self._books.batches[key], requests, quota, command.answer)

    def _submit(self, command: SimulatedCall) -> None:
        tenant, batch_id, requests, quota = command.args
        batch = self._books.batches.get((tenant, batch_id))
        if isinstance(command.answer, AssayError):
            self._refused(batch, command)
            return
        require(batch is not None, "requests were accepted into no batch", batch=batch_id)
        assert batch is not None  # noqa: S101 - for the checker
        self._accepted(batch, requests, quota, command.answer)

    def _accepted(
        self,
        batch: BatchEntry,
        requests: Sequence[NewRequest],
        quota: Quota,
        submitted: Submitted,
    ) -> None:
        tenant, batch_id = batch.spec.tenant, batch.spec.batch_id
        fresh = {r.request_id: r for r in requests if r.request_id not in batch.requests}
        require(submitted.accepted == len(fresh), "accepted another number of requests")
        require(submitted.duplicates == len(requests) - len(fresh), "counted other duplicates")
        require(not fresh or not batch.sealed, "a sealed batch took requests", batch=batch_id)
        for request in fresh.values():
            self._books.enter(batch, request)
        require(not self._books.over_quota(tenant, quota, more=0, size=0), "over the quota")
        if fresh and len(batch.requests) == batch.spec.size:
            batch.sealed = True
        self._books.open_groups(batch)
        require(not batch.spec.size or len(batch.requests) <= batch.spec.size, "over its size")
        require(submitted.sealed == batch.sealed, "says another state of the batch")
        groups = Counter(one.request.group_id for one in batch.requests.values())
        groups.pop("", None)  # type: ignore[call-overload]  # ids are strings
        most = max(groups.values(), default=0)
        require(not batch.spec.group_size or most <= batch.spec.group_size, "over the group size")

    def _refused(self, batch: BatchEntry | None, command: SimulatedCall) -> None:
        tenant, _, requests, quota = command.args
        if isinstance(command.answer, Saturated) and batch is not None:
            fresh = [r for r in requests if r.request_id not in batch.requests]
            size = sum(one.payload_bytes for one in fresh) - batch.bytes_reserved
            more = len(fresh) - batch.requests_reserved
            over = self._books.over_quota(tenant, quota, more=max(0, more), size=max(0, size))
            require(over, "requests were refused below the quota", tenant=tenant)
        if isinstance(command.answer, NotFound):
            require(batch is None, "a batch that is there was not found", batch=command.args[1])

    def _seal(self, command: SimulatedCall) -> None:
        if not isinstance(command.answer, AssayError):
            batch = self._books.batches[command.args]
            batch.sealed = True
            self._books.settle(batch)
            _same(batch, command.answer)

    def _cancel(self, command: SimulatedCall) -> None:
        if isinstance(command.answer, AssayError):
            return
        batch = self._books.batches[command.args]
        record, count = command.answer
        live = batch.live
        if not batch.over:
            require(count == len(live), "cancelled another number of requests")
            batch.sealed, batch.closing = True, Outcome.CANCELLED
            for entry in live:
                self._books.end(entry, Outcome.CANCELLED, None)
            self._books.settle(batch)
        else:
            require(count == 0, "cancelled what had ended")
        _same(batch, record)

    def _cancel_requests(self, command: SimulatedCall) -> None:
        if isinstance(command.answer, AssayError):
            return
        batch = self._books.batches[command.args]
        names, groups = command.options["request_ids"], command.options["group_ids"]
        record, count = command.answer
        chosen = [
            entry
            for entry in ([] if batch.closing else batch.live)
            if entry.request.request_id in names or entry.request.group_id in groups
        ]
        require(count == len(chosen), "cancelled another number of requests", known=len(chosen))
        for entry in chosen:
            self._books.end(entry, Outcome.CANCELLED, None)
        self._books.settle(batch)
        _same(batch, record)

    def _get_batch(self, command: SimulatedCall) -> None:
        batch = self._books.batches.get(command.args[:2])
        if isinstance(command.answer, AssayError):
            require(batch is None, "a batch that is there was not found", batch=command.args)
        else:
            require(batch is not None, "a batch was found that is not there")
            assert batch is not None  # noqa: S101 - for the checker
            _same(batch, command.answer)

    def _results(self, command: SimulatedCall) -> None:
        if isinstance(command.answer, AssayError):
            return
        batch = self._books.batches[command.args[:2]]
        entries: Sequence[LogEntry] = command.answer
        for found in entries:
            if isinstance(found, ResultRecord):
                entry = batch.requests.get(found.request_id)
                require(entry is not None, "a result of no request", id=found.request_id)
                assert entry is not None  # noqa: S101 - for the checker
                require(entry.outcomes == [found.outcome], "a result with another outcome")
                require(entry.reward == found.reward, "a result with another reward")

    def _prioritize(self, command: SimulatedCall) -> None:
        if not isinstance(command.answer, AssayError):
            tenant, batch_id, deadline_ns = command.args
            self._books.batches[tenant, batch_id].prioritized_ns = deadline_ns


def _same(batch: BatchEntry, record: BatchRecord) -> None:
    """A batch's counters must equal those of the books."""
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
    if batch.over and not batch.live:
        _same_shift(batch, record)
    state = BatchState.SEALED if batch.sealed else BatchState.OPEN
    if batch.over:
        cancelled = batch.closing is Outcome.CANCELLED
        state = BatchState.CANCELLED if cancelled else BatchState.COMPLETE
    require(record.state == state, "a batch shows another state", known=state)


def _same_shift(batch: BatchEntry, record: BatchRecord) -> None:
    grouped, shift_micro = batch.shift_micro()
    require(record.grouped == grouped, "a batch shows other groups", known=grouped)
    # A group's rewards may be listed in another order, and rounded otherwise.
    near = abs(record.shift_micro - shift_micro) <= grouped
    require(near, "a batch shows another shift of advantages", known=shift_micro)
