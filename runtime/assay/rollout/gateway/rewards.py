"""One reward per session, from the reward service.

Sessions with the same pipeline and settings share one task there; sessions of one group share one
batch, sealed when all of them have ended. A reward comes from a judge or not at all.

Invariants:
  - no session waits for another plan to be opened or closed at the reward service;
  - a batch with an open session is never sealed before its last session has ended.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from assay.core.errors import Saturated
from assay.core.outcome import Outcome
from assay.core.verdict import Evidence
from assay.rollout.service.records import Judged, RewardPlan, SessionKey
from assay.rollout.service.rewards import Response

if TYPE_CHECKING:
    from collections.abc import Callable

    from assay.core.ids import TenantId
    from assay.rollout.service.rewards import RewardDesk

PLANS_MAX: Final = 64
"""Combinations of pipeline and settings per tenant; beyond, the one without sessions that was used
longest ago is closed. As many may be closing at a time."""
BATCHES_IDLE_MAX: Final = 1_024
"""Incomplete groups without an open session, per tenant; beyond, the batch of the one that was left
longest ago is sealed. Groups with sessions are bounded by the sessions."""
RETRY_AFTER_S: Final = 1.0

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Batch:
    size: int
    name: str
    """Of this batch alone: sessions may be opened under a name whose last batch is being judged."""
    ended: int = 0
    sessions: int = 0
    """Open ones."""


BatchPlace = tuple[SessionKey, str]
"""Plan and group of a batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPart:
    """A session's part in a batch; `plan` names its pipeline and settings."""

    plan: SessionKey
    group_id: str
    """Names the batch here, until all its sessions have ended."""
    batch_id: str
    """Names it at the desk."""


