"""The reward service, independent of the transport: tasks, batches, requests in, results out.

Invariants: nothing is stored of a call that is refused; a call that returns is durable; every
method may be repeated after a lost reply. `stream` ends exactly when the batch is complete and all
its results were yielded. A `score` whose caller disconnects leaves a cancelled batch behind, never
a running one.
"""

import asyncio
import hashlib
import math
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import structlog

from assay.config.settings import RewardSettings
from assay.core.errors import (
    AssayError,
    DeadlinePassed,
    DependencyDown,
    InvalidRequest,
    NotFound,
)
from assay.core.group import GroupSummary, summarize
from assay.core.ids import (
    BatchId,
    GroupId,
    PipelineName,
    RequestId,
    StageName,
    TaskId,
    TenantId,
)
from assay.core.outcome import Outcome
from assay.core.records import (
    BatchRecord,
    BatchSpec,
    LogEntry,
    NewRequest,
    ResultRecord,
    Submitted,
    TaskRecord,
)
from assay.core.tools.lru import LruCache
from assay.edge.auth import Tenant
from assay.edge.clock import Clock
from assay.edge.metrics import Metrics
from assay.reward import admission
from assay.reward.deadline import deadline_after_ms
from assay.reward.drafts import BatchDraft, ResultsPage, Scored, ScoreDraft, TaskDraft
from assay.store.port import Pace, Store
from assay.verifiers.intake import parse_settings
from assay.verifiers.port import PipelineDefinition

PAGE_RESULTS_MAX: Final = 256
"""Results per message: below any client's message limit with the longest evidence."""
PART_REQUESTS_MAX: Final = 64
PART_BYTES_MAX: Final = 256 * 1024
"""Requests of a `score` that are stored at once."""
PAGE_EVERY_S: Final = 0.01
"""After a page that was not full, how long results may accumulate for the next: a stream of single
results costs as much as its requests do, and no trainer is faster for getting them at once."""
TASKS_KNOWN_MAX: Final = 10_000
BATCHES_KNOWN_MAX: Final = 10_000
TASK_KNOWN_S: Final = 3_600.0
BATCH_KNOWN_S: Final = 30.0
"""Shorter than the store keeps any batch, so that a reused name is looked up again."""
DEADLINE_KNOWN_S: Final = 2.0
"""How long an estimate is used: reading the history for every `score` costs more than the score."""
CANCEL_S_MAX: Final = 30.0
"""How long the cancellation of an abandoned batch may take."""
CURSOR_MAX: Final = 2**53

log = structlog.get_logger(__name__)

ResultT = TypeVar("ResultT")


Checked = Callable[[PipelineDefinition], Awaitable[list[NewRequest]]]
"""Returns a message's requests once the pipeline to check them against is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTask:
    """A task and its pipeline."""

    record: TaskRecord
    definition: PipelineDefinition


Turn = Callable[[TenantId], AbstractAsyncContextManager[None]]
"""Entered by few of a tenant's calls at a time."""


