"""The reactive floor: what a pool holds whatever a plan says, and what it holds without one. Pure.

A plan adds lead and holds back what may wait; neither its absence nor its mistakes may leave work
waiting where there is no slot.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from assay.core.ids import StageName
from assay.core.records import StageDepth
from assay.planner.session.messages import PoolState, SetSlots, StageLimits

FLOOR_STEP_S: Final = 1.0
"""How often the floor is looked at while no plan is fresh."""
GRACE_S: Final = 2.0
"""A plan is fresh until its next step is due, and this much longer."""


def without_plan(desired: int, queued: int, running: int, slots_min: int, slots_max: int) -> int:
    """Slots to hold while no plan is fresh: at least what runs and waits, within the cap.

    It only raises: what a plan held before may be its lead. The next plan, or the end of all work,
    takes it down.
    """
    return max(desired, min(max(queued + running, slots_min), slots_max), 0)


def with_plan(planned: int, queued: int, slots_max: int) -> int:
    """Slots to hold where a plan is fresh: never none where something waits, within the cap.

    What waits may be unknown to the plan: a dead letter that was replayed, or a batch beyond those
    that are planned.
    """
    return max(planned, min(1, slots_max)) if queued else planned


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
