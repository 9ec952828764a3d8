"""Workloads are what the paper and the traces say, and the same for the same seed."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from assay.core.errors import InvalidRequest
from assay.sim.files import read_arrivals
from assay.sim.pools.workload import (
    CUDA,
    CUDA_STAGES,
    ROLLOUT_QUANTILES,
    draw_workload,
    steady,
)

ROOT = Path(__file__).resolve().parents[2]
ARRIVALS = ROOT.parent / "shared" / "data" / "arrivals" / "polytrace_search_r1.csv"


def test_totals_an_iteration_lie_where_distrs_figure_6a_has_them():
    workload = draw_workload([CUDA], CUDA_STAGES, iterations=5, seed=1)
    for batch in workload.batches[0]:
        compile_s, execute_s = batch.service_ns.sum(axis=0) / 1e9
        assert 4e4 < compile_s < 12e4
        assert 2e3 < execute_s < 8e3
        assert batch.service_ns.max(axis=0).tolist() == [120 * 10**9, 60 * 10**9]


def test_a_request_that_fails_at_a_stage_skips_the_later_ones():
    workload = draw_workload([CUDA], CUDA_STAGES, iterations=1, seed=1)
    service = workload.batches[0][0].service_ns
    assert ((service[:, 0] == 0) <= (service[:, 1] == 0)).all()
    assert 0.05 < (service[:, 0] == 0).mean() < 0.2
    assert (service[:, 0] == 120 * 10**9)[service[:, 1] > 0].sum() == 0


def test_drift_moves_later_stages_to_more_work():
    workload = draw_workload([CUDA], CUDA_STAGES, iterations=10, seed=1)
    reached = [(batch.service_ns[:, 1] > 0).mean() for batch in workload.batches[0]]
    assert reached[-1] > reached[0] + 0.15


def test_stages_are_correlated_as_asked():
    workload = draw_workload([replace(CUDA, correlation=0.9)], CUDA_STAGES, iterations=1, seed=1)
    service = workload.batches[0][0].service_ns
    both = service[(service[:, 1] > 0) & (service[:, 1] < 60 * 10**9)]
    assert np.corrcoef(np.log(both[:, 0]), np.log(both[:, 1]))[0, 1] > 0.5


def test_the_same_seed_gives_the_same_workload_and_another_another():
    first, again, other = (
        draw_workload([CUDA], CUDA_STAGES, iterations=1, seed=seed).batches[0][0]
        for seed in (7, 7, 8)
    )
    assert np.array_equal(first.service_ns, again.service_ns)
    assert not np.array_equal(first.service_ns, other.service_ns)


@pytest.mark.parametrize(
    ("task", "field"),
    [
        (replace(CUDA, batch_size=0), "batch_size"),
        (replace(CUDA, stages=()), "stages"),
        (replace(CUDA, stages=CUDA.stages[::-1]), "stages"),
        (
            replace(CUDA, stages=(replace(CUDA.stages[0], median_s=steady(float("nan"))),)),
            "stages[0].median_s",
        ),
        (
            replace(CUDA, stages=(replace(CUDA.stages[0], median_s=steady(-1.0)),)),
            "stages[0].median_s",
        ),
    ],
)
def test_a_task_that_cannot_be_drawn_is_refused_by_field(task, field):
    with pytest.raises(InvalidRequest) as refused:
        draw_workload([task], CUDA_STAGES, iterations=1, seed=0)
    assert refused.value.field == field


@pytest.mark.skipif(not ARRIVALS.exists(), reason="the shared arrival traces are not there")
def test_the_fitted_quantiles_are_those_of_the_real_arrivals():
    real = np.concatenate(read_arrivals(ARRIVALS))
    for share, second in ROLLOUT_QUANTILES:
        if 0.05 <= share <= 0.999:
            assert np.quantile(real, share) == pytest.approx(second, rel=0.04)


def test_arrivals_that_are_no_numbers_are_refused(tmp_path):
    bad = tmp_path / "bad.csv"
    for text in ("step,arrival_s\n0,soon\n", "step,arrival_s\n0,-1\n", "step,arrival_s\n0,nan\n"):
        bad.write_text(text)
        with pytest.raises(InvalidRequest) as refused:
            read_arrivals(bad)
        assert refused.value.field == "arrival_s"