class RewardService:
    """All operations of reward.proto over a store."""

    def __init__(
        self,
        *,
        store: Store,
        pipelines: Mapping[PipelineName, PipelineDefinition],
        settings: RewardSettings,
        clock: Clock,
        metrics: Metrics,
        new_id: Callable[[], str],
        pace: Pace | None = None,
        turn: Turn | None = None,
    ) -> None:
        """Serve over `store`.

        Args:
            pace: awaited before requests are stored (absent: no wait).
            turn: entered while results are read, and by those who convert them (absent: no wait).
        """
        self._store = store
        self._pace = pace
        self._turn = turn
        self._clock = clock
        self._metrics = metrics
        self._pipelines = pipelines
        self._settings = settings
        self._new_id = new_id

        def now_s() -> float:
            return clock.monotonic_ns() / 1e9

        self._tasks: LruCache[tuple[TenantId, TaskId], KnownTask] = LruCache(
            weight_max=TASKS_KNOWN_MAX, age_s_max=TASK_KNOWN_S, now_s=now_s
        )
        self._batch_tasks: LruCache[tuple[TenantId, BatchId], TaskId] = LruCache(
            weight_max=BATCHES_KNOWN_MAX, age_s_max=BATCH_KNOWN_S, now_s=now_s
        )
        self._deadlines_ms: LruCache[tuple[TenantId, TaskId], int] = LruCache(
            weight_max=TASKS_KNOWN_MAX, age_s_max=DEADLINE_KNOWN_S, now_s=now_s
        )
        self._cancelling: set[asyncio.Task[None]] = set()
        self._background: set[asyncio.Task[Any]] = set()
        self._stopped: asyncio.Future[None] | None = None

    # -- tasks and pipelines -------------------------------------------------------------------
    @property
    def pipelines(self) -> Sequence[PipelineDefinition]:
        """Every pipeline that a task may name, by name."""
        return [self._pipelines[name] for name in sorted(self._pipelines)]

    async def register_task(self, tenant: Tenant, draft: TaskDraft) -> tuple[TaskRecord, bool]:
        """Register a task, or find the identical one (False).

        Raises:
            InvalidRequest, TooLarge, NotFound: the draft is wrong, the pipeline unknown.
            Conflict: a task of that name differs.
        """
        admission.check_task(draft)
        definition = admission.pipeline_of(self._pipelines, draft.pipeline, "task.pipeline")
        record = self._record(tenant, definition, draft)
        created = await self._store.put_task(record, tenant.quota)
        self._know(record, definition)
        return record, created

    async def hint(self, tenant: Tenant, task_id: str, size: int) -> None:
        """Store that requests of the task will come soon; 0 = a batch of the task's size.

        Raises:
            InvalidRequest, NotFound: the task's name or the size is wrong.
        """
        admission.bounded(size, "size", most=admission.BATCH_SIZE_MAX)
        task = await self._task(tenant, admission.task_name(task_id))
        await self._store.hint(
            tenant.tenant_id, task.record.task_id, size or task.record.batch_size
        )

    # -- batches -------------------------------------------------------------------------------
    async def open_batch(self, tenant: Tenant, draft: BatchDraft) -> tuple[BatchRecord, bool]:
        """Open a batch, or find the identical open one (False).

        Raises:
            InvalidRequest, NotFound, Conflict, Saturated: see `Store.open_batch`.
        """
        admission.check_batch(draft, self._clock.now_ns())
        task = await self._task(tenant, TaskId(draft.task_id))
        return await self._open(tenant, task, draft)

    async def submit(self, tenant: Tenant, batch_id: str, checked: Checked) -> Submitted:
        """Accept all requests or none.

        Raises:
            InvalidRequest, TooLarge: a request is wrong; `field` says which and where.
            NotFound, FailedPrecondition, Conflict, Saturated: see `Store.submit`.
        """
        batch = admission.batch_name(batch_id)
        task = await self._task_of(tenant, batch)
        requests = await checked(task.definition)
        if self._pace is None:
            return await self._store.submit(tenant.tenant_id, batch, requests, tenant.quota)
        await self._pace(tenant.tenant_id, 1)  # the rest before it becomes claimable
        return await self._store.submit(
            tenant.tenant_id, batch, requests, tenant.quota, pace=self._pace
        )

    async def seal(self, tenant: Tenant, batch_id: str) -> BatchRecord:
        """Accept no more requests; idempotent."""
        return await self._store.seal(tenant.tenant_id, admission.batch_name(batch_id))

    async def cancel(self, tenant: Tenant, batch_id: str) -> tuple[BatchRecord, int]:
        """End all requests that have not ended; idempotent."""
        return await self._cancel(tenant, admission.batch_name(batch_id))

    async def cancel_requests(
        self,
        tenant: Tenant,
        batch_id: str,
        *,
        request_ids: Sequence[str],
        group_ids: Sequence[str],
    ) -> tuple[BatchRecord, int]:
        """End these requests, and those of these groups, that have not ended; idempotent.

        Raises:
            NotFound: no such batch.
            InvalidRequest: no request and no group is named.
        """
        name = admission.batch_name(batch_id)
        if not request_ids and not group_ids:
            raise InvalidRequest("request_ids: name requests or groups", field="request_ids")
        task = await self._task_of(tenant, name)
        batch, cancelled = await self._store.cancel_requests(
            tenant.tenant_id,
            name,
            request_ids=[RequestId(one) for one in request_ids],
            group_ids=[GroupId(one) for one in group_ids if one],
        )
        self._count_cancelled(tenant, task, cancelled)
        return batch, cancelled

    async def get_batch(self, tenant: Tenant, batch_id: str) -> BatchRecord:
        """Current state of the batch."""
        return await self._store.get_batch(tenant.tenant_id, admission.batch_name(batch_id))

    # -- results -------------------------------------------------------------------------------
    async def page(
        self, tenant: Tenant, batch_id: str, *, cursor: int, results_max: int = PAGE_RESULTS_MAX
    ) -> ResultsPage:
        """Results from `cursor` on, without waiting."""
        admission.bounded(cursor, "cursor", most=CURSOR_MAX)
        admission.bounded(results_max, "results_max", least=1, most=PAGE_RESULTS_MAX)
        batch = await self._store.get_batch(tenant.tenant_id, admission.batch_name(batch_id))
        return await self._page(tenant, batch, cursor, results_max)

    async def stream(
        self, tenant: Tenant, batch_id: str, *, cursor: int
    ) -> AsyncGenerator[ResultsPage, None]:
        """Yield pages from `cursor` on as results arrive; ends with the batch.

        Raises:
            InvalidRequest, NotFound: the batch or the cursor is wrong.
            DependencyDown: the store is gone, or this service is stopping; resume from your cursor.
        """
        admission.bounded(cursor, "cursor", most=CURSOR_MAX)
        name = admission.batch_name(batch_id)
        ended_seen = -1
        async with aclosing(self._store.watch(name)) as changes:
            while True:
                # A change first (one comes at once): changes during our read are not missed.
                await self._change(changes)
                batch = await self._store.get_batch(tenant.tenant_id, name)
                if batch.ended == ended_seen and not batch.over:
                    continue  # nothing new: an idle stream costs one small call per change
                ended_seen = batch.ended
                begun_at, full = cursor, True
                while full:
                    page = await self._page(tenant, batch, cursor, PAGE_RESULTS_MAX)
                    full = page.cursor - cursor == PAGE_RESULTS_MAX
                    cursor = page.cursor
                    if page.results or page.groups or page.last:
                        yield page
                    if page.last:
                        return
                    if full:
                        batch = await self._store.get_batch(tenant.tenant_id, name)
                if cursor > begun_at:
                    await self._clock.sleep(PAGE_EVERY_S)

    async def score(
        self, tenant: Tenant, draft: ScoreDraft, checked: Checked, *, stored: Callable[[], None]
    ) -> Scored:
        """Submit in a new batch and wait for all results.

        `stored` is called once the requests are stored; after that, nothing here refers to them.

        Raises:
            InvalidRequest, TooLarge, NotFound, Saturated: nothing was stored.
            DeadlinePassed: `timeout_s` passed; the work was cancelled, or never stored.
        """
        timeout_s = self._time_left_s(draft)
        task, is_new = await self._score_task(tenant, draft)
        requests = await checked(task.definition)
        _check_in_time(timeout_s)
        opening = BatchDraft(
            task_id=task.record.task_id,
            batch_id=f"score-{self._new_id()}",
            size=len(requests),
            deadline_ms=None if draft.deadline_ns else _whole_ms(timeout_s),
            deadline_ns=draft.deadline_ns,
        )
        try:
            async with asyncio.timeout(timeout_s):
                return await self._score(
                    tenant, task, opening, requests, stored=stored, is_new=is_new
                )
        except TimeoutError:
            message = f"not scored within {timeout_s} s; the work was cancelled"
            raise DeadlinePassed(message) from None

    # -- life cycle ----------------------------------------------------------------------------
    def stop(self) -> None:
        """End the streams, so that their clients resume elsewhere from their cursors; `score` calls
        may continue."""
        if self._stopped is None:
            self._stopped = asyncio.get_running_loop().create_future()
        if not self._stopped.done():
            self._stopped.set_result(None)

    def start(self, work: Coroutine[Any, Any, ResultT]) -> asyncio.Task[ResultT]:
        """Run work that outlives its call, until this service is closed."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def close(self) -> None:
        """End background work, and wait for cancellations in progress."""
        self.stop()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        if self._cancelling:
            await asyncio.wait(self._cancelling, timeout=CANCEL_S_MAX)

    # -- inside --------------------------------------------------------------------------------
    def _time_left_s(self, draft: ScoreDraft) -> float | None:
        """How long the caller waits from now on.

        Raises:
            InvalidRequest: the deadline is no instant.
        """
        if draft.deadline_ns is None:
            return draft.timeout_s
        now_ns = self._clock.now_ns()
        left_s = (admission.instant(draft.deadline_ns, "deadline_ns", now_ns) - now_ns) / 1e9
        return left_s if draft.timeout_s is None else min(left_s, draft.timeout_s)

    def _record(
        self, tenant: Tenant, definition: PipelineDefinition, draft: TaskDraft
    ) -> TaskRecord:
        settings = parse_settings(definition, draft.settings_json)
        return TaskRecord(
            tenant=tenant.tenant_id,
            task_id=TaskId(draft.task_id),
            pipeline=definition.spec.name,
            stages=tuple(StageName(stage) for stage in definition.spec.stages),
            settings_json=settings.model_dump_json().encode(),
            batch_size=draft.batch_size,
            delay_budget_ms=draft.delay_budget_ms,
            trainer_cost_rate=draft.trainer_cost_rate,
        )

    def _know(self, record: TaskRecord, definition: PipelineDefinition) -> KnownTask:
        task = KnownTask(record=record, definition=definition)
        self._tasks.put((record.tenant, record.task_id), task)
        return task

    async def _task(self, tenant: Tenant, task_id: TaskId) -> KnownTask:
        known = self._tasks.get((tenant.tenant_id, task_id))
        if known:
            return known
        record = await self._store.get_task(tenant.tenant_id, task_id)
        definition = admission.pipeline_of(self._pipelines, record.pipeline, "task.pipeline")
        return self._know(record, definition)

    async def _task_of(self, tenant: Tenant, batch_id: BatchId) -> KnownTask:
        task_id = self._batch_tasks.get((tenant.tenant_id, batch_id))
        if task_id is None:
            batch = await self._store.get_batch(tenant.tenant_id, batch_id)
            task_id = batch.task_id
            self._batch_tasks.put((tenant.tenant_id, batch_id), task_id)
        return await self._task(tenant, task_id)

    async def _open(
        self,
        tenant: Tenant,
        task: KnownTask,
        draft: BatchDraft,
        *,
        reserved: Sequence[NewRequest] = (),
        is_new: bool = False,
    ) -> tuple[BatchRecord, bool]:
        """Open a batch with the quota of the `reserved` requests; `is_new`: with its task."""
        deadline_ms = draft.deadline_ms
        if draft.deadline_ns is not None:
            deadline_ms = 0
        elif deadline_ms is None:
            deadline_ms = await self._estimate_deadline_ms(tenant, task)
        deadline_ms = max(deadline_ms, math.ceil(self._settings.deadline_min_s * 1000))
        spec = BatchSpec(
            tenant=tenant.tenant_id,
            batch_id=BatchId(draft.batch_id or self._new_id()),
            task_id=task.record.task_id,
            size=draft.size,
            group_size=draft.group_size,
            deadline_after_ms=deadline_ms,
            deadline_ns=draft.deadline_ns or 0,
            weight=tenant.weight,
            requests_reserved=len(reserved),
            bytes_reserved=sum(one.payload_bytes for one in reserved),
        )
        implicit = task.record if is_new else None
        batch, created = await self._store.open_batch(spec, tenant.quota, implicit=implicit)
        if is_new:
            self._know(task.record, task.definition)
        self._batch_tasks.put((tenant.tenant_id, batch.batch_id), batch.task_id)
        return batch, created

    async def _estimate_deadline_ms(self, tenant: Tenant, task: KnownTask) -> int:
        key = (tenant.tenant_id, task.record.task_id)
        known = self._deadlines_ms.get(key)
        if known is not None:
            return known
        spans_ns = await self._store.natural_spans_ns(*key)
        estimate = deadline_after_ms(
            spans_ns,
            delay_budget_ms=task.record.delay_budget_ms,
            default_ms=round(self._settings.deadline_default_s * 1000),
        )
        if spans_ns:  # the first batch's history must count from the second batch on
            self._deadlines_ms.put(key, estimate)
        return estimate

    async def _score_task(self, tenant: Tenant, draft: ScoreDraft) -> tuple[KnownTask, bool]:
        """The task of a `score`, and whether it comes with its batch; nothing is stored here."""
        if draft.task_id:
            if draft.pipeline or draft.settings_json:
                message = "task_id: the task has a pipeline and settings; name only one of the two"
                raise InvalidRequest(message, field="task_id")
            return await self._task(tenant, admission.task_name(draft.task_id)), False
        definition = admission.pipeline_of(self._pipelines, draft.pipeline, "pipeline")
        admission.check_settings_size(draft.settings_json)
        name = hashlib.sha256(b"\n".join((draft.pipeline.encode(), draft.settings_json)))
        task_id = TaskId(f"score-{name.hexdigest()[:32]}")
        known = self._tasks.get((tenant.tenant_id, task_id))
        if known:
            return known, False
        implicit = TaskDraft(
            task_id=task_id, pipeline=draft.pipeline, settings_json=draft.settings_json
        )
        record = self._record(tenant, definition, implicit)
        return KnownTask(record=record, definition=definition), True

    async def _score(
        self,
        tenant: Tenant,
        task: KnownTask,
        opening: BatchDraft,
        requests: list[NewRequest],
        *,
        stored: Callable[[], None],
        is_new: bool,
    ) -> Scored:
        batch_id = BatchId(opening.batch_id)
        request_ids = [request.request_id for request in requests]
        first = [_next_part(requests)]
        # Before anything is stored: a caller that leaves meanwhile leaves nothing behind.
        await self._pace_for(tenant, first[0])
        is_open = False
        try:
            await self._open(tenant, task, opening, reserved=(*first[0], *requests), is_new=is_new)
            is_open = True
            async with aclosing(self._store.watch(batch_id)) as changes:
                await _next(changes)  # the immediate first change: nothing is missed from now on
                await self._submit_in_parts(tenant, batch_id, first.pop(), requests)
                stored()
                await self._until_over(tenant, batch_id, changes)
            return await self._collect(tenant, batch_id, request_ids)
        except BaseException as error:
            # No one will ask for this batch again. If its opening was refused, there is none; if
            # that was interrupted, there may be one.
            is_refused = isinstance(error, AssayError) and not isinstance(error, DependencyDown)
            if is_open or not is_refused:
                self._cancel_soon(tenant, batch_id)
            raise

    def turn(self, tenant: Tenant) -> AbstractAsyncContextManager[None]:
        """Read or convert many results inside the block: few of a tenant's calls at a time."""
        return nullcontext() if self._turn is None else self._turn(tenant.tenant_id)

    async def _page(
        self, tenant: Tenant, batch: BatchRecord, cursor: int, results_max: int
    ) -> ResultsPage:
        """Read a page after its batch: if the batch was complete, so is the log."""
        async with self.turn(tenant):
            entries = await self._store.results(
                tenant.tenant_id, batch.batch_id, cursor=cursor, entries_max=results_max
            )
        return _page(entries, cursor, batch, last=batch.over and len(entries) < results_max)

    async def _pace_for(self, tenant: Tenant, part: Sequence[NewRequest]) -> None:
        if self._pace is not None:
            await self._pace(tenant.tenant_id, len(part))

    async def _submit_in_parts(
        self,
        tenant: Tenant,
        batch_id: BatchId,
        part: list[NewRequest],
        requests: list[NewRequest],
    ) -> None:
        """Store and drop `part`, which is paced, then the requests, in parts so that other calls
        continue meanwhile.

        Their quota is that of the batch, so that no part is refused after another was stored.
        """
        await self._store.submit(tenant.tenant_id, batch_id, part, tenant.quota)
        while requests:
            part = _next_part(requests)
            await self._pace_for(tenant, part)
            await self._store.submit(tenant.tenant_id, batch_id, part, tenant.quota)

    async def _until_over(
        self, tenant: Tenant, batch_id: BatchId, changes: AsyncIterator[None]
    ) -> None:
        # Not ended by our stop: the caller waits, and has until the end of the drain.
        over = False
        while not over:
            await _next(changes)
            over = (await self._store.get_batch(tenant.tenant_id, batch_id)).over

    async def _collect(
        self, tenant: Tenant, batch_id: BatchId, request_ids: Sequence[RequestId]
    ) -> Scored:
        """Read the whole log of a complete batch."""
        results: dict[str, ResultRecord] = {}
        groups: dict[str, GroupSummary] = {}
        cursor, full = 0, True
        while full:
            async with self.turn(tenant):
                entries = await self._store.results(
                    tenant.tenant_id, batch_id, cursor=cursor, entries_max=PAGE_RESULTS_MAX
                )
            for entry in entries:
                if isinstance(entry, ResultRecord):
                    results[entry.request_id] = entry
                else:
                    groups[entry.group_id] = summarize(entry.group_id, entry.rewards)
            cursor += len(entries)
            full = len(entries) == PAGE_RESULTS_MAX
        return Scored(
            results=[results[request_id] for request_id in request_ids],
            groups=list(groups.values()),
        )

    def _cancel_soon(self, tenant: Tenant, batch_id: BatchId) -> None:
        cancelling = asyncio.create_task(self._cancel_abandoned(tenant, batch_id))
        self._cancelling.add(cancelling)
        cancelling.add_done_callback(self._cancelling.discard)

    async def _cancel(self, tenant: Tenant, batch_id: BatchId) -> tuple[BatchRecord, int]:
        task = await self._task_of(tenant, batch_id)
        batch, cancelled = await self._store.cancel(tenant.tenant_id, batch_id)
        self._count_cancelled(tenant, task, cancelled)
        return batch, cancelled

    def _count_cancelled(self, tenant: Tenant, task: KnownTask, count: int) -> None:
        self._metrics.requests_ended(
            tenant=tenant.tenant_id,
            pipeline=task.record.pipeline,
            outcome=Outcome.CANCELLED,
            count=count,
        )

    async def _cancel_abandoned(self, tenant: Tenant, batch_id: BatchId) -> None:
        try:
            async with asyncio.timeout(CANCEL_S_MAX):
                await self._cancel(tenant, batch_id)
        except NotFound:  # it was refused before it was opened
            return
        except (AssayError, TimeoutError) as error:
            log.warning("abandoned_batch_not_cancelled", batch_id=batch_id, why=str(error))

    async def _change(self, changes: AsyncIterator[None]) -> None:
        """Wait until the batch may have changed.

        Raises:
            DependencyDown: this service is stopping, or the store's connection was closed.
        """
        stopped = self._stopped = self._stopped or asyncio.get_running_loop().create_future()
        woken = asyncio.ensure_future(_next(changes))
        try:
            await asyncio.wait((woken, stopped), return_when=asyncio.FIRST_COMPLETED)
            if stopped.done():
                raise DependencyDown("this service is stopping; resume from your cursor")
            woken.result()
        finally:
            if not woken.done():
                woken.cancel()
                await asyncio.wait((woken,))


