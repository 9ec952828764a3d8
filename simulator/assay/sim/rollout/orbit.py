"""The five panels that Orbit publishes, as inputs of the simulation.

Source: "Orbit: adapter-only asynchronous RL with double-buffered adapter push" (project page and
its repository, 2026): five animations of 30 ticks with two decode slots, two groups per training
step, and a first-in-first-out queue. The page draws fixed lists of activities. Here the same
lengths, push times and training times are the inputs, and the rules of `engine` produce the
activities.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from assay.sim.rollout.architecture import Architecture, Fleet, InFlight, Push, Work
from assay.sim.rollout.engine import simulate
from assay.sim.rollout.timeline import Timeline

TICKS = 30.0
SLOTS = 2
GROUPS_PER_STEP = 2


@dataclass(frozen=True, slots=True)
class Panel:
    """One animation: its inputs in ticks."""

    architecture: Architecture
    lengths: tuple[float, ...]
    """Decode time of each group, without pauses, in the order in which they start."""
    train: float
    push: float
    flip: float = 0.0
    prepare: float = 0.0
    push_every: int = 1
    warm_groups: int = 0

    def run(self) -> Timeline:
        """Simulate the panel's 30 ticks."""
        fleet = Fleet(
            slots=SLOTS,
            train=self.train,
            push=self.push,
            flip=self.flip,
            prepare=self.prepare,
            push_every=self.push_every,
        )
        work = Work(
            groups=((length,) for length in self.lengths),
            groups_per_step=GROUPS_PER_STEP,
            warm_groups=self.warm_groups,
        )
        return simulate(self.architecture, fleet, work, TICKS)


SYNC_FULL = Architecture("synchronous, full weights", barrier=True, push=Push.PAUSED)
SYNC_ADAPTER = Architecture("synchronous, adapter", barrier=True, push=Push.PAUSED)
ASYNC_FULL = Architecture("asynchronous, full weights", barrier=False, push=Push.PAUSED)
ASYNC_ONE_SLOT = Architecture("asynchronous, adapter, one slot", barrier=False, push=Push.PAUSED)
ASYNC_TWO_SLOTS = Architecture(
    "asynchronous, adapter, two slots",
    barrier=False,
    push=Push.STAGED,
    in_flight=InFlight.CONTINUE,
)

PANELS: Sequence[Panel] = (
    Panel(SYNC_FULL, (9, 5, 5, 9), train=3, push=4),
    Panel(SYNC_ADAPTER, (8, 4, 4, 8, 6, 4), train=3, push=1),
    Panel(
        ASYNC_FULL,
        (5, 6, 4, 4, 5, 4, 6, 5, 6, 5),
        train=4,
        push=3,
        prepare=3,
        push_every=2,
        warm_groups=2,
    ),
    Panel(
        ASYNC_ONE_SLOT,
        (7, 7, 6, 6, 6, 6, 6, 6, 1, 1),
        train=4,
        push=1,
        prepare=3,
        warm_groups=2,
    ),
    # The page draws 0.4 ticks of pause inside of these lengths; the decode time is without it.
    Panel(
        ASYNC_TWO_SLOTS,
        (5, 7, 5.6, 5.6, 5.6, 5.6, 6.6, 6.6, 5.6, 3.6),
        train=4,
        push=1,
        flip=0.4,
        prepare=3,
        warm_groups=2,
    ),
)
