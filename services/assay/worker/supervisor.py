"""One stage on this host: claims requests for idle slots, assigns them, reports how they ended.

Invariants: requests are claimed for idle slots, at most `batch_max` each, and ahead of that only
as `Waiting.room` says; busy slots get them as `Ahead` says. A claim is renewed from here, never by
the work itself, until it is reported or lost. A slot killed for a limit ends its current request as
RESOURCE_LIMIT; any other end of a slot is a failed attempt of that request. The other requests of
the slot run again as if they had not been started.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from assay.core.errors import AssayError
from assay.core.records import Claim, Lease, StageReport
from assay.sandbox.port import RunStatus
from assay.verifiers.port import StageDefinition
from assay.worker.ahead import Ahead
from assay.worker.artifacts.protocol import WORDS, ArtifactProtocol
from assay.worker.assignment import (
    Assignment,
    Blame,
    HeldClaim,
    Waiting,
    blame_for_end,
    bytes_of,
    no_blame,
    work_frame,
    works_in_vain,
)
from assay.worker.attempts import Attempts, count_evidence
from assay.worker.auditing.references import ReferenceAudits
from assay.worker.auditing.searches import GroupSearches
from assay.worker.finish import times
from assay.worker.parts import HostParts
from assay.worker.slots import messages
from assay.worker.slots.frames import ProtocolError
from assay.worker.slots.limits import LimitWatch
from assay.worker.slots.pool import SlotCounts, SlotPool
from assay.worker.slots.process import SlotProcess
from assay.worker.sweeps import LostAnswers, reap

BEAT_S_MAX: Final = 1.0
"""Leases are renewed at a third of their length or sooner: a beat also returns cancellations."""

log = structlog.get_logger(__name__)


class Supervisor:
    """Claims for idle slots, follows what they do, reports the ends. Implements `PoolUser`."""

    def __init__(self, definition: StageDefinition, parts: HostParts) -> None:
        self._spec = definition.spec
        self.stage = definition.spec.name
        self._parts = parts
        self._clock = parts.clock
        self._pool = SlotPool(
            stage=self.stage,
            forks=parts.forks,
            scratch=parts.scratch / self.stage,
            clock=parts.clock,
            metrics=parts.metrics,
            spawn=parts.spawn,
            user=self,
        )
        self._waiting = Waiting(batch_max=self._spec.batch_max)
        self._reports = parts.open_reports(self.stage, self._waiting.more_soon, self._on_settled)
        self._attempts = Attempts(
            stage=self.stage,
            worker=parts.worker,
            reports=self._reports,
            clock=parts.clock,
            tracer=parts.tracer,
            version_of=parts.version_of,
            searches=GroupSearches(definition, run_again=self._run_again),
        )
        self._limits = LimitWatch(
            self._spec,
            has_own_sandbox=definition.runs_untrusted_code,
            clock=parts.clock,
            busy=lambda: self._pool.busy,
            on_limit=self._on_limit,
        )
        self._audits = ReferenceAudits(
            definition, parts, on_audited=self._on_audited, on_found=self._on_found
        )
        self._reuse = parts.open_reuse(self.stage)
        self._artifacts = ArtifactProtocol(definition, parts)
        self._ahead = Ahead(self._waiting, self._send)
        self._held: dict[Lease, HeldClaim] = {}
        self._lost_answers = LostAnswers(parts, self.stage, self._held)
        self._may_be_work, self._left_out = True, self._audits.at_share
        self._claiming: asyncio.Task[None] | None = None
        self._wakes = self._wakes_served = 0  # served: before a claim, which tells another host
        self._is_draining = False
        self._beaten_ns = 0
        self._note_waits = parts.metrics.waits(stage=self.stage)
        self._quiet, self._holds = asyncio.Event(), asyncio.Event()
        self._slots_on_demand = parts.slots_on_demand if self._spec.on_demand else 0

    # -- for the host --------------------------------------------------------------------------
    def resize(self, slots: int) -> SlotCounts:
        """Set the number of slots."""
        self._pool.resize(slots)
        self._audits.resize(slots)
        self._give_back_surplus()
        if self.is_asleep:
            self._parts.on_wanting(self.stage)
        return self.state()

    def state(self) -> SlotCounts:
        """Return the number of slots in each state."""
        return self._pool.state()

    @property
    def is_asleep(self) -> bool:
        """There are no slots until there is work."""
        return self._slots_on_demand > 0 and self._pool.state().desired == 0

    @property
    def wants_waking(self) -> bool:
        """There are idle slots, and the queue was empty at the last claim; or no slots yet."""
        can_claim = self._capacity() > 0 and not self._may_be_work
        return not self._is_draining and (can_claim or self.is_asleep)

    async def wake(self) -> None:
        """There may be work; returns after a claim was tried.

        The store tells one waiting host; if no slot is idle here any more, it tells another.
        """
        self._may_be_work = True
        self._wakes = mine = self._wakes + 1
        if self.rouse():
            return  # the first slot that is ready claims
        self._pump()
        if self._claiming is not None:
            await asyncio.wait([self._claiming])
        if self._wakes_served < mine:
            await self._wake_another()

    def rouse(self) -> bool:
        """Start slots, if it sleeps; returns whether it did."""
        if is_woken := self.is_asleep and not self._is_draining:
            log.info("pool_woken", stage=self.stage, slots=self._slots_on_demand)
            self.resize(self._slots_on_demand)
        return is_woken

    async def _wake_another(self) -> None:
        try:
            await self._parts.store.claim(
                self.stage, claims_max=0, lease_s=self._spec.lease_s, worker=self._parts.worker
            )
        except AssayError as error:  # the next sweep wakes a host
            self._parts.health.failed(error)

    # -- claims --------------------------------------------------------------------------------
    def _capacity(self) -> int:
        if self._audits.is_full:
            return 0
        return self._pool.idle * self._spec.batch_max - len(self._waiting)

    def _room(self) -> int:
        slots = 0 if self._audits.is_full else self._pool.desired
        return self._waiting.room(self._capacity(), slots, len(self._audits.findings))

    def _pump(self) -> None:
        """Assign waiting claims; claim more for slots that are still idle."""
        self._give_out()
        if self._is_draining or self._claiming is not None:
            return
        if not self._left_out <= self._audits.at_share:  # work that was left may be taken now
            self._left_out, self._may_be_work = frozenset(), True
        if self._may_be_work and self._room() > 0:
            self._claiming = self._parts.spawn(self._claim(), name=f"claim {self.stage}")
        elif self._capacity() > 0:
            self._parts.on_wanting(self.stage)

    async def _claim(self) -> None:
        failures = 0
        try:
            while self._may_be_work and not self._is_draining and (room := self._room()) > 0:
                self._may_be_work = False
                wakes, began_ns = self._wakes, self._clock.monotonic_ns()
                self._left_out = self._audits.at_share
                try:
                    await self._lost_answers.settle()
                    claims = await self._parts.store.claim(
                        self.stage, claims_max=room, lease_s=self._spec.lease_s,
                        worker=self._parts.worker, left_out=self._left_out,
                    )  # fmt: skip
                except AssayError as error:
                    self._may_be_work = True
                    self._lost_answers.note()
                    self._parts.health.failed(error)
                    failures += 1
                    await self._parts.health.pause(failures)
                    continue
                self._parts.answered("claim", began_ns)
                self._wakes_served = wakes
                self._may_be_work = self._may_be_work or len(claims) >= room
                self._hold(claims, await self._reuse.look_up(claims))
                self._give_out()
                self._give_back_surplus()
            if self._is_draining:
                await self._lost_answers.settle_in_time()
        finally:
            self._claiming = None
        if self._is_draining:
            self._give_back_waiting()
        self._pump()
        self._quiet.set()

    def _hold(self, claims: Sequence[Claim], keys: Sequence[str]) -> None:
        now_ns = self._clock.monotonic_ns()
        self._holds.set()
        held = [
            HeldClaim(claim=one, claimed_ns=now_ns, payload_bytes=bytes_of(one), reuse_key=key)
            for one, key in zip(claims, keys, strict=True)
        ]
        self._note_waits([max(0, one.claimed_ns - one.enqueued_ns) / 1e9 for one in claims])
        for one in held:
            self._held[one.claim.lease] = one
            known = self._reuse.admit(one)
            if known is True:
                self._admit([one])
            elif known is not False:
                self._attempts.judged_before(one, known)

    def _admit(self, held: Sequence[HeldClaim]) -> None:
        """To be judged, once what is wrong with their references is known."""
        self._waiting.add([one for one in held if self._audits.findings.admit(one)])

    def _on_found(self, held: Sequence[HeldClaim]) -> None:
        self._waiting.add(held)
        self._pump()

    def _on_settled(self, held: HeldClaim) -> None:
        self._held.pop(held.claim.lease, None)
        self._replace_leader(held)

    def _replace_leader(self, held: HeldClaim) -> None:
        """A claim is gone; another that waited for its verdict is judged in its place."""
        following = self._reuse.leave(held)
        self._admit(following)
        if following and self._is_draining:
            self._give_back_waiting()

    # -- assignments ---------------------------------------------------------------------------
    def _give_out(self) -> None:
        if self._is_draining:
            return
        self._run_again(self._ahead.take_late(self._clock.monotonic_ns()))
        while self._pool.idle:
            if not len(self._waiting):
                self._waiting.add_again(self._ahead.take_back())
            if not len(self._waiting):
                return
            slots_idle = self._pool.idle
            slot = self._pool.take_idle(fresh=self._waiting.needs_fresh)
            if slot is None:
                self._give_past_fresh()
                return
            self._begin(slot, self._send(slot, self._waiting.take(slots_idle=slots_idle)))
        if not self._pool.has_surplus:
            self._ahead.give()

    def _give_past_fresh(self) -> None:
        """The first claim waits for a fresh slot that starts: idle slots judge what follows it."""
        while slots_idle := self._pool.idle:
            held = self._waiting.take_past_fresh(slots_idle=slots_idle)
            slot = self._pool.take_idle(fresh=False) if held else None
            if slot is None:
                return
            self._begin(slot, self._send(slot, held))

    def _send(self, slot: SlotProcess, held: list[HeldClaim]) -> Assignment:
        assignment = Assignment(held=held, individually=self._spec.cpu_s_max is not None)
        slot.send(messages.WORK, *work_frame(assignment, self._parts.version_of))
        return assignment

    def _begin(self, slot: SlotProcess, assignment: Assignment) -> None:
        slot.assignment = assignment
        self._limits.begin(slot, assignment)
        if not assignment.is_taken_back:
            self._ahead.begins(slot)

    def _free(self, slot: SlotProcess) -> None:
        """Its assignment is done: it has begun the next, or is idle, or ends."""
        following = None if slot.is_retiring else self._ahead.next(slot)
        if following is not None:
            self._begin(slot, following)
        else:
            self._run_again(self._ahead.ends(slot))
            self._pool.release(slot)
        self._pump()
        self._quiet.set()

    def on_idle(self) -> None:
        """See `PoolUser.on_idle`."""
        self._pump()

    # -- frames from slots ---------------------------------------------------------------------
    def on_said(self, slot: SlotProcess, frame: list[object]) -> None:
        """See `PoolUser.on_said`."""
        assignment = slot.assignment
        if assignment is None:
            raise ProtocolError("it sent a frame without an assignment")
        match frame[0]:
            case messages.VERDICTS:
                self._take_verdicts(slot, assignment, frame)
            case messages.RETIRE:
                slot.is_retiring = True
                self._settle(slot, no_blame(assignment), "it could not be run")
                self._free(slot)
            case messages.TAKEN_BACK if assignment.is_taken_back:
                self._free(slot)
            case str() as word if word in WORDS:
                self._artifacts.take(slot, frame)
            case _:
                raise ProtocolError("an unknown frame")

    def _take_verdicts(
        self, slot: SlotProcess, assignment: Assignment, frame: list[object]
    ) -> None:
        now_ns = self._clock.monotonic_ns()
        verdicts, slot.is_retiring = messages.read_verdicts(frame, len(assignment.held))
        if assignment.is_taken_back:
            assignment.unsaid -= len(verdicts)
            if assignment.unsaid <= 0:
                self._free(slot)
            return
        name = self._attempts.name(slot.number)
        for verdict in verdicts:
            held = assignment.take(verdict.at)
            if held is None:
                raise ProtocolError("two verdicts for one request")
            slot.served += 1
            report = times(verdict, worker=name, claimed_ns=held.claimed_ns, now_ns=now_ns)
            if isinstance(verdict.said, messages.SaidFailed):
                self._attempts.log_failure(held, verdict.said.error)
            count_evidence(self._parts.metrics, held.claim, verdict.said)
            self._conclude(held, report, verdict.said)
        if assignment.open and works_in_vain(assignment):
            self._stop_in_vain(slot, assignment)
            self._pump()
        elif assignment.open:
            self._limits.begin(slot, assignment)
        else:
            self._waiting.note_hold((now_ns - assignment.given_ns) / 1e9)
            self._free(slot)

    def _conclude(self, held: HeldClaim, report: StageReport, said: messages.Said) -> None:
        if held.is_control:
            self._attempts.judged(held, report, said)
        elif not (isinstance(said, messages.SaidEnded) and said.unaudited):
            self._attempts.judged(held, report, said)
            for follower in self._reuse.judged(held, said):
                self._attempts.judged_before(follower, said)
        elif not held.is_lost:
            self._audits.hold(held, report, said)

    def _on_audited(self, held: HeldClaim, report: StageReport, said: messages.Said) -> None:
        self._attempts.judged(held, report, said)
        self._pump()
        self._quiet.set()

    # -- ends of slots -------------------------------------------------------------------------
    def on_ended(self, slot: SlotProcess, why: str) -> None:
        """See `PoolUser.on_ended`."""
        assignment, slot.assignment = slot.assignment, None
        reason = "retired" if slot.is_retiring else "ended" if assignment is None else "died"
        self._parts.metrics.slot_ended(stage=self.stage, reason=reason)
        self._artifacts.on_ended(slot)
        self._run_again(self._ahead.ends(slot))
        if assignment is not None:
            self._settle(slot, blame_for_end(assignment), f"slot ended: {why}")
        self._pump()
        self._quiet.set()

    def _settle(self, slot: SlotProcess, blame: Blame, why: str) -> None:
        """The blamed attempt has failed; the others return to the front of the waiting claims."""
        if blame.blamed is not None and not blame.blamed.is_lost:
            self._attempts.failed(slot.number, blame.blamed, why)
        self._run_again([held for held in blame.again if not held.is_lost])

    def _run_again(self, held: Sequence[HeldClaim]) -> None:
        if self._is_draining:
            self._attempts.give_back(held)
        elif held:
            self._waiting.add_again(held)
            self._give_back_surplus()

    # -- limits --------------------------------------------------------------------------------
    def _on_limit(self, slot: SlotProcess, limit: RunStatus, cpu_s: float) -> None:
        assignment, slot.assignment = slot.assignment, None
        if assignment is None:
            return
        blame = blame_for_end(assignment)
        if blame.blamed is not None and not blame.blamed.is_lost:
            self._attempts.broke_limit(slot.number, blame.blamed, limit.value, cpu_s)
        self._settle(slot, Blame(blamed=None, again=blame.again), "")
        slot.kill(limit.value)

    # -- leases --------------------------------------------------------------------------------
    async def beat(self) -> None:
        """Renew all leases in time; kill the work of those that are lost. Never returns."""
        every_s = min(self._spec.lease_s / 3, BEAT_S_MAX)
        while True:
            if not self._held and not self._pool.busy:
                self._holds.clear()
                await self._holds.wait()
            await self._clock.sleep(every_s)
            self._limits.look_for_stopped(longer_than_s=self._spec.lease_s)
            self._give_out()  # what is ahead of a long work, to others
            if stale := self._waiting.take_stale(self._clock.monotonic_ns()):
                self._attempts.give_back(stale)
                self._pump()
            if self._held:
                await self._beat_once()

    async def _beat_once(self) -> None:
        began_ns = self._clock.monotonic_ns()
        leases, lease_s = list(self._held), self._spec.lease_s
        try:
            lost = await self._parts.store.beat(self.stage, lease_s=lease_s, leases=leases)
        except AssayError as error:
            self._parts.health.failed(error)
            return
        self._parts.answered("beat", began_ns)
        self._lose(lost)
        self._beaten_ns = began_ns

    def _lose(self, leases: Sequence[Lease]) -> None:
        taken = [held for lease in leases if (held := self._held.pop(lease, None)) is not None]
        if not (lost := [held for held in taken if not held.is_reported]):
            return
        self._parts.metrics.leases_lost(stage=self.stage, seen_by="holder", count=len(lost))
        for held in lost:
            held.is_lost = True
            self._waiting.remove(held)
            self._audits.lose(held)
            self._replace_leader(held)
        self._run_again(self._ahead.take_lost())
        for slot in self._pool.busy:
            assignment = slot.assignment
            if assignment is not None and works_in_vain(assignment):
                self._stop_in_vain(slot, assignment)
        self._pump()

    def _stop_in_vain(self, slot: SlotProcess, assignment: Assignment) -> None:
        slot.assignment = None
        self._settle(slot, blame_for_end(assignment), "its lease was lost")
        slot.kill("its lease was lost")

    async def reap(self) -> bool:
        return await reap(self._parts, self.stage, self._beaten_ns if self._held else None)

    # -- the end -------------------------------------------------------------------------------
    def begin_drain(self) -> None:
        """Claim and start nothing more; a claim in flight is given back when it returns."""
        self._is_draining = True
        self._give_back_waiting()

    async def drain(self, drain_s: float) -> None:
        """Start nothing new, let running work finish for `drain_s`, give back the rest."""
        self.begin_drain()
        try:
            async with asyncio.timeout(drain_s):
                while self._claiming is not None or self._pool.busy or self._audits:
                    self._quiet.clear()
                    await self._quiet.wait()
        except TimeoutError:
            log.warning("work_given_back", stage=self.stage, slots=len(self._pool.busy))
        for slot in self._pool.busy:
            assignment, slot.assignment = slot.assignment, None
            if assignment is not None:
                self._attempts.give_back(assignment.open.values())
            slot.kill("the host stops")
        self._attempts.give_back(self._audits.take_held())

    def _give_back_surplus(self) -> None:
        """Give back claims for slots that are no longer needed, so that other hosts take them."""
        self._attempts.give_back(self._waiting.take_surplus(self._pool.desired))

    def _give_back_waiting(self) -> None:
        self._attempts.give_back(self._waiting.take_surplus(0))
        self._attempts.give_back(self._ahead.take_back_all())
        self._attempts.give_back(self._audits.findings.take_all())
        self._attempts.give_back(self._reuse.take_followers())

    async def close(self) -> None:
        """End the slots and send the remaining reports."""
        self._limits.close()
        await self._pool.close()
        await self._audits.close()
        if self._claiming is not None:  # it outlasted the drain: what it brings is given back
            await asyncio.wait([self._claiming])
        await self._reports.flush()
