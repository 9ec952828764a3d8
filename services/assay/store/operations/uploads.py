"""Files that tenants upload ahead of the requests that refer to them, each tenant's by itself.

A file is sent in pieces under a temporary name, so that no call holds the server for long, and is
visible when it is complete.
"""

from assay.config.settings import StoreSettings
from assay.core import store_limits
from assay.core.errors import DependencyDown
from assay.core.ids import TenantId
from assay.core.records import Quota
from assay.core.store_limits import too_many_uploads, upload_never_fits
from assay.store.link import Link
from assay.store.operations import pieces
from assay.store.script import load_script


class UploadCalls:
    """The calls of a store about uploaded files."""

    _link: Link
    _settings: StoreSettings

    async def upload_put(self, tenant: TenantId, sha256: str, content: bytes, quota: Quota) -> int:
        """See `Store.upload_put`."""
        script = load_script("upload_end")
        kept_ms = int(self._settings.uploads_kept_s * 1000)
        limits = (len(content), kept_ms, quota.uploads_bytes_max, store_limits.UPLOADS_MAX)
        reply = await self._link.run(script, tenant, sha256, "", *limits)
        if reply[0] == b"GONE":
            if len(content) > quota.uploads_bytes_max:
                raise upload_never_fits(quota, len(content))
            trial = await pieces.send(self._link, content)
            reply = await self._link.run(script, tenant, sha256, trial, *limits)
        if reply[0] == b"FULL":
            raise too_many_uploads(quota, retry_after_s=reply[1] / 1000)
        if reply[0] == b"GONE":
            raise DependencyDown("the uploaded file vanished before it was kept")
        return int(reply[1]) * 1_000_000

    async def upload_get(self, tenant: TenantId, sha256: str) -> bytes | None:
        """See `Store.upload_get`."""
        return b"".join(await pieces.read(self._link, self._link.key("uc", tenant, sha256))) or None
