"""Without a fresh plan, pools hold what waits and runs; with one, no stage with work is empty."""

import os
import signal
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planner import snapshots
from tests.planner.live import RunHost, RunPlanner, Trainer, until
from tests.planner.snapshots import COMPILE, RUN, S
from tests.sim.builders import small_workload

from assay.core.ids import StageName
from assay.core.records import StageDepth
from assay.model.keep_alive import Kept
from assay.model.observation import Observation, Sizing
from assay.model.policy import PoolPolicy
from assay.planner.process import parent
from assay.planner.service import controller as controller_module
from assay.planner.service.floor import (
    StagesKept,
    next_release_s,
    on_floor,
    released,
    with_plan,
    without_plan,
)
from assay.sim.pools.cluster import Cluster
from assay.sim.pools.runner import simulate

COUNTS = st.integers(0, 10**6)


def depth(stage: StageName, queued: int, running: int = 0) -> StageDepth:
    return StageDepth(stage=stage, queued=queued, running=running, oldest_age_s=0.0, dead_letters=0)


@settings(deadline=None)
@given(desired=COUNTS, queued=COUNTS, running=COUNTS, least=COUNTS, most=COUNTS)
def test_without_a_plan_work_waits_only_for_the_cap(desired, queued, running, least, most):
    slots = without_plan(desired, queued, running, least, most)
    assert slots >= desired, "what a plan held may be its lead"
    assert slots >= min(queued + running, most)
    assert slots <= max(desired, most)


@settings(deadline=None)
@given(planned=COUNTS, queued=COUNTS, most=COUNTS)
def test_with_a_plan_no_stage_where_something_waits_is_empty(planned, queued, most):
    slots = with_plan(planned, queued, most)
    assert slots >= planned
    assert slots > 0 or queued == 0 or most == 0
    assert slots == planned or planned == 0


def test_work_that_a_plan_does_not_know_gets_a_slot_and_all_of_them_if_the_plan_is_not_complete():
    limits, pools = snapshots.limits(), snapshots.pools()
    depths = [depth(COMPILE, 7, 3), depth(RUN, 0)]
    some = on_floor(limits, pools, depths, {}, raised={}, complete=True)
    assert [(one.stage, one.slots) for one in some] == [(COMPILE, 1)]
    everything = on_floor(limits, pools, depths, {}, raised={}, complete=False)
    assert [(one.stage, one.slots) for one in everything] == [(COMPILE, 10)]
    more = on_floor(limits, pools, depths, {COMPILE: 12, RUN: 2}, raised={}, complete=False)
    assert [(one.stage, one.slots) for one in more] == [(COMPILE, 12), (RUN, 2)]


@given(planned=st.integers(0, 50), raised=st.integers(0, 50), desired=st.integers(0, 50))
def test_a_late_plan_takes_nothing_back_that_was_raised_while_it_was_made(planned, raised, desired):
    found = on_floor(
        snapshots.limits((RUN,)), snapshots.pools((RUN,), slots=desired), [depth(RUN, 0)],
        {RUN: planned}, raised={RUN: raised}, complete=True,
    )  # fmt: skip
    assert {one.slots for one in found} == {max(planned, raised)} - {desired}


