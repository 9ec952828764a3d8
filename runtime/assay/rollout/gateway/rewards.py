"""One reward per session, from the reward service.

Sessions with the same pipeline and settings share one task there; sessions of one group share one
batch, sealed when all of them have ended. A reward comes from a judge or not at all.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from assay.core.outcome import Outcome
from assay.core.verdict import Evidence
from assay.rollout.service.records import Judged, RewardPlan, SessionKey
from assay.rollout.service.rewards import Response

if TYPE_CHECKING:
    from collections.abc import Callable

    from assay.core.ids import TenantId
    from assay.rollout.service.rewards import RewardDesk

PLANS_MAX: Final = 64
"""Combinations of pipeline and settings; beyond, the one without sessions that was used longest ago
is closed."""
BATCHES_MAX: Final = 4_096
"""Groups with sessions that have not ended; beyond, the oldest batch is sealed early."""


@dataclass(slots=True)
class _Batch:
    size: int
    name: str
    """Of this batch alone: sessions may be opened under a name whose last batch is being judged."""
    ended: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
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
        self._batches: OrderedDict[tuple[SessionKey, str], _Batch] = OrderedDict()
        self._waiting: dict[int, Callable[[Judged], None]] = {}
        self._numbers = 0
        self._opened = 0
        self._opening = asyncio.Lock()

    async def open(
        self,
        tenant: TenantId,
        plan: RewardPlan,
        *,
        group_id: str,
        size: int,
        token: str | None,
    ) -> Claim:
        """Take part in the batch of group `group_id`, of `size` sessions.

        Raises:
            NotFound, InvalidRequest, DependencyDown: from the reward service, see `RewardDesk`.
        """
        key = SessionKey(tenant, f"gateway.{_digest(plan)}")
        async with self._opening:
            if key not in self._plans:
                await self._desk.open_session(key, plan, token=token)
                self._plans[key] = 0
                await self._close_unused()
            self._plans[key] += 1
            self._plans.move_to_end(key)
        batch = self._batches.get((key, group_id))
        if batch is None:
            self._opened += 1
            batch = self._batches[key, group_id] = _Batch(size, f"{group_id[:48]}.{self._opened}")
        while len(self._batches) > BATCHES_MAX:
            (plan_key, _), oldest = self._batches.popitem(last=False)
            self._desk.seal(plan_key, oldest.name)
        return Claim(plan=key, group_id=group_id, batch_id=batch.name)

    async def _close_unused(self) -> None:
        unused = [key for key, sessions in self._plans.items() if sessions == 0]
        for key in unused[: max(0, len(self._plans) - PLANS_MAX)]:
            if len(self._plans) > PLANS_MAX and key != next(reversed(self._plans)):
                del self._plans[key]
                await self._desk.close_session(key)

    def ask(
        self,
        claim: Claim,
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

    def skip(self, claim: Claim) -> None:
        """One session of the batch has ended."""
        batch = self._batches.get((claim.plan, claim.group_id))
        if batch is None or batch.name != claim.batch_id:  # sealed early
            return
        batch.ended += 1
        if batch.ended >= batch.size:
            del self._batches[claim.plan, claim.group_id]
            self._desk.seal(claim.plan, claim.batch_id)

    def forget(self, number: int) -> None:
        """The answer is no longer needed."""
        if self._waiting.pop(number, None) is not None:
            self._desk.forget(number)

    def leave(self, claim: Claim) -> None:
        """The session was removed."""
        self._plans[claim.plan] -= 1

    def _on_judged(self, number: int, judged: Judged) -> None:
        on_judged = self._waiting.pop(number, None)
        if on_judged is not None:
            on_judged(judged)

    async def close(self) -> None:
        """End everything."""
        await self._desk.close()


def expired() -> Judged:
    """The session ended after its deadline."""
    evidence = Evidence(error="the session ended after its deadline")
    return Judged(outcome=Outcome.EXPIRED, evidence=evidence)


def _digest(plan: RewardPlan) -> str:
    settings = json.dumps(json.loads(plan.settings_json or "{}"), sort_keys=True)
    text = f"{plan.pipeline}\n{settings}\n{plan.wait_s_max}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]
