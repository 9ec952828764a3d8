"""The controller: what it leaves alone and what it holds."""

import asyncio
import itertools
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest
from tests.planner import snapshots
from tests.planner.leading import HandClock, lead
from tests.planner.snapshots import COMPILE, RUN, S
from tests.store.driver import request
from tests.unheard import failing, leave

from assay.config.settings import PlannerSettings
from assay.core.errors import InvalidRequest
from assay.core.ids import BatchId, TenantId
from assay.core.records import BatchSpec, Quota
from assay.edge.clock import Clock
from assay.edge.metrics import Metrics
from assay.planner.process.parent import PlanningDown, PlanningProcess, ProcessState
from assay.planner.service.controller import Controller
from assay.planner.session.messages import (
    Change,
    Decision,
    PoolState,
    SetSlots,
    Snapshot,
)
from assay.planner.session.refusals import AGAIN_S, AGAIN_S_MAX, Refusals
from assay.testing.memory_store import MemoryStore

if TYPE_CHECKING:
    from assay.planner.session.plan_view import PlanView


class LosingScaler:
    """While it is asked for its pools, the lease runs out."""

    def __init__(self, clock: HandClock, loses_ns: int) -> None:
        self.clock, self.loses_ns = clock, loses_ns
        self.resized: list[str] = []

    async def pools(self):
        self.clock.at_ns += self.loses_ns
        return snapshots.pools(slots=5)

    async def resize(self, stage, slots):
        self.resized.append(stage)
        return snapshots.pools()[0]

    def hosts(self):
        return ()

    async def close(self):
        pass


@pytest.mark.parametrize(("loses_s", "resized"), [(1, [COMPILE, RUN]), (10, [])])
async def test_a_leader_whose_lease_ran_out_while_it_looked_touches_no_pool(loses_s, resized):
    clock = HandClock()
    store = MemoryStore(clock)
    scaler = LosingScaler(clock, loses_s * S)
    settings = PlannerSettings()
    metrics = Metrics()
    planner = Controller(
        store=store, scaler=scaler, lease=lead(store, clock, "a"),
        process=PlanningProcess(settings, clock=clock, metrics=metrics),
        limits_of=lambda pools: snapshots.limits(least=6), history_batches=4, clock=clock,
        metrics=metrics,
    )  # fmt: skip
    await planner.step()
    assert scaler.resized == resized


class AwaitingProcess(PlanningProcess):
    """Answers in this order whether it waits for a batch."""

    def __init__(self, answers: Sequence[bool], clock: Clock) -> None:
        super().__init__(PlannerSettings(), clock=clock, metrics=Metrics())
        self.answers = list(answers)
        self.asked: list[Snapshot] = []

    @property
    def state(self) -> ProcessState:
        return ProcessState.UP

    async def up(self) -> None:
        pass

    async def decide(self, snapshot):
        self.asked.append(snapshot)
        slots = (SetSlots(stage=COMPILE, slots=4),)
        return Decision(
            ready=True, why="", wake_after_ns=S, slots=slots, awaits=self.answers.pop(0)
        )


class RefusingScaler(LosingScaler):
    """Refuses so many sizes of one stage."""

    def __init__(self, clock: HandClock, times: int) -> None:
        super().__init__(clock, 0)
        self.left = times
        self.tried: list[tuple[str, float]] = []

    async def resize(self, stage, slots):
        self.tried.append((stage, self.clock.at_ns / S))
        if stage == COMPILE and self.left:
            self.left -= 1
            raise InvalidRequest("Forbidden: not ours", field="slots")
        return await super().resize(stage, slots)