class SessionRewards:
    """See the module; every call comes from the event loop."""

    def __init__(self, desk: Callable[[Callable[[int, Judged], None]], RewardDesk]) -> None:
        """`desk` makes the desk that judges, given the callback for its answers."""
        self._desk = desk(self._on_judged)
        self._plans: OrderedDict[SessionKey, int] = OrderedDict()
        """Number of sessions per open plan."""
        self._changing: dict[SessionKey, asyncio.Event] = {}
        """Plans that are being opened or closed."""
        self._closing: dict[SessionKey, asyncio.Task[None]] = {}
        self._batches: dict[BatchPlace, _Batch] = {}
        self._idle: defaultdict[TenantId, OrderedDict[BatchPlace, None]] = defaultdict(OrderedDict)
        """Batches without sessions, the one left longest ago first."""
        self._waiting: dict[int, Callable[[Judged], None]] = {}
        self._numbers = 0
        self._opened = 0

    async def open(
        self,
        tenant: TenantId,
        plan: RewardPlan,
        *,
        group_id: str,
        size: int,
        token: str | None,
    ) -> BatchPart:
        """Take part in the batch of group `group_id`, of `size` sessions.

        Raises:
            NotFound, InvalidRequest, DependencyDown: from the reward service, see `RewardDesk`.
            Saturated: too many plans of the tenant are being closed.
        """
        key = SessionKey(tenant, f"gateway.{_digest(plan)}")
        await self._use(key, plan, token)
        place = key, group_id
        batch = self._batches.get(place)
        if batch is None:
            self._opened += 1
            batch = self._batches[place] = _Batch(size, f"{group_id[:48]}.{self._opened}")
        batch.sessions += 1
        self._idle[tenant].pop(place, None)
        return BatchPart(plan=key, group_id=group_id, batch_id=batch.name)

    async def _use(self, key: SessionKey, plan: RewardPlan, token: str | None) -> None:
        """Count one more session of a plan, which is opened first if it is not open."""
        while key in self._changing:
            await self._changing[key].wait()
        if key not in self._plans:
            tenant = key.tenant_id
            if sum(one.tenant_id == tenant for one in self._closing) >= PLANS_MAX:
                message = f"{PLANS_MAX} combinations of pipeline and settings are being closed"
                raise Saturated(message, retry_after_s=RETRY_AFTER_S)
            self._changing[key] = asyncio.Event()
            try:
                await self._desk.open_session(key, plan, token=token)
            finally:
                self._changed(key)
            self._plans[key] = 0
            self._close_unused(key)
        self._plans[key] += 1
        self._plans.move_to_end(key)

    def _changed(self, key: SessionKey) -> None:
        """Wake the callers that wait for a change."""
        self._changing.pop(key).set()

    def _close_unused(self, opened: SessionKey) -> None:
        own = [key for key in self._plans if key.tenant_id == opened.tenant_id]
        unused = [key for key in own if self._plans[key] == 0 and key != opened]
        for key in unused[: max(0, len(own) - PLANS_MAX)]:
            del self._plans[key]
            for place in [place for place in self._idle[key.tenant_id] if place[0] == key]:
                self._drop(place)
            self._changing[key] = asyncio.Event()  # now, not when the task begins
            closing = self._close_plan(key)
            self._closing[key] = asyncio.create_task(closing, name="gateway-plan-close")

    async def _close_plan(self, key: SessionKey) -> None:
        try:
            await self._desk.close_session(key)
        except Exception:  # the plan is gone here; the reward service ends it by itself
            log.exception("plan_not_closed", plan=key.session_id)
        finally:
            del self._closing[key]
            self._changed(key)

    def _drop(self, place: BatchPlace) -> None:
        """No session of this batch is open, and none will find it: no more responses come."""
        batch = self._batches.pop(place)
        del self._idle[place[0].tenant_id][place]
        self._desk.seal(place[0], batch.name)

    def ask(
        self,
        claim: BatchPart,
        *,
        text: str,
        reference: object,
        left_s: float | None,
        on_judged: Callable[[Judged], None],
    ) -> int:
        """Have a response judged; returns the number for `forget`.

        Args:
            claim: of the session, which ends with this.
            text: the response.
            reference: what it is judged against.
            left_s: until the trainer needs the reward; the batch takes that of its first session.
            on_judged: called once, on the event loop.

        Raises:
            Saturated: too many wait; nothing has changed.
        """
        if left_s is not None and left_s <= 0:
            self.skip(claim)
            on_judged(expired())
            return 0
        number = self._numbers + 1
        response = Response(
            number=number,
            group_id=claim.group_id,
            text=text.encode("utf-8", "surrogatepass"),
            reference_json=json.dumps(reference).encode(),
        )
        self._desk.open_batch(claim.plan, claim.batch_id, deadline_s=left_s)
        self._desk.hand_in(claim.plan, claim.batch_id, response)
        self._numbers = number
        self._waiting[number] = on_judged
        self.skip(claim)
        return number

    def skip(self, claim: BatchPart) -> None:
        """One session of the batch has ended."""
        batch = self._batch(claim)
        if batch is None:
            return
        batch.ended += 1
        if batch.ended >= batch.size:
            del self._batches[claim.plan, claim.group_id]
            self._desk.seal(claim.plan, claim.batch_id)

    def forget(self, number: int) -> None:
        """The answer is no longer needed."""
        if self._waiting.pop(number, None) is not None:
            self._desk.forget(number)

    def leave(self, claim: BatchPart) -> None:
        """The session was removed; it had ended before."""
        self._plans[claim.plan] -= 1
        batch = self._batch(claim)
        if batch is None:
            return
        batch.sessions -= 1
        if batch.sessions == 0:
            idle = self._idle[claim.plan.tenant_id]
            idle[claim.plan, claim.group_id] = None
            if len(idle) > BATCHES_IDLE_MAX:
                self._drop(next(iter(idle)))

    def _batch(self, claim: BatchPart) -> _Batch | None:
        """The claim's batch; `None`: it is complete, and was sealed."""
        batch = self._batches.get((claim.plan, claim.group_id))
        return batch if batch is not None and batch.name == claim.batch_id else None

    def _on_judged(self, number: int, judged: Judged) -> None:
        on_judged = self._waiting.pop(number, None)
        if on_judged is not None:
            on_judged(judged)

    async def close(self) -> None:
        """Wait for the batches that close, then close the desk."""
        await asyncio.gather(*self._closing.values(), return_exceptions=True)
        await self._desk.close()


def expired() -> Judged:
    """The session ended after its deadline."""
    evidence = Evidence(error="the session ended after its deadline")
    return Judged(outcome=Outcome.EXPIRED, evidence=evidence)


def _digest(plan: RewardPlan) -> str:
    settings = json.dumps(json.loads(plan.settings_json or "{}"), sort_keys=True)
    text = f"{plan.pipeline}\n{settings}\n{plan.wait_s_max}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]
