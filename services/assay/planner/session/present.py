"""A plan in names and words: its history, its limits, and why this many slots."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from assay.config.planning import PriorSettings
from assay.core.errors import InvalidRequest
from assay.core.ids import BatchId
from assay.model.arrays import SECOND_NS
from assay.model.observation import TaskView
from assay.planner.core.batched import places_of
from assay.planner.core.bounds import bound_slots
from assay.planner.core.demand import Future, open_tasks
from assay.planner.core.futures import draw_futures, known_past
from assay.planner.core.groups import groups_of, part_of
from assay.planner.core.shape import BatchOutlook, Plan, StagePlan
from assay.planner.core.thin import size_of
from assay.planner.session.messages import StageLimits
from assay.planner.session.observe import Scene
from assay.planner.session.plan_view import BINS_KEPT_MAX, BatchView, PlanView, StageView

OWN: Final = "own history"
POOLED: Final = "history of tasks with the same stages"
PRIOR: Final = "prior"
BOUND_REQUESTS_MAX: Final = 4_096
"""Above this many requests, the bound on slots at once would take longer than the plan; omitted."""


def view_of_plan(plan: Plan, scene: Scene, *, planning_ns: int = 0) -> PlanView:
    """The plan as people and the store see it."""
    bounds = slots_bounds(plan, scene)
    stages = tuple(
        stage_view(stage, limits, plan, bound)
        for stage, limits, bound in zip(plan.stages, scene.stages, bounds, strict=True)
    )
    tasks = scene.observation.tasks
    pairs = list(zip(plan.stages, scene.stages, strict=True))
    cost = sum(limits.cost * stage.planned_s for stage, limits in pairs)
    lost = sum(tasks[b.task].trainer_cost * b.delay_mean_ns for b in plan.batches) / SECOND_NS
    return PlanView(
        made_ns=plan.now_ns + scene.origin_ns,
        bin_ns=plan.bin_ns,
        stages=stages,
        batches=tuple(batch_view(outlook, scene) for outlook in plan.batches),
        order=tuple(scene.subjects[k].batch_id for k in plan.order),
        futures=plan.futures,
        simulations=plan.simulations,
        planning_s=planning_ns / SECOND_NS,
        reason=plan.reason,
        gap=gap_of(plan, scene, bounds),
        cost=cost,
        delay_cost=lost,
    )


def gap_of(plan: Plan, scene: Scene, bounds: Sequence[int]) -> float:
    """Planned cost over the bound's; 0 = not known: the work continues beyond the horizon.

    Both count the starts of slots that are not held yet: the plan's peak, and as many as any
    schedule that keeps the budgets needs at once.
    """
    if any(len(stage.slots_by_bin) >= BINS_KEPT_MAX for stage in plan.stages):
        return 0.0
    cost = least = 0.0
    for stage, pool, bound in zip(plan.stages, scene.observation.pools, bounds, strict=True):
        start_s = pool.startup_ns / SECOND_NS
        most = max(stage.slots_by_bin, default=0)
        cost += pool.cost * (stage.planned_s + max(most - pool.held, 0) * start_s)
        least += pool.cost * (stage.demand_s + max(min(bound, most) - pool.held, 0) * start_s)
    return cost / least if least > 0 else 1.0


def stage_view(stage: StagePlan, limits: StageLimits, plan: Plan, bound: int) -> StageView:
    """What is shown of a stage: its plan beside its limits."""
    return StageView(
        stage=limits.stage,
        slots=max(stage.target, limits.slots_min),
        slots_min=limits.slots_min,
        slots_max=limits.slots_max,
        slots_peak=max(stage.peak, limits.slots_min),
        slots_wanted=stage.wanted,
        slots_by_bin=tuple(max(n, limits.slots_min) for n in stage.slots_by_bin[:BINS_KEPT_MAX]),
        busy_low=stage.busy_low[:BINS_KEPT_MAX],
        busy_high=stage.busy_high[:BINS_KEPT_MAX],
        bound_s=stage.demand_s,
        slots_bound=bound,
        planned_s=stage.planned_s,
        cost=limits.cost,
        startup_s=limits.startup_ns / SECOND_NS,
        why=why(stage, limits, plan, bound),
    )


def why(stage: StagePlan, limits: StageLimits, plan: Plan, bound: int) -> str:
    """Why this many slots, in words and numbers."""
    if not plan.batches:
        return f"no batch is open: {limits.slots_min} stay warm"
    if stage.peak == 0 and stage.wanted == 0:
        return f"no open batch needs it any more: {limits.slots_min} stay warm"
    parts = [
        f"{stage.peak} at most: fewer would keep a batch beyond its budget in too many of "
        f"{plan.futures} simulated futures"
    ]
    if stage.wanted > stage.peak:
        parts = [f"{stage.peak} at most, the cap: without it, {stage.wanted}"]
    parts.append(f"{max(stage.target, limits.slots_min)} from now on")
    if limits.startup_ns:
        parts.append(f"each ordered {limits.startup_ns / SECOND_NS:g} s before it is needed")
    parts.append(f"{stage.demand_s:.1f} slot-seconds of work left, {stage.planned_s:.1f} planned")
    if bound:
        parts.append(f"no schedule that keeps the budgets does with fewer than {bound} at once")
    if limits.slots_min:
        parts.append(f"{limits.slots_min} stay warm anyway")
    return "; ".join(parts)


def batch_view(outlook: BatchOutlook, scene: Scene) -> BatchView:
    """Effect of the plan on one batch."""
    subject = scene.subjects[outlook.task]
    view = scene.observation.tasks[outlook.task]
    batch = view.open
    ids, source = history_used(outlook.task, scene)
    record = subject.work.batch if subject.work is not None else None
    return BatchView(
        tenant=subject.task.tenant,
        task_id=subject.task.task_id,
        batch_id=subject.batch_id,
        delay_budget_s=outlook.budget_ns / SECOND_NS,
        delay_s=outlook.delay_mean_ns / SECOND_NS,
        late_share=outlook.late_share,
        size=subject.size,
        arrived=batch.arrived if batch is not None else 0,
        ended=record.ended if record is not None else 0,
        deadline_ns=record.deadline_ns if record is not None else 0,
        at_risk=outlook.at_risk,
        history=ids,
        source=source,
        outlived=outlived(view, [task for task in scene.observation.tasks if task is not view]),
    )


def outlived(task: TaskView, others: Sequence[TaskView]) -> int:
    """Requests of the open batch that have run longer at their stage than any known past one."""
    if task.open is None:
        return 0
    longest = np.zeros(len(task.timeout_ns), np.int64)
    for past in known_past(task, others, PriorSettings()):
        stages = np.arange(past.service_ns.shape[1]) if past.columns is None else past.columns
        found = past.service_ns.max(axis=0, initial=0)
        np.maximum.at(longest, stages[stages >= 0], found[stages >= 0])
    batch = task.open
    return int((batch.elapsed_ns > longest[batch.stage]).sum())


def history_used(task: int, scene: Scene) -> tuple[tuple[BatchId, ...], str]:
    """Past batches from which the futures were drawn; the rule is that of `futures.known_past`."""
    subject, view = scene.subjects[task], scene.observation.tasks[task]
    if subject.history:
        return subject.history, OWN
    pooled = [
        other.history[0]
        for other, theirs in zip(scene.subjects, scene.observation.tasks, strict=True)
        if other.history and np.array_equal(theirs.timeout_ns > 0, view.timeout_ns > 0)
    ]
    return (tuple(pooled), POOLED) if pooled else ((), PRIOR)


def slots_bounds(plan: Plan, scene: Scene) -> Sequence[int]:
    """The certificate's bound on slots at once, in one future; 0 where it is not known."""
    bounds = [0] * len(scene.stages)
    active = open_tasks(scene.observation)
    requests = sum(size_of(task, batch) for task, batch in active)
    if not plan.batches or requests > BOUND_REQUESTS_MAX:
        return bounds
    places = places_of(scene.observation)
    for group in groups_of(scene.observation):
        part = part_of(scene.observation, group)
        budgets = [batch.budget_ns for batch in plan.batches if batch.task in group.tasks]
        (future,) = draw_futures(
            part.now_ns, open_tasks(part), part.tasks, count=1, seed=0, prior=PriorSettings()
        )
        for j, stage in enumerate(group.stages):
            bounds[stage] = int(np.ceil(one_bound(future, budgets, j) / places[stage] - 1e-9))
    return bounds


def one_bound(future: Future, budgets_ns: Sequence[int], stage: int) -> int:
    """The bound of one stage."""
    budgets = np.array(budgets_ns, np.int64)
    due = np.maximum(future.ends_due(), future.ends_possible()) + budgets[future.batch_of]
    try:
        return bound_slots(future.demand.release_ns, future.demand.service_ns, due, stage)
    except InvalidRequest:
        return 0