async def test_a_size_that_is_refused_is_tried_again_soon_and_then_less_often():
    clock = HandClock()
    store = MemoryStore(clock)
    scaler = RefusingScaler(clock, times=7)
    settings, metrics = PlannerSettings(lease_s=1e6), Metrics()
    planner = Controller(
        store=store, scaler=scaler, lease=lead(store, clock, "a"),
        process=PlanningProcess(settings, clock=clock, metrics=metrics),
        limits_of=lambda pools: snapshots.limits(least=2), history_batches=4, clock=clock,
        metrics=metrics,
    )  # fmt: skip
    begun_s = clock.at_ns / S
    while scaler.left or not scaler.resized.count(COMPILE):
        await planner._lease.renew()
        wake_after_s = await planner.step()
        clock.at_ns += round(min(wake_after_s, 1e3) * S)
    tried = [round(at_s - begun_s, 3) for stage, at_s in scaler.tried if stage == COMPILE]
    pauses = [after - before for before, after in itertools.pairwise(tried)]
    assert pauses == [AGAIN_S, 1.0, 2.0, 4.0, 8.0, AGAIN_S_MAX, AGAIN_S_MAX]
    assert scaler.resized.count(RUN) >= len(tried), "the others are sized all along"


def test_what_was_refused_and_is_not_wanted_any_more_wakes_no_one():
    refusals = Refusals()
    assert refusals.refused(COMPILE, 100.0) == AGAIN_S
    assert (refusals.is_due(COMPILE, 100.0), refusals.is_due(RUN, 100.0)) == (False, True)
    assert refusals.next_s(100.0) == AGAIN_S
    assert refusals.next_s(100.0 + AGAIN_S) == math.inf
    refusals.forget()
    assert refusals.refused(COMPILE, 101.0) == AGAIN_S, "it begins again"


class KeepingScaler(LosingScaler):
    def __init__(self, clock: HandClock) -> None:
        super().__init__(clock, 0)
        self.sizes = {COMPILE: 0, RUN: 0}

    async def pools(self):
        return [PoolState(stage=s, desired=n, ready=n, busy=0) for s, n in self.sizes.items()]

    async def resize(self, stage, slots):
        self.sizes[stage] = slots
        return snapshots.pools()[0]


async def opened(
    store: MemoryStore, name: str = "b", *, waiting: int = 0
) -> tuple[TenantId, BatchId]:
    """An open batch, of which so many requests wait at the first stage."""
    one = snapshots.task()
    await store.put_task(one)
    spec = BatchSpec(
        tenant=one.tenant, batch_id=BatchId(name), task_id=one.task_id, size=20, group_size=0,
        deadline_after_ms=60_000,
    )  # fmt: skip
    await store.open_batch(spec, Quota())
    requests = [request(f"r{n}") for n in range(waiting)]
    await store.submit(one.tenant, spec.batch_id, requests, Quota())
    return one.tenant, spec.batch_id


async def test_without_work_slots_are_held_as_long_as_a_batch_is_awaited():
    clock = HandClock()
    store = MemoryStore(clock)
    scaler, process = (
        KeepingScaler(clock),
        AwaitingProcess([True, True, False, False, False], clock),
    )
    planner = Controller(
        store=store, scaler=scaler, lease=lead(store, clock, "a"), process=process,
        limits_of=lambda pools: snapshots.limits(), history_batches=4, clock=clock,
        metrics=Metrics(),
    )  # fmt: skip
    await planner.step()
    assert (process.asked, scaler.sizes[COMPILE]) == ([], 0), "nothing was ever planned here"
    batch = await opened(store)
    await planner.step()
    await store.cancel(*batch)
    startup_ns = snapshots.limits()[0].startup_ns
    idle = (4, 3, 0), (4, 3, startup_ns - 1), (0, 3, 1)
    for held, asked, later_ns in ((4, 2, 0), (4, 3, 0), *idle):
        clock.at_ns += later_ns
        await planner.step()
        assert (scaler.sizes[COMPILE], len(process.asked)) == (held, asked)
    again = await opened(store, "c")
    await planner.step()
    await store.cancel(*again)
    await planner.step()
    await planner.step()
    assert scaler.sizes[COMPILE] == 4, "its time without work begins again"


