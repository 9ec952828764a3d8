"""The controller: what it leaves alone and what it holds."""

import itertools
import math
from collections.abc import Sequence

import pytest
from tests.planner import snapshots
from tests.planner.leading import HandClock, lead
from tests.planner.snapshots import COMPILE, RUN, S

from assay.config.settings import PlannerSettings
from assay.core.errors import InvalidRequest
from assay.core.ids import BatchId
from assay.core.records import BatchSpec, Quota
from assay.edge.clock import Clock
from assay.edge.metrics import Metrics
from assay.planner.process.parent import PlanningProcess, ProcessState
from assay.planner.service.controller import Controller
from assay.planner.session.messages import (
    Decision,
    PoolState,
    SetSlots,
    Snapshot,
)
from assay.planner.session.refusals import AGAIN_S, AGAIN_S_MAX, Refusals
from assay.testing.memory_store import MemoryStore


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
        limits_of=lambda pools: snapshots.limits(least=2), history_batches=4, clock=clock,
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


async def test_without_work_slots_are_held_as_long_as_a_batch_is_awaited():
    clock = HandClock()
    store = MemoryStore(clock)
    scaler, process = KeepingScaler(clock), AwaitingProcess([True, True, False], clock)
    planner = Controller(
        store=store, scaler=scaler, lease=lead(store, clock, "a"), process=process,
        limits_of=lambda pools: snapshots.limits(), history_batches=4, clock=clock,
        metrics=Metrics(),
    )  # fmt: skip
    await planner.step()
    assert (process.asked, scaler.sizes[COMPILE]) == ([], 0), "nothing was ever planned here"
    one = snapshots.task()
    await store.put_task(one)
    spec = BatchSpec(
        tenant=one.tenant, batch_id=BatchId("b"), task_id=one.task_id, size=20, group_size=0,
        deadline_after_ms=60_000,
    )  # fmt: skip
    await store.open_batch(spec, Quota())
    await planner.step()
    await store.cancel(one.tenant, spec.batch_id)
    for held, asked in ((4, 2), (4, 3), (0, 3)):
        await planner.step()
        assert (scaler.sizes[COMPILE], len(process.asked)) == (held, asked)
