"""The commands of the store in memory that keep files: uploads and artifacts."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Final

from assay.core import store_limits
from assay.core.ids import TenantId
from assay.core.records import Quota
from assay.core.store_limits import artifact_too_large, too_many_uploads, upload_never_fits
from assay.testing.host_commands import Now

ARTIFACT_BYTES_MAX: Final = 64 * 1024**2
ARTIFACTS_MAX: Final = 4_096
UPLOADS_KEPT_NS: Final = 86_400 * 10**9


@dataclass(slots=True)
class _Making:
    expires_ns: int
    over: asyncio.Event = field(default_factory=asyncio.Event)


class FileCommands:
    """Mixed into `MemoryStore`."""

    _clock: Now

    def __init__(self) -> None:
        self._artifacts: dict[str, bytes] = {}
        self._making: dict[str, _Making] = {}
        self._uploads: dict[TenantId, dict[str, tuple[int, bytes]]] = {}

    # -- uploads -------------------------------------------------------------------------------

    async def upload_put(self, tenant: TenantId, sha256: str, content: bytes, quota: Quota) -> int:
        """See `Store.upload_put`."""
        now_ns = self._clock.now_ns()
        own = self._uploads.setdefault(tenant, {})
        for old in [name for name, (until_ns, _) in own.items() if until_ns <= now_ns]:
            del own[old]
        if sha256 not in own:
            if len(content) > quota.uploads_bytes_max:
                raise upload_never_fits(quota, len(content))
            total = sum(len(kept) for _, kept in own.values()) + len(content)
            if total > quota.uploads_bytes_max or len(own) >= store_limits.UPLOADS_MAX:
                first_ns = min(until_ns for until_ns, _ in own.values())
                raise too_many_uploads(quota, retry_after_s=max(0.001, (first_ns - now_ns) / 1e9))
        own[sha256] = (now_ns + UPLOADS_KEPT_NS, content)
        return own[sha256][0]

    async def upload_get(self, tenant: TenantId, sha256: str) -> bytes | None:
        """See `Store.upload_get`."""
        until_ns, content = self._uploads.get(tenant, {}).get(sha256, (0, None))
        return content if until_ns > self._clock.now_ns() else None

    # -- artifacts -----------------------------------------------------------------------------

    async def artifact_get(self, key: str) -> bytes | None:
        """See `Store.artifact_get`."""
        return self._artifacts.get(key)

    async def artifact_begin(self, key: str, *, lease_s: float) -> bool:
        """See `Store.artifact_begin`."""
        now_ns = self._clock.now_ns()
        making = self._making.get(key)
        if key in self._artifacts or (making is not None and making.expires_ns > now_ns):
            return False
        self._making[key] = _Making(now_ns + int(lease_s * 1e9))
        return True

    async def artifact_put(self, key: str, content: bytes) -> None:
        """See `Store.artifact_put`."""
        if len(content) > ARTIFACT_BYTES_MAX:
            await self.artifact_abandon(key)
            raise artifact_too_large(len(content), ARTIFACT_BYTES_MAX)
        self._artifacts[key] = content
        while len(self._artifacts) > ARTIFACTS_MAX:
            del self._artifacts[next(iter(self._artifacts))]
        await self.artifact_abandon(key)

    async def artifact_abandon(self, key: str) -> None:
        """See `Store.artifact_abandon`."""
        making = self._making.pop(key, None)
        if making is not None:
            making.over.set()

    async def artifact_wait(self, key: str, *, timeout_s: float) -> bytes | None:
        """See `Store.artifact_wait`."""
        making = self._making.get(key)
        if making is not None:
            left_s = (making.expires_ns - self._clock.now_ns()) / 1e9
            await within(making.over.wait(), min(timeout_s, left_s))
        return self._artifacts.get(key)


async def within(waiting: Coroutine[object, object, object], timeout_s: float) -> None:
    """Wait until the event or the time limit."""
    try:
        async with asyncio.timeout(timeout_s):
            await waiting
    except TimeoutError:
        pass