@pytest.mark.parametrize(
    ("has_happened", "within_s", "slots"), [(False, 3.0, [0, 2]), (True, 0.5, [1, 2])]
)
async def test_what_comes_while_no_step_is_taken_has_a_slot_within_half_a_second(
    has_happened, within_s, slots
):
    clock = HandClock()
    store = MemoryStore(clock)
    scaler = KeepingScaler(clock)
    planner = Controller(
        store=store, scaler=scaler, lease=lead(store, clock, "a"),
        process=AwaitingProcess([], clock), limits_of=lambda pools: snapshots.limits(),
        history_batches=4, clock=clock, metrics=Metrics(),
    )  # fmt: skip
    await planner._lease.renew()
    planner._is_fresh_for(5.0)
    scaler.sizes[RUN] = 2
    await opened(store, waiting=3)
    if has_happened:
        planner.look_again()
    floor = asyncio.create_task(planner._hold_floor())
    begun_ns = clock.at_ns
    while clock.at_ns - begun_ns < within_s * S:
        await asyncio.sleep(0)
    floor.cancel()
    assert [scaler.sizes[COMPILE], scaler.sizes[RUN]] == slots


class DownProcess(AwaitingProcess):
    """Does not start."""

    @property
    def state(self) -> ProcessState:
        return ProcessState.DOWN

    async def up(self) -> None:
        raise PlanningDown("it does not start")


async def test_without_a_planning_process_a_slot_is_kept_through_gaps_like_those_that_were_seen():
    clock = HandClock()
    store = MemoryStore(clock)
    scaler = KeepingScaler(clock)
    limits = [replace(one, keep_price_ns=40 * S) for one in snapshots.limits()]
    planner = Controller(
        store=store, scaler=scaler, lease=lead(store, clock, "a"),
        process=DownProcess([], clock), limits_of=lambda pools: tuple(limits),
        history_batches=4, clock=clock, metrics=Metrics(),
    )  # fmt: skip
    after_gap = []
    for k in range(6):
        batch = await opened(store, f"b{k}", waiting=1)
        await planner._lease.renew()
        await planner.step()
        await planner.react()
        assert scaler.sizes[COMPILE] == 1
        await store.cancel(*batch)
        await planner.step()
        clock.at_ns += 9 * S
        await planner._lease.renew()
        await planner.step()
        after_gap.append(scaler.sizes[COMPILE])
    assert after_gap == [0, 0, 0, 1, 1, 1]
    clock.at_ns += 9 * S
    await planner._lease.renew()
    await planner.step()
    assert scaler.sizes[COMPILE] == 0


class LateProcess(AwaitingProcess):
    """Decides to hold one slot, after something else has happened."""

    def __init__(self, clock: Clock, meanwhile: Callable[[], Awaitable[None]]) -> None:
        super().__init__([False], clock)
        self.meanwhile = meanwhile

    async def decide(self, snapshot):
        await self.meanwhile()
        found = await super().decide(snapshot)
        return replace(found, slots=(SetSlots(stage=COMPILE, slots=1),))


async def test_a_plan_that_comes_late_takes_back_no_slot_that_was_started_without_it():
    clock = HandClock()
    store = MemoryStore(clock)
    scaler = KeepingScaler(clock)

    async def no_plan_is_fresh():
        await planner.react()

    planner = Controller(
        store=store, scaler=scaler, lease=lead(store, clock, "a"),
        process=LateProcess(clock, no_plan_is_fresh),
        limits_of=lambda pools: snapshots.limits(), history_batches=4, clock=clock,
        metrics=Metrics(),
    )  # fmt: skip
    await opened(store, waiting=3)
    await planner.step()
    assert scaler.sizes[COMPILE] == 3


class BrokenProcess(AwaitingProcess):
    """Refuses what it is asked."""

    async def what_if(self, change):
        await failing(InvalidRequest("slots: 0 or more", field="slots"))


async def test_a_question_whose_caller_has_left_writes_no_error_to_the_log():
    clock = HandClock()
    store, metrics = MemoryStore(clock), Metrics()
    planner = Controller(
        store=store, scaler=LosingScaler(clock, 0), lease=lead(store, clock, "a"),
        process=BrokenProcess([], clock), limits_of=lambda pools: (), history_batches=4,
        clock=clock, metrics=metrics,
    )  # fmt: skip
    planner.plan = cast("PlanView", object())
    await leave(planner.what_if(Change()))
