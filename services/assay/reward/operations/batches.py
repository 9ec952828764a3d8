"""Batches: opened, filled, cancelled."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog

from assay.config.settings import RewardSettings
from assay.core.errors import AssayError, InvalidRequest, NotFound
from assay.core.ids import BatchId, GroupId, RequestId, TaskId
from assay.core.outcome import Outcome
from assay.core.records import BatchRecord, BatchSpec, NewRequest, Submitted
from assay.edge.auth import Tenant
from assay.edge.clock import Clock
from assay.edge.metrics import Metrics
from assay.reward import admission
from assay.reward.drafts import BatchDraft
from assay.reward.operations.tasks import KnownTask, Tasks
from assay.reward.operations.uploads import Uploads
from assay.store.port import Pace, Store
from assay.verifiers.port import PipelineDefinition

CANCEL_S_MAX: Final = 30.0
"""How long the cancellation of an abandoned batch may take."""

log = structlog.get_logger(__name__)

Checked = Callable[[PipelineDefinition], Awaitable[list[NewRequest]]]
"""Returns a message's requests once the pipeline to check them against is known."""


class Batches:
    """All that changes a batch."""

    def __init__(
        self,
        *,
        store: Store,
        tasks: Tasks,
        uploads: Uploads,
        settings: RewardSettings,
        clock: Clock,
        metrics: Metrics,
        new_id: Callable[[], str],
        pace: Pace | None,
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._uploads = uploads
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self._new_id = new_id
        self._pace = pace
        self._cancelling: set[asyncio.Task[None]] = set()

    async def open_draft(self, tenant: Tenant, draft: BatchDraft) -> tuple[BatchRecord, bool]:
        admission.check_batch(draft, self._clock.now_ns())
        task = await self._tasks.find(tenant, TaskId(draft.task_id), draft.of_pipeline)
        admission.check_group_size(draft, task.definition, tenant.quota)
        return await self.open(tenant, task, draft)

    async def open(
        self,
        tenant: Tenant,
        task: KnownTask,
        draft: BatchDraft,
        *,
        reserved: Sequence[NewRequest] = (),
        is_new: bool = False,
    ) -> tuple[BatchRecord, bool]:
        """Open a batch with the quota of the `reserved` requests; `is_new`: with its task."""
        spec = await self._spec(tenant, task, draft, reserved)
        implicit = task.record if is_new else None
        batch, created = await self._store.open_batch(spec, tenant.quota, implicit=implicit)
        self._know(tenant, task, spec, is_new=is_new)
        return batch, created

    async def open_filled(
        self,
        tenant: Tenant,
        task: KnownTask,
        draft: BatchDraft,
        requests: Sequence[NewRequest],
        *,
        is_new: bool,
    ) -> None:
        """Open a batch with all its requests, or neither; `is_new`: with its task."""
        spec = await self._spec(tenant, task, draft, requests)
        implicit = task.record if is_new else None
        await self._store.open_filled(spec, requests, tenant.quota, implicit=implicit)
        self._know(tenant, task, spec, is_new=is_new)

    def _know(self, tenant: Tenant, task: KnownTask, spec: BatchSpec, *, is_new: bool) -> None:
        if is_new:
            self._tasks.know(task)
        self._tasks.know_batch(tenant, spec.batch_id, spec.task_id)

    async def _spec(
        self, tenant: Tenant, task: KnownTask, draft: BatchDraft, reserved: Sequence[NewRequest]
    ) -> BatchSpec:
        deadline_ms = draft.deadline_ms
        if draft.deadline_ns is not None:
            deadline_ms = 0
        elif deadline_ms is None:
            deadline_ms = await self._tasks.deadline_ms(tenant, task)
        deadline_ms = max(deadline_ms, math.ceil(self._settings.deadline_min_s * 1000))
        return BatchSpec(
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

    async def submit(self, tenant: Tenant, batch_id: str, checked: Checked) -> Submitted:
        batch = admission.batch_name(batch_id)
        task = await self._tasks.of_batch(tenant, batch)
        requests = await self._uploads.resolve(tenant, await checked(task.definition))
        if self._pace is None:
            return await self._store.submit(tenant.tenant_id, batch, requests, tenant.quota)
        await self._pace(tenant.tenant_id, 1)  # the rest before it becomes claimable
        return await self._store.submit(
            tenant.tenant_id, batch, requests, tenant.quota, pace=self._pace
        )

    async def pace_for(self, tenant: Tenant, part: Sequence[NewRequest]) -> None:
        """Wait until a part of a message may be stored."""
        if self._pace is not None:
            await self._pace(tenant.tenant_id, len(part))

    async def cancel(self, tenant: Tenant, batch_id: BatchId) -> tuple[BatchRecord, int]:
        task = await self._tasks.of_batch(tenant, batch_id)
        batch, cancelled = await self._store.cancel(tenant.tenant_id, batch_id)
        self._count_cancelled(tenant, task, cancelled)
        if cancelled:  # by this call, so once
            self._metrics.batch_ended(batch)
        return batch, cancelled

    async def cancel_requests(
        self, tenant: Tenant, batch_id: str, request_ids: Sequence[str], group_ids: Sequence[str]
    ) -> tuple[BatchRecord, int]:
        name = admission.batch_name(batch_id)
        if not request_ids and not group_ids:
            raise InvalidRequest(
                "request_ids: name at least one request or group", field="request_ids"
            )
        task = await self._tasks.of_batch(tenant, name)
        batch, cancelled = await self._store.cancel_requests(
            tenant.tenant_id,
            name,
            request_ids=[RequestId(one) for one in request_ids],
            group_ids=[GroupId(one) for one in group_ids if one],
        )
        self._count_cancelled(tenant, task, cancelled)
        return batch, cancelled

    def cancel_soon(self, tenant: Tenant, batch_id: BatchId) -> None:
        """Cancel a batch for which no one waits, without waiting for that."""
        cancelling = asyncio.create_task(self._cancel_abandoned(tenant, batch_id))
        self._cancelling.add(cancelling)
        cancelling.add_done_callback(self._cancelling.discard)

    async def _cancel_abandoned(self, tenant: Tenant, batch_id: BatchId) -> None:
        try:
            async with asyncio.timeout(CANCEL_S_MAX):
                await self.cancel(tenant, batch_id)
        except NotFound:  # it was refused before it was opened
            return
        except (AssayError, TimeoutError) as error:
            log.warning("abandoned_batch_not_cancelled", batch_id=batch_id, why=str(error))

    def _count_cancelled(self, tenant: Tenant, task: KnownTask, count: int) -> None:
        self._metrics.requests_ended(
            tenant=tenant.tenant_id,
            pipeline=task.record.pipeline,
            outcome=Outcome.CANCELLED,
            count=count,
        )

    async def close(self) -> None:
        """Wait for cancellations in progress."""
        if self._cancelling:
            await asyncio.wait(self._cancelling, timeout=CANCEL_S_MAX)
