"""The planner's small parts: records, words, floors and caps, the lead, frames."""

import asyncio
import io
import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planner import snapshots
from tests.planner.snapshots import COMPILE, NOW, RUN, S

from assay.config.settings import PlannerSettings, WorkerSettings
from assay.core.codec import pack
from assay.core.errors import DependencyDown, InvalidRequest
from assay.core.ids import BatchId
from assay.core.pipeline import Resources, StageSpec
from assay.core.records import BatchSpec, Leadership, Quota
from assay.core.tools.framing import FramingError
from assay.edge.clock import Clock
from assay.edge.metrics import Metrics
from assay.planner.process import frames
from assay.planner.process.parent import PlanningProcess, ProcessState
from assay.planner.service.controller import Controller
from assay.planner.service.history_feed import HistoryFeed
from assay.planner.service.leader import LeaderLease
from assay.planner.service.narrate import narrate, slot_use
from assay.planner.service.plan_log import PlanLog
from assay.planner.service.stage_limits import (
    limits_of_stage,
    slots_by_memory,
    stage_limits,
)
from assay.planner.service.wire import change_of, plan_message
from assay.planner.session.messages import (
    Decision,
    Machine,
    PoolState,
    SetSlots,
    Snapshot,
    Startup,
)
from assay.planner.session.plan_view import PlanRecord, PoolSample, pack_record, unpack_record
from assay.planner.session.refusals import AGAIN_S, AGAIN_S_MAX, Refusals
from assay.sim.pools.cluster import Cluster
from assay.sim.pools.replay import workload_of
from assay.sim.pools.runner import simulate
from assay.testing.memory_store import MemoryStore
from assay.v1 import planner_pb2

BATCH = (snapshots.TENANT, BatchId("b"))


class HandClock(Clock):
    """Moves when the test advances it."""

    def __init__(self) -> None:
        self.at_ns = NOW

    def now_ns(self) -> int:
        return self.at_ns

    def monotonic_ns(self) -> int:
        return self.at_ns

    async def sleep(self, seconds: float) -> None:
        self.at_ns += int(seconds * 1e9)
        await asyncio.sleep(0)


def view():
    requests = [snapshots.in_flight()] * 3
    history = snapshots.sent(snapshots.task(), snapshots.past())
    found = snapshots.session().step(
        snapshots.snapshot(snapshots.work(None, requests), histories=(history,))
    )
    assert found.plan is not None
    return found.plan


def sample(at_s, **changes):
    fields = {"planned": 2, "desired": 2, "ready": 1, "busy": 1, "queued": 4, **changes}
    return PoolSample(at_ns=NOW + at_s * S, stage=COMPILE, **fields)


# -- records ---------------------------------------------------------------------------------------


def test_a_kept_plan_comes_back_the_same():
    record = PlanRecord(plan=view(), samples=(sample(0), sample(1)))
    assert unpack_record(pack_record(record)) == record


@given(st.binary(max_size=40))
def test_what_is_no_record_is_skipped(body):
    assert unpack_record(body) is None


def test_a_record_of_a_later_release_is_skipped():
    assert unpack_record(pack((2, "whatever"))) is None


def test_the_message_says_what_the_plan_says():
    plan = view()
    message = plan_message(plan)
    assert [stage.stage for stage in message.stages] == [COMPILE, RUN]
    assert message.batches[0].history == ["past"]
    assert plan_message(None) == planner_pb2.Plan()


def test_the_story_names_history_bound_and_reason():
    record = PlanRecord(plan=view(), samples=(sample(0), sample(2)))
    said = " ".join(narrate([record]))
    for words in ("own history (past)", "times the bound", "slot-seconds of work", "in fact: 4.0"):
        assert words in said, words


def test_samples_hold_until_the_next_one():
    held = slot_use([sample(0), sample(3, ready=5, desired=5), sample(4)])
    assert (held.held_s, held.busy_s, held.most) == (2 * 3 + 5 * 1, 4, 5)


