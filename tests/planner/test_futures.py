"""Futures keep what is known and draw the rest from whole past requests."""

from dataclasses import replace

import numpy as np
from tests.planner.scenes import fresh_batch, task

from assay.config.planning import PriorSettings
from assay.model.arrays import to_ns
from assay.model.observation import past_batch
from assay.planner.core.futures import draw_futures


def drawn(view, now_ns):
    return draw_futures(now_ns, [(view, view.open)], [view], count=8, seed=0, prior=PriorSettings())


def test_a_running_request_gets_what_is_left_of_a_past_one_that_ran_longer():
    history = past_batch(
        np.array([0, 1, 2]), np.array([[to_ns(10), 7], [to_ns(20), 8], [to_ns(30), 9]])
    )
    batch = replace(
        fresh_batch(size=2),
        arrived=2,
        stage=np.array([0, 0]),
        elapsed_ns=np.array([to_ns(25), to_ns(119)]),
        natural_ns=np.array([to_ns(25), to_ns(119)]),
        sequence=np.arange(2),
    )
    for future in drawn(task(history=(history,), batch=batch), to_ns(60)):
        known, outlived = future.demand.service_ns.tolist()
        assert known == [to_ns(5), 9]
        assert 1 <= outlived[0] <= to_ns(1), "the timeout is 120 s"
        assert future.demand.running.tolist() == [0, 0]
        assert future.natural_ns[0] <= to_ns(120)


def test_what_will_come_is_whole_past_requests_later_than_what_has_come():
    history = past_batch(np.arange(100) * to_ns(1), np.stack([np.arange(1, 101)] * 2, axis=1))
    batch = replace(fresh_batch(size=100), arrived=60, ended_natural_ns=1)
    for future in drawn(task(history=(history,), batch=batch), to_ns(60)):
        service = future.demand.service_ns
        assert len(service) == 40
        assert (service[:, 0] == service[:, 1]).all()
        assert service[:, 0].min() > 60
        assert (np.diff(future.demand.release_ns) >= 0).all()
        assert future.demand.release_ns.min() >= to_ns(60)


def test_a_batch_that_runs_late_is_expected_to_go_on_late():
    history = past_batch(np.arange(100) * to_ns(1), np.ones((100, 2), np.int64))
    batch = replace(fresh_batch(size=100), arrived=50, ended_natural_ns=1)
    ends = [
        max(f.demand.release_ns.max() for f in drawn(task(history=(history,), batch=batch), now))
        for now in (to_ns(50), to_ns(75))
    ]
    assert ends[1] > 1.4 * ends[0]
