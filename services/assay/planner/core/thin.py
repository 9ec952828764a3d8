"""Large batches are planned on every k-th request, and the plan is multiplied by k.

Of an observation, every k-th request is kept: of those present, evenly over stage, state and time
so far; of those to come, by the batch's size; of a past batch, evenly over its arrivals. Slots and
caps are divided by k, and their cost is multiplied by it. A queue with n / k requests and m / k
slots drains at the same time as one with n and m, so the plan is the same but for chance: the
number of requests that run at once deviates by its square root, and that of every k-th by the root
of k times as much. With m slots needed, the error is about sqrt(k / m) of them, towards more slots:
a plan keeps the budget in nearly all of its futures.
"""

from dataclasses import replace
from typing import Final

import numpy as np

from assay.model.observation import (
    NodeView,
    Observation,
    OpenBatch,
    PastBatch,
    PoolView,
    TaskView,
    past_batch,
)
from assay.planner.core.shape import Plan, StagePlan

EXACT_REQUESTS_MAX: Final = 10_000
"""Up to this many requests, a batch is planned request by request."""
THINNED_REQUESTS: Final = 4_000
"""Requests that are kept of a larger batch."""
TOTAL_REQUESTS_MAX: Final = 40_000
"""Requests of all open batches together that are planned one by one."""
CELLS_MAX: Final = 480_000
"""Requests times stages that are planned one by one: a future's arrays have a cell for each."""


def every_kth(observation: Observation) -> int:
    """Of how many requests one is planned; 1 = all are."""
    sizes = [size_of(task, task.open) for task in observation.tasks if task.open is not None]
    largest, total = max(sizes, default=0), sum(sizes)
    k = -(-largest // THINNED_REQUESTS) if largest > EXACT_REQUESTS_MAX else 1
    cells = total * len(observation.pools)
    return max(k, -(-total // TOTAL_REQUESTS_MAX), -(-cells // CELLS_MAX))


def size_of(task: TaskView, batch: OpenBatch) -> int:
    """Requests of the batch that have not ended, those to come included."""
    known = batch.size or max((len(past.arrived_ns) for past in task.history[:1]), default=0)
    return len(batch.stage) + max(known - batch.arrived, 0)


def thinned(observation: Observation, k: int) -> Observation:
    """The observation of every k-th request; the same object for k = 1."""
    if k == 1:
        return observation
    tasks = tuple(thinned_task(task, k) for task in observation.tasks)
    pools = tuple(
        thinned_pool(pool, k, running_at(observation.tasks, j), running_at(tasks, j))
        for j, pool in enumerate(observation.pools)
    )
    return replace(observation, tasks=tasks, pools=pools)


def running_at(tasks: tuple[TaskView, ...], stage: int) -> int:
    """Requests of the open batches that run at the stage."""
    batches = [task.open for task in tasks if task.open is not None]
    return sum(int((batch.running & (batch.stage == stage)).sum()) for batch in batches)


def thinned_pool(pool: PoolView, k: int, running: int, kept: int) -> PoolView:
    """The pool for every k-th request, of which `kept` run of `running`."""
    busy = kept + round(max(pool.running - running, 0) / k)
    return replace(
        pool,
        target=round(pool.target / k),
        idle=max(round((pool.idle + pool.running) / k) - busy, 0),
        running=busy,
        starting=round(pool.starting / k),
        waiting=-(-pool.waiting // k),
        cap=max(pool.cap // k, min(pool.cap, 1)),
        cost=pool.cost * k,
        nodes=thinned_nodes(pool.nodes, k) if pool.nodes is not None else None,
    )


def thinned_nodes(nodes: NodeView, k: int) -> NodeView:
    """The nodes for every k-th request: as large in slots of a thinned pool as they can be, and so
    many that they hold a k-th of the slots."""
    slots = max(nodes.slots // k, 1)
    share = nodes.slots / (slots * k)
    return replace(
        nodes,
        slots=slots,
        ready=round(nodes.ready * share),
        starting=round(nodes.starting * share),
        cap=max(int(nodes.cap * share), min(nodes.cap, 1)),
        cost=nodes.cost / share,
    )


def thinned_task(task: TaskView, k: int) -> TaskView:
    """The task with every k-th request of its open batch and, where it has one, of its past."""
    return replace(
        task,
        batch_size=-(-task.batch_size // k),
        history=tuple(thinned_past(past, k) for past in task.history),
        open=thinned_batch(task.open, k) if task.open is not None else None,
    )


def thinned_past(past: PastBatch, k: int) -> PastBatch:
    """At least `THINNED_REQUESTS` rows of a past batch, the one that decided its T among them."""
    return rows_of(past, min(k, len(past.arrived_ns) // THINNED_REQUESTS))


def rows_of(past: PastBatch, step: int) -> PastBatch:
    """Every `step`-th row of a past batch, and the one that decided its T."""
    if step <= 1:
        return past
    last = int(np.argmax(past.arrived_ns + past.service_ns.sum(axis=1)))
    rows = np.union1d(np.arange(step // 2, len(past.arrived_ns), step), [last])
    few = past_batch(past.arrived_ns[rows], past.service_ns[rows])
    return replace(few, columns=past.columns)


def thinned_batch(batch: OpenBatch, k: int) -> OpenBatch:
    """Every k-th request of the batch, evenly over stage, state and time so far."""
    by_state = np.lexsort((batch.sequence, batch.elapsed_ns, batch.stage))
    rows = np.sort(by_state[k // 2 :: k])
    sequence = batch.sequence[rows] // k
    arrived = max(-(-batch.arrived // k), len(rows), int(sequence.max(initial=-1)) + 1)
    evidence = slice(None, None, max(len(batch.passed_ns) // THINNED_REQUESTS, 1))
    return replace(
        batch,
        size=max(-(-batch.size // k), arrived) if batch.size else 0,
        arrived=arrived,
        ended_natural_ns=max(batch.ended_natural_ns, int(batch.natural_ns.max(initial=0))),
        stage=batch.stage[rows],
        elapsed_ns=batch.elapsed_ns[rows],
        natural_ns=batch.natural_ns[rows],
        sequence=sequence,
        passed_ns=batch.passed_ns[evidence],
        reached=batch.reached[evidence],
        arrivals_ns=batch.arrivals_ns[k // 2 :: k],
    )


def multiplied(plan: Plan, k: int, observation: Observation) -> Plan:
    """The plan of every k-th request, for all of them; within the caps of `observation`."""
    if k == 1:
        return plan
    stages = tuple(
        multiplied_stage(stage, k, pool.cap)
        for stage, pool in zip(plan.stages, observation.pools, strict=True)
    )
    return replace(plan, stages=stages, reason=f"{plan.reason}, from every {k}th request")


def multiplied_stage(stage: StagePlan, k: int, cap: int) -> StagePlan:
    """The stage's plan for `k` times as many requests, at most `cap` slots."""
    return StagePlan(
        target=min(stage.target * k, cap),
        peak=min(stage.peak * k, cap),
        wanted=stage.wanted * k,
        slots_by_bin=tuple(min(n * k, cap) for n in stage.slots_by_bin),
        busy_low=tuple(n * k for n in stage.busy_low),
        busy_high=tuple(n * k for n in stage.busy_high),
        demand_s=stage.demand_s * k,
        planned_s=stage.planned_s * k,
    )
