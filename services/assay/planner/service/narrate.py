"""The plans and samples of a batch in words. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from assay.planner.session.plan_view import BatchView, PlanRecord, PlanView, PoolSample, StageView

NS_PER_S: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotUse:
    """Slot-seconds of one stage while the batch was open."""

    held_s: float
    busy_s: float
    most: int


def narrate(records: Sequence[PlanRecord]) -> list[str]:
    """One paragraph per line, oldest plan first."""
    if not records:
        return [
            "No plan was made for this batch: all open work fitted into the slots that stay warm, "
            "or no planner led while it was open."
        ]
    first, last = records[0].plan, records[-1].plan
    searched = sum(record.plan.simulations for record in records)
    lines = [
        f"{len(records)} plans over {(last.made_ns - first.made_ns) / NS_PER_S:.1f} s, "
        f"{searched:,} simulations."
    ]
    for batch in first.batches[:1]:
        lines.append(drawn_from(batch, first))
    for batch in last.batches[:1]:
        lines.append(outlook(batch))
    costliest = max(records, key=lambda record: record.plan.cost).plan
    lines += [f"{stage.stage}: {stage.why}." for stage in costliest.stages if is_of_batch(stage)]
    lines += pools_held([sample for record in records for sample in record.samples])
    return lines


def is_of_batch(stage: StageView) -> bool:
    """Whether the plan has work for the stage."""
    return stage.slots_wanted > 0 or stage.planned_s > 0


def drawn_from(batch: BatchView, plan: PlanView) -> str:
    """Which history the plan used, and how."""
    names = ", ".join(batch.history[:5]) + (" ..." if len(batch.history) > 5 else "")
    source = f"{batch.source} ({names})" if names else batch.source
    gap = f"planned cost {plan.gap:.2f} times the bound's"
    if not plan.gap:
        gap = "the work continues beyond the plan's horizon, so it has no gap"
    return (
        f"{plan.futures} futures of about {batch.size or 'an unknown number of'} requests, drawn "
        f"from {source}; planning took {plan.planning_s * 1e3:.0f} ms; {gap}."
    )


def outlook(batch: BatchView) -> str:
    """The state of the batch at the last plan."""
    risk = "at risk" if batch.at_risk else "safe"
    longer = (
        f" {batch.outlived} run longer than any of its history: each doubling of their time is "
        "expected to end half of them, up to the timeout."
        if batch.outlived
        else ""
    )
    return (
        f"At the last plan: {batch.arrived} of {batch.size or '?'} requests had come, "
        f"{batch.ended} had ended; expected extra delay {batch.delay_s:.2f} s of a budget of "
        f"{batch.delay_budget_s:.2f} s, beyond it in {batch.late_share:.0%} of the futures: "
        f"{risk}.{longer}"
    )


def pools_held(samples: Sequence[PoolSample]) -> list[str]:
    """Slots that the pools actually held."""
    lines = []
    for stage in dict.fromkeys(sample.stage for sample in samples):
        held = slot_use([sample for sample in samples if sample.stage == stage])
        if held.held_s > 0:
            lines.append(
                f"{stage} in fact: {held.held_s:.1f} slot-seconds held, {held.busy_s:.1f} busy, "
                f"{held.most} at most."
            )
    return lines


def slot_use(samples: Sequence[PoolSample]) -> SlotUse:
    """Slot-seconds of one stage; each sample is valid until the next one."""
    held = busy = 0.0
    for one, following in pairwise(samples):
        span_s = max(following.at_ns - one.at_ns, 0) / NS_PER_S
        held += max(one.planned, one.ready) * span_s
        busy += one.busy * span_s
    return SlotUse(held_s=held, busy_s=busy, most=max((s.ready for s in samples), default=0))
