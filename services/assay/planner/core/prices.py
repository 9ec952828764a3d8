"""What capacity costs: slot-seconds, starts, peaks and nodes, in one sum. Pure.

Slots live on nodes where a pool has some (`PoolView.nodes`). A node takes longer to start than a
slot, so it is ordered further ahead, and it is kept through a gap that is shorter than its start.
"""

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from assay.config.planning import PlanSettings
from assay.model.arrays import SECOND_NS, Ints, to_ns
from assay.model.keep_alive import KeepAlive, keep_prices
from assay.model.observation import NodeView, Observation, PoolView
from assay.planner.core.shape import Plan, StagePlan, peaks_at, target_at


def price(plan: Plan, pools: Sequence[PoolView], settings: PlanSettings) -> float:
    """Cost of the plan's capacity, in the unit of the pools' costs times seconds."""
    pairs = zip(plan.stages, pools, strict=True)
    return sum(stage_price(stage, pool, settings) for stage, pool in pairs)


def stage_price(stage: StagePlan, pool: PoolView, settings: PlanSettings) -> float:
    """One stage: the time that slots are held, their starts, their peak and their nodes."""
    level = np.array(stage.slots_by_bin, np.int64)
    starts = int(np.diff(level, prepend=pool.held).clip(0).sum())
    slot_s = (
        stage.planned_s
        + stage.peak * (pool.startup_ns / SECOND_NS + settings.peak_price_s)
        + starts * settings.start_price_s
    )
    if pool.nodes is None:
        return pool.cost * slot_s
    return pool.cost * slot_s + pool.nodes.cost * node_seconds(level, pool.nodes, settings)


