"""DistRS (NSDI'26) as published: Algorithm 1, the timeout rule, Algorithm 2.

Choices that the paper leaves open: the timeout rule is checked when a queued request is
dispatched (section 5.1 says "the current timestamp"; checking on joining the queue
under-protects); requests waiting at stage k are sampled from past requests that reached k; a
request that runs longer than any in history is assumed to end at its timeout. The first batch of a
task, for which the paper has no rule, gets one slot per request.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from assay.core.errors import InvalidRequest
from assay.model.arrays import Ints
from assay.model.observation import Cause, Observation, OpenBatch, PastBatch, Sizing, TaskView
from assay.model.policy import PoolPolicy, Sharing
from assay.model.queueing import (
    Constraints,
    Demand,
    Scratch,
    constant_supply,
    make_scratch,
    serve_all,
)
from assay.planner.core.demand import Future, Guess, assemble, budget_ns, due_ns, open_tasks
from assay.sim.pools.workload import Workload

UNKNOWN_SLOTS_MAX: Final = 4096
"""Most slots per stage for a batch without history."""


def algorithm1(
    demand: Demand, constraints: Constraints, cost: Sequence[float], scratch: Scratch | None = None
) -> Ints:
    """The fewest slots that meet the constraints: binary search, most expensive stage first.

    Args:
        demand: future requests.
        constraints: their deadlines; with `timeouts` = 1 also the timeout rule.
        cost: C_j, cost of a slot.
        scratch: working memory.

    Returns:
        (stages,): slots; 0 where a stage has no work.
    """
    stages = demand.service_ns.shape[1]
    if len(cost) != stages:
        raise InvalidRequest("one cost per stage", field="cost")
    scratch = scratch or make_scratch(len(demand.release_ns), len(demand.weight))
    most = (demand.service_ns > 0).sum(axis=0)
    slots: Ints = most.astype(np.int64)
    for stage in sorted(range(stages), key=lambda j: (-cost[j], j)):
        if most[stage] == 0:
            continue
        low, high = 1, int(most[stage])
        while low < high:
            slots[stage] = (low + high) // 2
            if serve_all(demand, constant_supply(slots), constraints, scratch):
                high = int(slots[stage])
            else:
                low = int(slots[stage]) + 1
        slots[stage] = low
    return slots


def make_limits(future: Future, budgets_ns: Ints, timeout_ns: Ints, *, rule: bool) -> Constraints:
    """d <= D for every batch of the future, and the timeout rule if enabled."""
    return Constraints(
        finish_ns=due_ns(future, budgets_ns),
        timeout_ns=timeout_ns,
        timeouts=np.array([int(rule)], np.int64),
    )


def algorithm2(task: TaskView, batch: OpenBatch, now_ns: int, random: np.random.Generator) -> Guess:
    """Request information collection for one active batch."""
    past = task.history[0]
    coming = past.arrived_ns > now_ns - batch.opened_ns
    return Guess(
        arrived_ns=past.arrived_ns[coming],
        service_ns=past.service_ns[coming],
        present_ns=sample_present(past, task.timeout_ns, batch, random),
    )


def sample_present(
    past: PastBatch, timeout_ns: Ints, batch: OpenBatch, random: np.random.Generator
) -> Ints:
    """(n, stages): a past request for each present one; for a running request one that outlived its
    stage so far, for a waiting request one that reached its stage."""
    stages = past.service_ns.shape[1]
    present = np.zeros((len(batch.stage), stages), np.int64)
    chance = random.random(len(batch.stage))
    for stage in range(stages):
        here = np.flatnonzero(batch.stage == stage)
        if len(here) == 0:
            continue
        elapsed = np.maximum(batch.elapsed_ns[here], 0)
        rows = past.by_service[stage]
        lasted = past.service_ns[rows, stage]
        first = np.searchsorted(lasted, elapsed, side="right")
        known = first < len(rows)
        pick = first + np.floor(chance[here] * (len(rows) - first)).astype(np.int64)
        chosen = rows[np.minimum(pick, len(rows) - 1)]
        drawn = past.service_ns[chosen].copy()
        drawn[:, :stage] = 0
        drawn[:, stage] -= elapsed
        drawn[~known] = 0
        drawn[~known, stage] = np.maximum(timeout_ns[stage] - elapsed[~known], 1)
        present[here] = drawn
    return present


class Distrs(PoolPolicy):
    """Decides at a batch's first request and at the end of a batch; holds in between."""

    sharing: Sharing = "shared"

    def __init__(self, *, seed: int = 0, timeout_rule: bool = True) -> None:
        self.name = "distrs" if timeout_rule else "distrs_history"
        self.timeout_rule = timeout_rule
        self.seed = seed

    def decide(self, observation: Observation) -> Sizing:
        """Algorithm 2, then Algorithm 1."""
        if observation.cause not in {Cause.FIRST_REQUEST, Cause.BATCH_END}:
            return Sizing(targets=tuple(pool.target for pool in observation.pools))
        active = [(task, batch) for task, batch in open_tasks(observation) if batch.arrived]
        if not active:
            return Sizing(targets=tuple(0 for _ in observation.pools))
        blind = [task for task, _ in active if not self.knows(task)]
        if blind:
            size = min(sum(task.batch_size for task, _ in active), UNKNOWN_SLOTS_MAX)
            return Sizing(targets=tuple(size for _ in observation.pools))
        random = np.random.default_rng([self.seed, observation.now_ns])
        guesses = [self.guess(task, batch, observation.now_ns, random) for task, batch in active]
        return Sizing(targets=self.size(observation, active, guesses))

    def knows(self, task: TaskView) -> bool:
        """Whether there is any history."""
        return bool(task.history)

    def guess(
        self, task: TaskView, batch: OpenBatch, now_ns: int, random: np.random.Generator
    ) -> Guess:
        """Remaining demand of the batch."""
        return algorithm2(task, batch, now_ns, random)

    def size(
        self,
        observation: Observation,
        active: Sequence[tuple[TaskView, OpenBatch]],
        guesses: Sequence[Guess],
    ) -> tuple[int, ...]:
        """Slots per pool (pools are shared, so pool = stage).

        At least one if a batch may come, as in the paper's search from 1: an unforeseen request
        would otherwise wait forever."""
        future = assemble(
            observation.now_ns, [batch for _, batch in active], guesses, [t for t, _ in active]
        )
        budgets = np.array([budget_ns(task) for task, _ in active], np.int64)
        timeout = np.max([task.timeout_ns for task, _ in active], axis=0)
        constraints = make_limits(future, budgets, timeout, rule=self.timeout_rule)
        cost = [pool.cost for pool in observation.pools]
        slots = algorithm1(future.demand, constraints, cost)
        slots = np.maximum(slots, timeout > 0)
        return tuple(int(n) for n in slots)


