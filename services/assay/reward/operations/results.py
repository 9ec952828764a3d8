"""Results of a batch: pages of its log, read as it grows."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass, field
from typing import Final

from assay.core.errors import DependencyDown, NotFound
from assay.core.group import GroupSummary, summarize
from assay.core.ids import BatchId, RequestId, TenantId
from assay.core.records import BatchRecord, LogEntry, ResultRecord
from assay.edge.auth import Tenant
from assay.edge.clock import Clock
from assay.edge.lifecycle import heard
from assay.reward import admission
from assay.reward.drafts import ResultsPage, Scored
from assay.store.port import Store

PAGE_RESULTS_MAX: Final = 256
"""Results per message: below any client's message limit with the longest evidence."""
PAGE_EVERY_S: Final = 0.01
"""After a page that was not full, how long results may accumulate for the next: a stream of single
results costs as much as its requests do, and no trainer is faster for getting them at once."""
PAGE_SMALL: Final = 8
"""Results and groups of a page after which the next may come in half of that time: few come."""
CURSOR_MAX: Final = 2**53

Turn = Callable[[TenantId], AbstractAsyncContextManager[None]]
"""Entered by few of a tenant's calls at a time."""


class Results:
    """Reads the logs of batches."""

    def __init__(self, *, store: Store, clock: Clock, turn: Turn | None) -> None:
        self._store = store
        self._clock = clock
        self._turn = turn
        self._stopped: asyncio.Future[None] | None = None

    def turn(self, tenant: Tenant) -> AbstractAsyncContextManager[None]:
        """Read or convert many results inside the block: few of a tenant's calls at a time."""
        return nullcontext() if self._turn is None else self._turn(tenant.tenant_id)

    def stop(self) -> None:
        """End the streams."""
        if self._stopped is None:
            self._stopped = asyncio.get_running_loop().create_future()
        if not self._stopped.done():
            self._stopped.set_result(None)

    async def page(
        self, tenant: Tenant, batch_id: str, *, cursor: int, results_max: int
    ) -> ResultsPage:
        admission.bounded(cursor, "cursor", most=CURSOR_MAX)
        admission.bounded(results_max, "results_max", least=1, most=PAGE_RESULTS_MAX)
        batch = await self._store.get_batch(tenant.tenant_id, admission.batch_name(batch_id))
        return await self._page(tenant, batch, cursor, results_max)

    async def stream(
        self, tenant: Tenant, batch_id: str, *, cursor: int
    ) -> AsyncGenerator[ResultsPage, None]:
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
                begun_at, is_full = cursor, True
                while is_full:
                    held = [await self._page(tenant, batch, cursor, PAGE_RESULTS_MAX)]
                    before, cursor = cursor, held[0].cursor
                    is_full, is_last = cursor - before == PAGE_RESULTS_MAX, held[0].last
                    if cursor > before or is_last:
                        yield held.pop()  # not held while it is sent: see `lifecycle.Collector`
                    if is_last:
                        return
                    if is_full:
                        batch = await self._store.get_batch(tenant.tenant_id, name)
                if cursor > begun_at:
                    await self._clock.sleep(rest_s(cursor - begun_at))

    async def _page(
        self, tenant: Tenant, batch: BatchRecord, cursor: int, results_max: int
    ) -> ResultsPage:
        """Read a page after its batch: if the batch was complete, so is the log."""
        async with self.turn(tenant):
            entries = await self._store.results(
                tenant.tenant_id, batch.batch_id, cursor=cursor, entries_max=results_max
            )
        return _page(entries, cursor, batch, last=batch.over and len(entries) < results_max)

    async def collect(
        self,
        tenant: Tenant,
        batch_id: BatchId,
        request_ids: Sequence[RequestId],
        changes: AsyncIterator[None],
    ) -> Scored:
        """Wait for the end of a batch, then read its whole log; `stop` does not end this, for the
        caller has until the end of the drain.

        Raises:
            DependencyDown: the store lost the batch, or requests of it.
        """
        while True:
            await next_change(changes)
            if not await self._is_over(tenant, batch_id):
                continue
            log = _Log()
            await self._read_on(tenant, batch_id, log)
            if log.has_all(request_ids):
                return log.scored(request_ids)
            if await self._is_over(tenant, batch_id):  # not reopened by a failover meanwhile
                raise _lost(batch_id)

    async def collect_filled(
        self,
        tenant: Tenant,
        batch_id: BatchId,
        request_ids: Sequence[RequestId],
        changes: AsyncIterator[None],
    ) -> Scored:
        """Read the log of a batch that was opened with all its requests, as it grows.

        Such a batch is sealed, so a group's summary comes with the last of its results, and the
        state of the batch has nothing to add. Only after a failover that lost the end of the log
        may results come in another order, some of them before our cursor. The log has the same
        length in the end, so entries after our cursor repeat known ones: the log is read again.

        Raises:
            DependencyDown: the store lost the batch.
        """
        log = _Log()
        while not log.has_all(request_ids):
            await next_change(changes)
            if await self._read_on(tenant, batch_id, log):
                log = _Log()
                await self._read_on(tenant, batch_id, log)
        return log.scored(request_ids)

    async def _is_over(self, tenant: Tenant, batch_id: BatchId) -> bool:
        try:
            return (await self._store.get_batch(tenant.tenant_id, batch_id)).over
        except NotFound:
            raise _lost(batch_id) from None

    async def _read_on(self, tenant: Tenant, batch_id: BatchId, log: "_Log") -> bool:
        """Read new entries; returns whether they repeat earlier ones."""
        repeats, full = False, True
        while full:
            async with self.turn(tenant):
                try:
                    entries = await self._store.results(
                        tenant.tenant_id, batch_id, cursor=log.cursor, entries_max=PAGE_RESULTS_MAX
                    )
                except NotFound:
                    raise _lost(batch_id) from None
            repeats |= log.add(entries)
            full = len(entries) == PAGE_RESULTS_MAX
        return repeats

    async def _change(self, changes: AsyncIterator[None]) -> None:
        """Wait until the batch may have changed.

        Raises:
            DependencyDown: this service is stopping, or the store's connection was closed.
        """
        stopped = self._stopped = self._stopped or asyncio.get_running_loop().create_future()
        woken = heard(asyncio.ensure_future(next_change(changes)))
        try:
            await asyncio.wait((woken, stopped), return_when=asyncio.FIRST_COMPLETED)
            if stopped.done():
                raise DependencyDown("this service is stopping; resume from your cursor")
            woken.result()
        finally:
            if not woken.done():
                woken.cancel()
                await asyncio.wait((woken,))


