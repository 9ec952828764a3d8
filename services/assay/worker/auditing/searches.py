"""Searches for the members of groups that make their stage fail: when one begins, and its end.

A request alone is searched as a group of one, but only where its slot ended with it: what its
handler raises is decided in the slot (`assay.verifiers.total.judged`).

Invariant: a search is only about the group that this host holds; with a lost lease it is lost too.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import structlog

from assay.core.codec import CodecError
from assay.core.records import (
    Claim,
    EndRequest,
    FailAttempt,
    Finish,
    FinishGroup,
    HandOver,
    Member,
    payload_bytes,
)
from assay.core.tools.lru import TenantCache
from assay.sandbox.port import RunStatus
from assay.verifiers.port import StageDefinition
from assay.worker.assignment import HeldClaim
from assay.worker.auditing.culprits import CONTROL, KNOWN, CulpritSearch, Failure
from assay.worker.finish import broke_limit, broke_the_run, finish_of
from assay.worker.slots.messages import Said, SaidFailed, SaidGroup

log = structlog.get_logger(__name__)

KNOWN_BYTES_MAX: Final = 16 * 1024**2
"""Groups that passed, one per task, kept as controls of later ones: per stage."""
_MEMBER_BYTES: Final = 1_024
"""Added for each member, so that small ones are bounded in number too."""
MEASURED = frozenset({RunStatus.CPU_LIMIT.value, RunStatus.MEMORY_LIMIT.value})
"""Limits that no service can make a handler break."""


class GroupSearches:
    """One instance per stage."""

    def __init__(
        self, definition: StageDefinition, run_again: Callable[[Sequence[HeldClaim]], None]
    ) -> None:
        self._trusts = definition.trusts
        self._confines = definition.confined
        self._asks_no_service = definition.confined or definition.trusts
        self._run_again = run_again
        self._known: TenantCache[tuple[str, bytes], Claim] = TenantCache(
            weight_max=KNOWN_BYTES_MAX, weigh=_bytes_of
        )

    def concerns(self, held: HeldClaim, ended: Said | Failure) -> bool:
        """Whether this end of a run belongs to a search, or begins one."""
        if held.is_lost:
            return False
        if not held.claim.members:
            ends_slot = isinstance(ended, Failure) and not ended.limit
            return held.search is not None or (self._confines and ends_slot)
        failure = _failure(ended, of_group=True)
        if held.search is None and isinstance(ended, SaidGroup):
            self._remember(held.claim, ended)
        is_explained = self._asks_no_service or (failure is not None and failure.limit in MEASURED)
        return held.search is not None or (failure is not None and is_explained)

    def take(self, held: HeldClaim, ended: Said | Failure, *, version: str) -> Finish | None:
        """The end of the group after this run; `None`: the group, or a part of it, runs again."""
        is_group = bool(held.claim.members)
        failure = _failure(ended, of_group=is_group)
        search = held.search
        if search is not None:
            self._go_on(held, search, ended)
        elif failure is not None:
            held.search = search = CulpritSearch(
                order=_smallest_first(held.claim.members) if is_group else (0,),
                first=failure,
                has_control=self._trusts,
                known=self._known_like(held.claim),
            )
            if is_group:
                log.info("group_searched", stage=held.claim.stage, members=len(search.order))
        else:
            raise ValueError("a group that was judged needs no search")
        if search.is_over:
            held.search = None
            return (_finish if is_group else _finish_alone)(held, search, version)
        held.reruns, held.alone = 0, True
        self._run_again([held])
        return None

    def _go_on(self, held: HeldClaim, search: CulpritSearch, ended: Said | Failure) -> None:
        is_control = search.following in (CONTROL, KNOWN)
        failure = _failure(ended, of_group=bool(held.claim.members))
        if is_control and isinstance(ended, SaidGroup):
            unjudged = (one for one in ended.members if isinstance(one, SaidFailed))
            failure = next((Failure(error=one.error) for one in unjudged), None)
        elif failure is None and not isinstance(ended, Failure):
            held.found = ended
        search.ended(failure)

    def _remember(self, claim: Claim, said: SaidGroup) -> None:
        """Keep a group that was judged whole, as a control where the stage has none of its own."""
        if not self._trusts and not any(isinstance(one, SaidFailed) for one in said.members):
            self._known.put(claim.task.tenant, _task(claim), claim)

    def _known_like(self, claim: Claim) -> Sequence[Member]:
        known = self._known.get(claim.task.tenant, _task(claim))
        return known.members if known is not None else ()


def _task(claim: Claim) -> tuple[str, bytes]:
    return (claim.task.task_id, claim.task.settings_json)


def _bytes_of(claim: Claim) -> int:
    return sum(_MEMBER_BYTES + payload_bytes(one) + len(one.handover) for one in claim.members)


def _failure(ended: Said | Failure, *, of_group: bool) -> Failure | None:
    match ended:
        case Failure():
            return ended
        case SaidFailed():
            return Failure(error=ended.error, limit=ended.limit)
        case SaidGroup():
            return None
    if not of_group:
        return None
    return Failure(error="one verdict for a whole group")


def _smallest_first(members: Sequence[Member]) -> tuple[int, ...]:
    return tuple(sorted(range(len(members)), key=lambda at: len(members[at].response)))


def _finish(held: HeldClaim, search: CulpritSearch, version: str) -> Finish:
    """The verdicts on those that pass together, and the ends of those at fault."""
    claim = held.claim
    if search.infrastructure_failed:
        return FailAttempt(error=f"a control fails too: {search.first.error}")
    try:
        ends: dict[int, EndRequest | HandOver | FailAttempt] = {
            at: _end(claim, claim.members[at], failure, version)
            for at, failure in search.blamed.items()
        }
    except (CodecError, ValueError) as problem:
        return FailAttempt(error=f"{search.first.error}; its task cannot be read: {problem}")
    if search.passing and held.found is not None:
        part = tuple(claim.members[at] for at in search.passing)
        judged = finish_of(replace(claim, members=part), held.found)
        if not isinstance(judged, FinishGroup):
            return judged
        ends |= dict(zip(search.passing, (finish for _, finish in judged.members), strict=True))
    log.warning("group_members_at_fault", stage=claim.stage, members=sorted(search.blamed))
    return FinishGroup(
        members=tuple((one.job_id, ends[at]) for at, one in enumerate(claim.members))
    )


def _finish_alone(held: HeldClaim, search: CulpritSearch, version: str) -> Finish:
    """Of a request: its verdict where it had one at last, or its end if it is at fault."""
    if search.passing and held.found is not None:
        return finish_of(held.claim, held.found)
    if search.infrastructure_failed:
        return FailAttempt(error=search.first.error)
    try:
        return _end(held.claim, held.claim, search.blamed[0], version)
    except (CodecError, ValueError) as problem:
        return FailAttempt(error=f"{search.first.error}; its task cannot be read: {problem}")


def _end(claim: Claim, member: Claim | Member, failure: Failure, version: str) -> EndRequest:
    if failure.limit:
        return broke_limit(
            claim,
            handover=member.handover,
            limit=failure.limit,
            error=failure.error,
            cpu_s=failure.cpu_s,
            version=version,
        )
    return broke_the_run(claim, handover=member.handover, error=failure.error, version=version)
