"""The planner around its planning process: takes snapshots, asks, applies decisions.

It takes a step when the store reports an event, when the plan asks for it, and when the leadership
changes; never more often than `STEPS_APART_S`. Invariants:

* pools, orders and batches are changed only while the lease certainly holds, checked before each;
* when the store or the pools cannot be reached, pools stay as they are; what does not answer is
  named by `why_not_ready`;
* a size that is refused is tried again soon, then less and less often (`refusals`);
* the planning process is asked only when requests could have to wait for a slot;
* while no plan is fresh, pools hold at least what waits and runs (`floor`), and with a plan a stage
  where something waits is never left without a slot.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog

from assay.core.errors import (
    AssayError,
    DependencyDown,
    FailedPrecondition,
    InvalidRequest,
    NotFound,
)
from assay.core.ids import StageName
from assay.core.records import HintRecord, OpenWork, StageDepth, TaskRecord
from assay.core.tools.lru import LruCache
from assay.edge.clock import Clock
from assay.edge.lifecycle import going_on, to_its_end
from assay.edge.metrics import Metrics
from assay.planner.process.parent import PlanningDown, PlanningProcess, ProcessState
from assay.planner.service.floor import (
    FLOOR_SHARE_MAX,
    FLOOR_SOON_S,
    FLOOR_STEP_S,
    GRACE_S,
    StagesKept,
    next_release_s,
    on_floor,
    released,
)
from assay.planner.service.history_feed import HistoryFeed
from assay.planner.service.leader import LeaderLease
from assay.planner.service.plan_log import PlanLog
from assay.planner.service.scaler import Scaler
from assay.planner.session.messages import (
    Alternatives,
    Change,
    Decision,
    HostState,
    PoolState,
    SetSlots,
    Snapshot,
    StageLimits,
    TaskHistory,
    TaskKey,
    fits_floor,
)
from assay.planner.session.plan_view import PlanView  # noqa: TC001
from assay.planner.session.refusals import Refusals
from assay.store.port import Store

STEPS_APART_S: Final = 0.2
BUSY_SHARE_MAX: Final = 0.2
"""Share of the time that planning may take: after a long plan the next step is later."""
IDLE_STEP_S: Final = 15.0
RETRY_S: Final = 1.0
LOOK_AGE_NS_MAX: Final = 500_000_000
"""Many may ask for the pools; hosts are looked at for them at most so often."""
BATCHES_MAX: Final = 256
REQUESTS_MAX: Final = 200_000
TASKS_KEPT_MAX: Final = 256
HINT_AGE_NS_MAX: Final = 1_800 * 10**9
"""A hint not followed by a batch for this long is ignored, whatever the history says."""
BEFORE_NS: Final = 30 * 24 * 3_600 * 10**9
"""The origin is this long before the start, so that open batches have positive times."""


def sizes(slots: Sequence[SetSlots]) -> dict[StageName, int]:
    """The new sizes by stage."""
    return {one.stage: one.slots for one in slots}


LimitsOf = Callable[[Sequence[PoolState]], tuple[StageLimits, ...]]

log = structlog.get_logger(__name__)


class Controller:
    """One planner, leading or standing by."""

    def __init__(
        self,
        *,
        store: Store,
        scaler: Scaler,
        lease: LeaderLease,
        process: PlanningProcess,
        limits_of: LimitsOf,
        history_batches: int,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._store = store
        self._scaler = scaler
        self._lease = lease
        self._process = process
        self._limits_of = limits_of
        self._clock = clock
        self._metrics = metrics
        self._origin_ns = clock.now_ns() - BEFORE_NS
        self._history = HistoryFeed(store, batches_max=history_batches)
        self._plan_log = PlanLog(store)
        self._tasks: LruCache[TaskKey, TaskRecord] = LruCache(weight_max=TASKS_KEPT_MAX)
        self._refusals = Refusals()
        self._wake = asyncio.Event()
        self._why = "no step was taken yet"
        self._draining = False
        self.store_unfit = ""
        """Why the store cannot be trusted with work; empty = it is fit."""
        self._planning_s = 0.0
        self._fresh_until_ns = 0
        self._raised: dict[StageName, int] = {}
        """What pools were raised to without a plan since they were last looked at for one."""
        self._idle_since_ns: int | None = None
        """By the monotonic clock; `None` = there is work to plan."""
        self._kept = StagesKept()
        self._awaits = False
        """The planning process may hold slots for work that is not there yet."""
        self.pools: Sequence[PoolState] = ()
        """As last seen, while it leads."""
        self.unserved: Mapping[StageName, int] = {}
        """Requests of open batches at stages of which there is no pool, while it leads."""
        self._looked: Sequence[PoolState] = ()
        self._looked_ns = -LOOK_AGE_NS_MAX - 1
        self.plan: PlanView | None = None
        """The present plan; `None` = there is nothing to plan."""

    # -- state ---------------------------------------------------------------------------------
    @property
    def leading(self) -> bool:
        """Whether it may change pools."""
        return self._lease.leads and not self._draining

    @property
    def leader(self) -> str:
        """Name of the planner that leads, as far as this one knows."""
        return self._lease.leader

    @property
    def why_not_ready(self) -> str:
        """Empty while it leads and plans, or stands by and could lead."""
        if self._draining:
            return "draining"
        return self._lease.lost_store or self.store_unfit or self._why

    async def look_at_pools(self) -> tuple[Sequence[PoolState], Sequence[HostState]]:
        """The pools and their hosts, seen within `LOOK_AGE_NS_MAX`; nothing unless it leads.

        Raises:
            DependencyDown: no host answers.
        """
        if not self.leading:
            return (), ()
        now_ns = self._clock.monotonic_ns()
        if now_ns - self._looked_ns > LOOK_AGE_NS_MAX:
            self._looked = await self._scaler.pools()
            self._looked_ns = now_ns
        return self._looked, self._scaler.hosts()

    @property
    def process(self) -> PlanningProcess:
        """The planning process, for its state in `GetPlan`."""
        return self._process

    async def what_if(self, change: Change) -> Alternatives:
        """Plan from the last snapshot under other conditions, and as it is.

        Raises:
            InvalidRequest: the change is invalid.
            FailedPrecondition: there is nothing to plan, or another planner leads.
            DependencyDown: the planning process does not answer.
        """
        if self.plan is None:
            raise FailedPrecondition("no work is planned here now")
        try:  # a question that is cancelled with its caller would kill the process
            return await to_its_end(self._process.what_if(change))
        except PlanningDown as error:
            message = f"the planning process does not answer: {error}"
            raise DependencyDown(message) from error

    # -- life ----------------------------------------------------------------------------------
    async def run(self) -> None:
        """Plan until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for loop in (
                *(self._lease.keep, self._watch, self._watch_lease),
                *(self._step_forever, self._hold_floor),
            ):
                tasks.create_task(going_on(loop))

    def look_again(self) -> None:
        """Something has changed that the store does not report."""
        self._refusals.forget()
        self._wake.set()

    async def stop(self) -> None:
        """Stop changing pools; let a standby take over."""
        self._draining = True
        await self._lease.resign()
        await self._process.stop()
        await self._scaler.close()

    async def _watch(self) -> None:
        while True:
            try:
                async for _ in self._store.watch_planning():
                    self._wake.set()
            except AssayError as error:
                log.info("watch_lost", why=error.message)
            await self._clock.sleep(RETRY_S)

    async def _watch_lease(self) -> None:
        while True:
            await self._lease.changed.wait()
            self._lease.changed.clear()
            self._wake.set()

    async def _step_forever(self) -> None:
        while True:
            self._wake.clear()
            self._planning_s = 0.0
            wake_after_s = await self.step()
            pause_s = max(STEPS_APART_S, min(self._planning_s / BUSY_SHARE_MAX, IDLE_STEP_S))
            await self._clock.sleep(pause_s)
            try:
                async with asyncio.timeout(max(wake_after_s - pause_s, 0)):
                    await self._wake.wait()
            except TimeoutError:
                pass

    # -- one step ------------------------------------------------------------------------------
    async def step(self) -> float:
        """Take a snapshot and act. Returns the longest time to the next step, in seconds."""
        if not self.leading and not self._draining:
            await self._lease.renew()  # the leader may just have resigned
        self._metrics.planner_seen(leading=self.leading)
        if not self.leading:
            self._why, self.plan, self.pools = self._lease.lost_store, None, ()
            self.unserved = {}
            await self._process.rest()
            return IDLE_STEP_S
        try:
            wake_after_s = await self._act()
        except PlanningDown as error:
            self._history.forget()
            self._why = f"the planning process does not answer: {error}"
        except AssayError as error:
            self._why = error.message
        else:
            self._is_fresh_for(wake_after_s if not self._why else -GRACE_S)
            return min(wake_after_s, self._refusals.next_s(self._now_s))
        self._is_fresh_for(-GRACE_S)
        log.warning("cannot_plan", why=self._why)
        return RETRY_S

    @property
    def _now_s(self) -> float:
        return self._clock.monotonic_ns() / 1e9

    def _is_fresh_for(self, seconds: float) -> None:
        self._fresh_until_ns = self._clock.monotonic_ns() + int((seconds + GRACE_S) * 1e9)

    async def _hold_floor(self) -> None:
        pause_s = FLOOR_SOON_S
        while True:
            await self._until_something_happens(FLOOR_STEP_S)
            await self._clock.sleep(pause_s)
            pause_s, begun_ns = FLOOR_SOON_S, self._clock.monotonic_ns()
            is_fresh = begun_ns < self._fresh_until_ns
            if not self.leading or (is_fresh and not self._wake.is_set()):
                continue
            try:
                await self.react(is_fresh=is_fresh)
            except AssayError as error:
                log.info("floor_not_held", why=error.message)
            took_s = (self._clock.monotonic_ns() - begun_ns) / 1e9
            pause_s = max(FLOOR_SOON_S, took_s / FLOOR_SHARE_MAX)

    async def _until_something_happens(self, most_s: float) -> None:
        """Something has happened that no step has looked at, or the time is up."""
        if self._wake.is_set():
            return
        waits = [
            asyncio.ensure_future(self._clock.sleep(most_s)),
            asyncio.ensure_future(self._wake.wait()),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()

    async def react(self, *, is_fresh: bool = False) -> None:
        """Without a fresh plan: hold at least what waits and runs. Where the plan is fresh and
        something has happened since, which no step has looked at because one is being planned or
        the last one took long: leave no stage without a slot where something waits."""
        pools = await self._scaler.pools()
        depths = await self._store.depths([pool.stage for pool in pools])
        if not is_fresh:  # a plan knows more than what waits and runs at this moment
            self._kept.see(depths, (), self._clock.monotonic_ns())
        slots = on_floor(self._limits_of(pools), pools, depths, {}, raised={}, complete=is_fresh)
        if slots and not is_fresh:
            log.warning("held_without_a_plan", slots={str(s.stage): s.slots for s in slots})
        self._raised |= sizes(slots)
        await self._resize(slots)

    async def _rest(
        self,
        stages: Sequence[StageLimits],
        pools: Sequence[PoolState],
        depths: Sequence[StageDepth],
    ) -> float:
        """All work fits into the warm slots, and no batch is awaited: there is nothing to plan."""
        self.plan, self._why = None, ""
        now_ns = self._clock.monotonic_ns()
        if self._idle_since_ns is None:
            self._idle_since_ns = now_ns
        idle_ns = now_ns - self._idle_since_ns
        kept = self._kept.kept(stages, now_ns)
        floors = sizes(released(stages, pools, idle_ns, kept))
        await self._resize(on_floor(stages, pools, depths, floors, raised={}, complete=True))
        await self._process.rest()
        return next_release_s(stages, pools, idle_ns, kept, IDLE_STEP_S)

    def _note_unserved(self, pools: Sequence[PoolState], work: Sequence[OpenWork]) -> None:
        """No plan has these, so nothing else would tell of them."""
        stages = {stage for batch in work for stage in batch.task.stages}
        missing = stages - {pool.stage for pool in pools}
        known = (one.stage for batch in work for one in batch.requests) if missing else ()
        found = Counter(stage for stage in known if stage in missing)
        if found.keys() != self.unserved.keys():
            log.warning("stages_without_a_pool", requests={str(s): n for s, n in found.items()})
        self.unserved = found

    async def _act(self) -> float:
        """One step of the leader; returns the seconds until the next one."""
        self._raised = {}
        pools = self.pools = await self._scaler.pools()
        depths = await self._store.depths([pool.stage for pool in pools])
        work = await self._store.open_work(batches_max=BATCHES_MAX, requests_max=REQUESTS_MAX)
        self._kept.see(depths, work, self._clock.monotonic_ns())
        hints = await self._hints()
        stages = self._limits_of(pools)
        now_ns = self._lease.store_now_ns
        self._note_unserved(pools, work)
        await self._plan_log.ended(work, pools, now_ns)
        idle = fits_floor(stages, work, hints)
        if idle and not (self._awaits and self._process.state is ProcessState.UP):
            return await self._rest(stages, pools, depths)
        self._idle_since_ns = None
        if self._process.state is not ProcessState.UP:
            self._fresh_until_ns = 0  # it takes seconds to start
        snapshot = Snapshot(
            now_ns=now_ns,
            origin_ns=self._origin_ns,
            leader=True,
            stages=stages,
            pools=tuple(pools),
            work=tuple(work),
            hints=tuple(hints),
            histories=await self._news(work, hints),
        )
        decision = await self._process.decide(snapshot)
        self._planning_s = decision.planning_ns / 1e9
        # Asked again when the last work ends: only then is the next batch awaited.
        self._awaits = decision.awaits or not idle
        complete = decision.ready and len(work) < BATCHES_MAX
        planned = sizes(decision.slots)
        slots = on_floor(stages, pools, depths, planned, raised=self._raised, complete=complete)
        await self._carry_out(decision, snapshot, slots)
        if idle:
            self.plan = None
            if slots:
                log.info("held_before_a_batch", slots={str(s.stage): s.slots for s in slots})
        self._why = "" if decision.ready else decision.why
        return decision.wake_after_ns / 1e9

    async def _news(
        self, work: Sequence[OpenWork], hints: Sequence[tuple[HintRecord, TaskRecord]]
    ) -> tuple[TaskHistory, ...]:
        await self._process.up()
        hinted = [task for _, task in hints]
        return await self._history.changed(work, hinted, generation=self._process.generation)

    async def _hints(self) -> list[tuple[HintRecord, TaskRecord]]:
        found = []
        after_ns = self._lease.store_now_ns - HINT_AGE_NS_MAX
        for hint in (await self._store.hints())[-BATCHES_MAX:]:
            key = hint.tenant, hint.task_id
            if hint.hinted_ns < after_ns:
                continue
            task = self._tasks.get(key)
            if task is None:
                try:
                    task = await self._store.get_task(*key)
                except NotFound:
                    continue
                self._tasks.put(key, task)
            found.append((hint, task))
        return found

    # -- effects -------------------------------------------------------------------------------
    async def _carry_out(
        self, decision: Decision, snapshot: Snapshot, slots: Sequence[SetSlots]
    ) -> None:
        self.plan = decision.plan
        await self._resize(slots)
        await self._prioritize(decision)
        await self._mark(decision)
        planned = {pool.stage: pool.desired for pool in snapshot.pools}
        planned |= sizes(slots)
        self._plan_log.sampled(snapshot, planned)
        if decision.made and decision.plan is not None:
            self._metrics.planned(
                reason=decision.plan.reason,
                seconds=decision.planning_ns / 1e9,
                slots={str(stage.stage): stage.slots for stage in decision.plan.stages},
            )
            if self.leading:
                await self._plan_log.planned(decision.plan)

    async def _resize(self, slots: Sequence[SetSlots]) -> None:
        for one in slots:
            if not self.leading:
                return
            if not self._refusals.is_due(one.stage, self._now_s):
                continue
            try:
                await self._scaler.resize(one.stage, one.slots)
            except InvalidRequest as error:
                again_s = self._refusals.refused(one.stage, self._now_s)
                log.warning(
                    "not_resized", stage=one.stage, slots=one.slots, again_s=again_s,
                    why=error.message,
                )  # fmt: skip
            else:
                self._refusals.taken(one.stage)

    async def _prioritize(self, decision: Decision) -> None:
        for one in decision.priorities:
            if not self.leading:
                return
            try:
                await self._store.prioritize(*one.batch, one.deadline_ns)
            except NotFound:
                continue
            log.info("batch_reordered", batch_id=one.batch[1], deadline_ns=one.deadline_ns)

    async def _mark(self, decision: Decision) -> None:
        for one in decision.risks:
            if not self.leading:
                return
            tenant, batch_id = one.batch
            try:
                await self._store.mark_at_risk(tenant, batch_id, at_risk=one.at_risk)
            except NotFound:
                continue
            log.info(
                "deadline_at_risk" if one.at_risk else "deadline_safe_again",
                tenant=tenant,
                batch_id=batch_id,
                late_share=one.late_share,
            )
            if one.at_risk:
                self._metrics.batch_at_risk(tenant=tenant)
