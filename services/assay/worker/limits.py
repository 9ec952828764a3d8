"""Keeps the limits of running work: CPU time and wall time, counted from outside.

No slot is looked at before it could have passed a limit, so ten thousand short requests cost no
look at all. Whose fault a passed limit is: CPU time is the request's own; so is wall time, unless
the slot was held up, by a signal, in the kernel, or by a machine that gave it no CPU.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from assay.core.pipeline import StageSpec
from assay.edge.clock import Clock
from assay.sandbox.port import RunStatus
from assay.worker.assignment import Assignment
from assay.worker.slot_process import SlotProcess

LOOK_S_MIN: Final = 0.02
"""Between two looks."""
STARVED_SHARE: Final = 0.5
"""A slot that waited for a CPU for this share of the time was held up by the machine."""


class LimitKeeper(Protocol):
    """Who is told; both end with the slot dead."""

    def on_limit(self, slot: SlotProcess, limit: RunStatus, cpu_s: float) -> None:
        """What the slot is at has passed a limit by its own doing."""

    def on_held_up(self, slot: SlotProcess, why: str) -> None:
        """The slot does not get on, and that is not the request's doing."""


class LimitWatch:
    """One a stage."""

    def __init__(
        self,
        spec: StageSpec,
        *,
        clock: Clock,
        busy: Callable[[], Iterable[SlotProcess]],
        keeper: LimitKeeper,
    ) -> None:
        self._spec = spec
        self._clock = clock
        self._busy = busy
        self._keeper = keeper
        self._look_next: asyncio.TimerHandle | None = None

    def begin(self, slot: SlotProcess, assignment: Assignment) -> None:
        """The slot is at a new work now."""
        assignment.begun_ns = self._clock.monotonic_ns()
        assignment.halfway = None
        if self._spec.cpu_s_max is not None:
            assignment.cpu_begun_ns = slot.cpu_ns()
        if self._look_next is None:
            self._look_in(self._first_look_s)

    @property
    def _first_look_s(self) -> float:
        half_s = self._spec.timeout_s / 2
        return half_s if self._spec.cpu_s_max is None else min(half_s, self._spec.cpu_s_max)

    def close(self) -> None:
        """Look no more."""
        if self._look_next is not None:
            self._look_next.cancel()

    def _look_in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._look_next = loop.call_later(max(LOOK_S_MIN, seconds), self._look)

    def _look(self) -> None:
        """Whatever begins from now on passes its limits later than what is looked at here."""
        self._look_next = None
        left_s = [
            self._check(slot, slot.assignment)
            for slot in self._busy()
            if slot.assignment is not None
        ]
        left_s = [left for left in left_s if left > 0]
        if self._look_next is not None:  # work begun meanwhile, in the place of what was killed
            self._look_next.cancel()
            left_s.append(self._first_look_s)
        if left_s:
            self._look_in(min(left_s))

    def _check(self, slot: SlotProcess, assignment: Assignment) -> float:
        """Seconds until the slot is to be looked at again; 0 when it was given up."""
        wall_s = (self._clock.monotonic_ns() - assignment.begun_ns) / 1e9
        left_s = self._spec.timeout_s - wall_s
        if self._spec.cpu_s_max is not None:
            cpu_s = (slot.cpu_ns() - assignment.cpu_begun_ns) / 1e9
            if cpu_s >= self._spec.cpu_s_max:
                self._keeper.on_limit(slot, RunStatus.CPU_LIMIT, cpu_s)
                return 0.0
            left_s = min(left_s, self._spec.cpu_s_max - cpu_s)
        if left_s <= 0:
            self._pass_wall_limit(slot, assignment, wall_s)
            return 0.0
        half_s = self._spec.timeout_s / 2
        if wall_s < half_s:
            return min(left_s, half_s - wall_s)
        if assignment.halfway is None:
            assignment.halfway = slot.condition()
        return left_s

    def _pass_wall_limit(self, slot: SlotProcess, assignment: Assignment, wall_s: float) -> None:
        now, halfway = slot.condition(), assignment.halfway
        starved_s = 0.0 if halfway is None else (now.starved_ns - halfway.starved_ns) / 1e9
        if now.is_held_up or starved_s > STARVED_SHARE * wall_s / 2:
            why = f"held up for {wall_s:.1f} s (state {now.state}, starved {starved_s:.1f} s)"
            self._keeper.on_held_up(slot, why)
        else:
            self._keeper.on_limit(slot, RunStatus.WALL_LIMIT, 0.0)

    def look_for_stopped(self, *, longer_than_s: float) -> None:
        """A slot that somebody stopped is given up without waiting for its wall limit."""
        now_ns = self._clock.monotonic_ns()
        for slot in self._busy():
            at = slot.assignment
            if at is None or now_ns - at.begun_ns < longer_than_s * 1e9:
                continue
            if slot.condition().is_stopped:
                self._keeper.on_held_up(slot, f"stopped for longer than {longer_than_s} s")
