"""The faults of a run, as data: a list that can be shortened and keeps its meaning.

Each kind of fault is left out of a run at random (swarm testing), so that some runs see one kind
only, and one run in five sees none.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

FAULTS_MAX: Final = 14
CALM_SHARE: Final = 0.2
FIRST_S: Final = 2.0
"""No faults before this time: the platform starts."""
SHRINKING_RUNS_MAX: Final = 200

T = TypeVar("T")


class Kind(StrEnum):
    """Kinds of faults."""

    CRASH_API = "crash_api"
    CRASH_HOST = "crash_host"
    CRASH_PLANNER = "crash_planner"
    LOST_HOST = "lost_host"
    """A planner takes it for dead; it lives, works on and reports late."""
    STOP_HOST = "stop_host"
    """It drains and restarts, as for a new release."""
    CRASH_SLOT = "crash_slot"
    STOP_SLOT = "stop_slot"
    """Stopped by a signal, as by a debugger."""
    FORKS_FAIL = "forks_fail"
    STORE_DOWN = "store_down"
    STORE_SLOW = "store_slow"
    """A slow disk."""
    CUT_OFF = "cut_off"
    """One node does not reach the store; the others do."""
    CUT_LEADER = "cut_leader"
    """The leading planner does not reach the store."""
    FAIL_OVER = "fail_over"
    """The store forgets the last writes."""
    LOSE_REQUESTS = "lose_requests"
    LOSE_ANSWERS = "lose_answers"
    DOUBLE_CALLS = "double_calls"
    """API calls arrive twice."""
    LOSE_CALLS = "lose_calls"
    """API responses are lost."""
    CLOCK_JUMP = "clock_jump"
    """A node's Unix time jumps."""
    STORE_CLOCK_JUMP = "store_clock_jump"
    BUSY_MACHINE = "busy_machine"
    """All work takes longer."""
    PLANNING_DIES = "planning_dies"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a schedule: what, when and where."""

    kind: Kind
    at_s: float
    target: int = 0
    """Index of the node (modulo their number)."""
    size: float = 0.0
    """Duration in seconds, or as described at `Kind`."""
    awaits: int = 0
    """Crashes: number of external awaits until the crash."""

    def __str__(self) -> str:
        """One line for a person."""
        more = f" await {self.awaits}" if self.awaits else ""
        return f"{self.at_s:8.3f} s  {self.kind:17} target {self.target} size {self.size:.3f}{more}"


_SIZES: Final = {
    Kind.STORE_DOWN: (0.2, 16.0),
    Kind.STORE_SLOW: (0.5, 8.0),
    Kind.CUT_OFF: (1.0, 25.0),
    Kind.CUT_LEADER: (5.0, 25.0),
    Kind.FAIL_OVER: (0.05, 1.5),
    Kind.LOSE_REQUESTS: (1.0, 8.0),
    Kind.LOSE_ANSWERS: (1.0, 8.0),
    Kind.DOUBLE_CALLS: (2.0, 20.0),
    Kind.LOSE_CALLS: (2.0, 20.0),
    Kind.CLOCK_JUMP: (-30.0, 30.0),
    Kind.STORE_CLOCK_JUMP: (0.1, 20.0),
    Kind.BUSY_MACHINE: (2.0, 10.0),
    Kind.FORKS_FAIL: (1.0, 5.0),
    Kind.PLANNING_DIES: (1.0, 4.0),
    Kind.STOP_SLOT: (0.5, 20.0),
}
_DOWN_S: Final = (0.2, 6.0)
AWAITS_MAX: Final = 60


def draw_faults(seed: int, *, until_s: float) -> tuple[Fault, ...]:
    """The faults of a seed, by time."""
    draw = random.Random(f"{seed}/faults")  # noqa: S311 - to be repeated, not secret
    if draw.random() < CALM_SHARE:
        return ()
    kinds = [kind for kind in Kind if draw.random() < 0.5]
    if not kinds:
        return ()
    found = [
        Fault(
            kind=(kind := draw.choice(kinds)),
            at_s=round(draw.uniform(FIRST_S, until_s), 6),
            target=draw.randrange(12),
            size=round(draw.uniform(*_SIZES.get(kind, _DOWN_S)), 6),
            awaits=draw.randrange(1, AWAITS_MAX) if kind.startswith("crash_") else 0,
        )
        for _ in range(draw.randint(1, FAULTS_MAX))
    ]
    return tuple(sorted(found, key=lambda fault: fault.at_s))


def shrink(
    faults: Sequence[T],
    still_fails: Callable[[Sequence[T]], bool],
    *,
    runs_max: int = SHRINKING_RUNS_MAX,
) -> Sequence[T]:
    """Remove faults that are not needed: ddmin on complements (Zeller, Hildebrandt: TSE 2002).

    Args:
        faults: faults that reproduce the failure.
        still_fails: whether a run fails with these faults.
        runs_max: limit on calls of `still_fails`.

    Returns:
        A list in the same order, from which no single fault can be removed unless `runs_max` was
        reached.
    """
    left, parts, runs = list(faults), 1, 0
    while left and runs < runs_max:
        size = -(-len(left) // parts)
        for begin in range(0, len(left), size):
            fewer = left[:begin] + left[begin + size :]
            runs += 1
            if still_fails(fewer):
                left, parts = fewer, max(parts - 1, 1)
                break
            if runs >= runs_max:
                return left
        else:
            if size == 1:
                return left
            parts = min(2 * parts, len(left))
    return left
