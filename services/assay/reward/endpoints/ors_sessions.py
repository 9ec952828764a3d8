"""Sessions of the Open Reward Standard, in the memory of this process.

Invariants: a session belongs to a tenant and no other can name it; one that no call named for
`TTL_S` is gone, with the work in it; their number is bounded, in all and for each of several
tenants. The result of a call is kept for `LINGER_S`, so that a stream that broke off is resumed.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from assay.core.errors import Conflict, NotFound, Saturated

if TYPE_CHECKING:
    import asyncio

    from assay.core.ids import TenantId
    from assay.reward.endpoints.ors_environments import Environment, Problem

TTL_S: Final = 900.0
LINGER_S: Final = 60.0
SESSIONS_MAX: Final = 20_000
RUNS_MAX: Final = 16
"""Calls of one session whose results are kept."""
SWEEP_EVERY_S: Final = 5.0
RETRY_AFTER_S: Final = 2.0

Start = Callable[[Coroutine[Any, Any, str]], "asyncio.Task[str]"]
"""Runs work that outlives its call, until the service stops."""


@dataclass(slots=True, kw_only=True)
class Run:
    """A call, in progress or over."""

    work: asyncio.Task[str]
    digest: bytes
    """Of what was asked: the same question again is the same call."""
    ended_s: float | None = None


@dataclass(slots=True, kw_only=True)
class Session:
    """An episode."""

    environment: Environment
    problem: Problem
    seen_s: float
    runs: dict[str, Run] = field(default_factory=dict)
    """By `task_id`."""
    submitted: bytes | None = None
    """Digest of the response that ended the episode."""


class Sessions:
    """All sessions; belongs to one event loop."""

    def __init__(self, *, start: Start, tenants: int, now_s: Callable[[], float]) -> None:
        self._start = start
        self._now_s = now_s
        self._tenant_max = SESSIONS_MAX if tenants <= 1 else SESSIONS_MAX // 2
        self._all: dict[TenantId, dict[str, Session]] = {}
        self._swept_s = 0.0

    def open(self, tenant: TenantId, sid: str, environment: Environment, problem: Problem) -> None:
        """Begin an episode.

        Raises:
            Conflict: the name is taken.
            Saturated: there are too many.
        """
        self._sweep()
        own = self._all.setdefault(tenant, {})
        if sid in own:
            raise Conflict("X-Session-ID: the session already has a task", field="X-Session-ID")
        total = sum(map(len, self._all.values()))
        if total >= SESSIONS_MAX or len(own) >= self._tenant_max:
            raise Saturated("too many open sessions", retry_after_s=RETRY_AFTER_S)
        own[sid] = Session(environment=environment, problem=problem, seen_s=self._now_s())

    def get(self, tenant: TenantId, sid: str) -> Session:
        """The session, which is alive from now on.

        Raises:
            NotFound: there is none, or no longer.
        """
        self._sweep()
        session = self._all.get(tenant, {}).get(sid)
        if session is None:
            raise NotFound("X-Session-ID: no such session", field="X-Session-ID")
        session.seen_s = self._now_s()
        return session

    def close(self, tenant: TenantId, sid: str) -> None:
        """End a session and the work in it; idempotent."""
        session = self._all.get(tenant, {}).pop(sid, None)
        if session is not None:
            _cancel(session)

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
