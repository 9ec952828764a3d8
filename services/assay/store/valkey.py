"""The store on Valkey or Redis: a call is one script, so it is atomic.

The data model is described at the head of `scripts/requests.lua`. This process holds only caches:
tasks and large payload parts, which never change. Operations of several calls are in
`store.operations`.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Final

from assay.config.settings import StoreSettings
from assay.core.codec import pack
from assay.core.ids import (
    BatchId,
    GroupId,
    JobId,
    RequestId,
    StageName,
    TaskId,
    TenantId,
)
from assay.core.records import (
    BatchHistory,
    BatchRecord,
    BatchSpec,
    DeadLetter,
    HintRecord,
    Leadership,
    LogEntry,
    NewRequest,
    OpenWork,
    Quota,
    StageDepth,
    Submitted,
    TaskRecord,
)
from assay.core.store_limits import (
    HINTS_MAX,
    HINTS_PER_TENANT_MAX,
    NATURAL_SPANS_KEPT,
    PLANS_MAX,
    Fitness,
    check_plan,
    no_batch,
    no_task,
)
from assay.core.tools.lru import LruCache
from assay.store import codec
from assay.store.fitness import Examiner
from assay.store.link import SLICE, Argument, Link, Reply
from assay.store.operations.artifacts import ArtifactCalls
from assay.store.operations.filling import Filling
from assay.store.operations.hosts import HostCalls
from assay.store.operations.leases import LeaseCalls
from assay.store.operations.looking import Looking, key_prefix
from assay.store.operations.open_work import read_open_work
from assay.store.operations.opening import Opening
from assay.store.operations.payloads import Payloads
from assay.store.operations.submitting import RELEASE_SLICE, Submitting
from assay.store.operations.uploads import UploadCalls
from assay.store.port import Pace
from assay.store.script import load_script
from assay.store.server import embedded_url
from assay.store.wake import GATHER_PLANNING_S, PLANNING, RECHECK_S, Watchers

RESULTS_READ_AT_ONCE: Final = 64
"""Entries of a log that one call to the server returns."""
RESULTS_DECODED_AT_ONCE: Final = 16
"""Entries decoded without a pause: less than half a millisecond."""
TASKS_REMEMBERED_MAX: Final = 4_096
TASK_REMEMBERED_S: Final = 300.0


def open_store(settings: StoreSettings, *, data_dir: Path) -> "ValkeyStore":
    """The store of `settings.url`, or the embedded one of `data_dir` (which must be running).

    Connects on first use, so it may be called before the server is there.
    """
    embedded = embedded_url(data_dir)
    url = settings.url or embedded
    return ValkeyStore(settings, url=url, embedded=url == embedded)


class ValkeyStore(LeaseCalls, HostCalls, ArtifactCalls, UploadCalls):
    """Implements `assay.store.port.Store`."""

    def __init__(
        self,
        settings: StoreSettings,
        *,
        url: str,
        embedded: bool = False,
        part_requests_max: int = SLICE,
    ) -> None:
        """Prepare without connecting.

        Args:
            settings: limits and times.
            url: of the server.
            embedded: the server is our own.
            part_requests_max: requests that one script call stores; larger messages are staged.
        """
        super().__init__()
        self._settings = settings
        self._link = Link(url, prefix=key_prefix(settings), timeout_s=settings.timeout_s)
        self._looking = Looking(self._link)
        self._examiner = Examiner(self._link, settings, url=url, embedded=embedded)
        self._watchers = Watchers(self._link, "ev", recheck_s=RECHECK_S)
        self._planners = Watchers(self._link, "pev", recheck_s=None, gather_s=GATHER_PLANNING_S)
        self._tasks_by_name: LruCache[tuple[TenantId, TaskId], TaskRecord] = LruCache(
            weight_max=TASKS_REMEMBERED_MAX, age_s_max=TASK_REMEMBERED_S, now_s=_now_s
        )
        self._payloads = Payloads(self._link, inline_bytes_max=settings.inline_bytes_max)
        self._opening = Opening(self._link, settings)
        self._submitting = Submitting(
            self._link, self._payloads, part_requests_max=part_requests_max
        )
        self._filling = Filling(self._link, self._opening, self._payloads)

    # -- tasks and batches ---------------------------------------------------------------------

    async def put_task(
        self, task: TaskRecord, quota: Quota | None = None, *, replaces: TaskRecord | None = None
    ) -> bool:
        """See `Store.put_task`."""
        is_new = await self._opening.put_task(task, quota or Quota(), replaces)
        self._remember_task(task)
        return is_new

    def _remember_task(self, task: TaskRecord) -> None:
        self._tasks_by_name.put((task.tenant, task.task_id), task)

    async def get_task(self, tenant: TenantId, task_id: TaskId) -> TaskRecord:
        """See `Store.get_task`."""
        remembered = self._tasks_by_name.get((tenant, task_id))
        if remembered is not None:
            return remembered
        packed = await self._link.call("HGET", self._link.key("t", tenant, task_id), "rec")
        if packed is None:
            raise no_task(task_id)
        task = codec.unpack_task(tenant, task_id, packed)
        self._remember_task(task)
        return task

    async def open_batch(
        self, spec: BatchSpec, quota: Quota, *, implicit: TaskRecord | None = None
    ) -> tuple[BatchRecord, bool]:
        """See `Store.open_batch`."""
        opened = await self._opening.open(spec, quota, implicit)
        if implicit is not None:
            self._remember_task(implicit)
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
        submitted, more = await self._submitting.submit(
            tenant, batch_id, requests, quota, is_paced=pace is not None
        )
        await self._link.log_has_taken()
        if more:
            await self._settle_on(tenant, batch_id, "CONTINUE")
        if pace is not None and submitted.accepted > RELEASE_SLICE:
            await self._submitting.release_all(tenant, batch_id, pace)
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
        submitted, more = await self._filling.open(spec, requests, quota, implicit)
        if implicit is not None:
            self._remember_task(implicit)
        if more:
            await self._settle_on(spec.tenant, spec.batch_id, "CONTINUE")
        return submitted

    async def _settle_on(
        self, tenant: TenantId, batch_id: BatchId, action: str
    ) -> tuple[BatchRecord, int]:
        ended_in_all = 0
        while True:
            reply = await self._link.run(load_script("settle"), tenant, batch_id, action, SLICE)
            if reply[0] == b"NOT_FOUND":
                raise no_batch(batch_id)
            _, flat, ended, more = reply
            ended_in_all += ended
            if not more:
                return codec.batch_record(flat), ended_in_all
            action = "CONTINUE"

    async def seal(self, tenant: TenantId, batch_id: BatchId) -> BatchRecord:
        """See `Store.seal`."""
        batch, _ = await self._settle_on(tenant, batch_id, "SEAL")
        return batch

    async def cancel(self, tenant: TenantId, batch_id: BatchId) -> tuple[BatchRecord, int]:
        """See `Store.cancel`."""
        return await self._settle_on(tenant, batch_id, "CANCEL")

    async def cancel_requests(
        self,
        tenant: TenantId,
        batch_id: BatchId,
        *,
        request_ids: Sequence[RequestId],
        group_ids: Sequence[GroupId],
    ) -> tuple[BatchRecord, int]:
        """See `Store.cancel_requests`."""
        names = pack(list(request_ids)), pack(list(group_ids))
        ended_in_all, cursor = 0, b"0"
        while True:
            reply = await self._link.run(
                load_script("cancel_requests"), tenant, batch_id, cursor, SLICE, *names
            )
            if reply[0] == b"NOT_FOUND":
                raise no_batch(batch_id)
            _, flat, ended, cursor = reply
            ended_in_all += ended
            if cursor == b"0":
                return codec.batch_record(flat), ended_in_all

    async def get_batch(self, tenant: TenantId, batch_id: BatchId) -> BatchRecord:
        """See `Store.get_batch`."""
        flat = await self._link.call("HGETALL", self._link.key("b", tenant, batch_id))
        if not flat:
            raise no_batch(batch_id)
        return codec.batch_record(flat)

    async def results(
        self, tenant: TenantId, batch_id: BatchId, *, cursor: int, entries_max: int
    ) -> Sequence[LogEntry]:
        """See `Store.results`."""
        found: list[LogEntry] = []
        read = RESULTS_READ_AT_ONCE
        while read == RESULTS_READ_AT_ONCE and len(found) < entries_max:
            first, left = cursor + len(found), entries_max - len(found)
            last = first + min(left, RESULTS_READ_AT_ONCE) - 1
            entries = await self._list_of(tenant, batch_id, "r", first, last)
            read = len(entries)
            for one in range(0, read, RESULTS_DECODED_AT_ONCE):
                if read > codec.FEW_ROWS:
                    await asyncio.sleep(0)  # other calls continue
                found += map(codec.log_entry, entries[one : one + RESULTS_DECODED_AT_ONCE])
        return found

    async def _list_of(
        self, tenant: TenantId, batch_id: BatchId, kind: str, first: int, last: int
    ) -> Sequence[bytes]:
        there, entries = await self._link.call_all(
            [
                ("EXISTS", self._link.key("b", tenant, batch_id)),
                ("LRANGE", self._link.key(kind, tenant, batch_id), first, last),
            ]
        )
        if not there:
            raise no_batch(batch_id)
        return list(entries)

    def watch(self, batch_id: BatchId) -> AsyncGenerator[None, None]:
        """See `Store.watch`."""
        return self._watchers.watch(batch_id)

    async def hint(self, tenant: TenantId, task_id: TaskId, size: int) -> None:
        """See `Store.hint`."""
        kept_ms = int(self._settings.results_kept_s * 1000)
        limits = (HINTS_MAX, HINTS_PER_TENANT_MAX)
        await self._link.run(load_script("hint"), tenant, task_id, size, kept_ms, *limits)

    # -- workers -------------------------------------------------------------------------------

    async def wait_for_work(
        self, stages: Sequence[StageName], *, timeout_s: float
    ) -> StageName | None:
        """See `Store.wait_for_work`."""
        markers = [self._link.key("m", stage) for stage in stages]
        reply = await self._link.wait("BZPOPMIN", *markers, timeout_s, timeout_s=timeout_s)
        return stages[markers.index(reply[0].decode())] if reply else None

    # -- operators -----------------------------------------------------------------------------

    async def depths(self, stages: Sequence[StageName]) -> Sequence[StageDepth]:
        """See `Store.depths`."""
        return await self._looking.depths(stages)

    async def batches(self, *, batches_max: int) -> Sequence[BatchRecord]:
        """See `Store.batches`."""
        return await self._looking.batches(batches_max=batches_max)

    async def dead_letters(
        self, *, stage: StageName | None = None, letters_max: int
    ) -> Sequence[DeadLetter]:
        """See `Store.dead_letters`."""
        found = await self._link.run(load_script("dead_letters"), stage or "", letters_max)
        return [codec.dead_letter(one) for one in found]

    async def replay(self, job_id: JobId) -> bool:
        """See `Store.replay`."""
        return bool(await self._link.run(load_script("replay"), job_id))

    async def history(
        self, tenant: TenantId, task_id: TaskId, *, batches_max: int
    ) -> Sequence[BatchHistory]:
        """See `Store.history`."""
        packed = await self._link.call(
            "LRANGE", self._link.key("h", tenant, task_id), 0, batches_max - 1
        )
        if not packed:
            return []
        task = await self.get_task(tenant, task_id)
        return [codec.batch_history(one, task.stages) for one in packed]

    async def natural_spans_ns(self, tenant: TenantId, task_id: TaskId) -> Sequence[int]:
        """See `Store.natural_spans_ns`."""
        fields = [f"span{place}" for place in range(NATURAL_SPANS_KEPT)]
        spans = await self._link.call("HMGET", self._link.key("t", tenant, task_id), *fields)
        return [int(span) for span in spans if span is not None]

    # -- planners ------------------------------------------------------------------------------

    async def open_work(self, *, batches_max: int, requests_max: int) -> Sequence[OpenWork]:
        """See `Store.open_work`."""
        names = await self._link.call("ZRANGE", self._link.prefix + "open", 0, batches_max - 1)

        async def read_piece(*arguments: Argument) -> Reply:
            return await self._link.run(load_script("open_work"), *arguments)

        return await read_open_work(
            names, read_piece=read_piece, task_of=self.task_of, requests_max=requests_max
        )

    async def tasks(self, *, tasks_max: int) -> Sequence[TaskRecord]:
        """See `Store.tasks`."""
        found = await self._link.run(load_script("tasks"), tasks_max)
        return [codec.unpack_task(*codec.task_name(name), packed) for name, packed in found]

    async def hints(self) -> Sequence[HintRecord]:
        """See `Store.hints`."""
        found = await self._link.run(load_script("hints"))
        return sorted(map(codec.hint, found), key=lambda hint: hint.hinted_ns)

    async def lead(self, planner: str, *, lease_s: float) -> Leadership:
        """See `Store.lead`."""
        lease_ms = max(1, int(lease_s * 1000))
        return codec.leadership(await self._link.run(load_script("lead"), planner, lease_ms))

    async def resign(self, planner: str) -> None:
        """See `Store.resign`."""
        await self._link.run(load_script("resign"), planner)

    def watch_planning(self) -> AsyncGenerator[None, None]:
        """See `Store.watch_planning`."""
        return self._planners.watch(PLANNING)

    async def mark_at_risk(
        self, tenant: TenantId, batch_id: BatchId, *, at_risk: bool = True
    ) -> None:
        """See `Store.mark_at_risk`."""
        if not await self._link.run(load_script("mark_at_risk"), tenant, batch_id, int(at_risk)):
            raise no_batch(batch_id)

    async def prioritize(self, tenant: TenantId, batch_id: BatchId, deadline_ns: int) -> None:
        """See `Store.prioritize`."""
        rank_us = -(-deadline_ns // codec.US)  # rounded up, as `order_key` does
        if not await self._link.run(load_script("prioritize"), tenant, batch_id, rank_us):
            raise no_batch(batch_id)

    async def put_plan(self, tenant: TenantId, batch_id: BatchId, body: bytes) -> None:
        """See `Store.put_plan`."""
        check_plan(body)
        if not await self._link.run(load_script("put_plan"), tenant, batch_id, body, PLANS_MAX):
            raise no_batch(batch_id)

    async def plans(self, tenant: TenantId, batch_id: BatchId) -> Sequence[bytes]:
        """See `Store.plans`."""
        return await self._list_of(tenant, batch_id, "pl", 0, PLANS_MAX - 1)

    # -- rate limits ---------------------------------------------------------------------------

    async def permit(
        self, tenant: TenantId, provider: str, limits: Mapping[str, tuple[int, int]]
    ) -> float:
        """See `Store.permit`."""
        asked = [part for kind, (cost, most) in limits.items() for part in (kind, cost, most)]
        wait_us: int = await self._link.run(load_script("permit"), f"{tenant}:{provider}", *asked)
        return wait_us / 1e6

    # -- life cycle ----------------------------------------------------------------------------

    async def ping(self) -> float:
        """See `Store.ping`."""
        round_trip_s = await self.round_trip()
        await self._examiner.keep()
        return round_trip_s

    async def round_trip(self) -> float:
        """See `Store.round_trip`."""
        return await self._looking.round_trip()

    async def check(self) -> Fitness:
        """See `Store.check`."""
        return await self._examiner.examine()

    async def close(self) -> None:
        """See `Store.close`."""
        await self._watchers.close()
        await self._planners.close()
        await self._link.close()


def _now_s() -> float:
    return asyncio.get_running_loop().time()