async def test_the_chronicle_closes_the_books_on_a_batch_that_is_over():
    store = MemoryStore(HandClock())
    chronicle = PlanLog(store)
    snapshot = snapshots.snapshot(snapshots.work(None, [snapshots.in_flight()]))
    chronicle.sampled(snapshot, {})
    await chronicle.planned(view())
    await chronicle.ended([], snapshot.pools, NOW)
    chronicle.sampled(snapshot, {})
    assert chronicle._samples.keys() == {BATCH}, "a batch that is no longer kept does no harm"


# -- floors and caps -------------------------------------------------------------------------------

SPEC = StageSpec(name=COMPILE, resources=Resources(cpu_cores=2.0, memory_bytes=10**9))
MACHINE = Machine(cores=16, memory_bytes=4 * 10**9)


def limits(spec=SPEC, worker=None, **planner):
    found = limits_of_stage(
        spec, PlannerSettings(**planner), WorkerSettings(**(worker or {})), [MACHINE]
    )
    return found.slots_min, found.slots_max


def test_the_floor_is_what_the_host_starts_with_unless_the_operator_says_otherwise():
    assert limits()[0] == 2
    assert limits(worker={"slots": 3, "slots_by_stage": {"compile": 1}})[0] == 1
    assert limits(slots_min=0)[0] == 0
    assert limits(slots_min=0, slots_min_by_stage={"compile": 2})[0] == 2


def test_a_stage_on_demand_may_sleep_until_it_has_slots():
    rare = replace(SPEC, on_demand=True)
    settings = (PlannerSettings(), WorkerSettings(), MACHINE)
    [pool] = snapshots.pools((COMPILE,))
    for spec, desired, floor in [(rare, 0, 0), (rare, 1, 2), (SPEC, 0, 2)]:
        pools = [replace(pool, desired=desired)]
        [found] = stage_limits(pools, (COMPILE,), {COMPILE: spec}, *settings)
        assert found.slots_min == floor


def test_the_cap_is_what_the_machine_carries_and_never_below_the_floor():
    assert limits()[1] == 4, "memory for four"
    roomy = replace(SPEC, resources=Resources(cpu_cores=2.0, memory_bytes=1))
    assert limits(roomy)[1] == 8, "cores for eight"
    assert limits(worker={"slots": 9}) == (9, 9)
    assert limits(slots_max=3)[1] == 3
    assert limits(slots_max=3, slots_max_by_stage={"compile": 5})[1] == 5
    assert limits(slots_max=500)[1] == WorkerSettings().slots_max
    assert limits(slots_max=1) == (1, 1), "a floor above the cap is the cap"


def test_a_pool_without_a_slot_is_ordered_as_early_as_a_cold_start_takes():
    [pool] = snapshots.pools((COMPILE,))
    settings = (PlannerSettings(startup_s=3.0), WorkerSettings(), MACHINE)
    known = replace(pool, startup_ns=10 * S, startup_cold_ns=90 * S)
    cases = [
        (pool, 3),
        (known, 90),
        (replace(known, ready=1), 10),
        (replace(known, startup_ns=120 * S), 120),
        (replace(pool, startup_cold_ns=90 * S), 90),
        (replace(known, ready=1, startup=Startup(measured=9, p50_ns=8 * S, p90_ns=10 * S)), 10),
    ]
    cautious = (settings[0].model_copy(update={"startup_sigmas": 2.0}), *settings[1:])
    [found] = stage_limits([cases[-1][0]], (COMPILE,), {COMPILE: SPEC}, *cautious)
    assert found.startup_ns // S == 11
    for state, expected_s in cases:
        [found] = stage_limits([state], (COMPILE,), {COMPILE: SPEC}, *settings)
        assert found.startup_ns // S == expected_s


