"""The planner loop over the platform's own names: a look in, an answer out.

Pure but for what it remembers: the present plan, the histories that it was told (each batch is read
once, a bounded number of tasks is kept) and the last scene, on which `what_if` plans. Nothing that
the store holds makes it raise; what cannot be planned leaves pools as they are and is said.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from assay.core.errors import FailedPrecondition, InvalidRequest
from assay.model.observation import Observation, PoolView
from assay.model.policy import swapped
from assay.planner.core.loop import AtRisk, PlannerLoop, Readiness, Reorder, Resize, Seen, Wake
from assay.planner.core.plan import Plan, PlanSettings, make_plan
from assay.planner.core.policy import Assay
from assay.planner.session.messages import (
    Answer,
    Change,
    Look,
    SetPriority,
    SetRisk,
    SetSlots,
    TaskKey,
)
from assay.planner.session.observe import (
    Assumed,
    Columns,
    Scene,
    TaskPast,
    in_columns,
    observation_of,
    read_history,
)
from assay.planner.session.plan_view import PlanView
from assay.planner.session.present import view_of_plan

TASKS_MAX: Final = 64
"""Tasks whose history is remembered; the one used longest ago goes first."""
POOLED_MAX: Final = 8
"""Of these, tasks without open work that a newcomer may borrow from."""


class Planning:
    """One planner's decisions."""

    def __init__(self, settings: PlanSettings, assumed: Assumed, *, history_batches: int) -> None:
        self._settings = settings
        self._assumed = assumed
        self._history_batches = history_batches
        self._known: OrderedDict[TaskKey, TaskPast] = OrderedDict()
        self._columns: Columns = {}
        self._stages: tuple[str, ...] = ()
        self._scene: Scene | None = None
        self._seen: Plan | None = None
        self._view: PlanView | None = None
        self._loop = self._new_loop()

    def _new_loop(self) -> PlannerLoop:
        return PlannerLoop(Assay(self._settings))

    # -- looks ---------------------------------------------------------------------------------
    def step(self, look: Look) -> Answer:
        """Answer one look."""
        self._remember(look)
        scene = self._observe(look)
        self._scene = scene
        effects = self._loop.step(Seen(observation=scene.observation, leader=look.leader))
        plan = self._loop.plan
        made = plan is not None and plan is not self._seen and look.leader
        if plan is not None and made:
            self._seen, self._view = plan, view_of_plan(plan, scene)
        now_ns = scene.observation.now_ns
        ready, why, wake_ns = True, "", now_ns
        slots: tuple[SetSlots, ...] = ()
        priorities: tuple[SetPriority, ...] = ()
        risks: list[SetRisk] = []
        targets: dict[int, int] = {}
        for effect in effects:
            match effect:
                case Resize():
                    targets[effect.pool] = effect.target
                case Reorder():
                    priorities = reorder(effect.tasks, scene)
                case AtRisk():
                    pass  # below, with its opposite, from what the store says now
                case Readiness():
                    ready, why = effect.ready, effect.why
                case Wake():
                    wake_ns = effect.at_ns
        if ready and look.leader:
            slots = with_floors(scene, targets)
            if plan is not None and made:
                risks = changed_risks(plan, scene, self._settings.epsilon)
                priorities = priorities or restored(plan, scene)
        return Answer(
            ready=ready,
            why=why,
            wake_after_ns=max(wake_ns - now_ns, 0),
            slots=slots,
            priorities=priorities,
            risks=tuple(risks),
            plan=self._view,
            made=made,
        )

    def _remember(self, look: Look) -> None:
        for told in look.histories:
            key = told.task.tenant, told.task.task_id
            known = self._known.get(key)
            if known is not None and known.task.stages != told.task.stages:
                # Another task of that name, registered anew: nothing of the old one is known.
                known = None
                self._columns = {k: v for k, v in self._columns.items() if k[0] != key}
            self._known[key] = read_history(
                told.task,
                told.batches,
                known.batches if known is not None else (),
                batches_max=self._history_batches,
            )
            self._known.move_to_end(key)
        for task in (*(w.task for w in look.work), *(task for _, task in look.hints)):
            if (task.tenant, task.task_id) in self._known:
                self._known.move_to_end((task.tenant, task.task_id))
        while len(self._known) > TASKS_MAX:
            self._known.popitem(last=False)

    def _observe(self, look: Look) -> Scene:
        stages = tuple(facts.stage for facts in look.stages)
        if stages != self._stages:
            # Another order of the columns: what was planned in the old one means nothing now.
            self._stages, self._columns, self._loop = stages, {}, self._new_loop()
        used = self._used(look)
        self._columns = {
            (key, one.batch_id): self._columns.get((key, one.batch_id))
            or in_columns(one.past, past.task.stages, stages)
            for key, past in used.items()
            for one in past.batches
        }
        return observation_of(look, used, self._columns, self._assumed)

    def _used(self, look: Look) -> Mapping[TaskKey, TaskPast]:
        """Histories of tasks with open work, and of a few others to borrow from."""
        open_now = {(w.batch.tenant, w.batch.task_id) for w in look.work}
        open_now |= {(task.tenant, task.task_id) for _, task in look.hints}
        others = [key for key in reversed(self._known) if key not in open_now][:POOLED_MAX]
        return {key: self._known[key] for key in (*sorted(open_now & self._known.keys()), *others)}

    # -- questions -----------------------------------------------------------------------------
    def what_if(self, change: Change) -> PlanView:
        """The plan of the last scene under other conditions.

        Raises:
            FailedPrecondition: there was no scene yet.
            InvalidRequest: a change makes no sense.
        """
        if self._scene is None:
            raise FailedPrecondition("nothing was looked at yet")
        scene = changed(self._scene, change)
        settings = self._settings
        if change.epsilon is not None:
            settings = replace(settings, epsilon=change.epsilon)
        return view_of_plan(make_plan(scene.observation, settings), scene)

    def unread(self) -> Iterable[str]:
        """Past batches that could not be read, and why."""
        for past in self._known.values():
            yield from past.unread


