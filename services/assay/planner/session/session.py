"""The planner loop in the platform's names: a snapshot goes in, a decision comes out.

Pure apart from what it remembers: the present plan, the histories that it was sent (each batch is
read once, a bounded number of tasks is kept) and the last scene, on which `what_if` plans. Nothing
that the store holds makes it raise; what cannot be planned leaves pools as they are, and the
decision says so.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final

from assay.config.planning import PlanSettings
from assay.core.errors import FailedPrecondition
from assay.model.arrays import to_ns
from assay.model.policy import swapped
from assay.planner.core.loop import Effect, Observed, PlannerLoop, Readiness, Reorder, Resize, Wake
from assay.planner.core.plan import make_plan
from assay.planner.core.policy import Assay
from assay.planner.core.shape import Plan
from assay.planner.session.messages import (
    Alternatives,
    Change,
    Decision,
    SetPriority,
    SetRisk,
    SetSlots,
    Snapshot,
    TaskKey,
)
from assay.planner.session.observe import (
    Scene,
    TaskPast,
    observation_of,
    read_history,
)
from assay.planner.session.plan_view import PlanView  # noqa: TC001
from assay.planner.session.present import view_of_plan
from assay.planner.session.progress import Progress
from assay.planner.session.what_if import changed

TASKS_MAX: Final = 64
"""Tasks whose history is remembered; the least recently used is dropped first."""
POOLED_MAX: Final = 8
"""Of these, tasks without open work from which a task without history may borrow."""


class Session:
    """The decisions of one planning process."""

    def __init__(self, settings: PlanSettings) -> None:
        self._settings = settings
        budget_s = settings.delay_budget_s
        self._budget_ns = None if budget_s is None else to_ns(budget_s)
        self._known: OrderedDict[TaskKey, TaskPast] = OrderedDict()
        self._stages: tuple[str, ...] = ()
        self._scene: Scene | None = None
        self._plan: Plan | None = None
        self._view: PlanView | None = None
        self._loop = self._new_loop()
        self._progress = Progress()

    def _new_loop(self) -> PlannerLoop:
        return PlannerLoop(Assay(self._settings))

    # -- snapshots -----------------------------------------------------------------------------
    def step(self, snapshot: Snapshot) -> Decision:
        """Decide what to do after a snapshot."""
        self._remember(snapshot)
        scene = self._scene = self._observe(snapshot)
        leader = snapshot.leader
        effects = self._loop.step(Observed(observation=scene.observation, leader=leader))
        made = self._take_new_plan(scene, leader=leader)
        ready, why = readiness(effects)
        acts = ready and leader
        return Decision(
            ready=ready,
            why=why,
            wake_after_ns=wake_after_ns(effects, scene.observation.now_ns),
            slots=with_floors(scene, targets(effects)) if acts else (),
            priorities=priorities(effects, made if acts else None, scene),
            risks=changed_risks(made, scene, self._settings.epsilon) if acts and made else (),
            plan=self._view,
            made=made is not None,
            awaits=acts and self._loop.awaits,
        )

    def _take_new_plan(self, scene: Scene, *, leader: bool) -> Plan | None:
        """The loop's plan if the last step made it; also stores its view."""
        plan = self._loop.plan
        if plan is None or plan is self._plan or not leader:
            return None
        self._plan, self._view = plan, view_of_plan(plan, scene)
        return plan

    def _remember(self, snapshot: Snapshot) -> None:
        for sent in snapshot.histories:
            key = sent.task.tenant, sent.task.task_id
            known = self._known.get(key)
            if known is not None and known.task.stages != sent.task.stages:
                # The name was registered again with other stages: drop the old task's history.
                known = None
            self._known[key] = read_history(
                sent.task,
                sent.batches,
                known.batches if known is not None else (),
                batches_max=self._settings.history_batches,
            )
            self._known.move_to_end(key)
        for task in (*(w.task for w in snapshot.work), *(task for _, task in snapshot.hints)):
            if (task.tenant, task.task_id) in self._known:
                self._known.move_to_end((task.tenant, task.task_id))
        while len(self._known) > TASKS_MAX:
            self._known.popitem(last=False)

    def _observe(self, snapshot: Snapshot) -> Scene:
        stages = tuple(limits.stage for limits in snapshot.stages)
        if stages != self._stages:
            # The columns changed: a plan made with the old ones does not apply.
            self._stages, self._loop = stages, self._new_loop()
        used = self._used(snapshot)
        self._progress.see(snapshot.work, snapshot.now_ns)
        return observation_of(
            snapshot, used, self._budget_ns, self._progress, self._settings.no_barrier
        )

    def _used(self, snapshot: Snapshot) -> Mapping[TaskKey, TaskPast]:
        """Histories of tasks with open work, and of a few others to borrow from."""
        open_now = {(w.batch.tenant, w.batch.task_id) for w in snapshot.work}
        open_now |= {(task.tenant, task.task_id) for _, task in snapshot.hints}
        others = [key for key in reversed(self._known) if key not in open_now][:POOLED_MAX]
        return {key: self._known[key] for key in (*sorted(open_now & self._known.keys()), *others)}

    # -- questions -----------------------------------------------------------------------------
    def what_if(self, change: Change) -> Alternatives:
        """The plan of the last scene under other conditions, and as it is: both are searched for
        from nothing, so that they differ by the conditions alone.

        Raises:
            FailedPrecondition: there was no snapshot yet.
            InvalidRequest: the change is invalid.
        """
        if self._scene is None:
            raise FailedPrecondition("there was no snapshot yet")
        present, scene = self._scene, changed(self._scene, change)
        settings = self._settings
        if change.epsilon is not None:
            settings = settings.model_copy(update={"epsilon": change.epsilon})
        return Alternatives(
            present=view_of_plan(make_plan(present.observation, self._settings), present),
            plan=view_of_plan(make_plan(scene.observation, settings), scene),
        )

    def unread(self) -> Iterable[str]:
        """Past batches that could not be read, and why."""
        for past in self._known.values():
            yield from past.unread


