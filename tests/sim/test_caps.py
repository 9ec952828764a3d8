"""Under caps: the order of batches that a plan chooses, between the deadlines' and the optimum."""

import pytest


@pytest.fixture
def case():
    """The benchmark's cases."""
    pytest.importorskip("ortools")
    from benchmarks.planner.caps import case

    return case


def test_an_order_costs_the_trainers_no_less_than_the_optimum_and_less_than_the_deadlines(case):
    found = [case(seed, equal=True) for seed in range(6)]
    for one in found:
        assert one.optimum <= one.planned + 1e-9
        assert one.planned <= one.by_deadline + 1e-9
    by_deadline, planned = (sum(getattr(o, n) for o in found) for n in ("by_deadline", "planned"))
    best = sum(one.optimum for one in found)
    assert planned - best < 0.7 * (by_deadline - best)