@settings(deadline=None, max_examples=60)
@given(peaks=st.integers(1, 60), share=st.floats(0.02, 1.0))
def test_so_many_slots_fit_that_their_peaks_hardly_ever_exceed_the_memory(peaks, share):
    slots = slots_by_memory(peaks, share)
    assert slots >= peaks
    random = np.random.default_rng(1)
    at_once = random.binomial(slots, share, 20_000)
    assert (at_once > peaks).mean() <= 0.003
    if share < 0.5:
        more = random.binomial(slots + 1, share, 20_000)
        assert (more > peaks).mean() >= 0.0002, "one more would not do"
    if share == 1.0:
        assert slots == peaks


def test_memory_that_is_seldom_used_is_no_cap_where_the_settings_say_so():
    assert limits()[1] == 4
    assert limits(memory_mean_share_by_stage={"compile": 1 / 15})[1] == 8, "cores for eight"
    assert limits(memory_mean_share_by_stage={"run": 0.1})[1] == 4, "another stage"


def test_a_stage_costs_its_cores_and_its_gpus():
    spec = replace(SPEC, resources=Resources(cpu_cores=4.0, gpu=2))
    found = limits_of_stage(spec, PlannerSettings(), WorkerSettings(), [MACHINE])
    assert found.cost == pytest.approx(2.1)


def test_only_stages_with_a_pool_and_a_pipeline_are_sized():
    pools = snapshots.pools((RUN, COMPILE))
    found = stage_limits(
        pools, (COMPILE, RUN), {COMPILE: SPEC}, PlannerSettings(), WorkerSettings(), MACHINE
    )
    assert [one.stage for one in found] == [COMPILE]


# -- the lead --------------------------------------------------------------------------------------


def lead(store, clock, name):
    return LeaderLease(store, planner=name, lease_s=10.0, clock=clock)


async def test_one_leads_and_the_other_follows_when_the_lease_has_run_out():
    clock = HandClock()
    store = MemoryStore(clock)
    a, b = lead(store, clock, "a"), lead(store, clock, "b")
    await a.renew()
    await b.renew()
    assert (a.leads, b.leads) == (True, False)
    clock.at_ns += 10 * S
    assert not a.leads, "it did not renew, so it does not lead, whatever the store says"
    await b.renew()
    await a.renew()
    assert (a.leads, b.leads) == (False, True)


async def test_a_leader_stops_before_its_lease_ends():
    clock = HandClock()
    one = lead(MemoryStore(clock), clock, "a")
    await one.renew()
    clock.at_ns += int(9.5 * S)
    assert not one.leads


async def test_who_is_told_that_another_leads_leads_no_more_at_once():
    clock = HandClock()
    store = MemoryStore(clock)
    a, b = lead(store, clock, "a"), lead(store, clock, "b")
    await a.renew()
    await store.resign("a")
    await b.renew()
    await a.renew()
    assert (a.leads, b.leads) == (False, True)


async def test_who_resigns_leads_no_more_and_another_may():
    clock = HandClock()
    store = MemoryStore(clock)
    a, b = lead(store, clock, "a"), lead(store, clock, "b")
    await a.renew()
    await a.resign()
    await b.renew()
    assert (a.leads, b.leads) == (False, True)


class Out(MemoryStore):
    """Cannot be reached while `out`."""

    out = False

    async def lead(self, planner: str, *, lease_s: float) -> Leadership:
        if self.out:
            raise DependencyDown("no route")
        return await super().lead(planner, lease_s=lease_s)


async def test_a_leader_that_cannot_reach_the_store_leads_to_the_end_of_its_lease_and_says_why():
    clock = HandClock()
    store = Out(clock)
    one = lead(store, clock, "a")
    await one.renew()
    store.out = True
    await one.renew()
    assert one.leads
    assert "no route" in one.lost_store
    clock.at_ns += 10 * S
    assert not one.leads
    store.out = False
    await one.renew()
    assert (one.leads, one.lost_store) == (True, "")