class Ideal(Distrs):
    """Algorithm 1 with perfect knowledge of arrivals and durations (the paper's Ideal)."""

    def __init__(self, workload: Workload) -> None:
        super().__init__(timeout_rule=False)
        self.name = "ideal"
        self.workload = workload
        self.numbers: dict[int, int] = {}

    def decide(self, observation: Observation) -> Sizing:
        """Remember the tasks, then decide as usual."""
        self.numbers = {id(task): k for k, task in enumerate(observation.tasks)}
        return super().decide(observation)

    def knows(self, task: TaskView) -> bool:
        """Every batch's future is known."""
        return True

    def guess(
        self, task: TaskView, batch: OpenBatch, now_ns: int, random: np.random.Generator
    ) -> Guess:
        """The true future."""
        return reveal(self.workload, self.numbers[id(task)], batch)


def reveal(workload: Workload, task: int, batch: OpenBatch) -> Guess:
    """The true remaining demand of an open batch."""
    load = workload.batches[task][batch.number]
    present = load.service_ns[batch.sequence].copy()
    present[np.arange(present.shape[1])[None, :] < batch.stage[:, None]] = 0
    rows = np.arange(len(present))
    present[rows, batch.stage] -= np.maximum(batch.elapsed_ns, 0)
    present[rows, batch.stage] = np.maximum(present[rows, batch.stage], 1)
    return Guess(
        arrived_ns=load.arrived_ns[batch.arrived :],
        service_ns=load.service_ns[batch.arrived :],
        present_ns=present,
    )


def peak_concurrency(arrived_ns: Ints, service_ns: Ints) -> Ints:
    """(stages,): most requests at a stage at once when nothing ever queues."""
    peaks = np.zeros(service_ns.shape[1], np.int64)
    begin = arrived_ns.copy()
    for stage in range(service_ns.shape[1]):
        held = service_ns[:, stage] > 0
        times = np.concatenate([begin[held] + service_ns[held, stage], begin[held]])
        change = np.repeat([-1, 1], held.sum())
        order = np.lexsort((change, times))
        peaks[stage] = np.cumsum(change[order]).max(initial=0)
        begin = begin + service_ns[:, stage]
    return peaks


class ZeroQueue(PoolPolicy):
    """ZQ-Dedicated: one pool per task, as large as its last batch would have needed to
    never queue, held from its first request to its end."""

    name = "zero_queue"
    sharing: Sharing = "dedicated"

    def decide(self, observation: Observation) -> Sizing:
        """Decide per task."""
        targets = [0] * len(observation.pools)
        for task in observation.tasks:
            if task.open is None or task.open.arrived == 0:
                continue
            needed = np.full(len(task.pool_of), min(task.batch_size, UNKNOWN_SLOTS_MAX))
            if task.history:
                past = task.history[0]
                needed = peak_concurrency(past.arrived_ns, past.service_ns)
            for stage, pool in enumerate(task.pool_of):
                targets[int(pool)] = int(needed[stage]) if task.timeout_ns[stage] else 0
        return Sizing(targets=tuple(targets))
