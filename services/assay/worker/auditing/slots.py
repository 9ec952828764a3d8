"""Slots that only audit references: no response ever reaches them.

Invariants: an audit ends by its answer, by the end of its slot, by its CPU time (where the stage
bounds that) or by its time, whichever is first; only an answer and the CPU time, which no other
work on the machine changes, say something about the reference. Tenants that wait are served in
turn, and one tenant's audits never take all slots once there is a second tenant: its slow
references delay no one else's.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from assay.core.ids import TenantId
from assay.core.records import Claim
from assay.edge.clock import Clock
from assay.edge.metrics import Metrics
from assay.verifiers.port import StageDefinition
from assay.worker.forking.client import SlotForks
from assay.worker.slots import messages
from assay.worker.slots.frames import ProtocolError
from assay.worker.slots.pool import SlotPool, Spawn
from assay.worker.slots.process import SlotProcess

SLOTS_EACH: Final = 8
"""Ordinary slots per auditing slot: the responses of a group share one audit."""
FAULT_SLOTS_EACH: Final = 1
"""The same where an audit comes before the first response and takes longer than to judge one."""
LOOK_S: Final = 0.5
"""Time between two looks at the CPU time of an audit, in seconds."""
NUMBER_FIRST: Final = 1_000_000_000
"""Slots of a stage have unique numbers; the ordinary ones count from 1."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    claim: Claim
    answer: asyncio.Future[messages.Found]


