"""How good a plan is: bounds that no plan can beat, and gaps to them.

Two quantities are bounded, for a set of requests that is known (in hindsight, or one future):

* worker-seconds of a stage: at least the work itself, `sum s_ij`, plus one start-up a worker;
* workers of a stage at once: for every window [a, b], the work that must be done inside it divided
  by its length. A request's window at stage j is [r_i + sum of earlier stages, T + D - sum of later
  stages]. What of it must fall into [a, b] is the smaller of what does when it runs as early and
  as late as possible (energetic reasoning): true for every order of claims, which run without a
  break.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from assay.core.errors import InvalidRequest
from assay.model.arrays import SECOND_NS, Ints
from assay.model.jit import jit

GRID_MAX: Final = 96
"""Window ends that are tried; fewer only loosen the bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Below this no plan can go, for one stage."""

    workers: int
    """At once."""
    worker_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A plan against its bounds; 1 = optimal."""

    bounds: tuple[Bound, ...]
    workers_gap: tuple[float, ...]
    """Planned peak over the bound, a stage; 1 where there is no work."""
    seconds_gap: tuple[float, ...]
    """Worker-seconds over the bound."""
    cost_gap: float
    """Cost of the plan's workers over the cost of the bounds'."""


@jit
def densest(begin: Ints, end: Ints, work: Ints, edges: Ints) -> float:
    """Largest work per time that must fall into a window between two edges."""
    best = 0.0
    for first in range(len(edges)):
        for last in range(first + 1, len(edges)):
            a, b = edges[first], edges[last]
            if b <= a:
                continue
            inside = 0
            for i in range(len(begin)):
                early = work[i] - max(a - begin[i], 0)
                late = work[i] - max(end[i] - b, 0)
                inside += max(min(early, late, b - a), 0)
            best = max(best, inside / (b - a))
    return best


def bound_workers(arrived_ns: Ints, service_ns: Ints, due_ns: Ints, stage: int) -> int:
    """Fewest workers of the stage, at once, of any schedule that keeps `due_ns`."""
    here = service_ns[:, stage] > 0
    if not here.any():
        return 0
    begin = (arrived_ns + service_ns[:, :stage].sum(axis=1))[here]
    end = (due_ns - service_ns[:, stage + 1 :].sum(axis=1))[here]
    work = service_ns[here, stage]
    if (end - begin < work).any():
        raise InvalidRequest("a request cannot be done by then", field="due_ns")
    marks = np.unique(np.concatenate([begin, end, begin + work, end - work]))
    edges = marks[np.linspace(0, len(marks) - 1, min(GRID_MAX, len(marks))).astype(np.int64)]
    return max(int(np.ceil(densest(begin, end, work, edges) - 1e-9)), 1)


def bound(
    arrived_ns: Ints, service_ns: Ints, due_ns: Ints, startup_ns: Sequence[int]
) -> tuple[Bound, ...]:
    """Of every stage. `startup_ns` counts as held time of each worker that must exist."""
    bounds = []
    for stage in range(service_ns.shape[1]):
        workers = bound_workers(arrived_ns, service_ns, due_ns, stage)
        work_ns = int(service_ns[:, stage].sum()) + workers * startup_ns[stage]
        bounds.append(Bound(workers=workers, worker_seconds=work_ns / SECOND_NS))
    return tuple(bounds)


def certify(
    bounds: Sequence[Bound],
    workers: Sequence[int],
    worker_seconds: Sequence[float],
    cost: Sequence[float],
) -> Certificate:
    """A plan, or what was really held, against the bounds."""
    if not len(bounds) == len(workers) == len(worker_seconds) == len(cost):
        raise InvalidRequest("one entry a stage", field="workers")
    least = sum(c * b.worker_seconds for c, b in zip(cost, bounds, strict=True))
    spent = sum(c * s for c, s in zip(cost, worker_seconds, strict=True))
    return Certificate(
        bounds=tuple(bounds),
        workers_gap=tuple(
            n / b.workers if b.workers else 1.0 for n, b in zip(workers, bounds, strict=True)
        ),
        seconds_gap=tuple(
            s / b.worker_seconds if b.worker_seconds else 1.0
            for s, b in zip(worker_seconds, bounds, strict=True)
        ),
        cost_gap=spent / least if least else 1.0,
    )