async def test_the_stores_clock_is_taken_over():
    ours, theirs = HandClock(), HandClock()
    theirs.at_ns += 77 * S
    one = lead(MemoryStore(theirs), ours, "a")
    await one.renew()
    assert one.store_now_ns == theirs.at_ns


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


# -- histories -------------------------------------------------------------------------------------


async def test_a_history_is_asked_for_once_and_again_when_a_batch_has_ended():
    store = MemoryStore(HandClock())
    histories = HistoryFeed(store, batches_max=4)
    one, two = snapshots.work(batch="one"), snapshots.work(batch="two")
    assert len(await histories.changed([one], [], generation=1)) == 1
    assert await histories.changed([one], [], generation=1) == ()
    assert await histories.changed([one, two], [], generation=1) == ()
    assert len(await histories.changed([two], [], generation=1)) == 1
    assert len(await histories.changed([two], [], generation=2)) == 1, "a new process knows nothing"
    histories.forget()
    assert len(await histories.changed([two], [], generation=2)) == 1


async def test_the_history_of_a_task_is_sent_once_more_when_its_last_batch_has_ended():
    store = MemoryStore(HandClock())
    histories = HistoryFeed(store, batches_max=4)
    work = snapshots.work(batch="one")
    await histories.changed([work], [], generation=1)
    (last,) = await histories.changed([], [], generation=1)
    assert last.task == work.task
    assert await histories.changed([], [], generation=1) == ()
    await histories.changed([work], [], generation=1)
    assert await histories.changed([], [], generation=2) == (), "a new process never heard of it"


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
    """Remembers sizes."""

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


# -- questions and frames --------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf"), 1e12])
def test_a_time_that_is_none_is_refused(seconds):
    with pytest.raises(InvalidRequest) as refused:
        change_of(planner_pb2.WhatIfRequest(delay_budget_s=seconds))
    assert refused.value.field == "delay_budget_s"


def test_a_change_says_only_what_was_given():
    change = change_of(planner_pb2.WhatIfRequest(startup_s={"run": 2.5}))
    assert (change.delay_budget_ns, change.epsilon) == (None, None)
    assert change.startup_ns == {"run": 2_500_000_000}


def test_frames_come_back_and_end_with_the_stream():
    stream = io.BytesIO(frames.encode({"a": 1}) + frames.encode("b") + frames.encode("c")[:-1])
    assert frames.receive(stream) == {"a": 1}
    assert frames.receive(stream) == "b"
    with pytest.raises(FramingError):
        frames.receive(stream)
    assert frames.receive(stream) is None


def test_a_frame_of_nonsense_is_refused():
    with pytest.raises(FramingError):
        frames.decode(b"nonsense")
    with pytest.raises(FramingError):
        frames.length_of(b"\xff" * 4)


# -- replay ----------------------------------------------------------------------------------------


def trace(name, requests=5):
    return {
        "tenant": "team", "task_id": "t", "timeouts_s": [60.0, None], "cores": [2.0, 1.0],
        "batch_id": name, "opened_ns": 0, "completed_ns": 0, "deadline_ns": 0,
        "stages": ["compile", "run"],
        "requests": [[k * S, [2 * S, S], "SCORED"] for k in range(requests)],
    }  # fmt: skip


def test_exported_traces_are_played_by_the_simulator():
    workload = workload_of([trace("b1"), trace("b2", 7), trace("b3", 3)])
    assert [len(batch.arrived_ns) for batch in workload.batches[0]] == [7, 3]
    assert [stage.cost for stage in workload.stages] == [0.05, 0.025]
    from assay.planner.core.policy import Assay

    result = simulate(workload, Cluster(), Assay())
    assert [sum(batch.outcomes.values()) for batch in result.batches] == [7, 3]


@pytest.mark.parametrize("traces", [[], [{"stages": 5}], [trace("alone")]])
def test_traces_of_which_nothing_is_left_to_play_are_refused(traces):
    with pytest.raises(InvalidRequest):
        workload_of(traces)
