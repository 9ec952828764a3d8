"""Artifacts: the holder of a key's lease makes one, the others wait for it.

Their sum of bytes is bounded: the one that expires first is dropped first. Each may vanish at any
time, and is then made again.
"""

import asyncio
from typing import Final

from assay.config.settings import StoreSettings
from assay.core.store_limits import artifact_too_large
from assay.store.link import Link
from assay.store.script import load_script

ARTIFACT: Final = b"="
"""Prefix of the content of an artifact, so that even an empty one is not empty in the store."""


class ArtifactCalls:
    """The calls of a store about artifacts."""

    _link: Link
    _settings: StoreSettings

    async def artifact_get(self, key: str) -> bytes | None:
        """See `Store.artifact_get`."""
        content: bytes | None = await self._link.call("GET", self._link.key("a", key))
        return None if content is None else content[1:]

    async def artifact_begin(self, key: str, *, lease_s: float) -> bool:
        """See `Store.artifact_begin`."""
        return bool(await self._link.run(load_script("artifact_begin"), key, int(lease_s * 1000)))

    async def artifact_put(self, key: str, content: bytes) -> None:
        """See `Store.artifact_put`."""
        if len(content) > self._settings.artifact_bytes_max:
            await self.artifact_abandon(key)
            raise artifact_too_large(len(content), self._settings.artifact_bytes_max)
        await self._settle_artifact(key, ARTIFACT + content)

    async def artifact_abandon(self, key: str) -> None:
        """See `Store.artifact_abandon`."""
        await self._settle_artifact(key, b"")

    async def _settle_artifact(self, key: str, content: bytes) -> None:
        await self._link.run(
            load_script("artifact_end"),
            *(key, int(self._settings.artifacts_kept_s * 1000)),
            *(self._settings.artifacts_bytes_max, content),
        )

    async def artifact_wait(self, key: str, *, timeout_s: float) -> bytes | None:
        """See `Store.artifact_wait`."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        wake = self._link.key("am", key)
        while (left_s := deadline_s - loop.time()) > 0:
            content, making_ms = await self._link.call_all(
                [("GET", self._link.key("a", key)), ("PTTL", self._link.key("ab", key))]
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
