"""Stages that no open batch connects are planned apart; arrays stay within their limits."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planner.scenes import fresh_batch, pool, scene, task

from assay.config.planning import PlanSettings
from assay.model.arrays import to_ns
from assay.planner.core import groups
from assay.planner.core.demand import open_tasks
from assay.planner.core.futures import draw_futures
from assay.planner.core.groups import (
    HISTORY_CELLS_MAX,
    HISTORY_ROWS_MIN,
    groups_of,
    part_of,
)
from assay.planner.core.plan import make_plan
from assay.planner.core.thin import CELLS_MAX, every_kth, rows_of, thinned

FEW = PlanSettings(futures=4, shape_futures=4, tick_s=5.0)


def placed(stages, total, *, seed=1, **changes):
    """A task of two stages at these places among `total`."""
    at = np.array(stages)
    timeout = np.zeros(total, np.int64)
    timeout[at] = to_ns(120), to_ns(60)
    one = task(seed, **changes)
    history = tuple(replace(past, columns=at) for past in one.history)
    return replace(one, pool_of=np.arange(total), timeout_ns=timeout, history=history)


def pools(total):
    return tuple(replace(pool(j % 2), stage=j) for j in range(total))


def test_two_pipelines_that_share_nothing_are_planned_as_each_alone():
    first, second = fresh_batch(number=1), fresh_batch(number=2, size=90)
    both = scene(
        placed((3, 1), 4, seed=1, batch=first), placed((0, 2), 4, seed=2, batch=second),
        pools=pools(4),
    )  # fmt: skip
    plan = make_plan(both, FEW)
    assert [group.stages for group in groups_of(both)] == [(0, 2), (1, 3)]
    own = tuple(replace(pools(4)[j], stage=k) for k, j in enumerate((0, 2)))
    alone = make_plan(scene(task(2, second), pools=own), FEW)
    assert (plan.stages[0], plan.stages[2]) == alone.stages
    assert [one.task for one in plan.batches] == [0, 1]
    assert plan.batches[1] == replace(alone.batches[0], task=1)


def test_a_batch_that_runs_is_seen_in_its_own_group():
    there = np.array([3, 1, 3], np.int64)
    batch = replace(
        fresh_batch(), arrived=3, stage=there, elapsed_ns=np.array([to_ns(1), -1, to_ns(2)]),
        natural_ns=np.full(3, to_ns(2)), sequence=np.arange(3),
        passed_ns=np.arange(12).reshape(3, 4), reached=np.array([3, -1, 1]),
    )  # fmt: skip
    seen = scene(placed((1, 3), 4, batch=batch), pools=pools(4))
    (found,) = open_tasks(part_of(seen, groups_of(seen)[0]))
    assert found[1].stage.tolist() == [1, 0, 1]
    assert found[1].reached.tolist() == [1, -1, 0]
    assert found[1].passed_ns.tolist() == [[1, 3], [5, 7], [9, 11]]


def test_history_is_placed_at_the_stages_of_its_group():
    given = placed((3, 1), 4, batch=fresh_batch())
    seen = scene(given, pools=pools(4))
    (part,) = part_of(seen, groups_of(seen)[0]).tasks
    for past, found in zip(given.history, part.history, strict=True):
        assert np.array_equal(found.service_ns, past.service_ns[:, ::-1])
        assert np.array_equal(found.by_service, past.by_service[::-1])


@given(
    st.lists(
        st.tuples(st.sets(st.integers(0, 9), min_size=1, max_size=4), st.booleans()), max_size=8
    )
)
def test_stages_are_in_one_group_exactly_where_open_batches_connect_them(given):
    tasks = []
    for stages, is_open in given:
        timeout = np.zeros(10, np.int64)
        timeout[list(stages)] = 1
        batch = fresh_batch() if is_open else None
        tasks.append(replace(task(history=()), timeout_ns=timeout, open=batch))
    found = groups_of(replace(scene(), pools=pools(2) * 5, tasks=tuple(tasks)))
    opened = [stages for stages, is_open in given if is_open]
    everywhere = [stage for group in found for stage in group.stages]
    assert sorted(everywhere) == sorted(set().union(*opened))
    for stages in opened:
        assert sum(stages <= set(group.stages) for group in found) == 1
    for group in found:  # connected: from the first stage, every other one is reached
        reached = {group.stages[0]}
        for _ in group.stages:
            reached |= {s for stages in opened if stages & reached for s in stages}
        assert reached == set(group.stages)


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 200), st.integers(1, 50), st.integers(1, 8), st.integers(1, 4_000))
def test_arrays_stay_within_their_limits_however_many_stages_tasks_and_requests(
    stages, tasks, batches, size
):
    kept = task().history[0]
    past = replace(kept, columns=np.array([0, 1]))
    many = [
        replace(
            placed((0, 1 + k % (stages - 1)), stages, batch=fresh_batch(size=size, number=k)),
            history=(past,) * batches,
        )
        for k in range(tasks)
    ]
    seen = scene(*many, pools=pools(stages))
    for group in groups_of(seen):
        part = part_of(seen, group)
        rows = [len(one.arrived_ns) for each in part.tasks for one in each.history]
        cells = sum(rows) * len(group.stages)
        # One row more each: the one that decided T.
        assert cells <= HISTORY_CELLS_MAX + len(rows) * len(group.stages) or (
            max(rows) <= HISTORY_ROWS_MIN + 1
        )
        few = thinned(part, every_kth(part))
        (future,) = draw_futures(
            few.now_ns, open_tasks(few), few.tasks, count=1, seed=0, prior=FEW.prior
        )
        # At least one request of each batch stays.
        assert future.demand.service_ns.size <= CELLS_MAX + tasks * len(group.stages)


def test_of_many_rows_every_kth_is_used_and_the_one_that_decided_t():
    past = task().history[0]
    few = rows_of(past, 10)
    assert len(few.arrived_ns) <= len(past.arrived_ns) // 10 + 2
    assert few.natural_ns == past.natural_ns


def test_history_beyond_its_limit_is_thinned_row_by_row(monkeypatch):
    monkeypatch.setattr(groups, "HISTORY_CELLS_MAX", 600)
    monkeypatch.setattr(groups, "HISTORY_ROWS_MIN", 8)
    seen = scene(placed((1, 3), 4), placed((1, 0), 4, seed=2), pools=pools(4))
    (group,) = groups_of(seen)
    part = part_of(seen, group)
    rows = [len(one.arrived_ns) for each in part.tasks for one in each.history]
    assert max(rows) <= 600 // (len(rows) * len(group.stages)) + 1
    before = [one.natural_ns for each in seen.tasks for one in each.history]
    assert [one.natural_ns for each in part.tasks for one in each.history] == before
