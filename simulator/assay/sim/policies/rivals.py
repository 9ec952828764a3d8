"""The rivals that a planner has to beat: reactive ones without a plan, and static baselines.

`Reaction` holds what runs and waits and a few more, and keeps a slot for some seconds: ten lines
that come close to any plan where start-up is short. `CappedReaction` never holds more than DistRS
would. `PinnedToTrajectory` and `StaticByTask` are the baselines of ARL-Tangram (arXiv 2603.13019):
a slot bound to its trajectory from the start of the rollout, and a fixed share per task.
"""

import math
from typing import Final

import numpy as np

from assay.core.errors import InvalidRequest
from assay.model.arrays import to_ns
from assay.model.observation import Cause, Observation, Sizing, TaskView
from assay.model.policy import PoolPolicy, Sharing
from assay.sim.policies.autoscalers import Window
from assay.sim.policies.distrs import UNKNOWN_SLOTS_MAX, Distrs, peak_concurrency

REACTION_SPARE: Final = 2
REACTION_KEEP_S: Final = 6.0
REACTION_TICK_S: Final = 5.0


class Reaction(PoolPolicy):
    """Holds running + waiting + `spare`, the largest of the last `keep_s` seconds.

    Between batches it holds nothing: it sees when one opens, which is more than an autoscaler
    knows.
    """

    name = "reaction"

    def __init__(
        self,
        *,
        spare: int = REACTION_SPARE,
        keep_s: float = REACTION_KEEP_S,
        tick_s: float = REACTION_TICK_S,
    ) -> None:
        if spare < 0:
            raise InvalidRequest(f"spare is {spare}", field="spare")
        if not (math.isfinite(keep_s) and keep_s > 0 and math.isfinite(tick_s) and tick_s > 0):
            raise InvalidRequest(f"keep_s is {keep_s}, tick_s {tick_s}", field="keep_s")
        self.spare, self.keep_s, self.tick_s = spare, keep_s, tick_s
        self.seen: list[Window] = []

    def decide(self, observation: Observation) -> Sizing:
        """React to the counts of this instant."""
        wake_ns = observation.now_ns + to_ns(self.tick_s)
        if not self.seen:
            self.seen = [Window(self.keep_s) for _ in observation.pools]
        spare = self.spare if any(is_batch(task) for task in observation.tasks) else 0
        for window, pool in zip(self.seen, observation.pools, strict=True):
            window.add(observation.now_ns, pool.running + pool.waiting + spare)
        return Sizing(targets=tuple(int(one.largest()) for one in self.seen), wake_ns=wake_ns)


def is_batch(task: TaskView) -> bool:
    """Whether a trainer's batch is open, of which more may come; a lone call is all there."""
    return task.open is not None and task.batch_size > 1


class CappedReaction(Reaction):
    """The reaction, with DistRS's N as a cap: what may wait waits."""

    name = "capped"

    def __init__(self, *, spare: int = REACTION_SPARE, keep_s: float = REACTION_KEEP_S) -> None:
        super().__init__(spare=spare, keep_s=keep_s)
        self.cap = Distrs()
        self.most: tuple[int, ...] = ()

    def decide(self, observation: Observation) -> Sizing:
        """React, within what DistRS chose at the last event of a batch."""
        if observation.cause in {Cause.FIRST_REQUEST, Cause.BATCH_END} or not self.most:
            self.most = self.cap.decide(observation).targets
        wanted = super().decide(observation)
        targets = tuple(
            min(n, max(most, 1)) for n, most in zip(wanted.targets, self.most, strict=True)
        )
        return Sizing(targets=targets, wake_ns=wanted.wake_ns)


class PinnedToTrajectory(PoolPolicy):
    """A slot of every stage of its pipeline for each rollout, from its start to its reward."""

    name = "pinned"

    def decide(self, observation: Observation) -> Sizing:
        """One slot per trajectory that has not ended."""
        targets = [0] * len(observation.pools)
        for task in observation.tasks:
            if task.open is None:
                continue
            ended = task.open.arrived - len(task.open.stage)
            for stage, pool in enumerate(task.pool_of):
                if task.timeout_ns[stage]:
                    targets[int(pool)] += max((task.open.size or task.batch_size) - ended, 0)
        return Sizing(targets=tuple(targets), wake_ns=observation.now_ns + to_ns(REACTION_TICK_S))


class StaticByTask(PoolPolicy):
    """A pool per task, never resized: `share` of what its history would need to never queue."""

    name = "static_by_task"
    sharing: Sharing = "dedicated"

    def __init__(self, *, share: float = 1.0) -> None:
        if not (math.isfinite(share) and share > 0):
            raise InvalidRequest(f"share is {share}", field="share")
        self.share = share
        self.targets: tuple[int, ...] = ()

    def decide(self, observation: Observation) -> Sizing:
        """The sizes of the first decision."""
        if not self.targets:
            self.targets = self.sizes(observation)
        return Sizing(targets=self.targets)

    def sizes(self, observation: Observation) -> tuple[int, ...]:
        """From all the history there is; a slot per request without any."""
        targets = [0] * len(observation.pools)
        for task in observation.tasks:
            peaks = [peak_concurrency(b.arrived_ns, b.service_ns) for b in task.history]
            unknown = np.full(len(task.pool_of), min(task.batch_size, UNKNOWN_SLOTS_MAX))
            needed = np.max(peaks, axis=0) if peaks else unknown
            for stage, pool in enumerate(task.pool_of):
                if task.timeout_ns[stage]:
                    targets[int(pool)] = max(math.ceil(self.share * int(needed[stage])), 1)
        return tuple(targets)