@dataclass(slots=True)
class _Log:
    """What was read of a batch's log."""

    cursor: int = 0
    results: dict[str, ResultRecord] = field(default_factory=dict)
    groups: dict[str, GroupSummary] = field(default_factory=dict)

    def add(self, entries: Sequence[LogEntry]) -> bool:
        """Add entries; returns whether some were here already."""
        before = len(self.results) + len(self.groups)
        self.cursor += len(entries)
        for entry in entries:
            if isinstance(entry, ResultRecord):
                self.results[entry.request_id] = entry
            else:
                self.groups[entry.group_id] = summarize(entry.group_id, entry.rewards)
        return len(self.results) + len(self.groups) < before + len(entries)

    def has_all(self, request_ids: Sequence[RequestId]) -> bool:
        return len(self.results) == len(request_ids)

    def scored(self, request_ids: Sequence[RequestId]) -> Scored:
        return Scored(
            results=[self.results[request_id] for request_id in request_ids],
            groups=list(self.groups.values()),
        )


def rest_s(entries: int) -> float:
    """How long a stream rests after pages with so many results and groups."""
    return PAGE_EVERY_S / 2 if entries <= PAGE_SMALL else PAGE_EVERY_S


async def next_change(changes: AsyncIterator[None]) -> None:
    """Wait for the next change of a watched batch.

    Raises:
        DependencyDown: the store's connection was closed.
    """
    try:
        await anext(changes)
    except StopAsyncIteration:
        raise DependencyDown("the connection to the store was closed") from None


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


def _lost(batch_id: BatchId) -> DependencyDown:
    return DependencyDown(f"the store lost requests of {batch_id}; send them again")
