"""What capacity costs: slot-seconds, starts, peaks and nodes, in one sum. Pure.

Slots live on nodes where a pool has some (`PoolView.nodes`). A node takes longer to start than a
slot, so it is ordered further ahead, and it is kept through a gap that is shorter than its start.
"""

from collections.abc import Sequence

import numpy as np

from assay.config.planning import PlanSettings
from assay.model.arrays import SECOND_NS, Ints
from assay.model.observation import NodeView, PoolView
from assay.planner.core.shape import Plan, StagePlan, peaks_at


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
