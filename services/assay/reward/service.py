"""The reward service, independent of the transport: tasks, batches, requests in, results out.

Invariants: nothing is stored of a call that is refused; a call that returns is durable; every
method may be repeated after a lost reply. `stream` ends exactly when the batch is complete and all
its results were yielded. A `score` whose caller disconnects leaves a cancelled batch behind, never
a running one.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from assay.config.settings import RewardSettings
from assay.core.answers import StoredArtifact
from assay.core.ids import PipelineName
from assay.core.records import BatchRecord, Submitted, TaskRecord
from assay.edge.auth import Tenant
from assay.edge.clock import Clock
from assay.edge.metrics import Metrics
from assay.reward import admission
from assay.reward.drafts import BatchDraft, ResultsPage, Scored, ScoreDraft, TaskDraft
from assay.reward.operations.batches import Batches, Checked
from assay.reward.operations.results import PAGE_RESULTS_MAX, Results, Turn
from assay.reward.operations.scoring import Scoring
from assay.reward.operations.tasks import Tasks
from assay.reward.operations.uploads import Uploads
from assay.store.port import Pace, Store
from assay.verifiers.port import PipelineDefinition

ResultT = TypeVar("ResultT")


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
        self._pipelines = pipelines
        self._tasks = Tasks(store=store, pipelines=pipelines, settings=settings, clock=clock)
        self._uploads = Uploads(store=store, settings=settings)
        self._batches = Batches(
            store=store,
            tasks=self._tasks,
            uploads=self._uploads,
            settings=settings,
            clock=clock,
            metrics=metrics,
            new_id=new_id,
            pace=pace,
        )
        self._results = Results(store=store, clock=clock, turn=turn)
        self._scoring = Scoring(
            store=store,
            tasks=self._tasks,
            uploads=self._uploads,
            batches=self._batches,
            results=self._results,
            clock=clock,
            new_id=new_id,
        )
        self._background: set[asyncio.Task[Any]] = set()

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
        return await self._tasks.register(tenant, draft)

    async def hint(self, tenant: Tenant, task_id: str, size: int) -> None:
        """Announce that a rollout phase has begun: requests of this task will come soon.

        `size` of them will follow; 0 = the task's batch size.

        Raises:
            InvalidRequest, NotFound: the task's name or the size is wrong.
        """
        admission.bounded(size, "size", most=admission.BATCH_SIZE_MAX)
        task = await self._tasks.find(tenant, admission.task_name(task_id))
        await self._store.hint(
            tenant.tenant_id, task.record.task_id, size or task.record.batch_size
        )

    async def put_artifact(
        self, tenant: Tenant, body: list[bytes], *, sha256: str = ""
    ) -> StoredArtifact:
        """Keep a file, to which requests of the tenant may refer by its hash from then on.

        Args:
            tenant: whose it is; no other can refer to it.
            body: its content in pieces; the list is emptied.
            sha256: what the caller takes its hash to be, in hex.

        Raises:
            InvalidRequest: it is empty, or has another hash.
            TooLarge: it is larger than a request's artifacts may be.
            Saturated: the tenant's `uploads_bytes_max` is used up; says for how long.
        """
        return await self._uploads.put(tenant, body, sha256)

    # -- batches -------------------------------------------------------------------------------
    async def open_batch(self, tenant: Tenant, draft: BatchDraft) -> tuple[BatchRecord, bool]:
        """Open a batch, or find the identical open one (False).

        Raises:
            InvalidRequest, NotFound, Conflict, Saturated: see `Store.open_batch`.
        """
        return await self._batches.open_draft(tenant, draft)

    async def submit(self, tenant: Tenant, batch_id: str, checked: Checked) -> Submitted:
        """Accept all requests or none.

        Raises:
            InvalidRequest, TooLarge: a request is wrong; `field` says which and where.
            NotFound, FailedPrecondition, Conflict, Saturated: see `Store.submit`.
        """
        return await self._batches.submit(tenant, batch_id, checked)

    async def seal_batch(self, tenant: Tenant, batch_id: str) -> BatchRecord:
        """Accept no more requests; idempotent."""
        return await self._store.seal(tenant.tenant_id, admission.batch_name(batch_id))

    async def cancel_batch(self, tenant: Tenant, batch_id: str) -> tuple[BatchRecord, int]:
        """End all requests that have not ended; idempotent."""
        return await self._batches.cancel(tenant, admission.batch_name(batch_id))

    async def cancel_requests(
        self,
        tenant: Tenant,
        batch_id: str,
        *,
        request_ids: Sequence[str],
        group_ids: Sequence[str],
    ) -> tuple[BatchRecord, int]:
        """End these requests, and those of these groups, that have not ended; idempotent.

        Of a group, those that were submitted so far.

        Raises:
            NotFound: no such batch.
            InvalidRequest: no request and no group is named.
        """
        return await self._batches.cancel_requests(tenant, batch_id, request_ids, group_ids)

    async def get_batch(self, tenant: Tenant, batch_id: str) -> BatchRecord:
        """Current state of the batch."""
        return await self._store.get_batch(tenant.tenant_id, admission.batch_name(batch_id))

    # -- results -------------------------------------------------------------------------------
    def turn(self, tenant: Tenant) -> AbstractAsyncContextManager[None]:
        """Read or convert many results inside the block: few of a tenant's calls at a time."""
        return self._results.turn(tenant)

    async def page(
        self, tenant: Tenant, batch_id: str, *, cursor: int, results_max: int = PAGE_RESULTS_MAX
    ) -> ResultsPage:
        """Results from `cursor` on, without waiting."""
        return await self._results.page(tenant, batch_id, cursor=cursor, results_max=results_max)

    def stream(
        self, tenant: Tenant, batch_id: str, *, cursor: int
    ) -> AsyncGenerator[ResultsPage, None]:
        """Yield pages from `cursor` on as results arrive; ends with the batch.

        Raises:
            InvalidRequest, NotFound: the batch or the cursor is wrong.
            DependencyDown: the store is gone, or this service is stopping; resume from your cursor.
        """
        return self._results.stream(tenant, batch_id, cursor=cursor)

    async def score(
        self, tenant: Tenant, draft: ScoreDraft, checked: Checked, *, stored: Callable[[], None]
    ) -> Scored:
        """Submit in a new batch and wait for all results.

        `stored` is called once the requests are stored; after that, nothing here refers to them.

        Raises:
            InvalidRequest, TooLarge, NotFound, Saturated: nothing was stored.
            DeadlinePassed: `timeout_s` passed; the work was cancelled, or never stored.
        """
        return await self._scoring.score(tenant, draft, checked, stored)

    # -- life cycle ----------------------------------------------------------------------------
    def stop(self) -> None:
        """End the streams, so that their clients resume elsewhere from their cursors; `score` calls
        may continue."""
        self._results.stop()

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
        await self._batches.close()
