"""Assignments that busy slots already have, so that a slot that is done begins the next at once.

Between two assignments a slot would otherwise wait for this host, which waits for a core like all
others.

Invariants: a busy slot has at most one assignment ahead, and none while `Waiting` calls assignments
long. Nothing counts against its claims before the slot begins it. They can be taken back at any
time. If the slot has just begun them, its verdicts on them are not used; it gets nothing ahead
before it has sent these verdicts, or has confirmed that it had not begun.
"""

from collections.abc import Callable
from typing import Final

from assay.worker.assignment import Assignment, HeldClaim, Waiting, works_in_vain
from assay.worker.slots import messages
from assay.worker.slots.process import SlotProcess

_LATE_NS: Final = 50_000_000
"""A slot that works for longer has nothing ahead: others take it."""


class Ahead:
    """The assignments ahead of one stage's slots."""

    def __init__(
        self, waiting: Waiting, send: Callable[[SlotProcess, list[HeldClaim]], Assignment]
    ) -> None:
        """Start with none.

        Args:
            waiting: where claims come from.
            send: makes an assignment of claims and sends it to a slot.
        """
        self._waiting = waiting
        self._send = send
        self._without: dict[SlotProcess, None] = {}
        """Busy slots without an assignment ahead, which may get one."""
        self._with: dict[SlotProcess, None] = {}
        """Busy slots with an assignment ahead, which can be taken back; the oldest first."""

    def begins(self, slot: SlotProcess) -> None:
        """The slot begins an assignment."""
        self._without[slot] = None

    def give(self) -> None:
        """Send waiting claims to busy slots while that is worth it."""
        while self._without and (held := self._waiting.take_ahead(slots=len(self._without))):
            slot = next(iter(self._without))
            del self._without[slot]
            slot.ahead = self._send(slot, held)
            self._with[slot] = None

    def next(self, slot: SlotProcess) -> Assignment | None:
        """The slot has done its assignment; returns what it begins now."""
        self._without.pop(slot, None)
        self._with.pop(slot, None)
        following, slot.ahead = slot.ahead, None
        return following

    def ends(self, slot: SlotProcess) -> list[HeldClaim]:
        """The slot ends, or retires; returns the claims that it will not begin."""
        following = self.next(slot)
        return following.take_back() if following is not None else []

    def take_back(self) -> list[HeldClaim]:
        """Take back the oldest assignment, for a slot that is idle; empty if there is none."""
        return self._taken_back(next(iter(self._with))) if self._with else []

    def take_back_all(self) -> list[HeldClaim]:
        """Take back all: this host starts nothing more."""
        return [held for slot in list(self._with) for held in self._taken_back(slot)]

    def take_late(self, now_ns: int) -> list[HeldClaim]:
        """Take back those that wait for an assignment that takes longer than expected."""
        late = []
        for slot in self._with:
            if slot.assignment is None or now_ns - slot.assignment.begun_ns <= _LATE_NS:
                break  # those after it were given later
            late.append(slot)
        return [held for slot in late for held in self._taken_back(slot)]

    def take_lost(self) -> list[HeldClaim]:
        """Take back those whose verdicts would not be used; returns what is not lost of them."""
        lost = [slot for slot in self._with if slot.ahead and works_in_vain(slot.ahead)]
        return [held for slot in lost for held in self._taken_back(slot)]

    def _taken_back(self, slot: SlotProcess) -> list[HeldClaim]:
        del self._with[slot]
        if slot.ahead is None:
            return []
        slot.send(messages.TAKE_BACK)
        return slot.ahead.take_back()
