"""Fewest slots that any schedule needs: a lower bound that no plan can beat.

For every window [a, b], the work that must be done inside it divided by its length. A request's
window at stage j is [r_i + sum of earlier stages, T + D - sum of later stages]. The part of it that
must fall into [a, b] is the smaller of its parts when it runs as early and as late as possible
(energetic reasoning). This holds for every order of claims, which run without interruption.
"""

from typing import Final

import numpy as np

from assay.core.errors import InvalidRequest
from assay.model.arrays import Ints
from assay.model.jit import jit

GRID_MAX: Final = 96
"""Window ends that are tried; fewer only loosen the bound."""


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


def bound_slots(arrived_ns: Ints, service_ns: Ints, due_ns: Ints, stage: int) -> int:
    """Fewest slots of the stage, at once, of any schedule that keeps `due_ns`.

    Args:
        arrived_ns: (n,) arrivals.
        service_ns: (n, stages) times at each stage; 0 = skipped.
        due_ns: (n,) when each request must have ended.
        stage: column of `service_ns`.

    Raises:
        InvalidRequest: a request cannot end by then however many slots there are.
    """
    here = service_ns[:, stage] > 0
    if not here.any():
        return 0
    begin = (arrived_ns + service_ns[:, :stage].sum(axis=1))[here]
    end = (due_ns - service_ns[:, stage + 1 :].sum(axis=1))[here]
    work = service_ns[here, stage]
    if (end - begin < work).any():
        raise InvalidRequest("due_ns: too early for a request", field="due_ns")
    marks = np.unique(np.concatenate([begin, end, begin + work, end - work]))
    edges = marks[np.linspace(0, len(marks) - 1, min(GRID_MAX, len(marks))).astype(np.int64)]
    return max(int(np.ceil(densest(begin, end, work, edges) - 1e-9)), 1)
