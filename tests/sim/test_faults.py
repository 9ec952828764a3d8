"""Deterministic simulation: fixed seeds, one from the commit, and a check of the checks."""

import subprocess
from pathlib import Path

import pytest

from assay.sim.pools import faults
from assay.sim.pools.reference import ReferenceWorld

ROOT = Path(__file__).resolve().parents[2]


def commit_seed() -> int:
    """The first 32 bits of the commit's hash; 0 outside of a checkout."""
    found = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return int(found.stdout[:8] or "0", 16)


@pytest.mark.parametrize("seed", [*range(1, 13), commit_seed()])
def test_a_run_with_faults_breaks_nothing(seed):
    print(f"seed {seed}")
    report = faults.run_seed(seed)
    assert report.instants > report.requests


def test_a_seed_replays_exactly_and_another_seed_does_not():
    assert faults.run_seed(6) == faults.run_seed(6)
    assert faults.run_seed(6).digest != faults.run_seed(7).digest


def test_starting_out_of_order_is_caught(monkeypatch):
    def last(heap):
        return heap.pop(heap.index(max(heap)))

    monkeypatch.setattr("assay.core.fair_queue.heappop", last)
    with pytest.raises(faults.Broken, match="started before"):
        faults.run_seed(6)


def test_a_request_lost_with_its_slot_is_caught(monkeypatch):
    monkeypatch.setattr(ReferenceWorld, "deliver_again", lambda self, slots, job: None)
    with pytest.raises(faults.Broken, match="requests in pools"):
        faults.run_seed(6)


def test_a_planner_that_forgets_a_batch_is_caught(monkeypatch):
    monkeypatch.setattr("assay.planner.core.policy.is_stale", lambda plan, observation: False)
    with pytest.raises(Exception, match="woken too often"):
        faults.run_seed(1)
