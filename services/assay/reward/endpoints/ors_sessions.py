"""Sessions of the Open Reward Standard, in the memory of this process and in the store.

Invariants: a session belongs to a tenant and no other can name it; one that no call named for
`TTL_S` is gone, with the work in it; their number is bounded, in all and for each of several
tenants. The result of a call is kept for `LINGER_S`, so that a stream that broke off is resumed.
The beginning of a session is in the store too, so a call that reaches another API process
continues there. The work of a call is not; the same call again is judged again.
"""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from assay.core.errors import Conflict, InvalidRequest, NotFound, Saturated
from assay.core.ids import kept_for, owner_of

if TYPE_CHECKING:
    import asyncio

    from assay.core.ids import TenantId
    from assay.edge.clock import Clock
    from assay.reward.endpoints.ors_environments import Environment, Problem
    from assay.store.port import Store

TTL_S: Final = 900.0
LINGER_S: Final = 60.0
SESSIONS_MAX: Final = 20_000
RUNS_MAX: Final = 16
"""Calls of one session whose results are kept."""
SWEEP_EVERY_S: Final = 5.0
RETRY_AFTER_S: Final = 2.0
KEEP_EVERY_S: Final = 60.0
"""How often a session that is alive is put on the shelf again."""
KEPT_BYTES_MAX: Final = 16 * 1024
"""A session that began with a larger task lives in one API process only."""

Start = Callable[[Coroutine[Any, Any, str]], "asyncio.Task[str]"]
"""Runs work that outlives its call, until the service stops."""


@dataclass(slots=True, kw_only=True)
class Run:
    """A call, in progress or over."""

    work: asyncio.Task[str]
    digest: bytes
    """Of what was asked: the same question again is the same call."""
    ended_s: float | None = None


class Shelf(Protocol):
    """Where episodes are kept for the other API processes; anything on it may vanish."""

    async def get(self, key: str) -> bytes | None:
        """What was put there in the last `TTL_S`."""
        ...

    async def put(self, key: str, content: bytes) -> None:
        """Keep `content` for `TTL_S`."""
        ...


