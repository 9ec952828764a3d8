"""Combines an observation and a guess of the unknown part into one possible future (`Demand`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from assay.model.arrays import FAR_NS, Flags, Floats, Ints, to_ns
from assay.model.observation import Observation, OpenBatch, TaskView
from assay.model.queueing import ONE_TENANT, WEIGHT_1, Demand, by_stage

DELAY_BUDGET_NS: Final = to_ns(5.0)
DELAY_BUDGET_SHARE: Final = 0.02
"""D where the task names none: the smaller of 5 s and 2 % of T."""
SEQUENCE_BITS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Guess:
    """Values drawn for the unknown part of an open batch."""

    arrived_ns: Ints
    """(m,): arrivals to come, in ns after the opening, ascending."""
    service_ns: Ints
    """(m, stages): their times at the stages."""
    present_ns: Ints
    """(n, stages): time that present requests still need; 0 at stages already passed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Future:
    """One possible course of all open batches."""

    demand: Demand
    batch_of: Ints
    """(n,): index into the list of open batches."""
    natural_ns: Ints
    """(batches,): T as an instant: when the batch would end if nothing had ever queued."""
    earliest_ns: Ints
    """(batches,): earliest end that is still possible."""
    own: "Own | None" = None
    """`None` = every batch has a barrier."""

    def ends_due(self) -> Ints:
        """(n,): the end without queueing that each request's d is counted from."""
        due = self.natural_ns[self.batch_of]
        return due if self.own is None else np.where(self.own.alone, self.own.natural_ns, due)

    def ends_possible(self) -> Ints:
        """(n,): the earliest end that is still possible, of the batch or of the request."""
        soonest = self.earliest_ns[self.batch_of]
        return (
            soonest if self.own is None else np.where(self.own.alone, self.own.earliest_ns, soonest)
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Own:
    """Ends of single requests, where some batches have no barrier."""

    alone: Flags
    """(n,): its trainer does not wait for the batch."""
    natural_ns: Ints
    """(n,): its end as an instant if nothing had ever queued."""
    earliest_ns: Ints
    """(n,)"""


def open_tasks(observation: Observation) -> list[tuple[TaskView, OpenBatch]]:
    """Tasks with an open batch, and that batch."""
    return [(task, task.open) for task in observation.tasks if task.open is not None]


def budget_ns(task: TaskView) -> int:
    """D of the task, in ns."""
    if task.delay_budget_ns is not None:
        return task.delay_budget_ns
    if not task.history:
        return DELAY_BUDGET_NS
    span = max(batch.natural_ns for batch in task.history[:1])
    return min(DELAY_BUDGET_NS, round(DELAY_BUDGET_SHARE * span))


def ranks(batches: Sequence[OpenBatch]) -> Ints:
    """(batches,): rank in the order of the deadlines; ties in the order given."""
    order = sorted(range(len(batches)), key=lambda b: (batches[b].deadline_ns, b))
    rank = np.zeros(len(batches), np.int64)
    rank[order] = np.arange(len(batches))
    return rank


def shares_of(tasks: Sequence[TaskView]) -> tuple[Ints, Floats]:
    """(batches,): the tenant of each task's open batch, numbered by name, empty where there is only
    one; (tenants,): their weights."""
    names = sorted({task.tenant for task in tasks})
    if len(names) == 1:
        return ONE_TENANT, WEIGHT_1
    weights = {task.tenant: task.weight for task in tasks}
    tenant = np.array([names.index(task.tenant) for task in tasks], np.int64)
    return tenant, np.array([weights[name] for name in names], np.float64)


def assemble(
    now_ns: int,
    batches: Sequence[OpenBatch],
    guesses: Sequence[Guess],
    tasks: Sequence[TaskView] = (),
) -> Future:
    """Put all open batches into one demand. Without `tasks` they belong to one tenant."""
    tenant, weight = shares_of(tasks) if tasks else (ONE_TENANT, WEIGHT_1)
    parts = [
        _assemble_one(now_ns, batch, guess) for batch, guess in zip(batches, guesses, strict=True)
    ]
    sizes = [len(part.release_ns) for part in parts]
    batch_of = np.repeat(np.arange(len(parts)), sizes)
    rank = ranks(batches)
    stages = guesses[0].service_ns.shape[1]
    demand = Demand(
        release_ns=np.concatenate([p.release_ns for p in parts]),
        service_ns=np.ascontiguousarray(np.concatenate([p.service_ns for p in parts])),
        key=(rank[batch_of] << SEQUENCE_BITS) | np.concatenate([p.key for p in parts]),
        running=np.concatenate([p.running for p in parts]),
        tenant=tenant[batch_of] if len(tenant) else ONE_TENANT,
        weight=weight,
    )
    demand = by_stage(demand)
    left = demand.release_ns + demand.service_ns.reshape(-1, stages).sum(axis=1)
    natural = np.zeros(len(parts), np.int64)
    earliest = np.zeros(len(parts), np.int64)
    for b, (batch, guess) in enumerate(zip(batches, guesses, strict=True)):
        mine: Flags = batch_of == b
        earliest[b] = left[mine].max(initial=now_ns)
        natural[b] = batch.opened_ns + _natural_after(batch, guess)
    return Future(demand=demand, batch_of=batch_of, natural_ns=natural, earliest_ns=earliest)


def _natural_after(batch: OpenBatch, guess: Guess) -> int:
    present = (batch.natural_ns + guess.present_ns.sum(axis=1)).max(initial=0)
    coming = (guess.arrived_ns + guess.service_ns.sum(axis=1)).max(initial=0)
    return max(int(present), int(coming), batch.ended_natural_ns)


def _assemble_one(now_ns: int, batch: OpenBatch, guess: Guess) -> Demand:
    coming = np.maximum(batch.opened_ns + guess.arrived_ns, now_ns)
    there, more = len(batch.stage), len(coming)
    return Demand(
        release_ns=np.concatenate([np.full(there, now_ns, np.int64), coming]),
        service_ns=np.concatenate([guess.present_ns, guess.service_ns]),
        key=np.concatenate([batch.sequence, batch.arrived + np.arange(more)]),
        running=np.concatenate(
            [np.where(batch.running, batch.stage, -1), np.full(more, -1, np.int64)]
        ),
    )


def due_ns(future: Future, budgets_ns: Ints, floor_ns: Ints | None = None) -> Ints:
    """(n,): when the batch of each request must have ended.

    `floor_ns` (batches,) are known deadlines, used instead of the futures' own T where given.
    """
    base = np.maximum(future.natural_ns, future.earliest_ns)
    if floor_ns is not None:
        base = np.maximum(floor_ns, future.earliest_ns)
    return np.minimum(base + budgets_ns, FAR_NS)[future.batch_of]
