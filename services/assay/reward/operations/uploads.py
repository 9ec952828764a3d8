"""Files that are uploaded once, ahead of the requests that refer to them by their SHA-256."""

import asyncio
import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from assay.config.settings import RewardSettings
from assay.core.answers import StoredArtifact
from assay.core.errors import FailedPrecondition, InvalidRequest, TooLarge
from assay.core.records import Artifact, NewRequest
from assay.edge.auth import Tenant
from assay.store.port import Store

MESSAGE_BYTES_MAX: Final = 64 * 1024**2
"""Uploaded files that the requests of one message may refer to, each counted once: they are in
memory together."""
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


class Uploads:
    """Keeps uploaded files, and puts them where requests refer to them."""

    def __init__(self, *, store: Store, settings: RewardSettings) -> None:
        self._store = store
        self._settings = settings

    async def put(self, tenant: Tenant, body: list[bytes], sha256: str = "") -> StoredArtifact:
        if sha256 and not _SHA256.fullmatch(sha256):
            message = "sha256: must be 64 lower-case hex digits"
            raise InvalidRequest(message, field="sha256")
        size, bytes_max = sum(map(len, body)), self._settings.request_artifacts_bytes_max
        if size > bytes_max:
            raise TooLarge(f"content: {size} bytes; at most {bytes_max}", field="content")
        if not size:
            raise InvalidRequest("content: missing", field="content")
        content = b"".join(body)
        body.clear()
        digest = (await asyncio.to_thread(hashlib.sha256, content)).hexdigest()
        if sha256 not in {"", digest}:
            message = f"sha256: that of the content is {digest}"
            raise InvalidRequest(message, field="sha256")
        until_ns = await self._store.upload_put(tenant.tenant_id, digest, content, tenant.quota)
        return StoredArtifact(sha256=digest, size=size, kept_until_ns=until_ns)

    async def resolve(self, tenant: Tenant, requests: list[NewRequest]) -> list[NewRequest]:
        """Put the tenant's uploaded files in place of references to them.

        Raises:
            FailedPrecondition: the tenant has none of that hash; `field` says where.
            TooLarge: they are too large, for their request or together.
        """
        contents: dict[str, bytes] = {}
        resolved = list(requests)
        for index, request in enumerate(requests):
            if any(one.sha256 for one in request.artifacts):
                field = f"requests[{index}].artifacts"
                await self._fetch(tenant, request.artifacts, contents, field)
                artifacts = tuple(
                    Artifact(one.name, contents[one.sha256]) if one.sha256 else one
                    for one in request.artifacts
                )
                self._check_size(artifacts, field)
                resolved[index] = replace(request, artifacts=artifacts)
        return resolved

    async def _fetch(
        self,
        tenant: Tenant,
        artifacts: Sequence[Artifact],
        contents: dict[str, bytes],
        field: str,
    ) -> None:
        """Add to `contents`, by hash, the uploaded files that these refer to."""
        for number, one in enumerate(artifacts):
            if not one.sha256 or one.sha256 in contents:
                continue
            own = f"{field}[{number}].sha256"
            content = await self._store.upload_get(tenant.tenant_id, one.sha256)
            if content is None:
                message = f"{own}: no uploaded file of this hash; upload it first"
                raise FailedPrecondition(message, field=own)
            contents[one.sha256] = content
            if sum(map(len, contents.values())) > MESSAGE_BYTES_MAX:
                message = f"{own}: uploaded files of more than {MESSAGE_BYTES_MAX} bytes"
                raise TooLarge(message, field=own)

    def _check_size(self, artifacts: Sequence[Artifact], field: str) -> None:
        size, bytes_max = (
            sum(len(one.content) for one in artifacts),
            self._settings.request_artifacts_bytes_max,
        )
        if size > bytes_max:
            raise TooLarge(f"{field}: {size} bytes in all; at most {bytes_max}", field=field)
