"""Lower bounds of the slots of any plan, against which a plan is measured.

For a known set of requests (in hindsight), two quantities are bounded per stage:

* slot-seconds: at least the work itself, `sum s_ij`, plus one start-up time per slot;
* slots at once: `assay.planner.core.bounds`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from assay.model.arrays import SECOND_NS, Ints
from assay.planner.core.bounds import bound_slots


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Lower bounds of one stage for any plan."""

    slots: int
    """Slots at once."""
    slot_seconds: float


def bound(
    arrived_ns: Ints, service_ns: Ints, due_ns: Ints, startup_ns: Sequence[int]
) -> tuple[Bound, ...]:
    """The bound of every stage. `startup_ns` counts as held time of each slot that must exist."""
    bounds = []
    for stage in range(service_ns.shape[1]):
        slots = bound_slots(arrived_ns, service_ns, due_ns, stage)
        work_ns = int(service_ns[:, stage].sum()) + slots * startup_ns[stage]
        bounds.append(Bound(slots=slots, slot_seconds=work_ns / SECOND_NS))
    return tuple(bounds)
