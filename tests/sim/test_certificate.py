"""Lower bound <= optimum <= plan."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sim.test_distrs import demand_of, limits_of

from assay.core.errors import InvalidRequest
from assay.planner.core.bounds import bound_slots
from assay.sim.policies.distrs import algorithm1
from assay.sim.pools.certificate import Bound, bound

requests = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 6), st.integers(0, 4)), min_size=1, max_size=8
)


@settings(max_examples=15, deadline=None)
@given(requests=requests, delay=st.integers(0, 6))
def test_bound_below_optimum_below_algorithm_1(requests, delay):
    pytest.importorskip("ortools")
    from benchmarks.planner.optimum import least_cost

    demand = demand_of([r for r, _, _ in requests], [[a, b] for _, a, b in requests])
    due = limits_of(demand, delay).finish_ns
    optimum, _ = least_cost(
        demand.release_ns.tolist(), demand.service_ns.tolist(), due.tolist(), [1, 10]
    )
    bounds = [bound_slots(demand.release_ns, demand.service_ns, due, j) for j in range(2)]
    plan = algorithm1(demand, limits_of(demand, delay), [1.0, 10.0])
    assert bounds[0] + 10 * bounds[1] <= optimum <= plan[0] + 10 * plan[1]


def test_two_requests_that_must_overlap_need_two_slots():
    arrived, service = np.array([0, 0]), np.array([[10], [10]])
    assert bound_slots(arrived, service, np.array([15, 15]), 0) == 2
    assert bound_slots(arrived, service, np.array([20, 20]), 0) == 1


def test_slot_seconds_count_the_work_and_one_start_up_a_slot():
    found = bound(np.array([0]), np.array([[10**9]]), np.array([10**10]), [5 * 10**9])
    assert found == (Bound(slots=1, slot_seconds=6.0),)


def test_a_due_time_that_nothing_can_keep_is_refused():
    with pytest.raises(InvalidRequest) as refused:
        bound_slots(np.array([0]), np.array([[10]]), np.array([9]), 0)
    assert refused.value.field == "due_ns"
