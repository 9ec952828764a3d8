"""Nodes under the slots: ordered, charged, never released under a slot."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sim.builders import SMALL, small_workload

from assay.config.planning import PlanSettings
from assay.core.errors import InvalidRequest
from assay.model.arrays import FAR_NS, to_ns
from assay.model.observation import Sizing
from assay.model.policy import PoolPolicy
from assay.planner.core.policy import Assay
from assay.sim.laboratory.trials.mixes import Mix
from assay.sim.laboratory.trials.stress import hours_of_nodes
from assay.sim.policies.rivals import Reaction
from assay.sim.pools.cluster import Cluster, Nodes
from assay.sim.pools.nodes import NodeGroup
from assay.sim.pools.result import Result, Sample
from assay.sim.pools.runner import Options, simulate

SHAPE = Nodes(slots=4, startup_s=90.0, cap=10)
STEPS = st.lists(
    st.tuples(st.integers(0, 200), st.integers(0, 14), st.integers(0, 60)), min_size=1, max_size=20
)


@given(steps=STEPS)
def test_nodes_hold_what_is_wanted_and_never_leave_a_slot_without_one(steps):
    group, now_ns, charged, slots = NodeGroup(SHAPE), 0, 0, 0
    for after_s, wanted, more in steps:
        held = group.ready + len(group.starting)
        now_ns += to_ns(after_s)
        charged += held * to_ns(after_s)
        group.advance(now_ns)
        slots = min(more, group.room)
        group.settle(now_ns, wanted, slots)
        assert group.room >= slots
        assert group.ready + len(group.starting) == max(min(wanted, 10), -(-slots // 4))
        assert group.next_ready_ns > now_ns
        assert group.held_ns == charged
    assert group.ordered >= group.ready + len(group.starting)


def test_a_node_is_ready_a_start_up_after_its_order():
    group = NodeGroup(SHAPE)
    group.settle(0, 2, 0)
    assert (group.room, group.next_ready_ns) == (0, to_ns(90))
    group.advance(to_ns(90))
    assert (group.room, group.next_ready_ns, group.held_s) == (8, FAR_NS, 180.0)


@pytest.mark.parametrize("bad", [{"slots": 0}, {"cap": -1}, {"startup_s": float("nan")}])
def test_nodes_that_cannot_be_are_refused(bad):
    with pytest.raises(InvalidRequest) as refused:
        NodeGroup(replace(SHAPE, **bad))
    assert refused.value.field == "nodes"


class Constant(PoolPolicy):
    """The same slots all the time."""

    def decide(self, observation):
        assert all(pool.nodes is not None for pool in observation.pools)
        return Sizing(targets=tuple(20 for _ in observation.pools))


def test_slots_start_only_where_a_node_is_ready_and_all_its_time_is_charged():
    load, cluster = small_workload(iterations=1), Cluster(nodes=SHAPE)
    found = simulate(load, cluster, Constant(), Options(sample_every_s=5.0))
    early = [sample for sample in found.samples if sample.at_s < 90.0]
    assert early
    assert all(held == 0 for sample in early for held in sample.held)
    assert found.slots_peak == 40
    assert found.nodes_ordered == 10, "five of each stage"
    assert found.node_s == pytest.approx(10 * found.duration_s)


def test_the_plan_orders_nodes_ahead_of_the_work_and_a_reaction_cannot():
    load, cluster = small_workload(iterations=3), Cluster(nodes=replace(SHAPE, cap=100))
    plan, reaction = Assay(PlanSettings(tick_s=5.0, spare_slots=5)), Reaction(keep_s=15.0)
    ahead, behind = (simulate(load, cluster, one, Options()) for one in (plan, reaction))
    assert ahead.delay_mean_s < 0.25 * behind.delay_mean_s
    assert behind.delay_mean_s > 5.0, "each node is ordered only when its work waits"


def test_the_laboratory_reports_node_hours_as_ordered():
    mix = Mix(name="n", tasks=(SMALL,), iterations=1, cluster=Cluster(nodes=SHAPE))
    found = simulate(small_workload(iterations=1), mix.cluster, Constant(), Options())
    assert found.node_s is not None
    assert hours_of_nodes(found) == pytest.approx(found.node_s / 3_600)
    without = Result(
        policy="p", seed=0, duration_s=7_200.0, stages=(), batches=(), trainer_idle_gpu_s=0.0,
        decisions=0, samples=tuple(sample(at_s, 17) for at_s in (0.0, 3_600.0, 7_200.0)),
    )  # fmt: skip
    assert hours_of_nodes(without) == 4.0, "two nodes of sixteen for two hours"


def sample(at_s, held):
    return Sample(at_s=at_s, target=(held,), held=(held,), running=(held,), waiting=(0,))
