"""The work of one slot, and which request is to blame if the slot ends before it is done. Pure.

Invariants: a claim is in exactly one place (waiting, in one assignment, reported). The end of a
slot blames at most one claim; the others run again under the same lease, without counting an
attempt. A claim that may itself have been the cause does so at most `RERUNS_MAX` times, and alone.
The effect of another claim is never counted against it.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from assay.core.ids import PipelineName
from assay.core.records import Claim, Member, payload_bytes
from assay.sandbox.accounting.blocked import BlockedTime
from assay.worker.auditing.culprits import CONTROL, KNOWN, CulpritSearch, chosen
from assay.worker.slots.messages import Said, WireTask, WireWork

RERUNS_MAX: Final = 3
AHEAD_HOLD_S_MAX: Final = 0.02
"""Claims are held for busy slots only while the last assignments took no longer than this on
average: then a claim that waits here delays no one by more than that, and a slot that is done need
not wait for the store."""
AHEAD_HOLDS: Final = 8
"""Number of such assignments."""
AHEAD_EACH_MAX: Final = 8
"""Claims per slot that wait here, where its assignments are smaller and end within
`AHEAD_HOLD_S_MAX` one after the other."""
AHEAD_STALE_S: Final = 1.0
"""Claims that were taken ahead and have waited for this long are given back."""
TAKEN_BACK_NS_MAX: Final = 1_000_000_000
"""A slot that had begun what was taken back may be at it for this long: others have the claims,
and may need the slot."""
AHEAD_BYTES_MAX: Final = 1024**2
"""Maximum payload of an assignment that a busy slot gets: it waits in the channel's buffers."""
ASSIGNMENT_BYTES_MAX: Final = 16 * 1024**2
"""Maximum payload of one assignment; a larger request is sent alone."""


@dataclass(slots=True, eq=False, kw_only=True)
class HeldClaim:
    """A claim that this host holds."""

    claim: Claim
    claimed_ns: int
    """Monotonic."""
    payload_bytes: int
    alone: bool = False
    """To run without other requests: it may have ended a slot."""
    fresh: bool = False
    """To run in a slot that has served nothing yet."""
    reruns: int = 0
    """Times that it ran again although it may itself have ended or retired the slot."""
    is_lost: bool = False
    """The lease is lost; its result will be discarded."""
    is_reported: bool = False
    """Its end is being reported to the store."""
    reuse_key: str = ""
    """See `assay.worker.reuse`; empty: its verdict is for it alone."""
    leads: bool = False
    """Others wait for its verdict, or may."""
    search: CulpritSearch | None = None
    """Of a group whose stage failed, or of a request that its slot ended with: who causes it."""
    artifacts: tuple[str, ...] | None = None
    """What the keys of its artifacts begin with; `None`: not yet asked for."""
    fault: str | None = None
    """See `Work.fault`."""
    found: Said | None = None
    """The verdicts on the part of the group that passed last in this search, or on the request."""

    @property
    def is_control(self) -> bool:
        """What runs is a trusted response in the place of the request's."""
        return self.search is not None and self.search.following == CONTROL


@dataclass(slots=True, eq=False, kw_only=True)
class Assignment:
    """The works of one slot, in order; each leaves `open` when its verdict arrives."""

    held: Sequence[HeldClaim]
    individually: bool
    """The slot works in order, so the first open work is the current one."""
    given_ns: int = 0
    """When the slot got it."""
    begun_ns: int = 0
    """When the current work began (the first, if they run together)."""
    cpu_begun_ns: int = 0
    """The slot's CPU clock at that time."""
    blocked: BlockedTime | None = None
    """Blocked time of the slot, counted after half of its time has passed."""
    blocked_due_ns: int = 0
    """Time of the next check."""
    open: dict[int, HeldClaim] = field(default_factory=dict)
    is_taken_back: bool = False
    """Its claims are elsewhere; verdicts of a slot that has begun it are not used."""
    unsaid: int = 0
    """Verdicts that are still to come after it was taken back."""

    def __post_init__(self) -> None:
        """Start with all works open."""
        self.open = dict(enumerate(self.held))
        self.unsaid = len(self.held)

    def take_back(self) -> list[HeldClaim]:
        """Take the assignment from the slot; returns its open claims that are not lost."""
        kept = [held for held in self.open.values() if not held.is_lost]
        self.open.clear()
        self.is_taken_back = True
        return kept

    def take(self, at: int) -> HeldClaim | None:
        """The claim of a verdict; `None` if it was judged before."""
        return self.open.pop(at, None)

    @property
    def sends_more(self) -> bool:
        """Whether the slot sends another frame before the last of this assignment."""
        return self.individually and len(self.open) > 1

    @property
    def current(self) -> HeldClaim | None:
        """The claim that the slot is working on, if known."""
        if self.open and (self.individually or len(self.open) == 1):
            return next(iter(self.open.values()))
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Blame:
    """What happens to the open works of a dead slot."""

    blamed: HeldClaim | None
    again: tuple[HeldClaim, ...]


