"""Possible futures of the open batches, drawn from the last batches of each task.

A future picks one past batch a task (newer ones more often) and fills in what is not known by
drawing *whole* past requests, so that durations of one request at different stages stay together.
What is known is kept: how much of the batch has arrived, where each request is, how long it has
run. A running request is given a past one that ran longer (its survival distribution), which is how
long runners are foreseen without taking every request for one.

The same chance number goes to the same request in every plan of a batch (common random numbers): a
second look differs from the first by what was learnt, not by luck.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from assay.planner.demand import Future, Guess, assemble
from assay.sim.arrays import SECOND_NS, Floats, Ints, to_ns
from assay.sim.observation import OpenBatch, PastBatch, TaskView, past_batch

RECENCY: Final = 0.6
"""Weight of a past batch against that of the next newer one."""
WARP_TRUST_SHARE: Final = 0.1
"""Share of the batch that must have arrived before its pace is trusted fully."""
WARP_MIN: Final = 0.5
WARP_MAX: Final = 2.0
PRIOR_ROWS: Final = 512
STRAGGLERS_NS: Final = to_ns(10.0)
"""Requests that come after all that history knows come within this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """What is assumed of a task without history of its own or of its like."""

    span_s: float = 300.0
    """Requests come evenly over this time."""
    median_share: float = 0.25
    """Of the timeout, for the median duration of a stage."""
    sigma: float = 1.0


def prior_batch(task: TaskView, prior: Prior) -> PastBatch:
    """A past batch made up from the batch's size and the timeouts alone; the same every time."""
    rows = min(max(task.batch_size, 1), PRIOR_ROWS)
    random = np.random.default_rng(20260101)
    timeout = task.timeout_ns.astype(np.float64)
    spread = np.exp(prior.sigma * random.normal(size=(rows, len(timeout))))
    service = np.minimum(timeout * prior.median_share * spread, timeout)
    arrived = np.linspace(0, prior.span_s * SECOND_NS, rows)
    return past_batch(np.rint(arrived).astype(np.int64), np.rint(service).astype(np.int64))


def known_past(task: TaskView, others: Sequence[TaskView], prior: Prior) -> tuple[PastBatch, ...]:
    """The task's own history; else that of tasks with the same stages; else the prior."""
    own = tuple(batch for batch in task.history if len(batch.arrived_ns))
    if own:
        return own
    pooled = tuple(
        other.history[0]
        for other in others
        if other.history
        and len(other.history[0].arrived_ns)
        and np.array_equal(other.timeout_ns > 0, task.timeout_ns > 0)
    )
    return pooled or (prior_batch(task, prior),)


def choose_past(past: Sequence[PastBatch], share: float) -> PastBatch:
    """The past batch at `share` in [0, 1) of the recency-weighted history, newest first."""
    weights = RECENCY ** np.arange(len(past))
    edges = np.cumsum(weights) / weights.sum()
    return past[min(int(np.searchsorted(edges, share, side="right")), len(past) - 1)]


def pace(past: PastBatch, batch: OpenBatch, position: int, now_ns: int) -> float:
    """How much slower than `past` the batch's arrivals come: 1 = as fast."""
    reference = int(past.arrived_ns[position - 1]) if position else 0
    if reference <= 0 or batch.size == 0:
        return 1.0
    seen = (now_ns - batch.opened_ns) / reference
    trust = min(1.0, batch.arrived / (WARP_TRUST_SHARE * batch.size))
    return 1.0 + trust * (min(max(seen, WARP_MIN), WARP_MAX) - 1.0)


def guess_arrivals(
    past: PastBatch, batch: OpenBatch, now_ns: int, chance: Floats
) -> tuple[Ints, Ints]:
    """Arrivals to come and, for each, the row of `past` that it is taken from."""
    rows = len(past.arrived_ns)
    size = batch.size or max(rows, batch.arrived)
    coming = max(size - batch.arrived, 0)
    position = min(round(batch.arrived * rows / size), rows)
    first = min(position, rows - 1)
    row = first + np.floor(chance[batch.arrived : size] * (rows - first)).astype(np.int64)
    if position == rows:
        late = now_ns - batch.opened_ns + chance[batch.arrived : size] * STRAGGLERS_NS
        arrived = np.rint(late).astype(np.int64)
    else:
        factor = pace(past, batch, position, now_ns)
        arrived = np.rint(past.arrived_ns[row] * factor).astype(np.int64)
    order = np.argsort(arrived, kind="stable")[:coming]
    return arrived[order], row[order]


def guess_present(past: PastBatch, timeout_ns: Ints, batch: OpenBatch, chance: Floats) -> Ints:
    """(n, stages): time still needed by the requests that are there."""
    stages = past.service_ns.shape[1]
    present = np.zeros((len(batch.stage), stages), np.int64)
    luck = chance[batch.sequence]
    for stage in range(stages):
        here = np.flatnonzero(batch.stage == stage)
        if len(here) == 0:
            continue
        elapsed = np.maximum(batch.elapsed_ns[here], 0)
        rows = past.by_service[stage]
        first = np.searchsorted(past.service_ns[rows, stage], elapsed, side="right")
        known = first < len(rows)
        pick = first + np.floor(luck[here] * (len(rows) - first)).astype(np.int64)
        drawn = past.service_ns[rows[np.minimum(pick, len(rows) - 1)]].copy()
        drawn[:, :stage] = 0
        drawn[:, stage] -= elapsed
        drawn[~known] = 0
        drawn[~known, stage] = np.maximum(timeout_ns[stage] - elapsed[~known], 1)
        present[here] = drawn
    return present


def draw_futures(
    now_ns: int,
    active: Sequence[tuple[TaskView, OpenBatch]],
    everyone: Sequence[TaskView],
    *,
    count: int,
    seed: int,
    prior: Prior,
) -> list[Future]:
    """`count` futures of all open batches together."""
    sources = []
    for task, batch in active:
        past = known_past(task, everyone, prior)
        size = max(batch.size, batch.arrived, len(past[0].arrived_ns), 1)
        random = np.random.default_rng([seed, batch.number, size])
        luck = random.random((count, size + 1))
        sources.append((task, batch, past, luck))
    futures = []
    for k in range(count):
        guesses = []
        for task, batch, known, luck in sources:
            past_k = choose_past(known, (luck[k, -1] + k) / count)
            guesses.append(guess_all(task, batch, past_k, now_ns, luck[k, :-1]))
        futures.append(assemble(now_ns, [batch for _, batch in active], guesses))
    return futures


def guess_all(
    task: TaskView, batch: OpenBatch, past: PastBatch, now_ns: int, chance: Floats
) -> Guess:
    """Fill in everything that is not known of one batch."""
    arrived, row = guess_arrivals(past, batch, now_ns, chance)
    return Guess(
        arrived_ns=arrived,
        service_ns=past.service_ns[row],
        present_ns=guess_present(past, task.timeout_ns, batch, chance),
    )