def readiness(effects: Iterable[Effect]) -> tuple[bool, str]:
    """Whether the loop can plan, and why or why not."""
    found = next((effect for effect in effects if isinstance(effect, Readiness)), None)
    return (found.ready, found.why) if found is not None else (True, "")


def wake_after_ns(effects: Iterable[Effect], now_ns: int) -> int:
    """Time to the next step."""
    return max((effect.at_ns - now_ns for effect in effects if isinstance(effect, Wake)), default=0)


def targets(effects: Iterable[Effect]) -> Mapping[int, int]:
    """Pools that change, and their new targets."""
    return {effect.pool: effect.target for effect in effects if isinstance(effect, Resize)}


def with_floors(scene: Scene, resized: Mapping[int, int]) -> tuple[SetSlots, ...]:
    """Pools to set: never below the floor, and never to 0 where requests wait.

    The futures may all have been wrong, and the next plan is far away.
    """
    found = []
    for j, (limits, pool) in enumerate(zip(scene.stages, scene.observation.pools, strict=True)):
        needed = min(1, pool.cap) if pool.waiting else 0
        slots = max(resized.get(j, pool.target), limits.slots_min, needed)
        if slots != pool.target:
            found.append(SetSlots(stage=limits.stage, slots=slots))
    return tuple(found)


def priorities(
    effects: Iterable[Effect], made: Plan | None, scene: Scene
) -> tuple[SetPriority, ...]:
    """New deadlines for the order; `made` is a plan that was made in this step."""
    orders = [effect.tasks for effect in effects if isinstance(effect, Reorder)]
    found = reorder(orders[-1], scene) if orders else ()
    return found or (restored(made, scene) if made is not None else ())


def reorder(tasks: tuple[int, ...], scene: Scene) -> tuple[SetPriority, ...]:
    """Swap the deadlines of the open batches of `tasks`, within each tenant."""
    works = [work for k in tasks if (work := scene.subjects[k].work) is not None]
    tenants = [str(work.batch.tenant) for work in works]
    deadlines = swapped([work.order_deadline_ns for work in works], tenants)
    return tuple(
        SetPriority(batch=(work.batch.tenant, work.batch.batch_id), deadline_ns=deadline_ns)
        for work, deadline_ns in zip(works, deadlines, strict=True)
        if work.order_deadline_ns != deadline_ns
    )


def restored(plan: Plan, scene: Scene) -> tuple[SetPriority, ...]:
    """Once the caps are no longer reached, order batches by their own deadlines again."""
    if plan.order or any(stage.wanted > stage.peak for stage in plan.stages):
        return ()
    works = [subject.work for subject in scene.subjects if subject.work is not None]
    return tuple(
        SetPriority(batch=(work.batch.tenant, work.batch.batch_id), deadline_ns=0)
        for work in works
        if work.order_deadline_ns != work.batch.deadline_ns
    )


def changed_risks(plan: Plan, scene: Scene, epsilon: float) -> tuple[SetRisk, ...]:
    """Marks that differ from the store's; one is removed once the risk is well below `epsilon`."""
    risks = []
    for outlook in plan.batches:
        subject = scene.subjects[outlook.task]
        if subject.work is None:
            continue
        marked = subject.work.batch.deadline_at_risk
        at_risk = outlook.at_risk or (marked and outlook.late_share > epsilon / 2)
        if at_risk != marked:
            risk = SetRisk(batch=subject.key, at_risk=at_risk, late_share=outlook.late_share)
            risks.append(risk)
    return tuple(risks)