class StoreShelf:
    """Among the artifacts of the store, of which the oldest are dropped first."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def get(self, key: str) -> bytes | None:
        """See `Shelf.get`."""
        kept = await self._store.artifact_get(key)
        if kept is None:
            return None
        put_ns, _, content = kept.partition(b" ")
        return content if self._clock.now_ns() - int(put_ns) <= TTL_S * 1e9 else None

    async def put(self, key: str, content: bytes) -> None:
        """See `Shelf.put`."""
        await self._store.artifact_put(key, b"%d %b" % (self._clock.now_ns(), content))


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """What an episode began with: enough to go on with it in another process."""

    environment: str
    spec: Mapping[str, Any]
    """As `Environment.problem_of` takes it."""
    submitted: str = ""
    """Digest, in hex, of the response that was judged; empty: none was."""

    def packed(self) -> bytes:
        """For the shelf."""
        return json.dumps([self.environment, self.spec, self.submitted]).encode()


@dataclass(slots=True, kw_only=True)
class Session:
    """An episode: one problem, and what was submitted for it."""

    environment: Environment
    problem: Problem
    begun: Begun
    seen_s: float
    kept_s: float = -math.inf
    """When it was put on the shelf."""
    runs: dict[str, Run] = field(default_factory=dict)
    """By `task_id`."""
    submitted: bytes | None = None
    """Digest of the response that ended the episode."""


class Sessions:
    """All sessions; belongs to one event loop."""

    def __init__(
        self,
        *,
        start: Start,
        tenants: int,
        now_s: Callable[[], float],
        shelf: Shelf,
        problem_of: Callable[[str, Mapping[str, Any]], tuple[Environment, Problem]],
    ) -> None:
        """Make an empty collection.

        Args:
            start: runs work that outlives its call.
            tenants: how many there are.
            now_s: a clock that never goes back.
            shelf: where the other API processes find episodes.
            problem_of: the environment and the task of what an episode began with.
        """
        self._start = start
        self._now_s = now_s
        self._shelf = shelf
        self._problem_of = problem_of
        self._tenant_max = SESSIONS_MAX if tenants <= 1 else SESSIONS_MAX // 2
        self._all: dict[TenantId, dict[str, Session]] = {}
        self._swept_s = 0.0

    async def open(
        self, tenant: TenantId, sid: str, environment: str, spec: Mapping[str, Any]
    ) -> None:
        """Begin an episode.

        Raises:
            InvalidRequest: there is no such task.
            Conflict: the name is taken.
            Saturated: there are too many.
        """
        begun = Begun(environment=environment, spec=spec)
        found, problem = self._problem_of(environment, spec)
        self._sweep()
        # Looked for again behind it: another call of this name may have been quicker.
        if await self._revived(tenant, sid) or sid in self._all.get(tenant, {}):
            raise Conflict("X-Session-ID: the session already has a task", field="X-Session-ID")
        session = Session(environment=found, problem=problem, begun=begun, seen_s=self._now_s())
        self._add(tenant, sid, session)
        await self._keep(tenant, sid, session)

    def _add(self, tenant: TenantId, sid: str, session: Session) -> None:
        own = self._all.setdefault(tenant, {})
        total = sum(map(len, self._all.values()))
        if total >= SESSIONS_MAX or len(own) >= self._tenant_max:
            raise Saturated("too many open sessions", retry_after_s=RETRY_AFTER_S)
        own[sid] = session

    async def get(self, tenant: TenantId, sid: str) -> Session:
        """The session, which is alive from now on; one of another API process goes on here.

        Raises:
            NotFound: there is none, or no longer.
            Saturated: there are too many here.
        """
        self._sweep()
        session = await self._revived(tenant, sid)
        if session is None:
            raise NotFound("X-Session-ID: no such session", field="X-Session-ID")
        session.seen_s = self._now_s()
        if session.seen_s - session.kept_s > KEEP_EVERY_S:
            await self._keep(tenant, sid, session)
        return session

    async def to_submit(self, tenant: TenantId, sid: str) -> Session:
        """As `get`, and what another API process did with the session since counts.

        Raises:
            NotFound, Saturated: see `get`.
        """
        session = await self.get(tenant, sid)
        kept = await self._shelf.get(key_of(tenant, sid))
        if kept == b"":  # it was closed there
            self._all.get(tenant, {}).pop(sid, None)
            _cancel(session)
            raise NotFound("X-Session-ID: no such session", field="X-Session-ID")
        if kept is not None:
            _, _, submitted = json.loads(kept)
            if submitted and not session.begun.submitted:
                session.begun = replace(session.begun, submitted=submitted)
                session.submitted = bytes.fromhex(submitted)
        return session

    async def _revived(self, tenant: TenantId, sid: str) -> Session | None:
        session = self._all.get(tenant, {}).get(sid)
        if session is not None:
            return session
        kept = await self._shelf.get(key_of(tenant, sid))
        if not kept:
            return None
        environment, spec, submitted = json.loads(kept)
        begun = Begun(environment=environment, spec=spec, submitted=submitted)
        try:
            found, problem = self._problem_of(environment, spec)
        except (InvalidRequest, NotFound):  # that process had other settings
            return None
        if sid not in self._all.get(tenant, {}):  # another call may have been quicker
            session = Session(
                environment=found,
                problem=problem,
                begun=begun,
                seen_s=self._now_s(),
                kept_s=self._now_s(),
                submitted=bytes.fromhex(submitted) or None,
            )
            self._add(tenant, sid, session)
        return self._all[tenant][sid]

    async def _keep(self, tenant: TenantId, sid: str, session: Session) -> None:
        packed = session.begun.packed()
        if len(packed) <= KEPT_BYTES_MAX:
            session.kept_s = self._now_s()
            await self._shelf.put(key_of(tenant, sid), packed)

    async def judged(self, tenant: TenantId, sid: str, session: Session, digest: bytes) -> None:
        """The response of this digest has its reward: no other one gets one, in any process."""
        session.begun = replace(session.begun, submitted=digest.hex())
        await self._keep(tenant, sid, session)

    async def close(self, tenant: TenantId, sid: str) -> None:
        """End a session and the work in it; idempotent."""
        session = self._all.get(tenant, {}).pop(sid, None)
        if session is not None:
            _cancel(session)
        key = key_of(tenant, sid)
        if await self._shelf.get(key):
            await self._shelf.put(key, b"")

    def run(self, session: Session, work: Coroutine[Any, Any, str], digest: bytes) -> str:
        """Start the work of a call, or find the same one; returns its `task_id`."""
        for task_id, run in session.runs.items():
            if run.digest == digest and not _failed(run):
                work.close()
                return task_id
        task_id = secrets.token_hex(16)
        run = Run(work=self._start(work), digest=digest)
        run.work.add_done_callback(lambda _: self._ended(run))
        while len(session.runs) >= RUNS_MAX:
            oldest = session.runs.pop(next(iter(session.runs)))
            oldest.work.cancel()
        session.runs[task_id] = run
        return task_id

    def _ended(self, run: Run) -> None:
        run.ended_s = self._now_s()
        if not run.work.cancelled():
            run.work.exception()  # told to those who ask; no one else needs to hear of it

    def _sweep(self) -> None:
        now_s = self._now_s()
        if now_s - self._swept_s < SWEEP_EVERY_S:
            return
        self._swept_s = now_s
        for tenant in list(self._all):
            own = self._all[tenant]
            for sid in [sid for sid, one in own.items() if now_s - one.seen_s > TTL_S]:
                _cancel(own.pop(sid))
            for session in own.values():
                session.runs = {
                    task_id: run
                    for task_id, run in session.runs.items()
                    if run.ended_s is None or now_s - run.ended_s <= LINGER_S
                }
            if not own:
                del self._all[tenant]


def key_of(tenant: TenantId, sid: str) -> str:
    """Where an episode is on the shelf: of its tenant's own only."""
    name = f"ors-{digest_of(str(tenant).encode(), sid.encode()).hex()}"
    return kept_for(owner_of((tenant,)), name)


def digest_of(*parts: bytes) -> bytes:
    """A digest of what a call asks."""
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "big") + part)
    return found.digest()


def _failed(run: Run) -> bool:
    return run.work.done() and (run.work.cancelled() or run.work.exception() is not None)


def _cancel(session: Session) -> None:
    for run in session.runs.values():
        run.work.cancel()
