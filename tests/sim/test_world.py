"""The compiled world does what the readable one does, and both do what they say."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sim.builders import small_workload

from assay.core.errors import InvalidRequest
from assay.model.arrays import FAR_NS, SECOND_NS, to_ns
from assay.model.queueing import (
    NOTHING,
    Demand,
    by_stage,
    constant_supply,
    make_scratch,
    release_all,
    serve,
    serve_all,
    unconstrained,
)
from assay.sim.pools.cluster import Cluster, Faults, StartUp, draw_deaths, lay_out
from assay.sim.pools.kernel import next_instant
from assay.sim.pools.reference import ReferenceWorld
from assay.sim.pools.replay import workload_of
from assay.sim.pools.world import FastWorld


def play(world, resizes):
    """Open both batches and resize at random instants; the timed log."""
    world.open_batch(0, 0, to_ns(500))
    world.open_batch(1, 0, to_ns(450))
    for at_s, pool, target in sorted(resizes):
        while world.advance(to_ns(at_s)) < to_ns(at_s):
            pass
        world.set_target(pool, target)
    world.set_target(0, 20)
    world.set_target(1, 3)
    while world.advance(to_ns(20_000)) < to_ns(20_000):
        pass
    s = world.state
    logs = (s.start_ns, s.finish_ns, s.ended_ns, s.held_ns, s.busy_ns, s.completed_ns, s.deaths)
    return [log.copy() for log in (*logs, s.lost)]


def with_tenants(workload, weights):
    """The same tasks, each of a tenant of its own."""
    tasks = tuple(
        replace(task, tenant=f"tenant{k}", weight=weights[k])
        for k, task in enumerate(workload.tasks)
    )
    return replace(workload, tasks=tasks)


WEIGHTS = st.none() | st.tuples(*[st.sampled_from([0.5, 1.0, 3.0])] * 2)
"""`None` = one tenant."""


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    weights=WEIGHTS,
    hazard=st.sampled_from([0.0, 0.01]),
    fcfs=st.booleans(),
    resizes=st.lists(
        st.tuples(st.integers(1, 400), st.integers(0, 1), st.integers(0, 40)), max_size=8
    ),
)
def test_both_worlds_write_the_same_timed_log(seed, weights, hazard, fcfs, resizes):
    workload = small_workload(tasks=2, iterations=1, seed=seed, batch_size=60)
    if weights is not None:
        workload = with_tenants(workload, weights)
    faults = Faults(slot_deaths_per_s=hazard)
    logs = []
    for kind in (ReferenceWorld, FastWorld):
        pools = lay_out(workload, Cluster(faults=faults), "shared", seed)
        world = kind(workload, pools, draw_deaths(workload, faults, seed), fcfs=fcfs)
        logs.append(play(world, resizes))
    for readable, compiled in zip(*logs, strict=True):
        assert np.array_equal(readable, compiled)


def test_both_worlds_agree_after_every_instant_of_a_replayed_trace():
    requests = [[k * SECOND_NS // 2, [4 * SECOND_NS, 3 * SECOND_NS], "SCORED"] for k in range(40)]
    trace = {"opened_ns": 0, "completed_ns": 1, "deadline_ns": 1, "stages": ["compile", "run"]}
    lines = [trace | {"batch_id": name, "requests": requests} for name in ("past", "played")]
    workload = workload_of(lines)
    deaths = draw_deaths(workload, Faults(slot_deaths_per_s=0.02), 5)
    readable, compiled = (
        kind(workload, lay_out(workload, Cluster(), "shared", 0), deaths)
        for kind in (ReferenceWorld, FastWorld)
    )
    for world in (readable, compiled):
        world.open_batch(0, 0, to_ns(60))
        world.set_target(0, 6)
        world.set_target(1, 4)
    instants = 0
    while (next_ns := next_instant(compiled.state)) < FAR_NS:
        for world in (readable, compiled):
            world.advance(next_ns)
        for name in ("stage_now", "since_ns", "attempt", "idle", "running", "starting", "waiting",
                     "held_ns", "busy_ns", "deaths", "lost"):  # fmt: skip
            left, right = getattr(readable.state, name), getattr(compiled.state, name)
            assert np.array_equal(left, right), f"{name} at {next_ns}"
        instants += 1
    assert instants > 40
    assert readable.state.remaining.sum() == 0


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    weights=WEIGHTS,
    cpus=st.integers(5, 60),
    gpus=st.integers(1, 6),
)
def test_the_planners_queueing_agrees_with_the_world(seed, weights, cpus, gpus):
    workload = small_workload(tasks=2, iterations=1, seed=seed)
    if weights is not None:
        workload = with_tenants(workload, weights)
    cluster = Cluster(startup=(StartUp(median_s=0.0),))
    world = ReferenceWorld(
        workload, lay_out(workload, cluster, "shared", 0), draw_deaths(workload, Faults(), 0)
    )
    world.open_batch(0, 0, to_ns(700))
    world.open_batch(1, 0, to_ns(600))
    world.set_target(0, cpus)
    world.set_target(1, gpus)
    while world.advance(to_ns(20_000)) < to_ns(20_000):
        pass
    n = len(world.state.ended_ns)
    demand = by_stage(
        Demand(
            release_ns=world.state.arrived_ns,
            service_ns=world.state.service_ns,
            key=np.repeat([700, 600], n // 2) * 10_000 + np.arange(n),
            running=np.full(n, -1, np.int64),
            tenant=np.repeat([0, 1], n // 2) if weights else np.zeros(0, np.int64),
            weight=np.array(weights or [1.0]),
        )
    )
    scratch = make_scratch(n, len(demand.weight))
    assert serve_all(demand, constant_supply(np.array([cpus, gpus])), unconstrained(n, 2), scratch)
    assert np.array_equal(scratch.clock_ns, world.state.ended_ns)


BIN_NS = 5 * SECOND_NS
USED_AGAIN = make_scratch(40)


@given(st.integers(1, 40), st.integers(0, 10**9), st.integers(1, 6), st.sampled_from([0, 0.3, 1]))
def test_busy_peaks_are_what_the_starts_and_ends_say(n, seed, slots, skipped):
    """Also at a stage that no request has, right behind one that all have."""
    random = np.random.default_rng(seed)
    service = random.integers(1, 30 * SECOND_NS, (n, 3))
    service[:, 1] *= random.random(n) >= skipped
    demand = by_stage(
        Demand(
            release_ns=np.sort(random.integers(0, 60 * SECOND_NS, n)),
            service_ns=service,
            key=np.arange(n),
            running=np.full(n, -1, np.int64),
        )
    )
    supply, unlimited = constant_supply(np.full(3, slots)), unconstrained(n, 3)
    for stage in range(3):
        release_all(demand, USED_AGAIN)
        for before in range(stage):
            serve(demand, before, supply, unlimited, USED_AGAIN, NOTHING, 0, 1)
        reached, busy = USED_AGAIN.clock_ns[:n].copy(), np.zeros(400, np.int64)
        assert serve(demand, stage, supply, unlimited, USED_AGAIN, busy, 0, BIN_NS)
        end = USED_AGAIN.clock_ns[:n].copy()
        begin = end - service[:, stage]
        assert (begin >= reached).all()
        for k, peak in enumerate(busy):
            low, high = k * BIN_NS, (k + 1) * BIN_NS
            instants = [low, *begin[(begin >= low) & (begin < high)]]
            assert peak == max(int(((begin <= t) & (end > t)).sum()) for t in instants)


def test_an_elastic_pool_gives_every_request_its_own_slot_after_a_cold_start():
    workload = small_workload(seed=1)
    cluster = Cluster(startup=(StartUp(median_s=4.0, sigma=0.0),))
    pools = lay_out(workload, cluster, "shared", 0, elastic=True)
    world = FastWorld(workload, pools, draw_deaths(workload, Faults(), 0))
    world.open_batch(0, 0, to_ns(500))
    world.advance(to_ns(5_000))
    batch = workload.batches[0][0]
    cold = (batch.service_ns > 0).sum(axis=1) * to_ns(4)
    ends = batch.arrived_ns + batch.service_ns.sum(axis=1) + cold
    assert np.array_equal(world.state.ended_ns[: len(ends)], ends)
    assert world.state.held_ns.sum() == batch.service_ns.sum() + cold.sum()


def test_start_up_is_charged_and_a_slot_that_is_cancelled_while_starting_costs_until_then():
    workload = small_workload()
    cluster = Cluster(startup=(StartUp(median_s=10.0, sigma=0.0),))
    for kind in (ReferenceWorld, FastWorld):
        pools = lay_out(workload, cluster, "shared", 0)
        world = kind(workload, pools, draw_deaths(workload, Faults(), 0))
        world.set_target(0, 3)
        world.advance(to_ns(4))
        world.set_target(0, 1)
        world.advance(to_ns(20))
        assert world.state.held_ns[0] == to_ns(3 * 4 + 16)
        assert world.state.idle[0] == 1


@pytest.mark.parametrize("target", [-1, FAR_NS])
def test_a_pool_refuses_what_it_cannot_have(target):
    workload = small_workload()
    world = FastWorld(
        workload, lay_out(workload, Cluster(), "shared", 0), draw_deaths(workload, Faults(), 0)
    )
    with pytest.raises(InvalidRequest) as refused:
        world.set_target(0, target)
    assert refused.value.field == "target"
