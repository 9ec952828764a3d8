"""DistRS as published: what Algorithms 1 and 2 promise."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planner.scenes import fresh_batch, scene, task
from tests.sim.builders import small_workload

from assay.core.errors import InvalidRequest
from assay.model.arrays import to_ns
from assay.model.observation import Cause, OpenBatch, past_batch
from assay.model.queueing import (
    Constraints,
    Demand,
    by_stage,
    constant_supply,
    make_scratch,
    serve_all,
)
from assay.sim.policies.distrs import (
    Distrs,
    Ideal,
    ZeroQueue,
    algorithm1,
    algorithm2,
    peak_concurrency,
)
from assay.sim.pools.cluster import Cluster, StartUp
from assay.sim.pools.runner import simulate

INSTANT = Cluster(startup=(StartUp(median_s=0.0),))


def demand_of(arrived, service):
    return by_stage(
        Demand(
            release_ns=np.array(arrived, np.int64),
            service_ns=np.array(service, np.int64),
            key=np.arange(len(arrived)),
            running=np.full(len(arrived), -1, np.int64),
        )
    )


def limits_of(demand, delay, timeouts=None):
    end = int((demand.release_ns + demand.service_ns.sum(axis=1)).max())
    stages = demand.service_ns.shape[1]
    return Constraints(
        finish_ns=np.full(len(demand.release_ns), end + delay, np.int64),
        timeout_ns=np.array(timeouts or [0] * stages, np.int64),
        timeouts=np.array([int(timeouts is not None)], np.int64),
    )


requests = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 20), st.integers(0, 9)), min_size=1, max_size=25
)


@settings(max_examples=60, deadline=None)
@given(requests=requests, delay=st.integers(0, 15))
def test_algorithm_1_keeps_the_budget_and_one_slot_less_at_any_stage_does_not(requests, delay):
    demand = demand_of([r for r, _, _ in requests], [[a, b] for _, a, b in requests])
    limits = limits_of(demand, delay)
    scratch = make_scratch(len(requests))
    slots = algorithm1(demand, limits, [1.0, 10.0])
    assert serve_all(demand, constant_supply(slots), limits, scratch)
    first = slots.copy()
    first[0] -= 1
    if slots[0] > 1:
        assert not serve_all(demand, constant_supply(first), limits, scratch)


def test_figure_9_without_the_timeout_rule_two_slots_look_enough_and_with_it_three():
    """A third request, short in history, would queue; it might run to its timeout."""
    demand = demand_of([0, 0, 1], [[4], [9], [2]])
    assert algorithm1(demand, limits_of(demand, 0), [1.0]).tolist() == [2]
    assert algorithm1(demand, limits_of(demand, 0, timeouts=[10]), [1.0]).tolist() == [3]


def test_a_stage_without_work_gets_no_slot():
    demand = demand_of([0, 1], [[5, 0], [5, 0]])
    assert algorithm1(demand, limits_of(demand, 9), [1.0, 1.0]).tolist() == [1, 0]


def test_costs_must_fit_the_stages():
    demand = demand_of([0], [[5, 1]])
    with pytest.raises(InvalidRequest) as refused:
        algorithm1(demand, limits_of(demand, 0), [1.0])
    assert refused.value.field == "cost"


def test_algorithm_2_gives_running_requests_a_past_that_outlived_them_or_their_timeout():
    history = past_batch(
        np.array([0, 1, 2]), np.array([[to_ns(10), 7], [to_ns(20), 8], [to_ns(30), 9]])
    )
    batch = OpenBatch(
        number=0, opened_ns=0, deadline_ns=0, size=9, arrived=3, ended_natural_ns=0,
        stage=np.array([0, 0, 1]), elapsed_ns=np.array([to_ns(25), to_ns(50), -1]),
        natural_ns=np.zeros(3, np.int64), sequence=np.arange(3),
    )  # fmt: skip
    view = task(history=(history,), open=batch)
    guess = algorithm2(view, batch, to_ns(60), np.random.default_rng(0))
    assert guess.present_ns[0].tolist() == [to_ns(5), 9]
    assert guess.present_ns[1].tolist() == [to_ns(70), 0]
    assert guess.present_ns[2][0] == 0
    assert guess.present_ns[2][1] in {7, 8, 9}
    assert len(guess.arrived_ns) == 0


def test_peak_concurrency_counts_a_slot_that_comes_free_at_that_instant():
    assert peak_concurrency(np.array([0, 5]), np.array([[5], [5]])).tolist() == [1]
    assert peak_concurrency(np.array([0, 4]), np.array([[5], [5]])).tolist() == [2]


def test_with_perfect_knowledge_every_batch_of_one_task_keeps_its_budget():
    workload = small_workload(iterations=3)
    result = simulate(workload, INSTANT, Ideal(workload))
    assert result.in_time_share == 1.0
    zero = simulate(workload, INSTANT, ZeroQueue())
    assert result.slot_cost < zero.slot_cost


def test_the_timeout_rule_costs_slots_and_saves_delay():
    workload = small_workload(iterations=6, seed=5)
    plain = simulate(workload, INSTANT, Distrs(timeout_rule=False))
    ruled = simulate(workload, INSTANT, Distrs())
    assert ruled.slot_cost > plain.slot_cost
    assert ruled.delay_mean_s < plain.delay_mean_s


def test_a_stage_that_history_never_reached_still_has_a_slot_while_a_batch_is_open():
    never = past_batch(np.array([0]), np.array([[to_ns(5), 0]]))
    there = replace(fresh_batch(size=1), arrived=1, ended_natural_ns=1)
    view = task(history=(never,), batch=there)
    seen = replace(scene(view, now_ns=to_ns(1)), cause=Cause.FIRST_REQUEST)
    assert min(Distrs().decide(seen).targets) >= 1
