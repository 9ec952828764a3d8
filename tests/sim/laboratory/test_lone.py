"""Lone calls beside batches: pools that turn are counted, and hardly turn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sim.builders import small_workload

from assay.config.planning import PlanSettings
from assay.core.errors import InvalidRequest
from assay.sim.laboratory import __main__ as command
from assay.sim.laboratory.trials.lone import STAGES, draw_lone, run_lone
from assay.sim.policies.rivals import Reaction
from assay.sim.pools.cluster import Cluster
from assay.sim.pools.runner import Turns, simulate

PER_MINUTE_MAX = 2.0


@settings(deadline=None, max_examples=5)
@given(seed=st.integers(0, 10**6), gap_s=st.sampled_from([2.0, 17.0, 60.0]))
def test_the_workload_follows_from_its_seed_and_calls_come_as_far_apart_as_asked(seed, gap_s):
    load, same = (draw_lone(gap_s=gap_s, seed=seed, batches=40) for _ in range(2))
    for a, b in zip(load.batches, same.batches, strict=True):
        assert [one.gap_ns for one in a] == [one.gap_ns for one in b]
    for calls in load.batches[2:]:
        assert {len(one.arrived_ns) for one in calls} == {1}
        gaps_s = [(one.gap_ns or 0) / 1e9 for one in calls]
        assert np.mean(gaps_s) == pytest.approx(gap_s, rel=0.4)


def test_calls_of_no_distance_are_refused(capsys):
    with pytest.raises(InvalidRequest):
        draw_lone(gap_s=0.0, seed=1)
    with pytest.raises(SystemExit):
        command.main(["--lone", "0"])
    assert "--lone" in capsys.readouterr().err


@pytest.mark.parametrize("gap_s", [5.0, 10.0, 30.0])
def test_beside_lone_calls_no_pool_turns_more_than_twice_per_minute_at_a_tenth_less(gap_s):
    ours, reaction = run_lone([gap_s], [1, 2, 3], PlanSettings())
    assert max(ours.reversals_per_minute) <= PER_MINUTE_MAX
    assert ours.slot_seconds <= 0.9 * reaction.slot_seconds
    assert ours.wait_p95_s <= reaction.wait_p95_s
    assert ours.in_time == 1.0


def test_without_a_price_of_having_a_slot_again_pools_turn_more_than_twice_as_often():
    plain = PlanSettings(keep_price_s=0.0)
    (found,) = run_lone([10.0], [1], plain, policies=["assay"])
    assert found.reversals_per_minute[0] > 2 * PER_MINUTE_MAX


def test_turns_are_changes_against_the_one_before():
    turns = Turns(2)
    for change in (3, 0, 1, -4, 0, -1, 2):
        turns.add(1, change)
    assert (turns.resizes, turns.reversals) == ([0, 5], [0, 2])
    result = simulate(small_workload(), Cluster(), Reaction())
    assert sum(result.resizes_by_pool) == result.resizes
    assert all(n < m for n, m in zip(result.reversals_by_pool, result.resizes_by_pool, strict=True))


def test_the_command_prints_a_line_for_each_distance_and_policy(capsys):
    given = ["--lone", "30", "--lone", "60", "--set", "futures=4", "--set", "shape_futures=4"]
    assert command.main(given) == 0
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert [row.split("|")[1].strip() for row in rows] == ["30 s", "30 s", "60 s", "60 s"]
    assert all(stage.name in head for stage in STAGES)
