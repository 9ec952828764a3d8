"""What one slot works on, and who is to blame when the slot ends in the middle. Pure.

Invariants: a claim is in exactly one place (waiting, in one assignment, reported); a slot's end
blames at most one claim; a claim that is not to blame is run again under the same lease, without an
attempt being counted, alone where the blame is not clear, and at most `RERUNS_MAX` times.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from assay.core.records import Claim
from assay.sandbox.accounting.blocked import BlockedTime

RERUNS_MAX: Final = 3
ASSIGNMENT_BYTES_MAX: Final = 16 * 1024**2
"""Payload of one assignment; one larger request travels alone."""


@dataclass(slots=True, eq=False, kw_only=True)
class HeldClaim:
    """A claim in this host's hands."""

    claim: Claim
    claimed_ns: int
    """Monotonic."""
    payload_bytes: int
    alone: bool = False
    """To be run without company: it may be what ended a slot."""
    fresh: bool = False
    """To be run in a slot that has served nothing yet."""
    reruns: int = 0
    is_lost: bool = False
    """The lease is gone; whatever comes of it is thrown away."""
    is_reported: bool = False
    """Its end is on the way to the store."""


@dataclass(slots=True, eq=False, kw_only=True)
class Assignment:
    """The works of one slot, in order; each leaves `open` when its verdict is in."""

    held: Sequence[HeldClaim]
    individually: bool
    """The slot works one after the other, so that the first open one is the one it is at."""
    begun_ns: int = 0
    """When the current work was begun (the first, where they are run together)."""
    cpu_begun_ns: int = 0
    """The slot's CPU clock at that time."""
    blocked: BlockedTime | None = None
    """Of the slot, from half of its time on."""
    blocked_due_ns: int = 0
    """When to look at it next."""
    open: dict[int, HeldClaim] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """All works are open."""
        self.open = dict(enumerate(self.held))

    def take(self, at: int) -> HeldClaim | None:
        """The claim of a verdict; `None` when it was judged before."""
        return self.open.pop(at, None)

    @property
    def current(self) -> HeldClaim | None:
        """The one claim that the slot is at, where that is known."""
        if self.open and (self.individually or len(self.open) == 1):
            return next(iter(self.open.values()))
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Blame:
    """What becomes of the works that a dead slot leaves open."""

    blamed: HeldClaim | None
    again: tuple[HeldClaim, ...]


def blame_for_end(assignment: Assignment) -> Blame:
    """The slot was killed for a limit, died, or broke the protocol."""
    blamed = assignment.current
    others = tuple(held for held in assignment.open.values() if held is not blamed)
    if blamed is None:
        exhausted = next((held for held in others if held.reruns >= RERUNS_MAX), None)
        if exhausted is not None:
            blamed = exhausted
            others = tuple(held for held in others if held is not exhausted)
    for held in others:
        held.reruns += 1
        held.alone = held.alone or blamed is None
    return Blame(blamed=blamed, again=others)


def no_blame(assignment: Assignment) -> Blame:
    """The slot retired: the work it was at needs a fresh one, the others any."""
    current = assignment.current
    if current is not None and current.reruns >= RERUNS_MAX:
        return blame_for_end(assignment)
    for held in assignment.open.values():
        held.reruns += 1
        held.alone = held.alone or current is None
        held.fresh = held is current or held.alone
    return Blame(blamed=None, again=tuple(assignment.open.values()))


class Waiting:
    """Claims that wait for a slot of this host; never more than its slots can take at once."""

    def __init__(self, *, batch_max: int) -> None:
        self._batch_max = batch_max
        self._claims: deque[HeldClaim] = deque()

    def __len__(self) -> int:
        return len(self._claims)

    def add(self, claims: Iterable[HeldClaim]) -> None:
        """Behind what waits already."""
        self._claims.extend(claims)

    def add_again(self, claims: Sequence[HeldClaim]) -> None:
        """In front, in their order: they were served before."""
        self._claims.extendleft(reversed(claims))

    def remove(self, held: HeldClaim) -> bool:
        """Take one out; False when it does not wait."""
        try:
            self._claims.remove(held)
        except ValueError:
            return False
        return True

    def take_surplus(self, kept_max: int) -> list[HeldClaim]:
        """Take out all but the first `kept_max`."""
        taken = list(self._claims)[kept_max:]
        for _ in taken:
            self._claims.pop()
        return taken

    @property
    def needs_fresh(self) -> bool:
        """The next one wants a slot that has served nothing."""
        return bool(self._claims) and self._claims[0].fresh

    def take(self, *, slots_idle: int) -> list[HeldClaim]:
        """The works for one of so many idle slots: an even share, in order, within the bounds."""
        share = min(self._batch_max, -(-len(self._claims) // max(1, slots_idle)))
        taken: list[HeldClaim] = []
        size = 0
        while self._claims and len(taken) < share:
            following = self._claims[0]
            size += following.payload_bytes
            if taken and (following.alone or size > ASSIGNMENT_BYTES_MAX):
                break
            taken.append(self._claims.popleft())
            if following.alone:
                break
        return taken
