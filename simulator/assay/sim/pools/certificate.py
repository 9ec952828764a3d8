"""Quality of a plan: the workers that it held against lower bounds for any plan.

For a known set of requests (in hindsight), two quantities are bounded per stage:

* worker-seconds: at least the work itself, `sum s_ij`, plus one start-up time per worker;
* workers at once: `assay.planner.core.bounds`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from assay.core.errors import InvalidRequest
from assay.model.arrays import SECOND_NS, Ints
from assay.planner.core.bounds import bound_slots


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Lower bounds of one stage for any plan."""

    workers: int
    """Workers at once."""
    worker_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A plan against its bounds; 1 = optimal."""

    bounds: tuple[Bound, ...]
    workers_gap: tuple[float, ...]
    """Peak over the bound, per stage; 1 where there is no work."""
    seconds_gap: tuple[float, ...]
    """Worker-seconds over the bound."""
    cost_gap: float
    """Cost of the plan's workers over the cost of the bounds'."""


def bound(
    arrived_ns: Ints, service_ns: Ints, due_ns: Ints, startup_ns: Sequence[int]
) -> tuple[Bound, ...]:
    """The bound of every stage. `startup_ns` counts as held time of each worker that must exist."""
    bounds = []
    for stage in range(service_ns.shape[1]):
        workers = bound_slots(arrived_ns, service_ns, due_ns, stage)
        work_ns = int(service_ns[:, stage].sum()) + workers * startup_ns[stage]
        bounds.append(Bound(workers=workers, worker_seconds=work_ns / SECOND_NS))
    return tuple(bounds)


def certify(
    bounds: Sequence[Bound],
    workers: Sequence[int],
    worker_seconds: Sequence[float],
    cost: Sequence[float],
) -> Certificate:
    """Compare a plan, or the workers actually held, with the bounds.

    Raises:
        InvalidRequest: the arguments do not all have one entry per stage.
    """
    if not len(bounds) == len(workers) == len(worker_seconds) == len(cost):
        raise InvalidRequest("one entry per stage", field="workers")
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
