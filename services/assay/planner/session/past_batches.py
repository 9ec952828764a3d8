"""Converts the store's records of finished batches to planner input and to traces."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from assay.core.errors import InvalidRequest
from assay.core.ids import BatchId, StageName
from assay.core.outcome import Outcome
from assay.core.records import BatchHistory, RequestHistory
from assay.model.observation import PastBatch, past_batch

JUDGED: Final = frozenset({Outcome.SCORED, Outcome.RESOURCE_LIMIT})
"""Other outcomes do not show how long the work takes."""


def past_of(
    record: BatchHistory, pipeline: Sequence[StageName], stages: Sequence[StageName]
) -> PastBatch:
    """One finished batch.

    Args:
        record: as the store kept it.
        pipeline: the stages that `record` was made with, in its order.
        stages: the stages that have pools, in the planner's order. A stage that the pipeline no
            longer has is left out; one that it gained has no work in this batch.
    """
    column = {stage: j for j, stage in enumerate(stages)}
    judged = [request for request in record.requests if request.outcome in JUDGED]
    service = np.zeros((len(judged), len(stages)), np.int64)
    for i, request in enumerate(judged):
        if len(request.service_ns) != len(pipeline):
            raise InvalidRequest("one time per stage", field=f"requests[{i}].service_ns")
        for stage, took_ns in zip(pipeline, request.service_ns, strict=True):
            if stage in column:
                service[i, column[stage]] = took_ns
    arrived = np.array([request.arrived_after_ns for request in judged], np.int64)
    return past_batch(arrived, service)


def to_trace(record: BatchHistory, pipeline: Sequence[StageName]) -> dict[str, object]:
    """Plain data for a file: one object per batch."""
    return {
        "batch_id": record.batch_id,
        "opened_ns": record.opened_ns,
        "completed_ns": record.completed_ns,
        "deadline_ns": record.deadline_ns,
        "stages": list(pipeline),
        "requests": [
            [r.arrived_after_ns, list(r.service_ns), r.outcome.value] for r in record.requests
        ],
    }


def from_trace(trace: Mapping[str, object]) -> tuple[BatchHistory, tuple[StageName, ...]]:
    """The record and its pipeline.

    Raises:
        InvalidRequest: the trace is not what `to_trace` makes.
    """
    try:
        requests = tuple(
            RequestHistory(
                arrived_after_ns=int(arrived),
                service_ns=tuple(int(took) for took in service),
                outcome=Outcome(outcome),
            )
            for arrived, service, outcome in trace["requests"]  # type: ignore[attr-defined] # checked by doing
        )
        record = BatchHistory(
            batch_id=BatchId(str(trace["batch_id"])),
            opened_ns=int(str(trace["opened_ns"])),
            completed_ns=int(str(trace["completed_ns"])),
            deadline_ns=int(str(trace["deadline_ns"])),
            requests=requests,
        )
        stages = tuple(StageName(str(name)) for name in trace["stages"])  # type: ignore[attr-defined] # as above
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidRequest(f"not a trace of a batch: {error}", field="trace") from error
    return record, stages
