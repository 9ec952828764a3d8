"""`score`: submits in a batch of its own and waits for all results."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Final

from assay.core.errors import AssayError, DeadlinePassed, DependencyDown
from assay.core.ids import BatchId
from assay.core.records import NewRequest
from assay.edge.auth import Tenant
from assay.edge.clock import Clock
from assay.reward import admission
from assay.reward.drafts import BatchDraft, Scored, ScoreDraft
from assay.reward.operations.batches import Batches, Checked
from assay.reward.operations.results import Results, next_change
from assay.reward.operations.tasks import KnownTask, Tasks
from assay.reward.operations.uploads import Uploads
from assay.store.port import Store

PART_REQUESTS_MAX: Final = 64
PART_BYTES_MAX: Final = 256 * 1024
"""Requests of a `score` that are stored at once."""


class Scoring:
    """One call: a batch is opened, filled, awaited and read."""

    def __init__(
        self,
        *,
        store: Store,
        tasks: Tasks,
        uploads: Uploads,
        batches: Batches,
        results: Results,
        clock: Clock,
        new_id: Callable[[], str],
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._uploads = uploads
        self._batches = batches
        self._results = results
        self._clock = clock
        self._new_id = new_id

    async def score(
        self, tenant: Tenant, draft: ScoreDraft, checked: Checked, stored: Callable[[], None]
    ) -> Scored:
        timeout_s = self._time_left_s(draft)
        task, is_new = await self._tasks.of_score(tenant, draft)
        requests = await self._uploads.resolve(tenant, await checked(task.definition))
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
        await self._batches.pace_for(tenant, first[0])
        is_open = False
        try:
            async with aclosing(self._store.watch(batch_id)) as changes:
                await next_change(changes)  # the immediate one: nothing is missed from now on
                if not requests:
                    part = first.pop()
                    await self._batches.open_filled(tenant, task, opening, part, is_new=is_new)
                    del part
                    is_open = True
                    stored()
                    return await self._results.collect_filled(
                        tenant, batch_id, request_ids, changes
                    )
                reserved = (*first[0], *requests)
                await self._batches.open(tenant, task, opening, reserved=reserved, is_new=is_new)
                del reserved
                is_open = True
                await self._submit_in_parts(tenant, batch_id, first.pop(), requests)
                stored()
                return await self._results.collect(tenant, batch_id, request_ids, changes)
        except BaseException as error:
            # No one will ask for this batch again. If its opening was refused, there is none; if
            # that was interrupted, there may be one.
            is_refused = isinstance(error, AssayError) and not isinstance(error, DependencyDown)
            if is_open or not is_refused:
                self._batches.cancel_soon(tenant, batch_id)
            raise

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
            await self._batches.pace_for(tenant, part)
            await self._store.submit(tenant.tenant_id, batch_id, part, tenant.quota)


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