@given(
    idle_ns=st.integers(0, 3 * S), least=st.integers(0, 9),
    slots=st.lists(st.integers(0, 9), min_size=2, max_size=2),
    startups_ns=st.lists(st.integers(0, 2 * S), min_size=2, max_size=2),
    price_ns=st.sampled_from([0, S // 3, 5 * S]),
)  # fmt: skip
def test_an_idle_pool_is_taken_down_when_another_start_would_have_cost_as_much(
    idle_ns, least, slots, startups_ns, price_ns
):
    pairs = zip(snapshots.limits(least=least), startups_ns, strict=True)
    limits = [replace(limit, startup_ns=ns, change_price_ns=price_ns) for limit, ns in pairs]
    held = zip(snapshots.pools(), slots, strict=True)
    pools = [replace(pool, desired=n, ready=n) for pool, n in held]

    def after(ns: int) -> dict[StageName, int]:
        return {one.stage: one.slots for one in released(limits, pools, ns, {})}

    now = after(idle_ns)
    for limit, pool in zip(limits, pools, strict=True):
        above = pool.desired - least
        rest_ns = idle_ns - limit.startup_ns
        due = above < 0 or (above > 0 and rest_ns >= 2 * price_ns // above)
        assert (pool.stage in now) is due
        assert now.get(pool.stage, least) == least
    wait_s = next_release_s(limits, pools, idle_ns, {}, 15.0)
    assert after(idle_ns + round(wait_s * 1e9) - 1) == now
    assert wait_s == 15.0 or after(idle_ns + round(wait_s * 1e9)) != now


@given(
    desired=st.integers(0, 9), kept=st.integers(1, 4), least=st.integers(0, 9),
    left_ns=st.integers(1, 30 * S),
)  # fmt: skip
def test_of_an_idle_pool_what_its_gaps_say_is_kept_and_no_slot_is_started(
    desired, kept, least, left_ns
):
    limits, pools = snapshots.limits((RUN,), least=least), snapshots.pools((RUN,), slots=desired)
    holds = {RUN: Kept(slots=kept, left_ns=left_ns)}
    found = released(limits, pools, 60 * S, holds)
    assert {one.slots for one in found} == {max(least, min(kept, desired))} - {desired}
    wait_s = next_release_s(limits, pools, 60 * S, holds, 15.0)
    assert wait_s == min(15.0, left_ns / S if desired else 15.0)


def test_the_controller_learns_gaps_from_what_waits_runs_and_may_still_come():
    limits = [replace(one, keep_price_ns=40 * S) for one in snapshots.limits()]
    seen, call = StagesKept(), snapshots.work(requests=[snapshots.in_flight(COMPILE)], size=1)
    for k in range(4):
        seen.see([depth(COMPILE, 0, 1), depth(RUN, 0)], [call], k * 20 * S)
        seen.see([depth(COMPILE, 0), depth(RUN, 0)], [], (k * 20 + 10) * S)
    kept = seen.kept(limits, 70 * S)
    assert kept == dict.fromkeys((COMPILE, RUN), Kept(slots=1, left_ns=12 * S))
    assert seen.kept(limits, 82 * S) == {}
    seen.see([depth(RUN, 0)], [], 83 * S)
    seen.see([depth(COMPILE, 0, 1), depth(RUN, 0)], [], 84 * S)
    seen.see([depth(COMPILE, 0), depth(RUN, 0)], [], 85 * S)
    again = seen.kept(limits, 85 * S)
    assert again == {COMPILE: Kept(slots=1, left_ns=S)}, "a stage that was gone begins again"


def test_a_stage_without_limits_or_queue_is_left_alone():
    pools = snapshots.pools((COMPILE, RUN))
    depths = [depth(COMPILE, 7)]
    assert on_floor(snapshots.limits((RUN,)), pools, depths, {}, raised={}, complete=False) == ()


class FloorOnly(PoolPolicy):
    """The controller whose planning process never answers, in virtual time."""

    name = "floor"

    def decide(self, observation: Observation) -> Sizing:
        return Sizing(
            targets=tuple(
                without_plan(pool.target, pool.waiting, pool.running, 0, pool.cap)
                for pool in observation.pools
            ),
            wake_ns=observation.now_ns + 10**9,
        )


def test_batches_of_a_platform_that_never_gets_a_plan_are_late_by_little_more_than_a_start_up():
    workload = small_workload(tasks=2, iterations=2)
    result = simulate(workload, Cluster(), FloorOnly())
    assert [sum(batch.outcomes.values()) for batch in result.batches] == [150] * 4
    assert result.delay_max_s < 15.0, "two stages, each with its start-up of 5 s"


# -- live ------------------------------------------------------------------------------------------


async def test_a_planning_process_that_never_starts_leaves_no_work_waiting(
    run_host: RunHost, run_planner: RunPlanner, trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parent, "sys", SimpleNamespace(executable="/bin/false"))
    host = await run_host()
    planner = await run_planner(slots_max=8)
    await trainer.waiting(await trainer.task(), 6)
    await until(lambda: host.slots() == 6, planner.why)
    assert "planning process" in planner.why


async def test_while_the_planning_process_hangs_new_work_gets_slots(
    run_host: RunHost, run_planner: RunPlanner, trainer: Trainer
) -> None:
    host = await run_host()
    planner = await run_planner(planning_s_max=600.0, slots_max=8)
    task = await trainer.task()
    await trainer.waiting(task, 1)
    await until(lambda: host.slots() == 1, planner.why)
    await until(lambda: planner.why == "", planner.why)
    pid = planner.service.controller.process.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        await trainer.waiting(task, 5)
        await until(lambda: host.slots() >= 5, "what waits")
    finally:
        os.kill(pid, signal.SIGCONT)


async def test_more_open_requests_than_can_be_planned_are_served_all_the_same(
    run_host: RunHost, run_planner: RunPlanner, trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_module, "REQUESTS_MAX", 4)
    host = await run_host()
    planner = await run_planner(slots_max=8)
    batch = await trainer.waiting(await trainer.task(), 6)
    await until(lambda: host.slots() == 6, planner.why)
    assert "requests have not ended" in planner.why
    trainer.go()
    await trainer.over(batch)
    await until(lambda: host.slots() == 0, "the end was seen")


async def test_batches_beyond_those_that_are_planned_are_served_all_the_same(
    run_host: RunHost, run_planner: RunPlanner, trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_module, "BATCHES_MAX", 1)
    host = await run_host()
    planner = await run_planner(slots_max=8)
    task = await trainer.task()
    for _ in range(3):
        await trainer.waiting(task, 2)
    await until(lambda: host.slots() == 6, planner.why)
