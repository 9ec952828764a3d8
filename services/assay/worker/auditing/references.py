"""Audits of references, before the first response or before the first reward.

The stage decides which. With `finds_faults` no response is judged by a reference before its audit
(`assay.worker.auditing.findings`). With `audits` a verdict holds only if an empty response fails
under its reference: this module.

Each distinct reference of a tenant is audited once for the platform. Audits are not shared between
tenants, because the time of an answer would show which references another has sent. Results are
artifacts in the store, under keys that the host forms from its own claim and that no slot can name.
They come from slots that only audit (`AuditingSlots`), never from one that saw a response. A
verdict whose reference is not yet audited waits here with its lease; its slot continues. A tenant
with many slow references gets no further claims meanwhile; others do (`AuditShares`).

Invariants: one audit per reference at a time, over all hosts, while the store answers; at most
`HELD_MAX` verdicts wait, besides those of the tenant that holds most, before the stage stops
claiming; an audit that fails is no evidence about the reference, is not kept, and leaves the
verdict as it is.
"""

from collections.abc import Callable, Sequence
from typing import Final

import structlog

from assay.core.codec import CodecError
from assay.core.errors import AssayError
from assay.core.ids import TenantId, kept_for, owner_of
from assay.core.records import Claim, StageReport
from assay.core.tools.lru import TenantCache
from assay.verifiers.audit import REFERENCES_MAX, reference_key
from assay.verifiers.port import StageDefinition
from assay.worker.artifacts.broker import ArtifactBroker
from assay.worker.assignment import HeldClaim
from assay.worker.auditing.findings import Findings
from assay.worker.auditing.shares import AuditShares
from assay.worker.auditing.slots import AuditingSlots
from assay.worker.finish import refused_by_audit
from assay.worker.parts import HostParts
from assay.worker.slots.messages import HOSTS_KEYS, Said, SaidEnded, SaidFailed

HELD_MAX: Final = 256
"""Verdicts that wait for audits, per stage; of one tenant alone half as many."""
FOUND_EACH: Final = 2
"""Claims that wait for findings, per claim that the slots take at once; the same."""
_SOUND, _WEAK = b"sound", b"weak"

log = structlog.get_logger(__name__)

OnAudited = Callable[[HeldClaim, StageReport, Said], None]


class _Nothing:
    """An empty cache for the broker, because this module keeps the results."""

    def get(self, _key: str) -> bytes | None:
        """See `Cache.get`."""
        return None

    def put(self, _key: str, _content: bytes) -> None:
        """See `Cache.put`."""


class ReferenceAudits:
    """One instance per stage."""

    def __init__(
        self,
        definition: StageDefinition,
        parts: HostParts,
        *,
        on_audited: OnAudited,
        on_found: Callable[[Sequence[HeldClaim]], None],
    ) -> None:
        self._has_audits = definition.audits
        self._slots = AuditingSlots(
            definition,
            forks=parts.forks,
            scratch=parts.scratch / definition.spec.name,
            clock=parts.clock,
            metrics=parts.metrics,
            spawn=parts.spawn,
        )
        self.findings = Findings(
            self._slots,
            is_used=definition.finds_faults,
            version_of=parts.version_of,
            spawn=parts.spawn,
            on_found=on_found,
        )
        self._broker = ArtifactBroker(store=parts.store, cache=_Nothing(), metrics=parts.metrics)
        self._health = parts.health
        self._spawn = parts.spawn
        self._on_audited = on_audited
        self._lets_pass: TenantCache[str, bool] = TenantCache(weight_max=REFERENCES_MAX)
        self._held: dict[HeldClaim, None] = {}
        self._shares = AuditShares()
        self._batch_max = definition.spec.batch_max
        self._findings_room = FOUND_EACH * self._batch_max

    @property
    def is_full(self) -> bool:
        """Whether no further verdict may wait."""
        return self._shares.is_full(HELD_MAX) or self.findings.is_full(self._findings_room)

    @property
    def at_share(self) -> frozenset[TenantId]:
        """Tenants that may have no further verdicts waiting."""
        return self._shares.at_share(HELD_MAX) | self.findings.at_share(self._findings_room)

    def __len__(self) -> int:
        """Verdicts that wait."""
        return len(self._held)

    def resize(self, slots: int) -> None:
        """Adapt to the number of ordinary slots."""
        self._slots.resize(slots)
        self._findings_room = FOUND_EACH * self._batch_max * max(1, slots)

    def hold(self, held: HeldClaim, report: StageReport, said: SaidEnded) -> None:
        """Call `on_audited` with the verdict that holds, at once if the reference is known."""
        if not self._has_audits:
            error = "a verdict that needs an audit, of a stage without"
            self._on_audited(held, report, SaidFailed(error=error))
            return
        task = held.claim.task
        about = reference_key(task.pipeline, task.settings_json, held.claim.reference, task.tenant)
        key = HOSTS_KEYS + kept_for(owner_of((task.tenant,)), about)
        known = self._lets_pass.get(task.tenant, key)
        if known is not None:
            self._on_audited(held, report, _verdict(held.claim, said, lets_pass=known))
            return
        self._held[held] = None
        self._shares.add(task.tenant)
        self._spawn(self._audit(key, held, report, said), name="audit")

    async def _audit(self, key: str, held: HeldClaim, report: StageReport, said: SaidEnded) -> None:
        lets_pass = await self._found(key, held.claim)
        if held in self._held:
            self._remove(held)
            self._on_audited(held, report, _verdict(held.claim, said, lets_pass=bool(lets_pass)))

    async def _found(self, key: str, claim: Claim) -> bool | None:
        """The result of another audit of the reference, or of one made now."""
        try:
            answer = await self._broker.ask(key)
        except AssayError as error:  # the audit is possible without the store
            self._health.failed(error)
            return self._keep(key, claim, lets_pass=await self._slots.lets_pass(claim))
        if answer.content is not None:
            return self._keep(key, claim, lets_pass=answer.content == _WEAK)
        if not answer.make:
            return None
        lets_pass = None
        try:
            lets_pass = await self._slots.lets_pass(claim)
        finally:
            if lets_pass is None:
                await self._broker.given_up(key)
        if lets_pass is not None:
            await self._broker.made(key, _WEAK if lets_pass else _SOUND)
        return self._keep(key, claim, lets_pass=lets_pass)

    def _keep(self, key: str, claim: Claim, *, lets_pass: bool | None) -> bool | None:
        if lets_pass is not None:
            self._lets_pass.put(claim.task.tenant, key, lets_pass)
        return lets_pass

    def take_held(self) -> list[HeldClaim]:
        """Remove all that wait."""
        held = list(self._held)
        self._held.clear()
        self._shares.clear()
        return held

    def lose(self, held: HeldClaim) -> None:
        """Its lease is lost."""
        if held in self._held:
            self._remove(held)
        self.findings.lose(held)

    def _remove(self, held: HeldClaim) -> None:
        del self._held[held]
        self._shares.remove(held.claim.task.tenant)

    async def close(self) -> None:
        """End the slots."""
        await self._slots.close()


def _verdict(claim: Claim, said: SaidEnded, *, lets_pass: bool) -> Said:
    if not lets_pass:
        return said
    try:
        return refused_by_audit(claim, said)
    except (CodecError, ValueError) as error:
        return SaidFailed(error=f"its settings or evidence cannot be read: {error}")
