"""The laboratory draws the same mixes again, tunes rivals fairly and prints what it measured."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sim.builders import SMALL, small_workload

from assay.sim.__main__ import main as sim
from assay.sim.laboratory import __main__ as command
from assay.sim.laboratory.report import ratio_line, summary
from assay.sim.laboratory.trials.mixes import Mix, draw, draw_mix, named_mixes
from assay.sim.laboratory.trials.stress import (
    COMPARED,
    RIVALS,
    StressScore,
    as_punctual,
    best_rival,
    node_hours,
    ratios,
    run,
    spans,
    tuned,
)
from assay.sim.policies.rivals import Reaction
from assay.sim.pools.cluster import Cluster
from assay.sim.pools.result import Sample
from assay.sim.pools.runner import Options, simulate

MIX = Mix(name="small", tasks=(SMALL,), iterations=1)


def made(policy: str, setting: str, cost: float, in_time: float, **more: object) -> StressScore:
    base = StressScore(
        mix="m", policy=policy, setting=setting, seeds=(1,), cost=cost, slot_cost=cost,
        peak=10, delay_mean_s=0, delay_p95_s=0, in_time=in_time, started=10, resizes_per_minute=10,
        node_hours=1,
    )  # fmt: skip
    return replace(base, **more)  # type: ignore[arg-type] # test data


@settings(deadline=None, max_examples=5)
@given(seed=st.integers(0, 10**6))
def test_a_mix_follows_from_its_seed_and_can_be_drawn(seed):
    mix, again = draw_mix(seed), draw_mix(seed)
    load, same = draw(mix, seed=1), draw(again, seed=1)
    assert mix.tasks == again.tasks
    for a, b in zip(load.batches, same.batches, strict=True):
        for one, other in zip(a, b, strict=True):
            np.testing.assert_array_equal(one.service_ns, other.service_ns)
            np.testing.assert_array_equal(one.arrived_ns, other.arrived_ns)


def test_every_named_mix_can_be_drawn_and_a_misleading_history_misleads():
    for name, mix in named_mixes().items():
        small = replace(mix, iterations=1, tasks=mix.tasks[:1])
        load = draw(small, seed=1)
        past = np.mean([b.service_ns[:, 0].mean() for b in load.past[0]])
        share = past / load.batches[0][0].service_ns[:, 0].mean()
        # Timeouts cut what is three times as long.
        assert share == pytest.approx(mix.history_scale, rel=0.45), name


def test_the_best_rival_is_the_cheapest_that_keeps_the_budget():
    scores = [
        made("reaction", "late", 5, 0.5),
        made("reaction", "in time", 8, 1.0),
        made("kpa", "in time", 7, 0.95),
        made("distrs", "", 1, 1.0),
        made("assay", "", 7, 1.0, peak=5),
    ]
    assert best_rival(scores) == scores[2]
    assert ratios(scores)["cost"] == 1.0
    assert ratios(scores)["peak"] == 0.5


def test_at_equal_delay_the_cheapest_setting_that_is_as_punctual_counts():
    scores = [
        made("kpa", "cheap", 5, 1.0, delay_p95_s=4.0),
        made("kpa", "punctual", 10, 1.0, delay_p95_s=0.9, peak=20),
        made("reaction", "dear", 12, 1.0, delay_p95_s=0.0),
        made("distrs", "", 1, 1.0),
        made("assay", "", 8, 1.0, delay_p95_s=0.5, peak=5),
    ]
    assert as_punctual(scores) == scores[1]
    assert ratios(scores)["cost at equal p95 d"] == 0.8
    assert ratios(scores)["peak at equal p95 d"] == 0.25
    late = [scores[0], scores[4]]
    assert as_punctual(late) is None
    assert "cost at equal p95 d" not in ratios(late)


def test_batches_are_compared_with_those_that_knowing_every_duration_keeps_in_time():
    mine = made("assay", "", 7, 0.5, kept=(True, False, False, True))
    known = made("ideal", "", 9, 0.5, kept=(True, True, False, False))
    assert ratios([mine, known])["d <= D where ideal keeps it"] == 0.5
    none = replace(known, kept=(False,) * 4)
    assert "d <= D where ideal keeps it" not in ratios([mine, none])


def test_where_no_setting_keeps_the_budget_the_one_that_misses_it_least_counts():
    scores = [made("kpa", "a", 1, 0.2), made("kpa", "b", 9, 0.6), made("kpa", "c", 8, 0.6)]
    assert tuned(scores, "kpa") == scores[2]


def test_node_hours_are_those_of_full_nodes():
    held = [(0, 0), (1, 17), (16, 16), (0, 0)]
    samples = [
        Sample(at_s=1_800.0 * k, target=n, held=n, running=n, waiting=(0, 0))
        for k, n in enumerate(held)
    ]
    assert node_hours(samples, 2) == 0.5 * (0 + 3 + 2)


def test_the_peak_is_what_was_held_at_once_and_resizes_are_changes():
    every = simulate(small_workload(), Cluster(), Reaction(), Options(seed=1, sample_every_s=0.5))
    sampled = max(sum(sample.held) for sample in every.samples)
    assert every.slots_peak == sampled
    changes = sum(
        a != b
        for one, then in pairwise(every.samples)
        for a, b in zip(one.target, then.target, strict=True)
    )
    assert changes <= every.resizes


def test_a_run_is_deterministic_and_knows_every_rival():
    policies = ("reaction", "capped", "pinned", "static_by_task", "ideal")
    assert list(run(MIX, policies, [1])) == list(run(MIX, policies, [1]))
    assert {one.policy for one in run(MIX, RIVALS, [1])} == set(RIVALS)


def test_the_command_prints_a_table_and_writes_every_setting(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command, "draw_mix", lambda seed: replace(MIX, name=f"drawn {seed}"))
    out, plot = tmp_path / "out.json", tmp_path / "plot.png"
    given = ["stress", "--seed", "7", "--policies", "assay,reaction,ideal"]
    monkeypatch.setattr("sys.argv", ["sim", *given, "--json", str(out), "--plot", str(plot)])
    assert sim() == 0
    printed = capsys.readouterr().out
    assert "| drawn 7 | assay |" in printed
    assert "drawn 7: assay over reaction" in printed
    found = json.loads(out.read_text())
    assert len([one for one in found["scores"] if one["policy"] == "reaction"]) > 5
    assert found["ratios"]["drawn 7"]["cost"] > 0
    assert plot.stat().st_size > 1_000


def test_an_unknown_policy_is_refused(capsys):
    with pytest.raises(SystemExit):
        command.main(["--policies", "clairvoyant"])
    assert "choose from" in capsys.readouterr().err


def test_ratios_are_reported_with_the_smallest_and_the_largest_over_the_seeds():
    low, even, high = (dict.fromkeys(COMPARED, values) for values in ((2, 6), (4, 4), (8, 4)))
    mine = made("assay", "", 4, 1.0, by_seed=low)
    rival = made("kpa", "6 s", 4, 1.0, by_seed=even)
    ideal = made("ideal", "", 6, 1.0, by_seed=high)
    assert spans(mine, rival)["cost"] == (0.5, 1.5)
    assert "cost 1.00 (0.50-1.50)" in ratio_line([mine, rival, ideal])
    row = summary([mine, rival, ideal])
    assert row.startswith("| m | kpa (6 s) | 1.00 (0.50-1.50) |")
    assert row.endswith("| 1.00 kpa (6 s) | 1.00 (0.50-1.50) | 1.00 (0.25-1.50) |")


def test_a_score_is_the_mean_of_its_seeds():
    (found,) = [one for one in run(MIX, ("ideal",), (1, 2)) if one.policy == "ideal"]
    for name in COMPARED:
        assert getattr(found, name) == pytest.approx(np.mean(found.by_seed[name]))
    assert len(set(found.by_seed["cost"])) == 2


def test_a_setting_of_the_planner_can_be_changed_by_name_and_no_other(capsys):
    found = command.plan_settings(["guard=0.25", "peak_factors=[1.0]"])
    assert (found.guard, found.peak_factors, found.tick_s) == (0.25, (1.0,), 5.0)
    for bad in ("gard=1", "guard=", "guard=2"):
        with pytest.raises(SystemExit):
            command.main(["--mix", "one task", "--set", bad])
        assert "--set" in capsys.readouterr().err
