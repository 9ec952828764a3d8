"""Which assignments ahead are taken back, and from which slot: without slots, so in any order."""

from dataclasses import dataclass, field
from typing import cast

from tests.worker.claims import held

from assay.worker.ahead import Ahead
from assay.worker.assignment import AHEAD_HOLDS, Assignment, HeldClaim, Waiting
from assay.worker.slots import messages
from assay.worker.slots.process import SlotProcess


@dataclass(eq=False)
class Slot:
    """What `Ahead` uses of a slot."""

    assignment: Assignment | None = None
    ahead: Assignment | None = None
    said: list[object] = field(default_factory=list)

    def send(self, *frame: object) -> None:
        """Keep what the slot would get."""
        self.said += frame


class Host:
    """Two busy slots, whose works are short."""

    def __init__(self) -> None:
        self.waiting = Waiting(batch_max=1)
        for _ in range(AHEAD_HOLDS):
            self.waiting.note_hold(0.001)
        self.ahead = Ahead(self.waiting, lambda _, claims: assignment(claims))
        self.slots = [cast("SlotProcess", Slot()) for _ in range(2)]
        for slot in self.slots:
            self.begins(slot, assignment([held("first")]))

    def begins(self, slot: SlotProcess, work: Assignment) -> None:
        """The slot begins this."""
        slot.assignment = work
        self.ahead.begins(slot)

    def gives(self, *names: str) -> None:
        """Claims that wait are given to the slots."""
        self.waiting.add(held(name) for name in names)
        self.ahead.give()


def assignment(claims: list[HeldClaim]) -> Assignment:
    return Assignment(held=claims, individually=True)


def names(claims: list[HeldClaim]) -> list[str]:
    return [one.claim.request_id for one in claims]


def test_what_a_slot_has_begun_is_not_ahead_of_it_any_more() -> None:
    host = Host()
    one, two = host.slots
    host.gives("a", "b")
    following = host.ahead.next(one)
    assert following is not None
    host.begins(one, following)
    assert names(host.ahead.take_back()) == ["b"], "the slot that is done has none to give"
    assert cast("Slot", two).said == [messages.TAKE_BACK]


def test_only_what_is_lost_is_taken_back_for_it() -> None:
    host = Host()
    one, two = host.slots
    host.gives("a", "b")
    assert one.ahead is not None
    [lost] = one.ahead.held
    lost.is_lost = True
    assert host.ahead.take_lost() == []
    assert (one.ahead.is_taken_back, cast("Slot", two).said) == (True, [])
