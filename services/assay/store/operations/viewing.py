"""What a console shows and nothing else needs: reads by tenant, each bounded in size.

Over a connection of its own, so that requests never wait for viewers. A read takes pieces
of `NAMES_A_CALL` names or `ENTRIES_A_CALL` entries, between which the server serves others.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgpack

from assay.config.settings import StoreSettings
from assay.core.ids import BatchId, JobId, RequestId, StageName, TenantId
from assay.core.records import BatchRecord, DeadLetter, ResultRecord
from assay.store import codec
from assay.store.link import Link
from assay.store.operations.looking import key_prefix
from assay.store.script import load_script
from assay.store.server import embedded_url

NAMES_A_CALL: Final = 1_000
BATCHES_A_CALL: Final = 64
ENTRIES_A_CALL: Final = 256
DECODED_AT_ONCE: Final = 16
SEARCHED_MAX: Final = 200_000
"""Entries of a batch's log, and requests that have not ended, in which a request is looked for."""
QUEUE_TENANTS_MAX: Final = 1_000

BatchKey = tuple[TenantId, BatchId]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRequest:
    """A request that has not ended."""

    job_id: JobId
    stage: StageName
    state: str
    """`QUEUED`, `RUNNING`, or `GATHERED` (waits for its group)."""
    attempts: int
    """At this stage so far."""
    arrived_ns: int
    enqueued_ns: int
    claimed_ns: int
    """0 = it waits."""
    worker: str
    error: str
    """Of the last attempt that failed; empty: none did."""


_STATES: Final = {b"Q": "QUEUED", b"L": "RUNNING", b"G": "GATHERED", b"D": "DEAD"}


