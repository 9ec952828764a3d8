"""The store on Valkey or Redis: every operation is one script, so it is atomic.

The data model is described at the head of `scripts/requests.lua`. This process holds only caches:
tasks and large payload parts, which never change.
"""

import asyncio
import hashlib
import secrets
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

from assay.config.settings import StoreSettings
from assay.core.codec import pack
from assay.core.errors import DependencyDown
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
    FinishStatus,
    HintRecord,
    Leadership,
    Lease,
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
    LEASE_RAN_OUT,
    NATURAL_SPANS_KEPT,
    PLANS_MAX,
    artifact_too_large,
    batch_closed,
    batch_full,
    check_plan,
    group_full,
    no_batch,
    no_task,
    other_batch,
    other_request,
    other_task,
    too_many_batches,
    too_many_bytes,
    too_many_requests,
    too_many_tasks,
)
from assay.core.tools.lru import LruCache
from assay.store import codec
from assay.store.embedded import embedded_url
from assay.store.fitness import Examiner
from assay.store.link import Argument, Link, Reply
from assay.store.open_work import read_open_work
from assay.store.port import Finished, Fitness, Pace, Reaped, Report
from assay.store.script import load_script
from assay.store.wake import PLANNING, RECHECK_S, Watchers

SLICE: Final = 64
"""Most requests that one script call moves: the server runs one call at a time, and every tenant's
next call waits that long (about 2 ms)."""
CLAIMS_SLICE: Final = 32
"""Most claims and reports per script call; they cost more each."""
RELEASE_SLICE: Final = 32
"""Requests that a paced message puts into the queue at once: few enough that the resulting work of
the workers does not delay another tenant's call."""
LEASES_SLICE: Final = 512
"""Most leases that one script call extends."""
PART_BYTES_MAX: Final = 256 * 1024
"""Payload bytes that one script call stores."""
PIECE_BYTES: Final = 512 * 1024
"""Bytes of a large payload part that one call carries."""
STAGED_KEPT_MS: Final = 120_000
"""Time after which staged requests that were not submitted are dropped."""
TASK_KEPT_S: Final = 30 * 86_400.0
"""How long a task stays registered after its last use."""
TASKS_REMEMBERED_MAX: Final = 4_096
TASK_REMEMBERED_S: Final = 300.0
BLOB_BYTES_REMEMBERED_MAX: Final = 64 * 1024**2
UPLOADS_REMEMBERED_MAX: Final = 65_536
UPLOAD_KEPT_S: Final = 120
"""How long an uploaded part waits for the request that uses it."""

ARTIFACT: Final = b"="
"""Prefix of the content of an artifact, so that even an empty one is not empty in the store."""

TaskKey = tuple[bytes, bytes, bytes]
"""Tenant, task and the number of this registration of the task."""


def open_store(settings: StoreSettings, *, data_dir: Path) -> "ValkeyStore":
    """The store of `settings.url`, or the embedded one of `data_dir` (which must be running).

    Connects on first use, so it may be called before the server is there.
    """
    embedded = embedded_url(data_dir)
    url = settings.url or embedded
    return ValkeyStore(settings, url=url, embedded=url == embedded)


