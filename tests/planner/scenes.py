"""Observations to plan from."""

from dataclasses import replace

import numpy as np
from tests.sim.builders import small_workload

from assay.model.arrays import Ints, to_ns
from assay.model.observation import (
    Cause,
    Observation,
    OpenBatch,
    PastBatch,
    PoolView,
    TaskView,
    past_batch,
)

EMPTY: Ints = np.zeros(0, np.int64)


def past(seed: int, count: int = 3) -> tuple[PastBatch, ...]:
    workload = small_workload(iterations=1, seed=seed, past=count)
    return tuple(past_batch(b.arrived_ns, b.service_ns) for b in workload.past[0])


def pool(stage: int = 0, **changes: object) -> PoolView:
    base = PoolView(
        stage=stage, target=0, idle=0, running=0, starting=0, waiting=0, cap=10_000,
        cost=(0.1, 1.0, 0.5)[stage], startup_ns=to_ns(5),
    )  # fmt: skip
    return replace(base, **changes)  # type: ignore[arg-type] # test data


def fresh_batch(opened_ns: int = 0, size: int = 150, number: int = 0) -> OpenBatch:
    return OpenBatch(
        number=number, opened_ns=opened_ns, deadline_ns=opened_ns + to_ns(600), size=size,
        arrived=0, ended_natural_ns=0, stage=EMPTY, elapsed_ns=EMPTY, natural_ns=EMPTY,
        sequence=EMPTY,
    )  # fmt: skip


def task(seed: int = 1, batch: OpenBatch | None = None, **changes: object) -> TaskView:
    base = TaskView(
        pool_of=np.array([0, 1]),
        timeout_ns=np.array([to_ns(120), to_ns(60)]),
        batch_size=150,
        delay_budget_ns=to_ns(5),
        weight=1.0,
        trainer_cost=64.0,
        history=past(seed),
        open=batch or fresh_batch(),
    )
    return replace(base, **changes)  # type: ignore[arg-type] # test data


def scene(
    *tasks: TaskView, now_ns: int = 0, pools: tuple[PoolView, ...] | None = None
) -> Observation:
    return Observation(
        now_ns=now_ns,
        cause=Cause.HINT,
        pools=pools or (pool(0), pool(1)),
        tasks=tasks or (task(),),
    )
