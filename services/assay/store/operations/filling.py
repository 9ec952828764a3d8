"""Opening a batch with all its first requests: one call, for `score`."""

from collections.abc import Sequence

from assay.core.records import BatchSpec, NewRequest, Quota, Submitted, TaskRecord
from assay.store import codec
from assay.store.link import Link
from assay.store.operations.opening import Opening, refuse_batch
from assay.store.operations.payloads import Payloads
from assay.store.operations.submitting import refuse_requests, worker_us_max
from assay.store.script import load_script


class Filling:
    """Opens batches that are filled at once."""

    def __init__(self, link: Link, opening: Opening, payloads: Payloads) -> None:
        self._link = link
        self._opening = opening
        self._payloads = payloads
        self._open_filled = load_script("open_filled")

    async def open(
        self,
        spec: BatchSpec,
        requests: Sequence[NewRequest],
        quota: Quota,
        implicit: TaskRecord | None,
    ) -> tuple[Submitted, bool]:
        """As `Store.open_filled`; also returns whether more of the batch has to be settled."""
        parcel = await self._payloads.parcel(spec.tenant, requests)
        await self._payloads.upload_new(parcel.blobs)
        arguments = (
            *self._opening.arguments(spec, quota, implicit),
            await codec.packed_in_steps(parcel.rows),
            worker_us_max(quota),
        )
        reply = await self._link.run(self._open_filled, *arguments)
        if reply[0] == b"NO_BLOB":  # no longer kept; nothing was accepted
            await self._payloads.upload(parcel.blobs, list(parcel.blobs))
            reply = await self._link.run(self._open_filled, *arguments)
        if reply[0] == b"BATCH":
            refuse_batch(reply[1], spec, quota)
        if reply[0] != b"DONE":
            refuse_requests(reply, spec.batch_id, requests, quota)
        _, accepted, duplicates, sealed, more = reply
        return Submitted(accepted=accepted, duplicates=duplicates, sealed=bool(sealed)), bool(more)