def with_floors(scene: Scene, targets: Mapping[int, int]) -> tuple[SetSlots, ...]:
    """What to set: never below the floor, never nobody where somebody waits (the futures may all
    have been wrong, and the next plan is far), nothing that is set already."""
    found = []
    for j, (facts, pool) in enumerate(zip(scene.stages, scene.observation.pools, strict=True)):
        needed = min(1, pool.cap) if pool.waiting else 0
        wanted = max(targets.get(j, pool.target), facts.slots_min, needed)
        if wanted != pool.target:
            found.append(SetSlots(stage=facts.stage, slots=wanted))
    return tuple(found)


def reorder(tasks: tuple[int, ...], scene: Scene) -> tuple[SetPriority, ...]:
    """The open batches' deadlines change places, within each tenant."""
    works = [work for k in tasks if (work := scene.subjects[k].work) is not None]
    tenants = [str(work.batch.tenant) for work in works]
    deadlines = swapped([work.order_deadline_ns for work in works], tenants)
    return tuple(
        SetPriority(batch=(work.batch.tenant, work.batch.batch_id), deadline_ns=deadline_ns)
        for work, deadline_ns in zip(works, deadlines, strict=True)
        if work.order_deadline_ns != deadline_ns
    )


def restored(plan: Plan, scene: Scene) -> tuple[SetPriority, ...]:
    """Where the caps bind no more, batches go by their own deadlines again."""
    if plan.order or any(stage.wanted > stage.peak for stage in plan.stages):
        return ()
    works = [subject.work for subject in scene.subjects if subject.work is not None]
    return tuple(
        SetPriority(batch=(work.batch.tenant, work.batch.batch_id), deadline_ns=0)
        for work in works
        if work.order_deadline_ns != work.batch.deadline_ns
    )


def changed_risks(plan: Plan, scene: Scene, epsilon: float) -> list[SetRisk]:
    """What the store says otherwise; a risk is taken back once it is well below `epsilon`."""
    risks = []
    for outlook in plan.batches:
        subject = scene.subjects[outlook.task]
        if subject.work is None:
            continue
        said = subject.work.batch.deadline_at_risk
        at_risk = outlook.at_risk or (said and outlook.late_share > epsilon / 2)
        if at_risk != said:
            risk = SetRisk(batch=subject.key, at_risk=at_risk, late_share=outlook.late_share)
            risks.append(risk)
    return risks


def changed(scene: Scene, change: Change) -> Scene:
    """The scene under other conditions.

    Raises:
        InvalidRequest: a stage that is not there, or a number that makes no sense.
    """
    names = [facts.stage for facts in scene.stages]
    given = (("slots_max", change.slots_max), ("cost", change.cost))
    for word, by_stage in (*given, ("startup_s", change.startup_ns)):
        for stage, value in by_stage.items():
            if stage not in names:
                raise InvalidRequest(f"no pool of stage {stage}", field=word)
            if not np.isfinite(value) or value < 0:
                raise InvalidRequest(f"{value} of stage {stage}", field=word)
    if change.delay_budget_ns is not None and change.delay_budget_ns < 0:
        raise InvalidRequest("below 0", field="delay_budget_s")

    def pool(facts_stage: str, before: PoolView) -> PoolView:
        return replace(
            before,
            cap=change.slots_max.get(facts_stage, before.cap),
            cost=change.cost.get(facts_stage, before.cost),
            startup_ns=change.startup_ns.get(facts_stage, before.startup_ns),
        )

    before = scene.observation
    tasks = before.tasks
    if change.delay_budget_ns is not None:
        tasks = tuple(replace(task, delay_budget_ns=change.delay_budget_ns) for task in tasks)
    pools = tuple(pool(name, one) for name, one in zip(names, before.pools, strict=True))
    observation: Observation = replace(before, tasks=tasks, pools=pools)
    stages = tuple(
        replace(facts, slots_max=one.cap, cost=one.cost, startup_ns=one.startup_ns)
        for facts, one in zip(scene.stages, pools, strict=True)
    )
    return replace(scene, observation=observation, stages=stages)