def bytes_of(claim: Claim) -> int:
    """Size of what a slot gets for the claim."""
    parts = claim.members or (claim,)
    return sum(payload_bytes(one) + len(one.handover) for one in parts)


def wire_work(
    claim: Claim, task: int, search: CulpritSearch | None = None, fault: str | None = None
) -> WireWork:
    """The claim for a slot.

    Args:
        claim: a request, or a group.
        task: its place among the tasks of the assignment.
        search: of the group; the slot gets the members that run next. Of a request alone: the slot
            gets it, or its control.
        fault: of its reference, if known.
    """
    control = search.attempt + 1 if search is not None and search.following == CONTROL else 0
    if not claim.members:
        return _wire(claim, task, claim.task.tenant)._replace(fault=fault, control=control)
    is_known = search is not None and search.following == KNOWN
    members = [_wire(one, task, claim.task.tenant) for one in chosen(claim.members, search)]
    return WireWork(
        task,
        b"",
        b"",
        b"",
        members=members,
        submitted=len(members) if is_known else claim.submitted,
        control=control,
    )


def _wire(one: Claim | Member, task: int, tenant: str) -> WireWork:
    files = [(file.name, file.content) for file in one.artifacts]
    return WireWork(
        task, one.response, one.reference, one.handover, one.messages, files, tenant=tenant
    )


def work_frame(
    assignment: Assignment, version_of: Callable[[PipelineName, bytes], str]
) -> tuple[list[WireTask], list[WireWork], bool]:
    """What a slot gets after the word `WORK`; `version_of`: a pipeline with these settings."""
    tasks: dict[WireTask, int] = {}
    works = []
    task, at = None, 0
    for one in assignment.held:
        if one.claim.task is not task:  # most are of one task
            task = one.claim.task
            version = version_of(task.pipeline, task.settings_json)
            wire = WireTask(task.pipeline, task.settings_json, version)
            at = tasks.setdefault(wire, len(tasks))
        works.append(wire_work(one.claim, at, one.search, one.fault))
    return list(tasks), works, assignment.individually


def blame_for_end(assignment: Assignment) -> Blame:
    """The slot was killed for a limit, died, or broke the protocol."""
    blamed = assignment.current
    others = tuple(held for held in assignment.open.values() if held is not blamed)
    if blamed is None:
        exhausted = next((held for held in others if held.reruns >= RERUNS_MAX), None)
        if exhausted is not None:
            blamed = exhausted
            others = tuple(held for held in others if held is not exhausted)
    if blamed is None:
        for held in others:
            held.reruns += 1
            held.alone = True
    return Blame(blamed=blamed, again=others)


def is_overtaken(assignment: Assignment, now_ns: int) -> bool:
    """Whether a slot works at what was taken back from it, and will not be done at once."""
    return assignment.is_taken_back and now_ns - assignment.begun_ns > TAKEN_BACK_NS_MAX


def works_in_vain(assignment: Assignment) -> bool:
    """Whether the current work of the slot, or every work that may be current, is lost."""
    current = assignment.current
    if current is not None:
        return current.is_lost
    return bool(assignment.open) and all(held.is_lost for held in assignment.open.values())


def no_blame(assignment: Assignment) -> Blame:
    """The slot retired: its current work needs a fresh slot, the others any slot."""
    current = assignment.current
    if current is not None and current.reruns >= RERUNS_MAX:
        return blame_for_end(assignment)
    for held in assignment.open.values():
        held.reruns += held is current or current is None
        held.alone = held.alone or current is None
        held.fresh = held is current or held.alone
    return Blame(blamed=None, again=tuple(assignment.open.values()))


