"""Stages that no open batch connects are planned apart: neither can change the other's queues.

A group is the stages of the open batches that share at least one stage, directly or through others.
Each is planned on arrays with its own stages as columns only, so a plan of many pipelines costs the
sum of what they cost alone. Limits of one group's arrays are named here; with more, every k-th
request is planned (`thin.py`), and every k-th row of history is used.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from assay.model.arrays import Ints
from assay.model.observation import Observation, OpenBatch, PastBatch, TaskView
from assay.planner.core.shape import Plan, StagePlan
from assay.planner.core.thin import rows_of

HISTORY_CELLS_MAX: Final = 8_000_000
"""Rows times stages of all past batches that one group is planned from; 16 bytes each."""
HISTORY_ROWS_MIN: Final = 64
"""Of a past batch, however many stages and batches there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Indices into an observation, ascending."""

    stages: tuple[int, ...]
    tasks: tuple[int, ...]
    """Those with an open batch here, and those from which they may borrow history."""


def groups_of(observation: Observation) -> list[Group]:
    """The groups, by their first stage; a stage without an open batch is in no group."""
    stages_of = [frozenset(np.flatnonzero(task.timeout_ns).tolist()) for task in observation.tasks]
    parts: list[set[int]] = []
    for task, stages in zip(observation.tasks, stages_of, strict=True):
        if task.open is None or not stages:
            continue
        touched = [part for part in parts if not part.isdisjoint(stages)]
        parts = [part for part in parts if part.isdisjoint(stages)]
        parts.append(set(stages).union(*touched))
    return [
        Group(
            stages=tuple(sorted(part)),
            tasks=tuple(k for k, stages in enumerate(stages_of) if stages and stages <= part),
        )
        for part in sorted(parts, key=min)
    ]


def part_of(observation: Observation, group: Group) -> Observation:
    """The group's stages and tasks alone."""
    columns = np.array(group.stages, np.int64)
    tasks = [observation.tasks[k] for k in group.tasks]
    batches = sum(len(task.history) for task in tasks)
    rows_max = max(HISTORY_CELLS_MAX // max(batches * len(columns), 1), HISTORY_ROWS_MIN)
    place = np.full(len(observation.pools) + 1, -1, np.int64)
    place[columns] = np.arange(len(columns))
    return replace(
        observation,
        pools=tuple(observation.pools[j] for j in group.stages),
        tasks=tuple(task_part(task, columns, place, rows_max) for task in tasks),
    )


def task_part(task: TaskView, columns: Ints, place: Ints, rows_max: int) -> TaskView:
    """The task with the group's stages alone."""
    return replace(
        task,
        pool_of=np.arange(len(columns)),
        timeout_ns=task.timeout_ns[columns],
        history=tuple(past_part(past, columns, place, rows_max) for past in task.history),
        open=batch_part(task.open, columns, place) if task.open is not None else None,
    )


def past_part(past: PastBatch, columns: Ints, place: Ints, rows_max: int) -> PastBatch:
    """The past batch, dense in the group's stages; at most `rows_max` of its rows."""
    past = rows_of(past, -(-len(past.arrived_ns) // rows_max))
    if past.columns is None and len(columns) == past.service_ns.shape[1]:
        return past
    rows = len(past.arrived_ns)
    service = np.zeros((rows, len(columns)), np.int64)
    by_service = np.tile(np.arange(rows), (len(columns), 1))
    known = past.columns if past.columns is not None else np.arange(past.service_ns.shape[1])
    for k, j in enumerate(place[known].tolist()):
        if j >= 0:
            service[:, j], by_service[j] = past.service_ns[:, k], past.by_service[k]
    return PastBatch(arrived_ns=past.arrived_ns, service_ns=service, by_service=by_service)


def batch_part(batch: OpenBatch, columns: Ints, place: Ints) -> OpenBatch:
    """The open batch, its stages counted within the group."""
    known = batch.passed_ns.shape[1] > 0
    return replace(
        batch,
        stage=place[batch.stage],
        passed_ns=np.ascontiguousarray(batch.passed_ns[:, columns]) if known else batch.passed_ns,
        reached=place[batch.reached],
    )


def joined(
    observation: Observation, parts: Iterable[tuple[Group, Plan]], nothing: StagePlan
) -> Plan:
    """One plan of all groups; a stage in no group holds `nothing`."""
    stages = [nothing] * len(observation.pools)
    plans: list[Plan] = []
    for group, plan in parts:
        for j, stage in zip(group.stages, plan.stages, strict=True):
            stages[j] = stage
        batches = tuple(replace(one, task=group.tasks[one.task]) for one in plan.batches)
        order = tuple(group.tasks[k] for k in plan.order)
        plans.append(replace(plan, batches=batches, order=order))
    return replace(
        plans[0],
        stages=tuple(stages),
        batches=tuple(sorted((b for p in plans for b in p.batches), key=lambda b: b.task)),
        order=tuple(k for plan in plans for k in plan.order),
        futures=max(plan.futures for plan in plans),
        simulations=sum(plan.simulations for plan in plans),
        reason=reason_of([plan.reason for plan in plans]),
    )


def reason_of(reasons: Sequence[str]) -> str:
    """The reasons, each once."""
    return "; ".join(dict.fromkeys(reasons))
