"""Leases: claims for workers, renewals, reports, and the sweep that takes expired ones back.

A call moves a few requests, so that no tenant waits long for the server. A request that is claimed
is returned, even when a later call fails. If its payload parts are gone it has ended meanwhile, so
its lease is already lost and it is left out.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from assay.config.settings import StoreSettings
from assay.core.errors import DependencyDown
from assay.core.ids import BatchId, JobId, StageName, TaskId, TenantId, WorkerId
from assay.core.records import Artifact, Claim, FinishStatus, Lease, Member, TaskRecord
from assay.core.store_limits import LEASE_RAN_OUT
from assay.core.tools.lru import LruCache
from assay.store import codec
from assay.store.link import SLICE, Argument, Link, Reply
from assay.store.operations.payloads import Payloads
from assay.store.port import Finished, Reaped, Report
from assay.store.script import load_script

CLAIMS_SLICE: Final = SLICE
"""Most claims and reports per script call: about 1.2 ms. With half as many the server takes a fifth
more CPU time for a no-op request: a script costs some 80 us beside its requests."""
LEASES_SLICE: Final = 512
"""Most leases that one script call extends."""
TASKS_REMEMBERED_MAX: Final = 4_096

TaskKey = tuple[bytes, bytes, bytes]
"""Tenant, task and the number of this registration of the task."""


class LeaseCalls:
    """The calls of a store about leases."""

    _link: Link
    _settings: StoreSettings
    _payloads: Payloads

    def __init__(self) -> None:
        self._tasks: LruCache[TaskKey, TaskRecord] = LruCache(weight_max=TASKS_REMEMBERED_MAX)

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
        found: list[Claim] = []
        while True:
            count = min(claims_max - len(found), CLAIMS_SLICE)
            try:
                some, claimed = await self._claim_some(stage, count, lease_s, worker, left_out)
            except DependencyDown:
                if not found:
                    raise
                return found  # requests leased so far must reach their worker
            found += some
            if claimed < count or len(found) >= claims_max:
                return found

    async def _claim_some(
        self,
        stage: StageName,
        claims_max: int,
        lease_s: float,
        worker: WorkerId,
        left_out: Collection[TenantId],
    ) -> tuple[list[Claim], int]:
        """Return the claims, and how many the script made."""
        now_us, batches, claims = await self._link.run(
            load_script("claim"), stage, claims_max, int(lease_s * 1000), worker, *left_out
        )
        if not claims:
            return [], 0
        tasks = await self._tasks_of(batches)
        contents = [_contents(claim) for claim in claims]
        blobs = await self._payloads.download(
            part for some in contents for one in some for part in one.payload.parts
        )
        made = (
            _claim(claim, some, stage, batches[claim[0]], tasks[claim[0]], blobs, now_us)
            for claim, some in zip(claims, contents, strict=True)
        )
        return [claim for claim in made if claim is not None], len(claims)

    async def _tasks_of(self, batches: Sequence[Reply]) -> Sequence[TaskRecord | None]:
        keys: list[TaskKey] = [(batch[0], batch[2], batch[3]) for batch in batches]
        found = {key: await self.task_of(key) for key in dict.fromkeys(keys)}
        return [found[key] for key in keys]

    async def task_of(self, key: TaskKey) -> TaskRecord | None:
        """One registration of a task; `None`: it is gone."""
        if self._tasks.get(key) is None:
            tenant, task_id = TenantId(key[0].decode()), TaskId(key[1].decode())
            packed, number = await self._link.call(
                "HMGET", self._link.key("t", tenant, task_id), "rec", "n"
            )
            if number == key[2]:
                self._tasks.put(key, codec.unpack_task(tenant, task_id, packed))
        return self._tasks.get(key)

    async def beat(
        self, stage: StageName, *, lease_s: float, leases: Sequence[Lease]
    ) -> Sequence[Lease]:
        """See `Store.beat`."""
        lost: list[Lease] = []
        for first in range(0, len(leases), LEASES_SLICE):
            some = leases[first : first + LEASES_SLICE]
            pairs = (value for lease in some for value in (lease.job_id, lease.fence))
            times_ms = int(lease_s * 1000), int(self._settings.held_s_max * 1000)
            reply = await self._link.run(load_script("beat"), stage, *times_ms, *pairs)
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
                load_script("finish"),
                *(stage, attempts_max, self._settings.dead_letters_max),
                self._settings.dead_letters_per_tenant_max,
                *arguments,
            )
            statuses += [FinishStatus.DONE if one else FinishStatus.STALE for one in done]
            completed += batches
        return Finished(
            statuses=tuple(statuses), completed=tuple(map(codec.completed_batch, completed))
        )

    async def give_back_undelivered(
        self, stage: StageName, *, worker: WorkerId, leases: Sequence[Lease]
    ) -> int:
        """See `Store.give_back_undelivered`."""
        held = [value for lease in leases for value in (lease.job_id, lease.fence)]
        given = 0
        while True:
            some: int = await self._link.run(
                load_script("undelivered"), stage, worker, SLICE, *held
            )
            given += some
            if some < SLICE:
                return given

    async def reap(self, stage: StageName, *, attempts_max: int, jobs_max: int) -> Reaped:
        """See `Store.reap`."""
        sums = [0, 0, 0]
        completed: list[Reply] = []
        left = jobs_max
        while left > 0:
            count = min(left, SLICE)
            *moved, over = await self._link.run(
                load_script("reap"),
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


def _content(part: codec.PayloadPart, blobs: Mapping[str, bytes]) -> bytes | None:
    return blobs.get(part) if isinstance(part, str) else part


class _Content(NamedTuple):
    """What the claim script says about one request."""

    job: bytes
    static: bytes
    payload: codec.Payload
    handover: bytes


def _contents(claim: Reply) -> list[_Content]:
    """Of the request of a claim, or of the members of a group."""
    if len(claim) == 8:
        return [_Content(claim[1], claim[4], codec.payload(claim[5]), claim[6])]
    flat = claim[8]
    fields = zip(flat[::4], flat[1::4], flat[2::4], flat[3::4], strict=True)
    return [_Content(job, static, codec.payload(packed), o) for job, static, packed, o in fields]


def _member(content: _Content, blobs: Mapping[str, bytes]) -> Member | None:
    """`None`: the request ended while its parts were fetched."""
    _, static, payload, handover = content
    contents = [found for part in payload.parts if (found := _content(part, blobs)) is not None]
    if len(contents) < len(payload.parts):
        return None
    response, reference, *more = contents
    return Member(
        job_id=JobId(content.job.decode()),
        request_id=codec.job_names(static)[0],
        response=response,
        reference=reference,
        handover=handover,
        messages=more[0] if more else b"",
        artifacts=tuple(map(Artifact, payload.names, more[1:])),
    )


def _claim(
    reply: Reply,
    contents: Sequence[_Content],
    stage: StageName,
    batch: Reply,
    task: TaskRecord | None,
    blobs: Mapping[str, bytes],
    now_us: int,
) -> Claim | None:
    """`None`: what was leased ended while its parts were fetched; the lease is already lost."""
    found = [_member(content, blobs) for content in contents]
    members = [member for member in found if member is not None]
    if task is None or not members:
        return None
    _, job, fence, attempt, static, _, _, enqueued, *rest = reply
    is_group = bool(rest)
    request_id, group_id = codec.job_names(static)
    one = members[0]
    return Claim(
        lease=Lease(job_id=JobId(job.decode()), fence=fence),
        stage=stage,
        task=task,
        batch_id=BatchId(batch[1].decode()),
        request_id=request_id,
        group_id=group_id,
        attempt=attempt,
        response=b"" if is_group else one.response,
        reference=b"" if is_group else one.reference,
        handover=b"" if is_group else one.handover,
        enqueued_ns=enqueued * codec.US,
        claimed_ns=now_us * codec.US,
        deadline_ns=int(batch[4]) * codec.US,
        messages=b"" if is_group else one.messages,
        artifacts=() if is_group else one.artifacts,
        members=tuple(members) if is_group else (),
        submitted=codec.group_size(static) if is_group else 0,
    )