class Viewing:
    """Reads what the console shows."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._queues = load_script("view_queues")
        self._request = load_script("view_request")
        self._letters = load_script("dead_letters")
        self._replay = load_script("replay")

    async def open_names(self, names_max: int) -> Sequence[BatchKey]:
        """The batches that are not complete, earliest deadline first."""
        names: list[bytes] = []
        while len(names) < names_max:
            last = min(names_max, len(names) + NAMES_A_CALL) - 1
            piece = await self._link.call("ZRANGE", self._link.prefix + "open", len(names), last)
            names += piece
            if len(piece) < NAMES_A_CALL:
                break
        return [_key(name) for name in names]

    async def completed_names(self, tenant: TenantId, names_max: int) -> Sequence[BatchKey]:
        """The tenant's last completed batches, newest first."""
        packed = await self._link.call("LRANGE", self._link.key("over", tenant), -names_max, -1)
        return [_key(_first(one)) for one in reversed(packed)]

    async def tenants(self, tasks_max: int) -> Sequence[TenantId]:
        """The tenants of the tasks that were used last, each once, the last used first."""
        names = await self._link.call("ZREVRANGE", self._link.prefix + "used", 0, tasks_max - 1)
        return list(dict.fromkeys(codec.task_name(name)[0] for name in names))

    async def batches(self, keys: Sequence[BatchKey]) -> Sequence[BatchRecord]:
        """These batches, in this order, without those that are no longer kept."""
        found: list[BatchRecord] = []
        for first in range(0, len(keys), BATCHES_A_CALL):
            some = keys[first : first + BATCHES_A_CALL]
            commands = [("HGETALL", self._link.key("b", *key)) for key in some]
            replies = await self._link.call_all([*commands, ("PING",)])
            found += [codec.batch_record(flat) for flat in replies[:-1] if flat]
            await asyncio.sleep(0)
        return found

    async def queues(
        self, stages: Sequence[StageName]
    ) -> dict[StageName, Sequence[tuple[TenantId, int]]]:
        """How many requests of each tenant wait at each stage."""
        if not stages:
            return {}
        rows = await self._link.run(self._queues, QUEUE_TENANTS_MAX, *stages)
        return {
            stage: [
                (TenantId(tenant.decode()), int(queued))
                for tenant, queued in zip(row[::2], row[1::2], strict=True)
            ]
            for stage, row in zip(stages, rows, strict=True)
        }

    async def dead_letters(
        self, tenant: TenantId | None, *, letters_max: int
    ) -> Sequence[DeadLetter]:
        """The newest dead letters of a tenant, or of all (`None`)."""
        own = () if tenant is None else (tenant,)
        found = await self._link.run(self._letters, "", letters_max, *own)
        return [codec.dead_letter(one) for one in found if one[1] and one[2]]

    async def replay(self, job_id: JobId, tenant: TenantId | None) -> bool:
        """As `Store.replay`; with a tenant, only a letter of its own."""
        own = () if tenant is None else (tenant,)
        return bool(await self._link.run(self._replay, job_id, *own))

    async def ended(
        self, tenant: TenantId, batch_id: BatchId, request_id: RequestId
    ) -> ResultRecord | None:
        """How a request ended; of one that ended twice (replayed), the last time."""
        needle = request_id.encode()
        before = await self.log_length(tenant, batch_id)
        least = max(0, before - SEARCHED_MAX)
        while before > least:
            first = max(least, before - ENTRIES_A_CALL)
            for packed in reversed(await self._log(tenant, batch_id, first, before - 1)):
                if needle not in packed:
                    continue
                entry = codec.log_entry(packed)
                if isinstance(entry, ResultRecord) and entry.request_id == request_id:
                    return entry
            before = first
            await asyncio.sleep(0)
        return None

    async def log_length(self, tenant: TenantId, batch_id: BatchId) -> int:
        """How many entries the log of a batch has."""
        return int(await self._link.call("LLEN", self._link.key("r", tenant, batch_id)))

    async def results_before(
        self,
        tenant: TenantId,
        batch_id: BatchId,
        before: int,
        *,
        wanted: Callable[[ResultRecord], bool],
        results_max: int,
        entries_max: int,
    ) -> tuple[Sequence[ResultRecord], int]:
        """Results that are `wanted`, the newest first, among up to `entries_max` entries before
        that place in the log; and the place before which to continue (0 = the log's start)."""
        found: list[ResultRecord] = []
        least = max(0, before - entries_max)
        while before > least:
            first = max(least, before - ENTRIES_A_CALL)
            packed = await self._log(tenant, batch_id, first, before - 1)
            for place in range(len(packed) - 1, -1, -1):
                if place % DECODED_AT_ONCE == 0:
                    await asyncio.sleep(0)
                entry = codec.log_entry(packed[place])
                if isinstance(entry, ResultRecord) and wanted(entry):
                    found.append(entry)
                    if len(found) == results_max:
                        return found, first + place
            before = first
        return found, before

    async def _log(
        self, tenant: TenantId, batch_id: BatchId, first: int, last: int
    ) -> Sequence[bytes]:
        packed: Sequence[bytes] = await self._link.call(
            "LRANGE", self._link.key("r", tenant, batch_id), first, last
        )
        return packed

    async def open_request(
        self, tenant: TenantId, batch_id: BatchId, request_id: RequestId
    ) -> OpenRequest | None:
        """The state of a request that has not ended."""
        cursor, looked = b"0", 0
        while looked < SEARCHED_MAX:
            cursor, *job = await self._link.run(
                self._request, f"{tenant}:{batch_id}", request_id, cursor, ENTRIES_A_CALL
            )
            if job:
                return _open_request(*job)
            if cursor == b"0":
                return None
            looked += ENTRIES_A_CALL
        return None

    async def close(self) -> None:
        """Close the connection."""
        await self._link.close()


def open_viewing(settings: StoreSettings, *, data_dir: Path) -> Viewing:
    """Reads of the store of these settings; connects on first use."""
    url = settings.url or embedded_url(data_dir)
    return Viewing(Link(url, prefix=key_prefix(settings), timeout_s=settings.timeout_s))


def _first(packed: bytes) -> bytes:
    """The first of several values that a script packed one after the other."""
    unpacker = msgpack.Unpacker(raw=True, max_buffer_size=len(packed))
    unpacker.feed(packed)
    value: bytes = unpacker.unpack()
    return value


def _key(name: bytes) -> BatchKey:
    tenant, _, batch = name.decode().rpartition(":")
    return TenantId(tenant), BatchId(batch)


def _open_request(job: bytes, changing: bytes, _static: bytes) -> OpenRequest:
    held = codec.job_state(changing)
    return OpenRequest(
        job_id=JobId(job.decode()),
        stage=StageName(held.stage.decode()),
        state=_STATES[held.state],
        attempts=held.attempts,
        arrived_ns=held.arrived_us * codec.US,
        enqueued_ns=held.enqueued_us * codec.US,
        claimed_ns=held.claimed_us * codec.US if held.state == b"L" else 0,
        worker=held.worker.decode() if held.state == b"L" else "",
        error=held.error.decode(errors="replace"),
    )
