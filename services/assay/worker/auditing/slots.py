"""Slots that only audit references: no response ever reaches them.

Invariants: an audit ends by its answer, by the end of its slot, by its CPU time (where the stage
bounds that) or by its time, whichever is first; only an answer and the CPU time, which no other
work on the machine changes, say something about the reference. Tenants that wait are served in
turn, and one tenant's audits never take all slots once there is a second tenant: its slow
references delay no one else's.

Audits that take less time than a message are given out several at once, all of one tenant. What
cannot be told of one of several is found out when each of them is tried again alone.
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
AT_ONCE_MAX: Final = 16
"""Audits in one message, where the stage's audits come before the first response."""
AT_ONCE_BYTES_MAX: Final = 64 * 1024
"""Of their references; a longer one goes alone."""
NUMBER_FIRST: Final = 1_000_000_000
"""Slots of a stage have unique numbers; the ordinary ones count from 1."""

log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class _Asked:
    claim: Claim
    answer: asyncio.Future[messages.Found]
    is_alone: bool = False
    """It is tried again: it was one of several that no one could tell apart."""


@dataclass(slots=True, eq=False)
class _Turn:
    """What a slot has been given."""

    tenant: TenantId
    unanswered: deque[_Asked]
    """In the order in which it answers; never empty."""
    begun_ns: int
    """The slot's CPU clock when it had sent its last answer, where the stage bounds CPU time."""


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
        self._running: dict[SlotProcess, _Turn] = {}
        self._slots_each = FAULT_SLOTS_EACH if definition.finds_faults else SLOTS_EACH
        self._at_once_max = AT_ONCE_MAX if definition.finds_faults else 1

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
                return await asked.answer
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

    def _give_out(self) -> None:
        while (tenant := self._next()) is not None:
            slot = self._pool.take_idle(fresh=False)
            if slot is None:
                return
            asked = self._take(tenant)
            turn = self._running[slot] = _Turn(tenant, deque(asked), self._cpu_ns(slot))
            slot.send(messages.AUDIT, [_wire(one.claim) for one in asked])
            if self._spec.cpu_s_max is not None:
                asyncio.get_running_loop().call_later(LOOK_S, self._look, slot, turn)

    def _cpu_ns(self, slot: SlotProcess) -> int:
        return slot.cpu_ns() if self._spec.cpu_s_max is not None else 0

    def _next(self) -> TenantId | None:
        """The next tenant in rotation: of those whose audits run in fewer than all slots but
        one."""
        running = Counter(turn.tenant for turn in self._running.values())
        return next((one for one in self._waiting if running[one] < self._desired), None)

    def _take(self, tenant: TenantId) -> list[_Asked]:
        """The first audits of a tenant, whose next turn comes after those of the others."""
        waiting = self._waiting.pop(tenant)
        taken = [waiting.popleft()]
        room = AT_ONCE_BYTES_MAX - len(taken[0].claim.reference)
        while waiting and len(taken) < self._at_once_max and not taken[0].is_alone:
            room -= len(waiting[0].claim.reference)
            if room < 0 or waiting[0].is_alone:
                break
            taken.append(waiting.popleft())
        if waiting:
            self._waiting[tenant] = waiting
        return taken

    def _look(self, slot: SlotProcess, turn: _Turn) -> None:
        """End an audit that has used up its CPU time, also in a step that nothing interrupts."""
        limit_s = self._spec.cpu_s_max
        if self._running.get(slot) is not turn or limit_s is None:
            return
        if slot.cpu_ns() - turn.begun_ns < limit_s * 1e9:
            asyncio.get_running_loop().call_later(LOOK_S, self._look, slot, turn)
            return
        del self._running[slot]
        slot.kill("its audit took too much CPU time")
        self._end(turn, f"reference: its audit takes more than {limit_s:g} s of CPU time")

    def _end(self, turn: _Turn, found: messages.Found) -> None:
        """Its slot has ended: answer the audit that ran alone, or try each of several so."""
        if len(turn.unanswered) == 1:
            self._answer(turn.unanswered[0], found)
            return
        waiting = self._waiting.setdefault(turn.tenant, deque())
        for one in reversed(turn.unanswered):
            if not one.answer.done():
                one.is_alone = True
                waiting.appendleft(one)
        if not waiting:
            del self._waiting[turn.tenant]
        self._give_out()

    def _forget(self, asked: _Asked) -> None:
        """Remove an audit that is answered, or for which no one waits any more."""
        asked.answer.cancel()
        tenant = asked.claim.task.tenant
        for slot, turn in list(self._running.items()):
            if asked in turn.unanswered and all(one.answer.done() for one in turn.unanswered):
                slot.kill("its audits are no longer waited for")
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
        answers, slot.is_retiring = messages.read_audited(frame)
        turn = self._running.get(slot)
        if turn is None or len(answers) > len(turn.unanswered):
            raise ProtocolError("it sent an answer that no one asked for")
        for found, error in answers:
            if error:
                log.warning("audit_failed", stage=self._spec.name, error=error)
            self._answer(turn.unanswered.popleft(), found)
        if turn.unanswered:
            turn.begun_ns = self._cpu_ns(slot)
            return
        del self._running[slot]
        self._pool.release(slot)
        self._give_out()

    def on_ended(self, slot: SlotProcess, why: str) -> None:
        """See `PoolUser.on_ended`."""
        turn = self._running.pop(slot, None)
        if turn is not None:
            log.warning("audit_failed", stage=self._spec.name, error=f"slot ended: {why}")
            self._end(turn, None)

    def _answer(self, asked: _Asked, found: messages.Found) -> None:
        if asked.answer.done():
            return
        asked.answer.set_result(found)
        result = "failed" if found is None else "weak" if found else "sound"
        self._metrics.reference_audited(stage=self._spec.name, result=result)

    async def close(self) -> None:
        """End all slots."""
        await self._pool.close()


def _wire(claim: Claim) -> tuple[object, ...]:
    task = claim.task
    work = messages.WireWork(0, b"", claim.reference, b"", tenant=task.tenant)
    return ((task.pipeline, task.settings_json), tuple(work))