async def _next(changes: AsyncIterator[None]) -> None:
    try:
        await anext(changes)
    except StopAsyncIteration:
        raise DependencyDown("the connection to the store was closed") from None


def _next_part(requests: list[NewRequest]) -> list[NewRequest]:
    """Take the requests that are stored next from the front."""
    count = size = 0
    while count < min(len(requests), PART_REQUESTS_MAX) and size < PART_BYTES_MAX:
        size += requests[count].payload_bytes
        count += 1
    part = requests[:count]
    del requests[:count]
    return part


def _check_in_time(timeout_s: float | None) -> None:
    """Refuse a call whose caller waits no longer, before anything is stored.

    Raises:
        DeadlinePassed: there is no time left.
    """
    if timeout_s is not None and not timeout_s > 0:  # NaN too
        raise DeadlinePassed("the deadline of the call has passed; nothing was stored")


def _whole_ms(timeout_s: float | None) -> int | None:
    if timeout_s is None:
        return None
    return min(max(1, round(timeout_s * 1000)), admission.SPAN_MS_MAX)


def _page(
    entries: Sequence[LogEntry], cursor: int, batch: BatchRecord, *, last: bool
) -> ResultsPage:
    results = []
    groups = []
    for entry in entries:
        if isinstance(entry, ResultRecord):
            results.append(entry)
        else:
            groups.append(summarize(entry.group_id, entry.rewards))
    return ResultsPage(
        results=results, groups=groups, cursor=cursor + len(entries), batch=batch, last=last
    )
