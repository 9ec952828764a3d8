"""Stock autoscalers do what their documentation says."""

from dataclasses import replace

import pytest
from tests.sim.builders import small_workload

from assay.model.arrays import to_ns
from assay.model.observation import Cause, Observation, PoolView
from assay.sim.policies.autoscalers import Hpa, Keda, Kpa, RayServe
from assay.sim.pools.cluster import Cluster
from assay.sim.pools.runner import simulate


def drive(policy, loads, start=1):
    """Feed (seconds, running, waiting); targets are met at once. Returns the targets."""
    view = PoolView(
        stage=0, target=start, idle=0, running=0, starting=0, waiting=0, cap=999, cost=1.0,
        startup_ns=0,
    )  # fmt: skip
    targets = []
    for at_s, running, waiting in loads:
        held = max(view.target, running)
        view = replace(view, running=running, waiting=waiting, idle=held - running)
        seen = Observation(now_ns=to_ns(at_s), cause=Cause.WAKE, pools=(view,), tasks=())
        view = replace(view, target=policy.decide(seen).targets[0])
        targets.append(view.target)
    return targets


def test_hpa_at_most_doubles_or_adds_four_in_fifteen_seconds():
    loads = [(15 * k, 100, 0) for k in range(6)]
    assert drive(Hpa((999,)), loads, start=1) == [5, 10, 20, 40, 80, 125]


def test_hpa_comes_down_to_the_highest_wish_of_five_minutes():
    loads = [(0, 80, 0), *((15 * k, 8, 0) for k in range(1, 24))]
    targets = drive(Hpa((999,)), loads, start=100)
    assert targets[:20] == [100] * 20
    assert targets[-1] == 10


def test_hpa_tolerates_ten_percent():
    assert drive(Hpa((999,)), [(0, 84, 0)], start=100) == [100]
    assert drive(Hpa((999,)), [(0, 95, 0)], start=100) == [119]


def test_keda_wakes_at_a_poll_and_sleeps_after_the_cooldown():
    loads = [(15 * k, 0, 5 if 0 < k < 3 else 0) for k in range(30)]
    targets = drive(Keda((999,)), loads, start=0)
    assert targets[:3] == [0, 0, 1]
    assert targets[3:21] == [1] * 18
    assert targets[-1] == 0


def test_kpa_panics_at_twice_the_load_and_does_not_come_down_in_panic():
    loads = [(2 * k, 1, 30 if 5 <= k < 8 else 0) for k in range(40)]
    targets = drive(Kpa((999,)), loads, start=2)
    peak = max(targets)
    assert peak >= 40
    assert targets[8:30] == [peak] * 22


def test_ray_serve_waits_thirty_seconds_up_and_six_hundred_down():
    loads = [(10 * k, 20, 0) for k in range(6)] + [(60 + 10 * k, 0, 0) for k in range(70)]
    targets = drive(RayServe((999,)), loads, start=1)
    assert targets[:4] == [1, 1, 1, 10]
    assert targets[6 + 55] == 10
    assert targets[-1] == 1


@pytest.mark.parametrize("kind", [Hpa, Keda, Kpa, RayServe])
def test_every_stock_autoscaler_gets_every_batch_done(kind):
    workload = small_workload()
    result = simulate(workload, Cluster(), kind((150, 150)))
    assert len(result.batches) == 2
    assert all(sum(b.outcomes.values()) == 150 for b in result.batches)
