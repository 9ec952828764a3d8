"""Floors and caps of stages, from settings and machines."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planner import snapshots
from tests.planner.snapshots import COMPILE, RUN, S

from assay.config.settings import PlannerSettings, WorkerSettings
from assay.core.pipeline import Resources, StageSpec
from assay.planner.service.stage_limits import (
    limits_of_stage,
    slots_by_memory,
    stage_limits,
)
from assay.planner.session.messages import (
    Machine,
    Startup,
)

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
