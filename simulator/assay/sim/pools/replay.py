"""Exported traces as a workload for the simulator. Pure.

One line of `assay history export` is one batch. A task's batches keep their order; the first are
the past that policies know, the rest are simulated. Stages of all tasks share their columns, in an
order that agrees with every pipeline.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from assay.core.errors import InvalidRequest
from assay.core.ids import StageName
from assay.model.observation import PastBatch
from assay.model.stage_order import in_pipeline_order
from assay.planner.session.past_batches import from_trace, past_of
from assay.sim.pools.workload import SCORED, BatchLoad, Stage, StageLoad, TaskLoad, Workload, steady

TIMEOUT_S: Final = 60.0
"""Default for stages without a value in the trace."""
CORE_COST: Final = 0.025
DELAY_BUDGET_S: Final = 5.0
GAP_S: Final = 5.0


def workload_of(traces: Sequence[Mapping[str, Any]], *, past: int = 1) -> Workload:
    """Combine traces; `past` batches per task are known before the first simulated one.

    Raises:
        InvalidRequest: a line is not a trace, or no task has a batch left to simulate.
    """
    by_task: dict[str, list[Mapping[str, Any]]] = {}
    for trace in traces:
        by_task.setdefault(f"{trace.get('tenant', '')}/{trace.get('task_id', '')}", []).append(
            trace
        )
    order = in_pipeline_order(from_trace(lines[0])[1] for lines in by_task.values())
    tasks, past_loads, loads = [], [], []
    for name, lines in by_task.items():
        batches = [batch_of(line, order) for line in lines]
        batches = [batch for batch in batches if len(batch.arrived_ns)]
        if len(batches) <= past:
            continue
        tasks.append(task_of(name, lines[-1], order, len(batches[-1].arrived_ns)))
        past_loads.append(tuple(batches[:past]))
        loads.append(tuple(batches[past:]))
    if not tasks:
        message = f"a replay needs a task with at least {past + 1} batches"
        raise InvalidRequest(message, field="traces")
    cores = {
        stage: core for lines in by_task.values() for stage, core in per_stage(lines[-1], "cores")
    }
    return Workload(
        stages=tuple(Stage(name=s, cost=CORE_COST * float(cores.get(s) or 1.0)) for s in order),
        tasks=tuple(tasks),
        batches=tuple(loads),
        past=tuple(past_loads),
    )


def batch_of(trace: Mapping[str, Any], order: Sequence[StageName]) -> BatchLoad:
    """Parse one line."""
    record, pipeline = from_trace(trace)
    return load_of(past_of(record, pipeline, order))


def load_of(past: PastBatch) -> BatchLoad:
    """A past batch as one to simulate: the trace is replayed."""
    return BatchLoad(
        arrived_ns=past.arrived_ns,
        service_ns=past.service_ns,
        outcome=np.full(len(past.arrived_ns), SCORED, np.int64),
    )


def task_of(name: str, trace: Mapping[str, Any], order: Sequence[StageName], size: int) -> TaskLoad:
    """Known facts of the task."""
    timeouts = dict(per_stage(trace, "timeouts_s"))
    budget_ms = trace.get("delay_budget_ms")
    return TaskLoad(
        name=name,
        stages=tuple(
            StageLoad(
                stage=order.index(stage),
                median_s=steady(0.0),
                sigma=0.0,
                timeout_s=float(timeouts.get(stage) or TIMEOUT_S),
                hang_share=steady(0.0),
                fail_share=steady(0.0),
            )
            for stage in from_trace(trace)[1]
        ),
        batch_size=size,
        gap_s=GAP_S,
        trainer_gpus=float(trace.get("trainer_cost_rate") or 0.0),
        delay_budget_s=DELAY_BUDGET_S if budget_ms is None else float(budget_ms) / 1e3,
    )


def per_stage(trace: Mapping[str, Any], word: str) -> list[tuple[StageName, Any]]:
    """A list of the trace, aligned with its stages."""
    _, pipeline = from_trace(trace)
    return list(zip(pipeline, trace.get(word) or [None] * len(pipeline), strict=False))
