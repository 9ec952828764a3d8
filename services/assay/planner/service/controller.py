"""The planner around its planning process: looks, asks, carries out.

It looks when the store says that something has happened, when the plan asks to be looked after, and
when the lead changes; never more often than `LOOKS_APART_S`. Always true:

* pools, orders and batches are touched only while the lease certainly holds, asked before each;
* whatever cannot be reached or does not answer, pools stay as they are and `why_not_ready` says so;
* the planning process is asked only where requests could wait for a slot.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from assay.core.errors import (
    AssayError,
    DependencyDown,
    FailedPrecondition,
    InvalidRequest,
    NotFound,
)
from assay.core.records import HintRecord, OpenWork, TaskRecord
from assay.edge.clock import Clock
from assay.edge.metrics import Metrics
from assay.planner.process.parent import PlanningDown, PlanningProcess
from assay.planner.service.history_feed import Histories
from assay.planner.service.leader import Lead
from assay.planner.service.plan_log import Chronicle
from assay.planner.service.scaler import Scaler
from assay.planner.session.messages import (
    Answer,
    Change,
    Look,
    PoolFacts,
    SetSlots,
    StageFacts,
    TaskHistory,
    TaskKey,
    fits_floor,
    resting,
)
from assay.planner.session.plan_view import PlanView
from assay.store.port import Store

LOOKS_APART_S: Final = 0.1
BUSY_SHARE_MAX: Final = 0.2
"""Of the time, that planning may take: after a long plan the next look is later."""
IDLE_LOOK_S: Final = 15.0
RETRY_S: Final = 1.0
BATCHES_MAX: Final = 256
REQUESTS_MAX: Final = 200_000
TASKS_KEPT_MAX: Final = 256
HINT_AGE_NS_MAX: Final = 1_800 * 10**9
"""A hint that no batch followed for so long is forgotten, whatever the history says."""
BEFORE_NS: Final = 30 * 24 * 3_600 * 10**9
"""Batches opened longer ago count from before the origin, which does no harm."""

FactsOf = Callable[[Sequence[PoolFacts]], tuple[StageFacts, ...]]

log = structlog.get_logger(__name__)


class Planner:
    """One planner, leading or standing by."""

    def __init__(
        self,
        *,
        store: Store,
        scaler: Scaler,
        lead: Lead,
        process: PlanningProcess,
        facts_of: FactsOf,
        history_batches: int,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._store = store
        self._scaler = scaler
        self._lead = lead
        self._process = process
        self._facts_of = facts_of
        self._clock = clock
        self._metrics = metrics
        self._origin_ns = clock.now_ns() - BEFORE_NS
        self._histories = Histories(store, batches_max=history_batches)
        self._chronicle = Chronicle(store)
        self._tasks: OrderedDict[TaskKey, TaskRecord] = OrderedDict()
        self._look_again = asyncio.Event()
        self._why = "it has not looked yet"
        self._draining = False
        self.store_unfit = ""
        """Why the store must not be trusted with work any more."""
        self._planning_s = 0.0
        self.plan: PlanView | None = None
        """The present one; `None` where there was nothing to plan."""

    # -- state ---------------------------------------------------------------------------------
    @property
    def leading(self) -> bool:
        """It may touch pools."""
        return self._lead.leads and not self._draining

    @property
    def why_not_ready(self) -> str:
        """Empty when it leads and plans, or stands by and could."""
        if self._draining:
            return "draining"
        return self._lead.lost_store or self.store_unfit or self._why

    @property
    def process(self) -> PlanningProcess:
        """For what it says of itself."""
        return self._process

    async def what_if(self, change: Change) -> PlanView:
        """Plan on the last look, under other conditions.

        Raises:
            InvalidRequest: the change makes no sense.
            FailedPrecondition: there is nothing to plan, or not here.
            DependencyDown: the planning process does not answer.
        """
        if self.plan is None:
            raise FailedPrecondition("no work is planned here now")
        # Not to be broken off with its caller: that would cost the process its life.
        asking = asyncio.create_task(self._process.what_if(change), name="what if")
        try:
            return await asyncio.shield(asking)
        except PlanningDown as error:
            message = f"the planning process does not answer: {error}"
            raise DependencyDown(message) from error

    # -- life ----------------------------------------------------------------------------------
    async def run(self) -> None:
        """Plan, for ever."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._lead.keep())
            tasks.create_task(self._watch())
            tasks.create_task(self._watch_lead())
            tasks.create_task(self._look_for_ever())

    async def stop(self) -> None:
        """Touch nothing more; let a standby take over."""
        self._draining = True
        await self._lead.resign()
        await self._process.stop()
        await self._scaler.close()

    async def _watch(self) -> None:
        while True:
            try:
                async for _ in self._store.watch_planning():
                    self._look_again.set()
            except AssayError as error:
                log.info("watch_lost", why=error.message)
            await self._clock.sleep(RETRY_S)

    async def _watch_lead(self) -> None:
        while True:
            await self._lead.changed.wait()
            self._lead.changed.clear()
            self._look_again.set()

    async def _look_for_ever(self) -> None:
        while True:
            self._look_again.clear()
            self._planning_s = 0.0
            wake_after_s = await self.look()
            pause_s = max(LOOKS_APART_S, min(self._planning_s / BUSY_SHARE_MAX, IDLE_LOOK_S))
            await self._clock.sleep(pause_s)
            try:
                async with asyncio.timeout(max(wake_after_s - pause_s, 0)):
                    await self._look_again.wait()
            except TimeoutError:
                pass

    # -- one look ------------------------------------------------------------------------------
    async def look(self) -> float:
        """Look once and act; how long it may be until the next look."""
        if not self.leading and not self._draining:
            await self._lead.renew()  # whoever led may just have resigned
        self._metrics.planner_seen(leading=self.leading)
        if not self.leading:
            self._why, self.plan = self._lead.lost_store, None
            await self._process.rest()
            return IDLE_LOOK_S
        try:
            return await self._act()
        except PlanningDown as error:
            self._histories.forget()
            self._why = f"the planning process does not answer: {error}"
        except AssayError as error:
            self._why = error.message
        log.warning("cannot_plan", why=self._why)
        return RETRY_S

    async def _act(self) -> float:
        pools = await self._scaler.pools()
        work = await self._store.open_work(batches_max=BATCHES_MAX, requests_max=REQUESTS_MAX)
        hints = await self._hints()
        stages = self._facts_of(pools)
        now_ns = self._lead.store_now_ns
        await self._chronicle.ended(work, pools, now_ns)
        if fits_floor(stages, work, hints):
            self.plan, self._why = None, ""
            await self._resize(resting(stages, pools))
            await self._process.rest()
            return IDLE_LOOK_S
        look = Look(
            now_ns=now_ns,
            origin_ns=self._origin_ns,
            leader=True,
            stages=stages,
            pools=tuple(pools),
            work=tuple(work),
            hints=tuple(hints),
            histories=await self._news(work, hints),
        )
        answer = await self._process.look(look)
        self._planning_s = answer.planning_ns / 1e9
        await self._carry_out(answer, look)
        self._why = "" if answer.ready else answer.why
        return answer.wake_after_ns / 1e9

    async def _news(
        self, work: Sequence[OpenWork], hints: Sequence[tuple[HintRecord, TaskRecord]]
    ) -> tuple[TaskHistory, ...]:
        await self._process.up()
        hinted = [task for _, task in hints]
        return await self._histories.changed(work, hinted, generation=self._process.generation)

    async def _hints(self) -> list[tuple[HintRecord, TaskRecord]]:
        found = []
        after_ns = self._lead.store_now_ns - HINT_AGE_NS_MAX
        for hint in (await self._store.hints())[-BATCHES_MAX:]:
            key = hint.tenant, hint.task_id
            if hint.hinted_ns < after_ns:
                continue
            if key not in self._tasks:
                try:
                    self._tasks[key] = await self._store.get_task(*key)
                except NotFound:
                    continue
            self._tasks.move_to_end(key)
            found.append((hint, self._tasks[key]))
        while len(self._tasks) > TASKS_KEPT_MAX:
            self._tasks.popitem(last=False)
        return found

    # -- effects -------------------------------------------------------------------------------
    async def _carry_out(self, answer: Answer, look: Look) -> None:
        self.plan = answer.plan
        await self._resize(answer.slots)
        await self._prioritize(answer)
        await self._mark(answer)
        wanted = {pool.stage: pool.desired for pool in look.pools}
        wanted |= {one.stage: one.slots for one in answer.slots}
        self._chronicle.saw(look, wanted)
        if answer.made and answer.plan is not None:
            self._metrics.planned(
                reason=answer.plan.reason,
                seconds=answer.planning_ns / 1e9,
                slots={str(stage.stage): stage.slots for stage in answer.plan.stages},
            )
            if self.leading:
                await self._chronicle.planned(answer.plan)

    async def _resize(self, slots: Sequence[SetSlots]) -> None:
        for one in slots:
            if not self.leading:
                return
            try:
                await self._scaler.resize(one.stage, one.slots)
            except InvalidRequest as error:
                log.warning("not_resized", stage=one.stage, slots=one.slots, why=error.message)

    async def _prioritize(self, answer: Answer) -> None:
        for one in answer.priorities:
            if not self.leading:
                return
            try:
                await self._store.prioritize(*one.batch, one.deadline_ns)
            except NotFound:
                continue
            log.info("batch_reordered", batch_id=one.batch[1], deadline_ns=one.deadline_ns)

    async def _mark(self, answer: Answer) -> None:
        for one in answer.risks:
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
