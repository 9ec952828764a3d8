"""Payloads on the server: small parts travel with their request, large ones once per tenant, by
their hash.

A large part is uploaded in pieces, so that no single call blocks the server for long, and visible
only when it is complete. Parts never change, so this process caches those that it has read.
"""

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from assay.core.ids import TenantId
from assay.core.records import NewRequest
from assay.core.tools.lru import LruCache, TenantCache
from assay.store import codec
from assay.store.link import Link
from assay.store.operations import pieces

BLOB_BYTES_REMEMBERED_MAX: Final = 64 * 1024**2
UPLOADS_REMEMBERED_MAX: Final = 65_536


class Payloads:
    """Uploads and downloads the parts of requests."""

    def __init__(self, link: Link, *, inline_bytes_max: int) -> None:
        """`inline_bytes_max`: larger parts are uploaded separately."""
        self._link = link
        self._inline_bytes_max = inline_bytes_max
        self._blobs: TenantCache[str, bytes] = TenantCache(
            weight_max=BLOB_BYTES_REMEMBERED_MAX, weigh=len
        )
        self._uploaded: LruCache[str, int] = LruCache(weight_max=UPLOADS_REMEMBERED_MAX)

    async def parcel(self, tenant: TenantId, requests: Sequence[NewRequest]) -> codec.Parcel:
        """Encode the requests of a message."""
        parcel = codec.Parcel(tenant=tenant, inline_bytes_max=self._inline_bytes_max)
        for first in range(0, len(requests), codec.ROWS_AT_ONCE):
            some = requests[first : first + codec.ROWS_AT_ONCE]
            size = sum(request.payload_bytes for request in some)
            if size > pieces.PIECE_BYTES:
                # Hashing releases the interpreter's lock: other calls continue.
                await asyncio.to_thread(parcel.add, some)
            else:
                parcel.add(some)
                if len(some) > codec.FEW_ROWS:
                    await asyncio.sleep(0)
        return parcel

    async def upload_new(self, blobs: Mapping[str, bytes]) -> None:
        """Upload those that this process has not uploaded lately; the server may drop them."""
        await self.upload(blobs, [name for name in blobs if self._uploaded.get(name) is None])

    async def upload(self, blobs: Mapping[str, bytes], names: Iterable[str]) -> None:
        """Upload these parts, unless the server has them."""
        for name in names:
            await self._upload_one(self._link.key("bl", name), blobs[name])
            self._uploaded.put(name, len(blobs[name]))

    async def _upload_one(self, key: str, content: bytes) -> None:
        """Upload in pieces under a temporary name, then rename, unless the part exists already."""
        if len(content) <= pieces.PIECE_BYTES:
            await self._link.call("SET", key, content, "NX", "EX", pieces.KEPT_S)
            return
        trial = await pieces.send(self._link, content)
        if not await self._link.call("RENAMENX", trial, key):
            await self._link.call("UNLINK", trial)

    async def download(self, parts: Iterable[codec.PayloadPart]) -> Mapping[str, bytes]:
        """The contents of the uploaded ones among `parts`, except those that are no longer kept."""
        names = {part for part in parts if isinstance(part, str)}
        found = {name: content for name in names if (content := self._blobs.get(*_cached(name)))}
        for name in names - found.keys():
            content = await self._download_one(name)
            if content is not None:
                self._blobs.put(*_cached(name), content)
                found[name] = content
        return found

    async def _download_one(self, name: str) -> bytes | None:
        """`None`: it is no longer kept."""
        found = await pieces.read(self._link, self._link.key("bl", name))
        if len(found) == 1:
            return found[0] or None
        content = b"".join(found)  # incomplete if it was dropped meanwhile
        digest = await asyncio.to_thread(hashlib.sha256, content)
        return content if digest.hexdigest() == _hash_of(name) else None


def _hash_of(name: str) -> str:
    return name.partition(".")[0]


def _cached(name: str) -> tuple[str, str]:
    """Owner and key in the cache."""
    return name.partition(".")[2], name