class Waiting:
    """Claims that wait for a slot of this host; at most as many as its slots can take at once.

    While assignments are short, as many may wait for slots that are busy, or as many as these can
    judge one after the other within `AHEAD_HOLD_S_MAX`.
    """

    def __init__(self, *, batch_max: int) -> None:
        self._batch_max = batch_max
        self._claims: deque[HeldClaim] = deque()
        self._holds_s: deque[float] = deque(maxlen=AHEAD_HOLDS)
        self._is_ahead = False
        """Some were claimed for busy slots."""

    def __len__(self) -> int:
        return len(self._claims)

    def add(self, claims: Iterable[HeldClaim]) -> None:
        """Append to the waiting claims."""
        self._claims.extend(claims)

    def add_again(self, claims: Sequence[HeldClaim]) -> None:
        """Put in front, in their order: they were served before."""
        self._claims.extendleft(reversed(claims))

    def note_hold(self, seconds: float) -> None:
        """Note how many seconds an assignment took."""
        self._holds_s.append(seconds)

    @property
    def is_brisk(self) -> bool:
        """Assignments are short, so claims may wait for busy slots."""
        holds_s = self._holds_s
        return len(holds_s) == AHEAD_HOLDS and sum(holds_s) <= AHEAD_HOLDS * AHEAD_HOLD_S_MAX

    def more_soon(self) -> bool:
        """Whether verdicts on what waits here will come soon."""
        return self.is_brisk and bool(self._claims)

    def slow_down(self) -> None:
        """The next assignments decide again whether they are short."""
        self._holds_s.clear()
        self._is_ahead = False

    @property
    def _each_max(self) -> int:
        """Claims per slot that may wait here."""
        if not self.is_brisk or self._batch_max >= AHEAD_EACH_MAX:
            return self._batch_max
        in_time = AHEAD_HOLDS * AHEAD_HOLD_S_MAX / max(sum(self._holds_s), 1e-9)
        return min(AHEAD_EACH_MAX, int(in_time) * self._batch_max)

    def room(self, capacity: int, slots: int, reserved: int = 0) -> int:
        """How many to claim now, if there may be more work.

        Args:
            capacity: for how many there are idle slots.
            slots: idle or not.
            reserved: claims that wait elsewhere in this host.
        """
        if not self.is_brisk:
            return capacity
        most = slots * self._each_max - reserved
        ahead = most - len(self._claims)
        if ahead <= capacity or 2 * ahead < most:  # not a call for each single one
            return capacity
        self._is_ahead = True
        return ahead

    def take_stale(self, now_ns: int) -> list[HeldClaim]:
        """Remove claims made ahead for slots that have been busy for longer than expected."""
        if not self._is_ahead:
            return []
        stale = [
            held
            for held in self._claims
            if now_ns - held.claimed_ns > AHEAD_STALE_S * 1e9 and not (held.reruns or held.alone)
        ]
        for held in stale:
            self._claims.remove(held)
        if stale:
            self.slow_down()
        return stale

    def remove(self, held: HeldClaim) -> bool:
        """Remove one; False if it is not waiting."""
        try:
            self._claims.remove(held)
        except ValueError:
            return False
        return True

    def take_surplus(self, slots: int) -> list[HeldClaim]:
        """Remove the last claims beyond the number that may wait for this many slots."""
        taken = list(self._claims)[slots * self._each_max :]
        for _ in taken:
            self._claims.pop()
        return taken

    @property
    def needs_fresh(self) -> bool:
        """The next claim needs a slot that has served nothing."""
        return bool(self._claims) and self._claims[0].fresh

    def take_ahead(self, *, slots: int) -> list[HeldClaim]:
        """The works for one of the busy slots; none if they are few, or need an idle one."""
        if not self._claims or not self.is_brisk or self._share(slots) < self._batch_max:
            return []
        first = self._claims[0]
        if first.alone or first.fresh or first.payload_bytes > AHEAD_BYTES_MAX:
            return []
        return self._taken(self._share(slots), AHEAD_BYTES_MAX)

    def take(self, *, slots_idle: int) -> list[HeldClaim]:
        """The works for one of the idle slots: an even share, in order, within the bounds."""
        return self._taken(self._share(slots_idle), ASSIGNMENT_BYTES_MAX)

    def take_past_fresh(self, *, slots_idle: int) -> list[HeldClaim]:
        """The same without the first claims that need a fresh slot; none if all need one."""
        behind = next((at for at, held in enumerate(self._claims) if not held.fresh), None)
        if behind is None:
            return []
        first = [self._claims.popleft() for _ in range(behind)]
        taken = self.take(slots_idle=slots_idle)
        self.add_again(first)
        return taken

    def _share(self, slots: int) -> int:
        return min(self._batch_max, -(-len(self._claims) // max(1, slots)))

    def _taken(self, share: int, bytes_max: int) -> list[HeldClaim]:
        taken: list[HeldClaim] = []
        size = 0
        while self._claims and len(taken) < share:
            following = self._claims[0]
            size += following.payload_bytes
            if taken and (following.alone or following.fresh or size > bytes_max):
                break
            taken.append(self._claims.popleft())
            if following.alone:
                break
        return taken