def node_seconds(level: Ints, nodes: NodeView, settings: PlanSettings) -> float:
    """Node-seconds of the slots of each bin, and one start of each node of the peak."""
    needed = -(-level // nodes.slots)
    more = max(int(needed.max(initial=0)) - nodes.ready, 0)
    return float(needed.sum()) * settings.tick_s + more * nodes.startup_ns / SECOND_NS


def nodes_at(level: Sequence[int], offset_ns: int, pool: PoolView, settings: PlanSettings) -> int:
    """Nodes to hold `offset_ns` after the plan was made: those whose slots are needed before
    another node could start, and of those held the ones needed again before a later one could; 0
    without nodes."""
    if pool.nodes is None:
        return 0
    nodes = pool.nodes
    ordered_s = (nodes.startup_ns + pool.startup_ns) / SECOND_NS + settings.tick_s
    kept_s = max(nodes.startup_ns / SECOND_NS, settings.hold_s)
    needed, again = (
        -(-min(slots, pool.cap) // nodes.slots)
        for slots in peaks_at(level, offset_ns, settings, ordered_s=ordered_s, kept_s=kept_s)
    )
    return min(max(needed, min(again, nodes.ready + nodes.starting)), nodes.cap)


class Damper:
    """Changes the targets in fewer, larger steps. A slot that the plan no longer asks for is kept,
    and one that it will ask for is ordered with those of this tick, while that costs less than a
    change of a target; never so many that the pools together exceed the plan's largest total."""

    def __init__(self) -> None:
        self.at_ns = 0
        self.most = 0
        """Largest total that was wanted since a batch opened on idle pools."""
        self.kept: list[int] = []
        """By pool, slots that the plan did not ask for at the last decision."""
        self.spent: list[float] = []
        """By pool, what such slots have cost since its target was changed or all of it wanted."""

    def rest(self, now_ns: int) -> None:
        """Nothing is open."""
        self.at_ns, self.most, self.kept, self.spent = now_ns, 0, [], []

    def targets(
        self, observation: Observation, plan: Plan, wanted: Sequence[int], settings: PlanSettings
    ) -> tuple[int, ...]:
        """The targets to set where the plan wants these."""
        pools, now_ns = observation.pools, observation.now_ns
        limit = settings.resize_price_s * max((pool.cost for pool in pools), default=0.0)
        past_s = max(now_ns - self.at_ns, 0) / SECOND_NS
        if len(self.kept) != len(pools):
            self.kept, self.spent = [0] * len(pools), [0.0] * len(pools)
        before = zip(self.kept, self.spent, pools, strict=True)
        spent = [s + n * past_s * pool.cost for n, s, pool in before]
        offset_ns = now_ns - plan.now_ns
        found = [
            kept(pool, target, limit - cost, settings)
            if target <= pool.target
            else max(target, joined_rise(stage.slots_by_bin, offset_ns, pool, limit, settings))
            for stage, pool, target, cost in zip(plan.stages, pools, wanted, spent, strict=True)
        ]
        self.most = max(self.most, sum(wanted))
        if sum(found) > max(self.most, most_together(plan, offset_ns)):
            found = list(wanted)
        pairs = zip(pools, found, wanted, strict=True)
        self.kept = [n - target if n == pool.target else 0 for pool, n, target in pairs]
        self.spent = [s if n else 0.0 for n, s in zip(self.kept, spent, strict=True)]
        self.at_ns = now_ns
        return tuple(found)


class Keepers:
    """Keeps the lowest slots of pools that past gaps say are wanted again soon: by a lone call, by
    the next request of a thin batch, or by another plan."""

    def __init__(self) -> None:
        self.pools: list[KeepAlive] = []
        self.next_ns: int | None = None
        """When the next slot is released that was kept at the last decision; `None` = none was."""

    def targets(
        self, observation: Observation, wanted: Sequence[int], settings: PlanSettings
    ) -> tuple[int, ...]:
        """What is wanted, and what is kept of the slots that are held beyond that."""
        pools, now_ns, self.next_ns = observation.pools, observation.now_ns, None
        if len(self.pools) != len(pools):
            self.pools = [KeepAlive() for _ in pools]
        price_ns, change_ns = to_ns(settings.keep_price_s), to_ns(settings.resize_price_s)
        found = []
        for alive, slots, pool in zip(self.pools, wanted, pools, strict=True):
            alive.need(slots, now_ns)
            kept = alive.kept(now_ns, keep_prices(pool.startup_ns, price_ns, change_ns))
            held = 0 if kept is None else min(kept.slots, pool.target, pool.cap)
            if kept is not None and held > slots:
                until_ns = now_ns + kept.left_ns
                self.next_ns = min(until_ns, self.next_ns or until_ns)
            found.append(max(slots, held))
        return tuple(found)


def kept(pool: PoolView, wanted: int, left: float, settings: PlanSettings) -> int:
    """The pool's present target where keeping it for another tick costs no more than is `left`,
    else what is wanted."""
    present = min(pool.target, pool.cap)
    cost = (present - wanted) * settings.tick_s * pool.cost
    return present if cost <= left else wanted


def joined_rise(
    level: Sequence[int], offset_ns: int, pool: PoolView, limit: float, settings: PlanSettings
) -> int:
    """The slots to hold with those that the next ticks order too: as many ticks as cost no more
    than `limit` when their slots are ordered now."""
    tick_ns = to_ns(settings.tick_s)
    most, early = target_at(level, offset_ns, pool, settings), 0
    for ticks in range(1, len(level) if limit else 0):
        then = target_at(level, offset_ns + ticks * tick_ns, pool, settings)
        early += (then - most) * ticks
        if then < most or early * settings.tick_s * pool.cost > limit:
            break
        most = then
    return most


def most_together(plan: Plan, offset_ns: int) -> int:
    """The most slots of all stages in one bin, `offset_ns` after the plan was made or later."""
    first = offset_ns // plan.bin_ns
    levels = [stage.slots_by_bin[first:] for stage in plan.stages]
    return max(map(sum, zip_longest(*levels, fillvalue=0)), default=0)
