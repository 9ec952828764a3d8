"""The reactive floor: what a pool holds whatever a plan says, and what it holds without one. Pure.

A plan adds lead and holds back what may wait; neither its absence nor its mistakes may leave work
waiting where there is no slot.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from assay.core.ids import StageName
from assay.core.records import OpenWork, StageDepth
from assay.model.keep_alive import KeepAlive, Kept, keep_prices
from assay.planner.session.messages import PoolState, SetSlots, StageLimits, resting

FLOOR_STEP_S: Final = 1.0
"""How often the floor is looked at while no plan is fresh and nothing happens."""
FLOOR_SOON_S: Final = 0.2
"""When it is looked at after something has happened that no step has looked at until then. A
request of a new kind would else wait for up to `FLOOR_STEP_S` at each of its stages."""
FLOOR_SHARE_MAX: Final = 0.1
"""Share of the time that looking at it may take, where many hosts answer slowly."""
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
    raised: Mapping[StageName, int],
    complete: bool,
) -> tuple[SetSlots, ...]:
    """Pools to set.

    Args:
        stages: the limits of each stage.
        pools: the pools as they are.
        depths: the queues as they are.
        planned: what a plan wants to change; empty without one.
        raised: what pools were raised to without a plan while it was made. It was made of what was
            before, and slots that are starting would be lost; the next one takes them down.
        complete: a fresh plan knows all the work there is.
    """
    queues = {depth.stage: depth for depth in depths}
    limits = {one.stage: one for one in stages}
    found = []
    for pool in pools:
        if pool.stage not in limits or pool.stage not in queues:
            continue
        queue, limit = queues[pool.stage], limits[pool.stage]
        wanted = max(planned.get(pool.stage, pool.desired), raised.get(pool.stage, 0))
        slots = with_plan(wanted, queue.queued, limit.slots_max)
        if not complete:
            slots = without_plan(
                slots, queue.queued, queue.running, limit.slots_min, limit.slots_max
            )
        if slots != pool.desired:
            found.append(SetSlots(stage=pool.stage, slots=slots))
    return tuple(found)


class StagesKept:
    """The gaps of stages, as the controller sees them: of the last resort, should the planning
    process, which keeps slots by the gaps that it has seen itself, not be there."""

    def __init__(self) -> None:
        self._pools: dict[StageName, KeepAlive] = {}

    def see(self, depths: Sequence[StageDepth], work: Sequence[OpenWork], now_ns: int) -> None:
        """What waits, runs and may still come, of every stage with a pool, by a clock that never
        goes back."""
        to_come = still_to_come(work)
        known = self._pools
        self._pools = {one.stage: known.get(one.stage) or KeepAlive() for one in depths}
        for one in depths:
            needed = max(one.queued + one.running, to_come[one.stage])
            self._pools[one.stage].need(needed, now_ns)

    def kept(self, stages: Sequence[StageLimits], now_ns: int) -> dict[StageName, Kept]:
        """By stage, as far as something is kept there."""
        found = {}
        for limits in stages:
            prices = keep_prices(limits.startup_ns, limits.keep_price_ns, limits.change_price_ns)
            alive = self._pools.get(limits.stage)
            kept = alive.kept(now_ns, prices) if alive is not None else None
            if kept is not None:
                found[limits.stage] = kept
        return found


def still_to_come(work: Sequence[OpenWork]) -> Counter[StageName]:
    """Requests that are at a stage or before it."""
    found: Counter[StageName] = Counter()
    for one in work:
        stages = one.task.stages
        for request in one.requests:
            found.update(stages[stages.index(request.stage) :] if request.stage in stages else ())
    return found


def released(
    stages: Sequence[StageLimits],
    pools: Sequence[PoolState],
    idle_ns: int,
    kept: Mapping[StageName, Kept],
) -> tuple[SetSlots, ...]:
    """Pools to set after `idle_ns` without work: to their floors, or to what is `kept`.

    A pool is taken down once its idle slots have cost as much as to take them down and to have them
    again: their start, and two changes of the pool's target. Sooner, slots that are needed again
    would cost that and a wait; later, more than that. This break-even rule holds at most twice what
    it would with the next request known (ski rental). Slots whose past gaps say that they are
    needed again soon are kept for longer (`assay.model.keep_alive`).
    """
    even_ns, held = _even_ns(stages, pools), _held(pools, kept)
    due = [one for one in resting(stages, pools) if even_ns.get(one.stage, 0) <= idle_ns]
    lower = [SetSlots(stage=d.stage, slots=max(d.slots, held.get(d.stage, 0))) for d in due]
    desired = {pool.stage: pool.desired for pool in pools}
    return tuple(one for one in lower if one.slots != desired[one.stage])


def next_release_s(
    stages: Sequence[StageLimits],
    pools: Sequence[PoolState],
    idle_ns: int,
    kept: Mapping[StageName, Kept],
    most_s: float,
) -> float:
    """Time until `released` has another pool to set; `most_s` at most."""
    held = _held(pools, kept)
    left_ns = [ns - idle_ns for ns in _even_ns(stages, pools).values()]
    left_ns += [kept[stage].left_ns for stage, slots in held.items() if slots]
    return min([most_s, *(ns / 1e9 for ns in left_ns if ns > 0)])


def _held(pools: Sequence[PoolState], kept: Mapping[StageName, Kept]) -> dict[StageName, int]:
    """Slots to go on holding; nothing is raised for what may come."""
    return {p.stage: min(kept[p.stage].slots, p.desired) for p in pools if p.stage in kept}


def _even_ns(stages: Sequence[StageLimits], pools: Sequence[PoolState]) -> dict[StageName, int]:
    """For how long each pool that is above its floor is kept without work, whatever its gaps."""
    limits = {one.stage: one for one in stages}
    desired = {pool.stage: pool.desired for pool in pools}
    above = {one.stage: desired[one.stage] - one.slots for one in resting(stages, pools)}
    return {
        stage: limits[stage].startup_ns + 2 * limits[stage].change_price_ns // slots
        for stage, slots in above.items()
        if slots > 0
    }