class ValkeyStore:
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
        self._settings = settings
        self._part_requests_max = part_requests_max
        self._link = Link(url, prefix=f"assay:{{{settings.shard}}}:", timeout_s=settings.timeout_s)
        self._examiner = Examiner(self._link, settings, url=url, embedded=embedded)
        self._watchers = Watchers(self._link, "ev", recheck_s=RECHECK_S)
        self._planners = Watchers(self._link, "pev", recheck_s=None)
        self._tasks: LruCache[TaskKey, TaskRecord] = LruCache(weight_max=TASKS_REMEMBERED_MAX)
        self._tasks_by_name: LruCache[tuple[TenantId, TaskId], TaskRecord] = LruCache(
            weight_max=TASKS_REMEMBERED_MAX, age_s_max=TASK_REMEMBERED_S, now_s=_now_s
        )
        self._blobs: LruCache[str, bytes] = LruCache(
            weight_max=BLOB_BYTES_REMEMBERED_MAX, weigh=len
        )
        self._uploaded: LruCache[str, int] = LruCache(weight_max=UPLOADS_REMEMBERED_MAX)
        self._put_task = load_script("put_task")
        self._open_batch = load_script("open_batch")
        self._stage = load_script("stage")
        self._unstage_part = load_script("unstage")
        self._submit = load_script("submit")
        self._release = load_script("release")
        self._claim = load_script("claim")
        self._beat = load_script("beat")
        self._finish = load_script("finish")
        self._settle = load_script("settle")
        self._cancel_requests = load_script("cancel_requests")
        self._reap = load_script("reap")
        self._replay = load_script("replay")
        self._depths = load_script("depths")
        self._batches = load_script("batches")
        self._dead_letters = load_script("dead_letters")
        self._open_work = load_script("open_work")
        self._list_tasks = load_script("tasks")
        self._hint = load_script("hint")
        self._hints = load_script("hints")
        self._lead = load_script("lead")
        self._resign = load_script("resign")
        self._mark_at_risk = load_script("mark_at_risk")
        self._prioritize = load_script("prioritize")
        self._put_plan = load_script("put_plan")
        self._artifact_begin = load_script("artifact_begin")
        self._artifact_end = load_script("artifact_end")

    def _key(self, kind: str, *names: str) -> str:
        return f"{self._link.prefix}{kind}:{':'.join(names)}"

    # -- tasks and batches ---------------------------------------------------------------------

    async def put_task(self, task: TaskRecord, quota: Quota | None = None) -> bool:
        """See `Store.put_task`."""
        quota = quota or Quota()
        reply = await self._link.run(
            self._put_task,
            *(task.tenant, task.task_id, codec.pack_task(task), task.stages[0]),
            *(quota.tasks_max, int(TASK_KEPT_S * 1000)),
        )
        if reply[0] == b"SATURATED":
            raise too_many_tasks(quota)
        if reply[0] == b"CONFLICT":
            raise other_task(task.task_id)
        self._remember_task(task)
        return bool(reply[0] == b"NEW")

    def _remember_task(self, task: TaskRecord) -> None:
        self._tasks_by_name.put((task.tenant, task.task_id), task)

    async def get_task(self, tenant: TenantId, task_id: TaskId) -> TaskRecord:
        """See `Store.get_task`."""
        remembered = self._tasks_by_name.get((tenant, task_id))
        if remembered is not None:
            return remembered
        packed = await self._link.call("HGET", self._key("t", tenant, task_id), "rec")
        if packed is None:
            raise no_task(task_id)
        task = codec.unpack_task(tenant, task_id, packed)
        self._remember_task(task)
        return task

    async def open_batch(
        self, spec: BatchSpec, quota: Quota, *, implicit: TaskRecord | None = None
    ) -> tuple[BatchRecord, bool]:
        """See `Store.open_batch`."""
        task: Sequence[Argument] = ("", "", 0, 0)
        if implicit is not None:
            kept_ms = int(self._settings.implicit_tasks_kept_s * 1000)
            packed, first = codec.pack_task(implicit), implicit.stages[0]
            task = (packed, first, quota.tasks_max, kept_ms)
        reply = await self._link.run(
            self._open_batch,
            *(spec.tenant, spec.batch_id, spec.task_id, spec.size, spec.group_size),
            *(spec.deadline_after_ms, quota.batches_open_max),
            int(self._settings.batch_overdue_s * 1000),
            int(self._settings.results_kept_s * 1000),
            self._settings.history_batches,
            repr(spec.weight),
            quota.results_kept_max,
            *(spec.requests_reserved, spec.bytes_reserved),
            *(quota.requests_open_max, quota.bytes_open_max, *task),
        )
        if reply[0] not in {b"NEW", b"THERE"}:
            _refuse_batch(reply, spec, quota)
        if implicit is not None:
            self._remember_task(implicit)
        return codec.batch_record(reply[1]), reply[0] == b"NEW"

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
        parcel = await self._parcel(requests)
        unknown = [name for name in parcel.blobs if self._uploaded.get(name) is None]
        await self._upload(parcel.blobs, unknown)
        parts = parcel.parts(requests_max=self._part_requests_max, bytes_max=PART_BYTES_MAX)
        staged: list[int] = []
        reply: Reply = None
        try:
            rows = parcel.rows
            if len(parts) > 1:
                await self._stage_parts(tenant, batch_id, parts, staged)
                rows = [codec.without_payload(row) for row in rows]
            limits = (quota.requests_open_max, quota.bytes_open_max)
            ranges = codec.packed_rows([staged]) if staged else b""
            queue_max = len(rows) if pace is None else RELEASE_SLICE
            packed = codec.packed_rows(rows)
            arguments = (tenant, batch_id, *limits, packed, ranges, queue_max)
            reply = await self._link.run(self._submit, *arguments)
            if reply[0] == b"NO_BLOB":  # no longer kept; nothing was accepted
                await self._upload(parcel.blobs, list(parcel.blobs))
                reply = await self._link.run(self._submit, *arguments)
        finally:
            if reply is None or reply[0] != b"DONE":
                await self._unstage(staged)
        if reply[0] != b"DONE":
            _refuse(reply, batch_id, requests)
        _, accepted, duplicates, sealed, more = reply
        if more:
            await self._settle_on(tenant, batch_id, "CONTINUE")
        if pace is not None and accepted > RELEASE_SLICE:
            await self._release_all(tenant, batch_id, pace)
        return Submitted(accepted=accepted, duplicates=duplicates, sealed=bool(sealed))

    async def _stage_parts(
        self,
        tenant: TenantId,
        batch_id: BatchId,
        parts: Sequence[Sequence[codec.Row]],
        staged: list[int],
    ) -> None:
        """Store payloads part by part; appends the first job and the count of each to `staged`."""
        for part in parts:
            rows = codec.packed_rows((row[3], row[4]) for row in part)
            reply = await self._link.run(self._stage, tenant, batch_id, STAGED_KEPT_MS, rows)
            if reply[0] == b"NOT_FOUND":
                raise no_batch(batch_id)
            staged += (reply[1], len(part))

    async def _release_all(self, tenant: TenantId, batch_id: BatchId, pace: Pace) -> None:
        """If this is interrupted, `reap` does the rest: the requests are accepted."""
        left = 1
        while left:
            await pace(tenant, RELEASE_SLICE)
            left = await self._link.run(self._release, tenant, batch_id, RELEASE_SLICE)

    async def _unstage(self, staged: Sequence[int]) -> None:
        """If this fails too, `reap` drops them."""
        with suppress(DependencyDown):
            for first, count in zip(staged[::2], staged[1::2], strict=True):
                await self._link.run(self._unstage_part, first, count)

    async def _parcel(self, requests: Sequence[NewRequest]) -> codec.Parcel:
        parcel = partial(codec.Parcel, requests, inline_bytes_max=self._settings.inline_bytes_max)
        size = sum(len(request.response) + len(request.reference) for request in requests)
        # Hashing releases the interpreter's lock, so other calls continue.
        return await asyncio.to_thread(parcel) if size > PIECE_BYTES else parcel()

    async def _upload(self, blobs: Mapping[str, bytes], names: Sequence[str]) -> None:
        for name in names:
            await self._upload_one(self._key("bl", name), blobs[name])
            self._uploaded.put(name, len(blobs[name]))

    async def _upload_one(self, key: str, content: bytes) -> None:
        """Upload in pieces under a temporary name, then rename, unless the part exists already."""
        if len(content) <= PIECE_BYTES:
            await self._link.call("SET", key, content, "NX", "EX", UPLOAD_KEPT_S)
            return
        trial = self._key("up", secrets.token_hex(16))
        await self._link.call("SET", trial, content[:PIECE_BYTES], "EX", UPLOAD_KEPT_S)
        for first in range(PIECE_BYTES, len(content), PIECE_BYTES):
            await self._link.call("APPEND", trial, content[first : first + PIECE_BYTES])
        if not await self._link.call("RENAMENX", trial, key):
            await self._link.call("UNLINK", trial)

    async def _settle_on(
        self, tenant: TenantId, batch_id: BatchId, action: str
    ) -> tuple[BatchRecord, int]:
        ended_in_all = 0
        while True:
            reply = await self._link.run(self._settle, tenant, batch_id, action, SLICE)
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
                self._cancel_requests, tenant, batch_id, cursor, SLICE, *names
            )
            if reply[0] == b"NOT_FOUND":
                raise no_batch(batch_id)
            _, flat, ended, cursor = reply
            ended_in_all += ended
            if cursor == b"0":
                return codec.batch_record(flat), ended_in_all

    async def get_batch(self, tenant: TenantId, batch_id: BatchId) -> BatchRecord:
        """See `Store.get_batch`."""
        flat = await self._link.call("HGETALL", self._key("b", tenant, batch_id))
        if not flat:
            raise no_batch(batch_id)
        return codec.batch_record(flat)

    async def results(
        self, tenant: TenantId, batch_id: BatchId, *, cursor: int, entries_max: int
    ) -> Sequence[LogEntry]:
        """See `Store.results`."""
        last = cursor + entries_max - 1
        entries = await self._list_of(tenant, batch_id, "r", cursor, last)
        return [codec.log_entry(entry) for entry in entries]

    async def _list_of(
        self, tenant: TenantId, batch_id: BatchId, kind: str, first: int, last: int
    ) -> Sequence[bytes]:
        there, entries = await self._link.call_all(
            [
                ("EXISTS", self._key("b", tenant, batch_id)),
                ("LRANGE", self._key(kind, tenant, batch_id), first, last),
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
        await self._link.run(self._hint, tenant, task_id, size, kept_ms, *limits)

    # -- workers -------------------------------------------------------------------------------

    async def claim(
        self, stage: StageName, *, claims_max: int, lease_s: float, worker: WorkerId
    ) -> Sequence[Claim]:
        """See `Store.claim`."""
        found: list[Claim] = []
        while True:
            count = min(claims_max - len(found), CLAIMS_SLICE)
            try:
                some, claimed = await self._claim_some(stage, count, lease_s, worker)
            except DependencyDown:
                if not found:
                    raise
                return found  # requests leased so far must reach their worker
            found += some
            if claimed < count or len(found) >= claims_max:
                return found

    async def _claim_some(
        self, stage: StageName, claims_max: int, lease_s: float, worker: WorkerId
    ) -> tuple[list[Claim], int]:
        """Return the claims, and how many the script made."""
        now_us, batches, claims = await self._link.run(
            self._claim, stage, claims_max, int(lease_s * 1000), worker
        )
        if not claims:
            return [], 0
        tasks = await self._tasks_of(batches)
        parts = [codec.payload_parts(claim[5]) for claim in claims]
        blobs = await self._blobs_of(part for pair in parts for part in pair)
        made = (
            _claim(claim, pair, stage, batches[claim[0]], tasks[claim[0]], blobs, now_us)
            for claim, pair in zip(claims, parts, strict=True)
        )
        return [claim for claim in made if claim is not None], len(claims)

    async def _tasks_of(self, batches: Sequence[Reply]) -> Sequence[TaskRecord | None]:
        keys: list[TaskKey] = [(batch[0], batch[2], batch[3]) for batch in batches]
        found = {key: await self._task_of(key) for key in dict.fromkeys(keys)}
        return [found[key] for key in keys]

    async def _task_of(self, key: TaskKey) -> TaskRecord | None:
        """`None`: that registration of the task is gone."""
        if self._tasks.get(key) is None:
            tenant, task_id = TenantId(key[0].decode()), TaskId(key[1].decode())
            packed, number = await self._link.call(
                "HMGET", self._key("t", tenant, task_id), "rec", "n"
            )
            if number == key[2]:
                self._tasks.put(key, codec.unpack_task(tenant, task_id, packed))
        return self._tasks.get(key)

    async def _blobs_of(self, parts: Iterable[codec.Part]) -> Mapping[str, bytes]:
        names = {part for part in parts if isinstance(part, str)}
        found = {name: content for name in names if (content := self._blobs.get(name))}
        for name in names - found.keys():
            content = await self._download(name)
            if content is not None:
                self._blobs.put(name, content)
                found[name] = content
        return found

    async def _download(self, name: str) -> bytes | None:
        """`None`: it is no longer kept."""
        key = self._key("bl", name)
        pieces: list[bytes] = []
        while not pieces or len(pieces[-1]) == PIECE_BYTES:
            first = len(pieces) * PIECE_BYTES
            piece = await self._link.call("GETRANGE", key, first, first + PIECE_BYTES - 1)
            pieces.append(piece)
        if len(pieces) == 1:
            return pieces[0] or None
        content = b"".join(pieces)  # incomplete if it was dropped meanwhile
        digest = await asyncio.to_thread(hashlib.sha256, content)
        return content if digest.hexdigest() == name else None

    async def beat(
        self, stage: StageName, *, lease_s: float, leases: Sequence[Lease]
    ) -> Sequence[Lease]:
        """See `Store.beat`."""
        lost: list[Lease] = []
        for first in range(0, len(leases), LEASES_SLICE):
            some = leases[first : first + LEASES_SLICE]
            pairs = (value for lease in some for value in (lease.job_id, lease.fence))
            reply = await self._link.run(self._beat, stage, int(lease_s * 1000), *pairs)
            lost += [some[index] for index in reply]
        return lost

    async def finish(
        self, stage: StageName, reports: Sequence[Report], attempts_max: int
    ) -> Finished:
        """See `Store.finish`."""
        statuses: list[FinishStatus] = []
        completed: list[Reply] = []
        for first in range(0, len(reports), CLAIMS_SLICE):
            arguments: list[Argument] = []
            for report in reports[first : first + CLAIMS_SLICE]:
                arguments += codec.report_arguments(report)
            done, batches = await self._link.run(
                self._finish,
                *(stage, attempts_max, self._settings.dead_letters_max),
                self._settings.dead_letters_per_tenant_max,
                *arguments,
            )
            statuses += [FinishStatus.DONE if one else FinishStatus.STALE for one in done]
            completed += batches
        return Finished(
            statuses=tuple(statuses), completed=tuple(map(codec.completed_batch, completed))
        )

    async def reap(self, stage: StageName, *, attempts_max: int, jobs_max: int) -> Reaped:
        """See `Store.reap`."""
        sums = [0, 0, 0]
        completed: list[Reply] = []
        left = jobs_max
        while left > 0:
            count = min(left, SLICE)
            *moved, over = await self._link.run(
                self._reap,
                *(stage, attempts_max, count, self._settings.dead_letters_max),
                *(self._settings.dead_letters_per_tenant_max, LEASE_RAN_OUT),
            )
            sums = [a + b for a, b in zip(sums, moved, strict=True)]
            completed += over
            left -= count if max(moved[0] + moved[1], moved[2]) == count else left
        redelivered, dead, expired = sums
        return Reaped(
            redelivered=redelivered,
            dead=dead,
            expired=expired,
            completed=tuple(map(codec.completed_batch, completed)),
        )

    async def wait_for_work(
        self, stages: Sequence[StageName], *, timeout_s: float
    ) -> StageName | None:
        """See `Store.wait_for_work`."""
        markers = [self._key("m", stage) for stage in stages]
        reply = await self._link.wait("BZPOPMIN", *markers, timeout_s, timeout_s=timeout_s)
        return stages[markers.index(reply[0].decode())] if reply else None

    # -- operators -----------------------------------------------------------------------------

    async def depths(self, stages: Sequence[StageName]) -> Sequence[StageDepth]:
        """See `Store.depths`."""
        now_us, *found = await self._link.run(self._depths, *stages)
        return [
            codec.stage_depth(stage, now_us, one) for stage, one in zip(stages, found, strict=True)
        ]

    async def batches(self, *, batches_max: int) -> Sequence[BatchRecord]:
        """See `Store.batches`."""
        found = await self._link.run(self._batches, batches_max)
        return [codec.batch_record(flat) for flat in found]

    async def dead_letters(
        self, *, stage: StageName | None = None, letters_max: int
    ) -> Sequence[DeadLetter]:
        """See `Store.dead_letters`."""
        found = await self._link.run(self._dead_letters, stage or "", letters_max)
        return [codec.dead_letter(one) for one in found]

    async def replay(self, job_id: JobId) -> bool:
        """See `Store.replay`."""
        return bool(await self._link.run(self._replay, job_id))

    async def history(
        self, tenant: TenantId, task_id: TaskId, *, batches_max: int
    ) -> Sequence[BatchHistory]:
        """See `Store.history`."""
        packed = await self._link.call(
            "LRANGE", self._key("h", tenant, task_id), 0, batches_max - 1
        )
        if not packed:
            return []
        task = await self.get_task(tenant, task_id)
        return [codec.batch_history(one, task.stages) for one in packed]

    async def natural_spans_ns(self, tenant: TenantId, task_id: TaskId) -> Sequence[int]:
        """See `Store.natural_spans_ns`."""
        fields = [f"span{place}" for place in range(NATURAL_SPANS_KEPT)]
        spans = await self._link.call("HMGET", self._key("t", tenant, task_id), *fields)
        return [int(span) for span in spans if span is not None]

    # -- planners ------------------------------------------------------------------------------

    async def open_work(self, *, batches_max: int, requests_max: int) -> Sequence[OpenWork]:
        """See `Store.open_work`."""
        names = await self._link.call("ZRANGE", self._link.prefix + "open", 0, batches_max - 1)

        async def read_piece(*arguments: Argument) -> Reply:
            return await self._link.run(self._open_work, *arguments)

        return await read_open_work(
            names, read_piece=read_piece, task_of=self._task_of, requests_max=requests_max
        )

    async def tasks(self, *, tasks_max: int) -> Sequence[TaskRecord]:
        """See `Store.tasks`."""
        found = await self._link.run(self._list_tasks, tasks_max)
        return [codec.unpack_task(*codec.task_name(name), packed) for name, packed in found]

    async def hints(self) -> Sequence[HintRecord]:
        """See `Store.hints`."""
        found = await self._link.run(self._hints)
        return sorted(map(codec.hint, found), key=lambda hint: hint.hinted_ns)

    async def lead(self, planner: str, *, lease_s: float) -> Leadership:
        """See `Store.lead`."""
        lease_ms = max(1, int(lease_s * 1000))
        return codec.leadership(await self._link.run(self._lead, planner, lease_ms))

    async def resign(self, planner: str) -> None:
        """See `Store.resign`."""
        await self._link.run(self._resign, planner)

    def watch_planning(self) -> AsyncGenerator[None, None]:
        """See `Store.watch_planning`."""
        return self._planners.watch(PLANNING)

    async def mark_at_risk(
        self, tenant: TenantId, batch_id: BatchId, *, at_risk: bool = True
    ) -> None:
        """See `Store.mark_at_risk`."""
        if not await self._link.run(self._mark_at_risk, tenant, batch_id, int(at_risk)):
            raise no_batch(batch_id)

    async def prioritize(self, tenant: TenantId, batch_id: BatchId, deadline_ns: int) -> None:
        """See `Store.prioritize`."""
        rank_us = -(-deadline_ns // codec.US)  # rounded up, as `order_key` does
        if not await self._link.run(self._prioritize, tenant, batch_id, rank_us):
            raise no_batch(batch_id)

    async def put_plan(self, tenant: TenantId, batch_id: BatchId, body: bytes) -> None:
        """See `Store.put_plan`."""
        check_plan(body)
        if not await self._link.run(self._put_plan, tenant, batch_id, body, PLANS_MAX):
            raise no_batch(batch_id)

    async def plans(self, tenant: TenantId, batch_id: BatchId) -> Sequence[bytes]:
        """See `Store.plans`."""
        return await self._list_of(tenant, batch_id, "pl", 0, PLANS_MAX - 1)

    # -- artifacts -----------------------------------------------------------------------------

    async def artifact_get(self, key: str) -> bytes | None:
        """See `Store.artifact_get`."""
        content: bytes | None = await self._link.call("GET", self._key("a", key))
        return None if content is None else content[1:]

    async def artifact_begin(self, key: str, *, lease_s: float) -> bool:
        """See `Store.artifact_begin`."""
        return bool(await self._link.run(self._artifact_begin, key, int(lease_s * 1000)))

    async def artifact_put(self, key: str, content: bytes) -> None:
        """See `Store.artifact_put`."""
        if len(content) > self._settings.artifact_bytes_max:
            await self.artifact_abandon(key)
            raise artifact_too_large(len(content), self._settings.artifact_bytes_max)
        await self._end_artifact(key, ARTIFACT + content)

    async def artifact_abandon(self, key: str) -> None:
        """See `Store.artifact_abandon`."""
        await self._end_artifact(key, b"")

    async def _end_artifact(self, key: str, content: bytes) -> None:
        await self._link.run(
            self._artifact_end,
            *(key, int(self._settings.artifacts_kept_s * 1000)),
            *(self._settings.artifacts_bytes_max, content),
        )

    async def artifact_wait(self, key: str, *, timeout_s: float) -> bytes | None:
        """See `Store.artifact_wait`."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        wake = self._key("am", key)
        while (left_s := deadline_s - loop.time()) > 0:
            content, making_ms = await self._link.call_all(
                [("GET", self._key("a", key)), ("PTTL", self._key("ab", key))]
            )
            if content is not None:
                return bytes(content[1:])
            if making_ms < 0:
                return None
            block_s = max(0.001, min(left_s, making_ms / 1000))
            await self._link.wait(
                *("BLMOVE", wake, wake, "LEFT", "LEFT", f"{block_s:.3f}"), timeout_s=block_s
            )
        return None

    # -- life cycle ----------------------------------------------------------------------------

    async def ping(self) -> float:
        """See `Store.ping`."""
        loop = asyncio.get_running_loop()
        before_s = loop.time()
        await self._link.call("PING")
        round_trip_s = loop.time() - before_s
        await self._examiner.keep()
        return round_trip_s

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


def _refuse_batch(reply: Reply, spec: BatchSpec, quota: Quota) -> NoReturn:
    """Raise the error for a refusal of the open_batch script."""
    match reply[0]:
        case b"NOT_FOUND":
            raise no_task(spec.task_id)
        case b"OTHER_TASK":
            raise other_task(spec.task_id)
        case b"CONFLICT":
            raise other_batch(spec.batch_id)
        case b"QUOTA_REQUESTS":
            raise too_many_requests()
        case b"QUOTA_BYTES":
            raise too_many_bytes()
        case b"QUOTA_TASKS":
            raise too_many_tasks(quota)
    raise too_many_batches(quota)


def _refuse(reply: Reply, batch_id: BatchId, requests: Sequence[NewRequest]) -> NoReturn:
    """Raise the error for a refusal of the submit script."""
    match reply[0]:
        case b"NOT_FOUND":
            raise no_batch(batch_id)
        case b"NOT_OPEN":
            raise batch_closed(batch_id)
        case b"OVER_SIZE":
            raise batch_full(batch_id)
        case b"OVER_GROUP":
            raise group_full(requests[reply[1]].group_id, reply[1])
        case b"CONFLICT":
            raise other_request(requests[reply[1]].request_id, reply[1])
        case b"QUOTA_REQUESTS":
            raise too_many_requests()
        case b"QUOTA_BYTES":
            raise too_many_bytes()
    message = "large payload parts vanished between upload and use"
    raise DependencyDown(message)


def _content(part: codec.Part, blobs: Mapping[str, bytes]) -> bytes | None:
    return blobs.get(part) if isinstance(part, str) else part


def _claim(
    reply: Reply,
    parts: tuple[codec.Part, codec.Part],
    stage: StageName,
    batch: Reply,
    task: TaskRecord | None,
    blobs: Mapping[str, bytes],
    now_us: int,
) -> Claim | None:
    """`None`: the request ended while its parts were fetched; its lease is already lost."""
    _, job, fence, attempt, static, _, handover, enqueued = reply
    response, reference = _content(parts[0], blobs), _content(parts[1], blobs)
    if task is None or response is None or reference is None:
        return None
    request_id, group_id = codec.job_names(static)
    return Claim(
        lease=Lease(job_id=JobId(job.decode()), fence=fence),
        stage=stage,
        task=task,
        batch_id=BatchId(batch[1].decode()),
        request_id=request_id,
        group_id=group_id,
        attempt=attempt,
        response=response,
        reference=reference,
        handover=handover,
        enqueued_ns=enqueued * codec.US,
        claimed_ns=now_us * codec.US,
        deadline_ns=int(batch[4]) * codec.US,
    )
