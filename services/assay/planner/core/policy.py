"""`assay` as a policy: plans at events, follows the plan, plans anew when things go otherwise."""

import numpy as np

from assay.model.arrays import to_ns
from assay.model.observation import Decision, Observation, OpenBatch, PoolView, TaskView
from assay.model.policy import PoolPolicy
from assay.planner.core.demand import open_tasks
from assay.planner.core.plan import Plan, PlanSettings, make_plan, target_at

DEVIATION_SHARE = 0.1
DEVIATION_WORKERS = 2
"""Running requests may leave the plan's band by this share of it and this many."""


class Assay(PoolPolicy):
    """Time-varying, chance-constrained, re-planned inside the batch."""

    name = "assay"

    def __init__(self, settings: PlanSettings | None = None) -> None:
        self.settings = settings or PlanSettings()
        self.plan: Plan | None = None
        self.searched_ns = 0
        self.replans = 0

    def decide(self, observation: Observation) -> Decision:
        """Plan anew where there is reason to, else follow the plan."""
        plan, now_ns = self.plan, observation.now_ns
        if plan is None or now_ns < plan.now_ns or is_stale(plan, observation):
            return self.answer(self.replan(observation, search=True), observation)
        if deviates(plan, observation):
            return self.answer(self.replan(observation, search=True), observation)
        if not plan.batches:
            return self.answer(plan, observation)
        if now_ns - self.searched_ns >= to_ns(self.settings.search_s):
            return self.answer(self.replan(observation, search=True), observation)
        if now_ns - plan.now_ns >= to_ns(self.settings.replan_s):
            full = any(pool.waiting for pool in observation.pools)
            return self.answer(self.replan(observation, search=full), observation)
        return self.answer(plan, observation)

    def replan(self, observation: Observation, *, search: bool) -> Plan:
        """Make a plan; the former peaks are where the search starts."""
        former = self.plan
        peaks = [stage.wanted for stage in former.stages] if former and former.batches else None
        self.plan = make_plan(observation, self.settings, peaks_hint=peaks, search=search)
        self.replans += 1
        if search:
            self.searched_ns = observation.now_ns
        return self.plan

    def answer(self, plan: Plan, observation: Observation) -> Decision:
        """What the plan says for now."""
        if not plan.batches:
            return Decision(targets=tuple(0 for _ in observation.pools))
        offset_ns = observation.now_ns - plan.now_ns
        spare = self.settings.spare_workers if any_late(observation) else 0
        targets = [
            at_least(target_at(stage.workers, offset_ns, pool, self.settings), pool, spare)
            for stage, pool in zip(plan.stages, observation.pools, strict=True)
        ]
        for stage in still_reachable(observation):
            targets[stage] = max(targets[stage], min(1, observation.pools[stage].cap))
        return Decision(
            targets=tuple(targets),
            wake_ns=observation.now_ns + to_ns(self.settings.tick_s),
            order=plan.order if plan.now_ns == observation.now_ns else (),
        )


def is_stale(plan: Plan, observation: Observation) -> bool:
    """Whether a batch opened or ended since. Judged by the state and not by the event, which may
    have come while the store was out."""
    now_open = {(k, t.open.number) for k, t in enumerate(observation.tasks) if t.open is not None}
    return now_open != {(batch.task, batch.number) for batch in plan.batches}


def is_late(task: TaskView, batch: OpenBatch, now_ns: int) -> bool:
    """Whether a request that now waits could run into its timeouts and make its batch late."""
    return now_ns + int(task.timeout_ns.sum()) > batch.deadline_ns


def any_late(observation: Observation) -> bool:
    """Of all open batches."""
    active = open_tasks(observation)
    return any(is_late(task, batch, observation.now_ns) for task, batch in active)


def still_reachable(observation: Observation) -> set[int]:
    """Stages that a request of a late batch may still come to, however few futures say so: the
    last worker there stays, for a new one would keep the whole batch waiting."""
    stages: set[int] = set()
    for task, batch in open_tasks(observation):
        if not is_late(task, batch, observation.now_ns):
            continue
        pipeline = np.flatnonzero(task.timeout_ns)
        first = int(batch.stage.min(initial=len(task.timeout_ns)))
        if batch.arrived < batch.size:
            first = 0
        stages |= {int(stage) for stage in pipeline[pipeline >= first]}
    return stages


def at_least(target: int, pool: PoolView, spare: int) -> int:
    """DistRS's timeout rule with a bound: up to `spare` workers more for what waits late. They have
    work at once, so they cost a start-up each and no more."""
    return min(max(target, pool.running + min(pool.waiting, spare)), pool.cap)


def deviates(plan: Plan, observation: Observation) -> bool:
    """Whether running requests have left the band that the plan's futures span."""
    at = (observation.now_ns - plan.now_ns) // plan.bin_ns
    if at == 0 or not plan.batches:
        return False
    for stage, pool in zip(plan.stages, observation.pools, strict=True):
        low = stage.busy_low[at] if at < len(stage.busy_low) else 0
        high = stage.busy_high[at] if at < len(stage.busy_high) else 0
        present = min(pool.running + pool.waiting, max(stage.peak, pool.running))
        if present > high * (1 + DEVIATION_SHARE) + DEVIATION_WORKERS:
            return True
        if pool.running < low * (1 - DEVIATION_SHARE) - DEVIATION_WORKERS:
            return True
    return False
