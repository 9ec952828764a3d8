"""The reactive floor: sizes that follow from the queues alone."""

from collections.abc import Mapping, Sequence
from typing import Final

from assay.core.ids import StageName
from assay.core.records import StageDepth
from assay.planner.core.floor import with_plan, without_plan
from assay.planner.session.messages import PoolState, SetSlots, StageLimits

FLOOR_STEP_S: Final = 1.0
"""How often the floor is looked at while no plan is fresh."""
GRACE_S: Final = 2.0
"""A plan is fresh until its next step is due, and this much longer."""


def on_floor(
    stages: Sequence[StageLimits],
    pools: Sequence[PoolState],
    depths: Sequence[StageDepth],
    planned: Mapping[StageName, int],
    *,
    complete: bool,
) -> tuple[SetSlots, ...]:
    """Pools to set.

    Args:
        stages: the limits of each stage.
        pools: the pools as they are.
        depths: the queues as they are.
        planned: what a plan wants to change; empty without one.
        complete: a fresh plan knows all the work there is.
    """
    queues = {depth.stage: depth for depth in depths}
    limits = {one.stage: one for one in stages}
    found = []
    for pool in pools:
        if pool.stage not in limits or pool.stage not in queues:
            continue
        queue, limit = queues[pool.stage], limits[pool.stage]
        slots = with_plan(planned.get(pool.stage, pool.desired), queue.queued, limit.slots_max)
        if not complete:
            slots = without_plan(
                slots, queue.queued, queue.running, limit.slots_min, limit.slots_max
            )
        if slots != pool.desired:
            found.append(SetSlots(stage=pool.stage, slots=slots))
    return tuple(found)
