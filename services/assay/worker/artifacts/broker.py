"""Answers slots that ask for artifacts: from disk, from the store, or with leave to make them.

Invariants: one request to the store per key and host, however many slots ask; one maker per key
over all hosts, by a lease in the store. A maker that dies gives its leave back.
"""

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from assay.core.errors import AssayError
from assay.core.ids import TenantId
from assay.edge.metrics import Metrics
from assay.store.port import WorkerStore

MAKING_LEASE_S: Final = 30.0
"""How long others wait for a maker whose host died. If a live maker is slower, a second one makes
the same artifact in parallel."""
WAIT_S: Final = 30.0
ROUNDS_MAX: Final = 8
"""Number of waits for one artifact before the request is refused."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactReply:
    """The answer to a request: the content, or leave to make it, or neither."""

    content: bytes | None = None
    make: bool = False


class Cache(Protocol):
    """Artifacts that this host keeps; used by one thread at a time."""

    def get(self, key: str) -> bytes | None:
        """The content, if it is here."""

    def put(self, key: str, content: bytes) -> None:
        """Keep the content, if there is room."""


class ArtifactBroker:
    """One instance per host and cache."""

    def __init__(self, *, store: WorkerStore, cache: Cache, metrics: Metrics) -> None:
        self._store = store
        self._cache = cache
        self._metrics = metrics
        self._cache_lock = asyncio.Lock()
        self._made_here: dict[str, asyncio.Future[None]] = {}
        """Keys that a slot of this host is making now."""

    async def find(self, key: str) -> ArtifactReply:
        """Look the artifact up; never make it."""
        async with self._cache_lock:
            cached = await asyncio.to_thread(self._cache.get, key)
        if cached is not None:
            self._metrics.artifact_had(result="cached")
            return ArtifactReply(content=cached)
        return ArtifactReply(content=await self._fetch(key, self._store.artifact_get(key)))

    async def ask(self, key: str) -> ArtifactReply:
        """Look the artifact up; if missing, one slot makes it and the others wait."""
        for _ in range(ROUNDS_MAX):
            making = self._made_here.get(key)
            if making is not None:
                await asyncio.wait([making], timeout=WAIT_S)
            answer = await self._find_or_begin(key)
            if answer.make or answer.content is not None:
                return answer
        return ArtifactReply()

    async def permit(
        self, tenant: TenantId, provider: str, limits: Mapping[str, tuple[int, int]]
    ) -> float:
        """See `Store.permit`."""
        return await self._store.permit(tenant, provider, limits)

    async def _find_or_begin(self, key: str) -> ArtifactReply:
        answer = await self.find(key)
        if answer.content is not None:
            return answer
        if key in self._made_here:
            return ArtifactReply()
        self._made_here[key] = asyncio.get_running_loop().create_future()
        try:
            begun = await self._store.artifact_begin(key, lease_s=MAKING_LEASE_S)
        except BaseException:
            self._done_here(key)
            raise
        if begun:
            return ArtifactReply(make=True)
        self._done_here(key)
        waited = self._store.artifact_wait(key, timeout_s=WAIT_S)
        return ArtifactReply(content=await self._fetch(key, waited))

    async def _fetch(self, key: str, asked: Awaitable[bytes | None]) -> bytes | None:
        content = await asked
        self._metrics.artifact_had(result="missing" if content is None else "fetched")
        if content is not None:
            await self._keep(key, content)
        return content

    async def _keep(self, key: str, content: bytes) -> None:
        async with self._cache_lock:
            await asyncio.to_thread(self._cache.put, key, content)

    def _done_here(self, key: str) -> None:
        making = self._made_here.pop(key, None)
        if making is not None:
            making.set_result(None)

    async def made(self, key: str, content: bytes) -> None:
        """Store an artifact that a slot of this host has made."""
        try:
            await self._keep(key, content)
            await self._store.artifact_put(key, content)
            self._metrics.artifact_had(result="made")
        except AssayError as error:
            # Its maker has it; the others will make it again.
            log.warning("artifact_not_kept", key=key, error=error.message)
        finally:
            self._done_here(key)

    async def given_up(self, key: str) -> None:
        """A slot of this host could not make it, or died while making it."""
        try:
            await self._store.artifact_abandon(key)
        except AssayError as error:
            log.warning("artifact_not_abandoned", key=key, error=error.message)
        finally:
            self._done_here(key)