class AuditingSlots:
    """Implements `PoolUser` for one stage; no slot is started before the first audit."""

    def __init__(
        self,
        definition: StageDefinition,
        *,
        forks: SlotForks,
        scratch: Path,
        clock: Clock,
        metrics: Metrics,
        spawn: Spawn,
    ) -> None:
        self._spec = definition.spec
        self._metrics = metrics
        self._pool = SlotPool(
            stage=definition.spec.name,
            forks=forks,
            scratch=scratch,
            clock=clock,
            metrics=metrics,
            spawn=spawn,
            user=self,
            first_number=NUMBER_FIRST,
            is_shown=False,
        )
        self._desired = 1
        self._waiting: OrderedDict[TenantId, deque[_Asked]] = OrderedDict()
        """By tenant; the first in order is served next."""
        self._first: TenantId | None = None
        self._has_spare = False
        """A slot more, as soon as there are two tenants."""
        self._running: dict[SlotProcess, tuple[_Asked, int]] = {}
        """With the slot's CPU clock at the beginning, where the stage bounds CPU time."""
        self._slots_each = FAULT_SLOTS_EACH if definition.finds_faults else SLOTS_EACH

    def resize(self, slots: int) -> None:
        """Adapt to the number of ordinary slots."""
        self._desired = max(1, slots // self._slots_each)
        if self._first is not None:
            self._pool.resize(self._desired + self._has_spare)

    async def lets_pass(self, claim: Claim) -> bool | None:
        """Whether an empty response passes by the reference of `claim`; `None` if unknown."""
        found = await self._found(claim)
        return found if isinstance(found, bool) else None

    async def fault(self, claim: Claim) -> str | None:
        """The control that the reference of `claim` fails; empty if none, `None` if unknown."""
        found = await self._found(claim)
        return found if isinstance(found, str) else None

    async def _found(self, claim: Claim) -> messages.Found:
        self._note(claim.task.tenant)
        asked = _Asked(claim, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(claim.task.tenant, deque()).append(asked)
        self._give_out()
        try:
            async with asyncio.timeout(self._spec.timeout_s):
                while not (await asyncio.wait([asked.answer], timeout=self._look_s))[0]:
                    self._look(asked)
                return asked.answer.result()
        except TimeoutError:
            self._metrics.reference_audited(stage=self._spec.name, result="failed")
            return None
        finally:
            self._forget(asked)

    def _note(self, tenant: TenantId) -> None:
        """The first audit starts slots; with a second tenant there is one more."""
        is_new = self._first is None or (not self._has_spare and tenant != self._first)
        self._has_spare = self._has_spare or (self._first is not None and tenant != self._first)
        self._first = self._first if self._first is not None else tenant
        if is_new:
            self._pool.resize(self._desired + self._has_spare)

    @property
    def _look_s(self) -> float | None:
        return LOOK_S if self._spec.cpu_s_max is not None else None

    def _look(self, asked: _Asked) -> None:
        """End an audit that has used up its CPU time, also in a step that nothing interrupts."""
        limit_s = self._spec.cpu_s_max
        for slot, (running, begun_ns) in list(self._running.items()):
            if running is asked and limit_s and slot.cpu_ns() - begun_ns >= limit_s * 1e9:
                del self._running[slot]
                slot.kill("its audit took too much CPU time")
                why = f"reference: its audit takes more than {limit_s:g} s of CPU time"
                self._answer(asked, why)

    def _give_out(self) -> None:
        while (asked := self._next()) is not None:
            slot = self._pool.take_idle(fresh=False)
            if slot is None:
                return
            self._take(asked)
            begun_ns = slot.cpu_ns() if self._spec.cpu_s_max is not None else 0
            self._running[slot] = (asked, begun_ns)
            task = asked.claim.task
            slot.send(
                messages.AUDIT,
                (task.pipeline, task.settings_json),
                tuple(messages.WireWork(0, b"", asked.claim.reference, b"", tenant=task.tenant)),
            )

    def _next(self) -> _Asked | None:
        """The next audit: of the first tenant in rotation that holds fewer than all slots but
        one."""
        running = Counter(one.claim.task.tenant for one, _ in self._running.values())
        for tenant, asked in self._waiting.items():
            if running[tenant] < self._desired:
                return asked[0]
        return None

    def _take(self, asked: _Asked) -> None:
        """Serve it; its tenant's next turn comes after those of the others."""
        tenant = asked.claim.task.tenant
        rest = self._waiting.pop(tenant)
        rest.popleft()
        if rest:
            self._waiting[tenant] = rest

    def _forget(self, asked: _Asked) -> None:
        """Remove an audit that is answered, or for which no one waits any more."""
        for slot, (running, _) in list(self._running.items()):
            if running is asked:
                slot.kill("its audit is no longer waited for")
        tenant = asked.claim.task.tenant
        waiting = self._waiting.get(tenant)
        if waiting is not None and asked in waiting:
            waiting.remove(asked)
            if not waiting:
                del self._waiting[tenant]

    # -- `PoolUser` ----------------------------------------------------------------------------
    def on_idle(self) -> None:
        """See `PoolUser.on_idle`."""
        self._give_out()

    def on_said(self, slot: SlotProcess, frame: list[object]) -> None:
        """See `PoolUser.on_said`."""
        found, error, slot.is_retiring = messages.read_audited(frame)
        asked, _ = self._running.pop(slot, (None, 0))
        if asked is None:
            raise ProtocolError("it sent an answer that no one asked for")
        if error:
            log.warning("audit_failed", stage=self._spec.name, error=error)
        self._answer(asked, found)
        self._pool.release(slot)
        self._give_out()

    def on_ended(self, slot: SlotProcess, why: str) -> None:
        """See `PoolUser.on_ended`."""
        asked, _ = self._running.pop(slot, (None, 0))
        if asked is not None:
            log.warning("audit_failed", stage=self._spec.name, error=f"slot ended: {why}")
            self._answer(asked, None)

    def _answer(self, asked: _Asked, found: messages.Found) -> None:
        if asked.answer.done():
            return
        asked.answer.set_result(found)
        result = "failed" if found is None else "weak" if found else "sound"
        self._metrics.reference_audited(stage=self._spec.name, result=result)

    async def close(self) -> None:
        """End all slots."""
        await self._pool.close()
