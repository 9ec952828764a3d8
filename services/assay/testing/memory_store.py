"""An in-memory store: the pure model behind the store's interface.

For tests, for the simulator's services in virtual time, and as the reference of the conformance
suite. Nothing survives the process.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from assay.core.ids import (
    BatchId,
    GroupId,
    JobId,
    RequestId,
    StageName,
    TaskId,
    TenantId,
    WorkerId,
)
from assay.core.records import (
    BatchHistory,
    BatchRecord,
    BatchSpec,
    Claim,
    DeadLetter,
    Finished,
    HintRecord,
    Leadership,
    Lease,
    LogEntry,
    NewRequest,
    OpenWork,
    Quota,
    Reaped,
    Report,
    StageDepth,
    Submitted,
    TaskRecord,
)
from assay.core.store_limits import (
    Fitness,
)
from assay.core.tools.rate import next_free_s
from assay.store.port import Pace
from assay.testing.file_commands import FileCommands, within
from assay.testing.host_commands import HostCommands, Now
from assay.testing.queue_model import QueueLimits, QueueModel

RECHECK_S: Final = 3.0


@dataclass(slots=True)
class _Sleeper:
    stages: Sequence[StageName]
    woken: asyncio.Future[StageName]


class MemoryStore(HostCommands, FileCommands):
    """Implements `assay.store.port.Store`."""

    def __init__(self, clock: Now, limits: QueueLimits | None = None) -> None:
        super().__init__()
        self._clock = clock
        self._model = QueueModel(limits)
        self._watchers: dict[BatchId, dict[asyncio.Event, None]] = defaultdict(dict)
        self._planners: dict[asyncio.Event, None] = {}
        self._sleepers: list[_Sleeper] = []
        self._free_s: dict[tuple[str, str, str], float] = {}
        self._closed = False

    @property
    def model(self) -> QueueModel:
        """The state, for inspection."""
        return self._model

    @property
    def watchers(self) -> int:
        """Number of watching streams and planners."""
        return len(self._watchers) + len(self._planners)

    def restore(self, model: QueueModel) -> None:
        """Continue from another state, as after a failover; all watchers look again."""
        self._model = model
        self._wake_all()

    def _wake_all(self) -> None:
        for changed in self._planners:
            changed.set()
        for watchers in self._watchers.values():
            for changed in watchers:
                changed.set()

    def _wake(self) -> None:
        """Publish the model's changes: each stage with work wakes one sleeper."""
        for batch_id in sorted(self._model.changes.batches):
            for changed in self._watchers.get(batch_id, ()):
                changed.set()
        self._model.changes.batches.clear()
        if self._model.changes.planning:
            self._model.changes.planning = False
            for changed in self._planners:
                changed.set()
        for stage in sorted(self._model.changes.work):
            sleeper = self._sleeper(stage)
            if sleeper is not None:
                self._model.changes.work.discard(stage)
                self._sleepers.remove(sleeper)
                sleeper.woken.set_result(stage)

    def _sleeper(self, stage: StageName) -> _Sleeper | None:
        """The sleepers of the stage, without those that were just cancelled."""
        sleeping = (one for one in self._sleepers if not one.woken.done())
        return next((one for one in sleeping if stage in one.stages), None)

    # -- tasks and batches ---------------------------------------------------------------------

    async def put_task(
        self, task: TaskRecord, quota: Quota | None = None, *, replaces: TaskRecord | None = None
    ) -> bool:
        """See `Store.put_task`; nothing expires here."""
        return self._model.task_book.put_task(task, quota, replaces=replaces)

    async def get_task(self, tenant: TenantId, task_id: TaskId) -> TaskRecord:
        """See `Store.get_task`."""
        return self._model.task_book.get_task(tenant, task_id)

    async def open_batch(
        self, spec: BatchSpec, quota: Quota, *, implicit: TaskRecord | None = None
    ) -> tuple[BatchRecord, bool]:
        """See `Store.open_batch`."""
        opened = self._model.open_batch(spec, quota, self._clock.now_ns(), implicit=implicit)
        self._wake()
        return opened

    async def submit(
        self,
        tenant: TenantId,
        batch_id: BatchId,
        requests: Sequence[NewRequest],
        quota: Quota,
        *,
        pace: Pace | None = None,
    ) -> Submitted:
        """See `Store.submit`."""
        submitted = self._model.submit(tenant, batch_id, requests, quota, self._clock.now_ns())
        self._wake()
        return submitted

    async def open_filled(
        self,
        spec: BatchSpec,
        requests: Sequence[NewRequest],
        quota: Quota,
        *,
        implicit: TaskRecord | None = None,
    ) -> Submitted:
        """See `Store.open_filled`."""
        now_ns = self._clock.now_ns()
        submitted = self._model.open_filled(spec, requests, quota, now_ns, implicit=implicit)
        self._wake()
        return submitted

    async def seal(self, tenant: TenantId, batch_id: BatchId) -> BatchRecord:
        """See `Store.seal`."""
        batch = self._model.seal(tenant, batch_id, self._clock.now_ns())
        self._wake()
        return batch

    async def cancel(self, tenant: TenantId, batch_id: BatchId) -> tuple[BatchRecord, int]:
        """See `Store.cancel`."""
        cancelled = self._model.cancel(tenant, batch_id, self._clock.now_ns())
        self._wake()
        return cancelled

    async def cancel_requests(
        self,
        tenant: TenantId,
        batch_id: BatchId,
        *,
        request_ids: Sequence[RequestId],
        group_ids: Sequence[GroupId],
    ) -> tuple[BatchRecord, int]:
        """See `Store.cancel_requests`."""
        now_ns = self._clock.now_ns()
        cancelled = self._model.cancel_requests(tenant, batch_id, request_ids, group_ids, now_ns)
        self._wake()
        return cancelled

    async def get_batch(self, tenant: TenantId, batch_id: BatchId) -> BatchRecord:
        """See `Store.get_batch`."""
        return self._model.get_batch(tenant, batch_id, self._clock.now_ns())

    async def results(
        self, tenant: TenantId, batch_id: BatchId, *, cursor: int, entries_max: int
    ) -> Sequence[LogEntry]:
        """See `Store.results`."""
        now_ns = self._clock.now_ns()
        return self._model.results(
            tenant, batch_id, cursor=cursor, entries_max=entries_max, now_ns=now_ns
        )

    async def watch(self, batch_id: BatchId) -> AsyncGenerator[None, None]:
        """See `Store.watch`."""
        changed = asyncio.Event()
        self._watchers[batch_id][changed] = None
        try:
            while not self._closed:
                changed.clear()
                yield
                await within(changed.wait(), RECHECK_S)
        finally:
            del self._watchers[batch_id][changed]
            if not self._watchers[batch_id]:
                del self._watchers[batch_id]

    async def hint(self, tenant: TenantId, task_id: TaskId, size: int) -> None:
        """See `Store.hint`."""
        self._model.task_book.hint(tenant, task_id, size, self._clock.now_ns())
        self._model.changes.planning = True
        self._wake()

    # -- workers -------------------------------------------------------------------------------

    async def claim(
        self,
        stage: StageName,
        *,
        claims_max: int,
        lease_s: float,
        worker: WorkerId,
        left_out: Collection[TenantId] = (),
    ) -> Sequence[Claim]:
        """See `Store.claim`."""
        claims = self._model.claim(
            stage,
            claims_max=claims_max,
            lease_ns=int(lease_s * 1e9),
            worker=worker,
            left_out=left_out,
            now_ns=self._clock.now_ns(),
        )
        self._wake()
        return claims

    async def beat(
        self, stage: StageName, *, lease_s: float, leases: Sequence[Lease]
    ) -> Sequence[Lease]:
        """See `Store.beat`."""
        now_ns = self._clock.now_ns()
        return self._model.beat(stage, lease_ns=int(lease_s * 1e9), leases=leases, now_ns=now_ns)

    async def finish(
        self, stage: StageName, reports: Sequence[Report], attempts_max: int
    ) -> Finished:
        """See `Store.finish`."""
        finished = self._model.finish(stage, reports, attempts_max, self._clock.now_ns())
        self._wake()
        return finished

    async def reap(self, stage: StageName, *, attempts_max: int, jobs_max: int) -> Reaped:
        """See `Store.reap`."""
        now_ns = self._clock.now_ns()
        reaped = self._model.reap(
            stage, attempts_max=attempts_max, jobs_max=jobs_max, now_ns=now_ns
        )
        self._wake()
        return reaped

    async def wait_for_work(
        self, stages: Sequence[StageName], *, timeout_s: float
    ) -> StageName | None:
        """See `Store.wait_for_work`."""
        for stage in stages:
            if stage in self._model.changes.work:
                self._model.changes.work.discard(stage)
                return stage
        sleeper = _Sleeper(stages, asyncio.get_running_loop().create_future())
        self._sleepers.append(sleeper)
        try:
            async with asyncio.timeout(timeout_s):
                return await sleeper.woken
        except TimeoutError:
            return None
        finally:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)

    # -- operators -----------------------------------------------------------------------------

    async def depths(self, stages: Sequence[StageName]) -> Sequence[StageDepth]:
        """See `Store.depths`."""
        return self._model.depths(stages, self._clock.now_ns())

    async def batches(self, *, batches_max: int) -> Sequence[BatchRecord]:
        """See `Store.batches`."""
        return self._model.batches(batches_max=batches_max)

    async def dead_letters(
        self, *, stage: StageName | None = None, letters_max: int
    ) -> Sequence[DeadLetter]:
        """See `Store.dead_letters`."""
        return self._model.dead_letters(stage=stage, letters_max=letters_max)

    async def replay(self, job_id: JobId) -> bool:
        """See `Store.replay`."""
        replayed = self._model.replay(job_id, self._clock.now_ns())
        self._wake()
        return replayed

    async def history(
        self, tenant: TenantId, task_id: TaskId, *, batches_max: int
    ) -> Sequence[BatchHistory]:
        """See `Store.history`."""
        return self._model.task_book.history(tenant, task_id, batches_max=batches_max)

    async def natural_spans_ns(self, tenant: TenantId, task_id: TaskId) -> Sequence[int]:
        """See `Store.natural_spans_ns`."""
        return self._model.task_book.natural_spans_ns(tenant, task_id)

    # -- planners ------------------------------------------------------------------------------

    async def open_work(self, *, batches_max: int, requests_max: int) -> Sequence[OpenWork]:
        """See `Store.open_work`."""
        return self._model.open_work(batches_max=batches_max, requests_max=requests_max)

    async def tasks(self, *, tasks_max: int) -> Sequence[TaskRecord]:
        """See `Store.tasks`."""
        return self._model.task_book.tasks(tasks_max=tasks_max)

    async def hints(self) -> Sequence[HintRecord]:
        """See `Store.hints`."""
        return self._model.task_book.hints(self._clock.now_ns())

    async def lead(self, planner: str, *, lease_s: float) -> Leadership:
        """See `Store.lead`."""
        lease_ns = int(lease_s * 1e9)
        return self._model.lead.lead(planner, lease_ns=lease_ns, now_ns=self._clock.now_ns())

    async def resign(self, planner: str) -> None:
        """See `Store.resign`."""
        self._model.changes.planning |= self._model.lead.resign(planner)
        self._wake()

    async def watch_planning(self) -> AsyncGenerator[None, None]:
        """See `Store.watch_planning`."""
        changed = asyncio.Event()
        self._planners[changed] = None
        try:
            while not self._closed:
                changed.clear()
                yield
                await changed.wait()
        finally:
            del self._planners[changed]

    async def mark_at_risk(
        self, tenant: TenantId, batch_id: BatchId, *, at_risk: bool = True
    ) -> None:
        """See `Store.mark_at_risk`."""
        now_ns = self._clock.now_ns()
        self._model.mark_at_risk(tenant, batch_id, at_risk=at_risk, now_ns=now_ns)
        self._wake()

    async def prioritize(self, tenant: TenantId, batch_id: BatchId, deadline_ns: int) -> None:
        """See `Store.prioritize`."""
        self._model.prioritize(tenant, batch_id, deadline_ns, self._clock.now_ns())

    async def put_plan(self, tenant: TenantId, batch_id: BatchId, body: bytes) -> None:
        """See `Store.put_plan`."""
        self._model.batch_book.put_plan(tenant, batch_id, body, self._clock.now_ns())

    async def plans(self, tenant: TenantId, batch_id: BatchId) -> Sequence[bytes]:
        """See `Store.plans`."""
        return self._model.batch_book.plans(tenant, batch_id, self._clock.now_ns())

    # -- rate limits ---------------------------------------------------------------------------

    async def permit(
        self, tenant: TenantId, provider: str, limits: Mapping[str, tuple[int, int]]
    ) -> float:
        """See `Store.permit`."""
        now_s, found = self._clock.now_ns() / 1e9, dict[tuple[str, str, str], float]()
        for kind, (cost, most) in limits.items():
            if most:
                key = (tenant, provider, kind)
                free_s, wait_s = next_free_s(self._free_s.get(key, 0.0), now_s, cost, most)
                if wait_s:
                    return wait_s
                found[key] = free_s
        self._free_s |= found
        return 0.0

    # -- life cycle ----------------------------------------------------------------------------

    async def check(self) -> Fitness:
        """See `Store.check`."""
        return Fitness(server="memory", appends=None, appendfsync="")

    async def ping(self) -> float:
        """See `Store.ping`."""
        return 0.0

    async def round_trip(self) -> float:
        """See `Store.round_trip`."""
        return 0.0

    async def close(self) -> None:
        """See `Store.close`."""
        self._closed = True
        self._wake_all()
