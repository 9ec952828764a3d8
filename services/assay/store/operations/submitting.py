"""Submitting a message of requests: accepted in whole or not at all, whatever its size.

A large message is staged in parts first and accepted by one call. What was staged for a message
that is not accepted is dropped, here or by a sweep. Requests of a paced message are accepted at
once, and join their queue a few at a time; if that is interrupted, a sweep does the rest.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NoReturn

from assay.core.errors import DependencyDown
from assay.core.ids import BatchId, TenantId
from assay.core.records import NewRequest, Quota, Submitted
from assay.core.store_limits import (
    batch_closed,
    batch_full,
    group_full,
    never_fits,
    no_batch,
    no_group,
    other_request,
    too_many_bytes,
    too_many_requests,
    too_much_worker_time,
)
from assay.store import codec
from assay.store.link import Argument, Link, Reply
from assay.store.operations.payloads import Payloads
from assay.store.port import Pace
from assay.store.script import load_script

RELEASE_SLICE: Final = 8
"""Requests that a paced message puts into the queue at once. All the work of a slice, in the store,
the worker host and the API, may come before another tenant's call, so it is small; slices of four
cost the store twice as much per request as slices of sixteen."""
PART_BYTES_MAX: Final = 256 * 1024
"""Payload bytes that one script call stores."""
STAGED_KEPT_MS: Final = 120_000
"""Time after which staged requests that were not submitted are dropped."""


class Submitting:
    """Takes in the requests of one message."""

    def __init__(self, link: Link, payloads: Payloads, *, part_requests_max: int) -> None:
        """`part_requests_max`: requests that one call stores; larger messages are staged."""
        self._link = link
        self._payloads = payloads
        self._part_requests_max = part_requests_max
        self._stage = load_script("stage")
        self._unstage_part = load_script("unstage")
        self._submit = load_script("submit")
        self._release = load_script("release")

    async def submit(
        self,
        tenant: TenantId,
        batch_id: BatchId,
        requests: Sequence[NewRequest],
        quota: Quota,
        *,
        is_paced: bool,
    ) -> tuple[Submitted, bool]:
        """See `Store.submit`; also returns whether more of the batch has to be settled."""
        parcel = await self._payloads.parcel(tenant, requests)
        await self._payloads.upload_new(parcel.blobs)
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
            queue_max = RELEASE_SLICE if is_paced else len(rows)
            packed = await codec.packed_in_steps(rows)
            most_us = worker_us_max(quota)
            arguments = (tenant, batch_id, *limits, packed, ranges, queue_max, most_us)
            reply = await self._link.run(self._submit, *arguments)
            if reply[0] == b"NO_BLOB":  # no longer kept; nothing was accepted
                await self._payloads.upload(parcel.blobs, list(parcel.blobs))
                reply = await self._link.run(self._submit, *arguments)
        finally:
            if reply is None or reply[0] != b"DONE":
                await self._unstage(staged)
        if reply[0] != b"DONE":
            refuse_requests(reply, batch_id, requests, quota)
        _, accepted, duplicates, sealed, more = reply
        return Submitted(accepted=accepted, duplicates=duplicates, sealed=bool(sealed)), bool(more)

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

    async def release_all(self, tenant: TenantId, batch_id: BatchId, pace: Pace) -> None:
        """Let accepted requests join their queue, `RELEASE_SLICE` at a time."""
        left = 1
        while left:
            await pace(tenant, RELEASE_SLICE)
            left = await self._link.run(self._release, tenant, batch_id, RELEASE_SLICE)

    async def _unstage(self, staged: Sequence[int]) -> None:
        """If this fails too, `reap` drops them."""
        with suppress(DependencyDown):
            for first, count in zip(staged[::2], staged[1::2], strict=True):
                await self._link.run(self._unstage_part, first, count)


def worker_us_max(quota: Quota) -> Argument:
    """What the tenant may use of the workers in a day, in microseconds; '' = any."""
    most_s = quota.worker_s_per_day_max
    return "" if most_s is None else int(most_s * 1_000_000)


def refuse_requests(
    reply: Reply, batch_id: BatchId, requests: Sequence[NewRequest], quota: Quota
) -> NoReturn:
    """Raise the error for a refusal of `scripts/accepting.lua`."""
    match reply[0]:
        case b"NOT_FOUND":
            raise no_batch(batch_id)
        case b"NOT_OPEN":
            raise batch_closed(batch_id)
        case b"OVER_SIZE":
            raise batch_full(batch_id)
        case b"OVER_GROUP":
            raise group_full(requests[reply[1]].group_id, reply[1])
        case b"NO_GROUP":
            raise no_group(reply[1])
        case b"CONFLICT":
            raise other_request(requests[reply[1]].request_id, reply[1])
        case b"OVER_REQUESTS":
            raise never_fits("requests_open_max", quota.requests_open_max, len(requests))
        case b"OVER_BYTES":
            raise never_fits("bytes_open_max", quota.bytes_open_max, len(requests))
        case b"QUOTA_REQUESTS":
            raise too_many_requests()
        case b"QUOTA_WORKERS":
            raise too_much_worker_time(quota, retry_after_s=reply[1] / 1000)
        case b"QUOTA_BYTES":
            raise too_many_bytes()
    message = "large payload parts vanished between upload and use"
    raise DependencyDown(message)
