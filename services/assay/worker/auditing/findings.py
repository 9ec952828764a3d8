"""Audits references for faults before the first response is judged by them.

For stages whose handlers try the controls of a reference themselves (`FaultFindingHandler`). Each
distinct reference of a tenant is audited once for all slots of a host, in a slot that sees no
response; then the finding goes with each work. The results stay in the memory of the host: an audit
takes a few milliseconds, as long as the calls of a store that would share it.

Invariants: the works of a reference wait for one audit; a work waits here or is known, never both.
If an audit fails, each slot runs its own.
"""

from collections.abc import Callable, Sequence
from typing import Final

from assay.core.ids import PipelineName, TenantId
from assay.core.records import Claim
from assay.core.tools.lru import LruCache, TenantCache
from assay.verifiers.audit import REFERENCES_MAX, audit_setting, reference_key
from assay.verifiers.port import ReferenceAudit
from assay.worker.assignment import HeldClaim
from assay.worker.auditing.shares import AuditShares
from assay.worker.auditing.slots import AuditingSlots
from assay.worker.slots.pool import Spawn

SETTINGS_MAX: Final = 1_024
"""Settings of tasks whose `reference_audit` is remembered."""
_EACH_FOR_ITSELF: Final = None


class Findings:
    """One instance per stage."""

    def __init__(
        self,
        slots: AuditingSlots,
        *,
        is_used: bool,
        version_of: Callable[[PipelineName, bytes], str],
        spawn: Spawn,
        on_found: Callable[[Sequence[HeldClaim]], None],
    ) -> None:
        self._slots = slots
        self._is_used = is_used
        self._version_of = version_of
        self._spawn = spawn
        self._on_found = on_found
        self._known: TenantCache[str, tuple[str | None]] = TenantCache(weight_max=REFERENCES_MAX)
        self._is_off: LruCache[bytes, bool] = LruCache(weight_max=SETTINGS_MAX)
        self._waiting: dict[str, dict[HeldClaim, None]] = {}
        self._shares = AuditShares()

    def __len__(self) -> int:
        """Works that wait."""
        return len(self._shares)

    def at_share(self, room: int) -> frozenset[TenantId]:
        return self._shares.at_share(room)

    def is_full(self, room: int) -> bool:
        return self._shares.is_full(room)

    def admit(self, held: HeldClaim) -> bool:
        """Whether a work may be judged now; if not, `on_found` gets it later."""
        if not self._is_used or held.claim.members or self._off(held.claim.task.settings_json):
            return True
        key = self._key(held.claim)
        known = self._known.get(held.claim.task.tenant, key)
        if known is not None:
            (held.fault,) = known
            return True
        waiting = self._waiting.get(key)
        if waiting is None:
            waiting = self._waiting[key] = {}
            self._spawn(self._find(key, held.claim), name="find faults")
        waiting[held] = None
        self._shares.add(held.claim.task.tenant)
        return False

    def _off(self, settings_json: bytes) -> bool:
        is_off = self._is_off.get(settings_json)
        if is_off is None:
            try:
                is_off = audit_setting(settings_json) is ReferenceAudit.OFF
            except ValueError:
                is_off = True  # its slot says what is wrong with them
            self._is_off.put(settings_json, is_off)
        return is_off

    def _key(self, claim: Claim) -> str:
        task = claim.task
        version = self._version_of(task.pipeline, task.settings_json)
        return version + reference_key(
            task.pipeline, task.settings_json, claim.reference, task.tenant
        )

    async def _find(self, key: str, claim: Claim) -> None:
        fault = await self._slots.fault(claim)
        known = (_EACH_FOR_ITSELF if fault is None else fault,)
        self._known.put(claim.task.tenant, key, known)
        found = self._waiting.pop(key, {})
        for held in found:
            held.fault = fault
            self._shares.remove(held.claim.task.tenant)
        if found:
            self._on_found(list(found))

    def lose(self, held: HeldClaim) -> None:
        """Its lease is lost."""
        if not self._is_used:
            return
        waiting = self._waiting.get(self._key(held.claim), {})
        if held in waiting:
            del waiting[held]
            self._shares.remove(held.claim.task.tenant)

    def take_all(self) -> list[HeldClaim]:
        """Remove all that wait."""
        taken = [held for waiting in self._waiting.values() for held in waiting]
        for waiting in self._waiting.values():
            waiting.clear()
        self._shares.clear()
        return taken
