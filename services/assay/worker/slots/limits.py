"""Enforces the limits of running work: CPU time and blocked time, counted from outside.

No slot is checked before it could have exceeded a limit, so ten thousand short requests cost no
check at all. A request ends at its limit for its own CPU time, or because its slot was blocked
(`BlockedTime`) for half of the stage's `timeout_s` after the other half had passed. A slot that a
signal or the kernel delays, one that gets no CPU, and one whose own sandbox enforces the limits
of its programs is given up when it takes too long: the attempt has failed, and that is never the
request's fault.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from assay.core.pipeline import StageSpec
from assay.edge.clock import Clock
from assay.sandbox.port import RunStatus
from assay.worker.assignment import Assignment, is_overtaken
from assay.worker.slots.process import SlotProcess

LOOK_S_MIN: Final = 0.02
"""Minimum time between two checks, in seconds."""
BLOCKED_LOOK_S: Final = 0.25
"""Time between two checks whether a slot is blocked, in seconds."""
SLOWED_MAX: Final = 20.0
"""A slot that is not blocked may take this multiple of `timeout_s`: the machine is busy."""


class LimitWatch:
    """One instance per stage.

    `on_limit(slot, limit, cpu_s)` is called for work that exceeded a limit and is at fault; it ends
    the slot. A slot that makes no progress, where the request is not at fault, is killed here.
    """

    def __init__(
        self,
        spec: StageSpec,
        *,
        has_own_sandbox: bool,
        clock: Clock,
        busy: Callable[[], Iterable[SlotProcess]],
        on_limit: Callable[[SlotProcess, RunStatus, float], None],
    ) -> None:
        self._spec = spec
        self._has_own_sandbox = has_own_sandbox
        self._clock = clock
        self._busy = busy
        self._on_limit = on_limit
        self._look_next: asyncio.TimerHandle | None = None

    def begin(self, slot: SlotProcess, assignment: Assignment) -> None:
        """The slot has begun a new work."""
        assignment.begun_ns = self._clock.monotonic_ns()
        assignment.given_ns = assignment.given_ns or assignment.begun_ns
        assignment.blocked = None
        if self._spec.cpu_s_max is not None:
            assignment.cpu_begun_ns = slot.cpu_ns()
        if self._look_next is None:
            self._look_in(self._first_look_s)

    @property
    def _first_look_s(self) -> float:
        half_s = self._spec.timeout_s / 2
        return half_s if self._spec.cpu_s_max is None else min(half_s, self._spec.cpu_s_max)

    def close(self) -> None:
        if self._look_next is not None:
            self._look_next.cancel()

    def _look_in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._look_next = loop.call_later(max(LOOK_S_MIN, seconds), self._look)

    def _look(self) -> None:
        """Check all due slots; work that begins later reaches its limits later."""
        self._look_next = None
        left_s = [
            self._check(slot, slot.assignment)
            for slot in self._busy()
            if slot.assignment is not None
        ]
        left_s = [left for left in left_s if left > 0]
        if self._look_next is not None:  # work begun meanwhile in place of killed work
            self._look_next.cancel()
            left_s.append(self._first_look_s)
        if left_s:
            self._look_in(min(left_s))

    def _check(self, slot: SlotProcess, assignment: Assignment) -> float:
        """Seconds until the next check of the slot; 0 if it was given up."""
        now_ns = self._clock.monotonic_ns()
        wall_s = (now_ns - assignment.begun_ns) / 1e9
        left_s = self._left_s(slot, assignment, now_ns, wall_s)
        if self._spec.cpu_s_max is not None and left_s > 0:
            cpu_s = (slot.cpu_ns() - assignment.cpu_begun_ns) / 1e9
            if cpu_s >= self._spec.cpu_s_max:
                self._on_limit(slot, RunStatus.CPU_LIMIT, cpu_s)
                return 0.0
            left_s = min(left_s, self._spec.cpu_s_max - cpu_s)
        return left_s

    def _left_s(
        self, slot: SlotProcess, assignment: Assignment, now_ns: int, wall_s: float
    ) -> float:
        """The same for all limits except CPU time."""
        timeout_s, half_s = self._spec.timeout_s, self._spec.timeout_s / 2
        if wall_s >= timeout_s and (self._has_own_sandbox or slot.condition().is_held_up):
            return self._give_up(slot, wall_s)
        if self._has_own_sandbox:
            return timeout_s - wall_s
        if wall_s < half_s:
            return half_s - wall_s
        if wall_s >= SLOWED_MAX * timeout_s:
            return self._give_up(slot, wall_s)
        if self._blocked_s(slot, assignment, now_ns) >= half_s and wall_s >= timeout_s:
            self._on_limit(slot, RunStatus.BLOCKED_LIMIT, 0.0)
            return 0.0
        return min(BLOCKED_LOOK_S, half_s / 4)

    def _blocked_s(self, slot: SlotProcess, assignment: Assignment, now_ns: int) -> float:
        """How long the slot has been blocked since half of its time passed, in seconds."""
        if assignment.blocked is None:
            assignment.blocked = slot.blocked_time()
            assignment.blocked.begin(now_ns)
        else:
            assignment.blocked.look(now_ns, due_ns=max(assignment.blocked_due_ns, 0))
        look_s = min(BLOCKED_LOOK_S, self._spec.timeout_s / 8)
        assignment.blocked_due_ns = now_ns + int(look_s * 1e9)
        return assignment.blocked.blocked_ns / 1e9

    def _give_up(self, slot: SlotProcess, wall_s: float) -> float:
        slot.kill(f"delayed for {wall_s:.1f} s (state {slot.condition().state})")
        return 0.0

    def look_for_stopped(self, *, longer_than_s: float) -> None:
        """A stopped slot, and one at work that others have, is given up before its wall limit."""
        now_ns = self._clock.monotonic_ns()
        for slot in self._busy():
            at = slot.assignment
            if at is None:
                continue
            if is_overtaken(at, now_ns):
                slot.assignment = None
                slot.kill("its work was taken back")
            elif now_ns - at.begun_ns >= longer_than_s * 1e9 and slot.condition().is_stopped:
                slot.kill(f"stopped for longer than {longer_than_s} s")
