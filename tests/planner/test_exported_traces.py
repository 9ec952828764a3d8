"""Exported histories are played by the simulator."""

import pytest
from tests.planner.snapshots import S

from assay.core.errors import InvalidRequest
from assay.sim.pools.cluster import Cluster
from assay.sim.pools.replay import workload_of
from assay.sim.pools.runner import simulate


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
