"""Conversion between protobuf and the core; the only module of this service that knows both.

Requests become drafts, unchecked; records become messages. JSON Schemas are made once per pipeline.
"""

import asyncio
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, TypeVar

from google.protobuf.message import Message

from assay.core.codec import unpack_body
from assay.core.records import (
    Artifact,
    BatchRecord,
    BatchState,
    ResultRecord,
    StageTiming,
    TaskRecord,
)
from assay.edge.wire import OUTCOME, group_summary, put_evidence
from assay.reward.drafts import (
    BatchDraft,
    RequestDraft,
    ResultsPage,
    Scored,
    ScoreDraft,
    TaskDraft,
)
from assay.v1 import common_pb2, reward_pb2
from assay.verifiers.port import PipelineDefinition

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

AnswerT = TypeVar("AnswerT", bound=Message)

RESULTS_AT_ONCE: Final = 8
"""Results converted without a pause: a third of a millisecond."""
BATCH_STATE: Final = {
    state: reward_pb2.BatchState.Value(f"BATCH_STATE_{state.value}") for state in BatchState
}


# -- in ------------------------------------------------------------------------------------------
def task_draft(task: reward_pb2.Task) -> TaskDraft:
    return TaskDraft(
        task_id=task.task_id,
        pipeline=task.pipeline,
        settings_json=task.settings_json.encode(),
        batch_size=task.batch_size,
        delay_budget_ms=task.delay_budget_ms if task.HasField("delay_budget_ms") else None,
        trainer_cost_rate=task.trainer_cost_rate,
    )


def batch_draft(request: reward_pb2.OpenBatchRequest) -> BatchDraft:
    return BatchDraft(
        task_id=request.task_id,
        batch_id=request.batch_id,
        size=request.size,
        group_size=request.group_size,
        deadline_ms=request.deadline_ms if request.HasField("deadline_ms") else None,
        deadline_ns=request.deadline_ns if request.HasField("deadline_ns") else None,
    )


def request_drafts(requests: Iterable[reward_pb2.RewardRequest]) -> list[RequestDraft]:
    """Submit and Score."""
    return [
        RequestDraft(
            r.request_id,
            r.group_id,
            r.response,
            r.reference_json,
            r.messages_json,
            tuple(Artifact(one.name, one.content, one.sha256) for one in r.artifacts),
        )
        for r in requests
    ]


def score_draft(request: reward_pb2.ScoreRequest) -> ScoreDraft:
    return ScoreDraft(
        task_id=request.task_id,
        pipeline=request.pipeline,
        settings_json=request.settings_json.encode(),
        deadline_ns=request.deadline_ns if request.HasField("deadline_ns") else None,
    )


# -- out -----------------------------------------------------------------------------------------
def made(kind: type[AnswerT], answer: object, **known: object) -> AnswerT:
    """An answer as a message: fields have the same names, except those that are `known`.

    Results are many per second, so they are converted field by field below.
    """
    names = [one.name for one in kind.DESCRIPTOR.fields if one.name not in known]
    return kind(**{name: getattr(answer, name) for name in names}, **known)


def task(record: TaskRecord) -> reward_pb2.Task:
    """A task with its complete settings."""
    return made(reward_pb2.Task, record, settings_json=record.settings_json.decode())


def batch(record: BatchRecord) -> reward_pb2.Batch:
    """A batch at one instant."""
    return reward_pb2.Batch(
        batch_id=record.batch_id,
        task_id=record.task_id,
        state=BATCH_STATE[record.state],
        size=record.size,
        group_size=record.group_size,
        opened_ns=record.opened_ns,
        deadline_ns=record.deadline_ns,
        completed_ns=record.completed_ns,
        submitted=record.submitted,
        ended=record.ended,
        queued=record.queued,
        running=record.running,
        outcomes={outcome.value: count for outcome, count in record.outcomes.items()},
        deadline_at_risk=record.deadline_at_risk,
        unjudged={cause.value: share for cause, share in record.unjudged.items()},
        bias_avoided=record.bias_avoided,
    )


async def results_page(page: ResultsPage) -> reward_pb2.StreamResultsResponse:
    """One message of StreamResults; yields to other calls while it is made."""
    response = reward_pb2.StreamResultsResponse(
        groups=map(group_summary, page.groups), cursor=page.cursor, batch=batch(page.batch)
    )
    for first in range(0, len(page.results), RESULTS_AT_ONCE):
        if first:
            await asyncio.sleep(0)
        _put(response.results, page.results[first : first + RESULTS_AT_ONCE])
    return response


async def scored(answer: Scored) -> reward_pb2.ScoreResponse:
    """Response of Score; yields to other calls while it is made."""
    response = reward_pb2.ScoreResponse(groups=map(group_summary, answer.groups))
    for first in range(0, len(answer.results), RESULTS_AT_ONCE):
        if first:
            await asyncio.sleep(0)
        _put(response.results, answer.results[first : first + RESULTS_AT_ONCE])
    return response


def pipeline(definition: PipelineDefinition) -> reward_pb2.Pipeline:
    """A pipeline and the forms of its settings and references."""
    return reward_pb2.Pipeline(
        name=definition.spec.name,
        description=definition.spec.description,
        stages=definition.spec.stages,
        settings_schema_json=json.dumps(definition.settings.model_json_schema()),
        reference_schema_json=json.dumps(definition.reference.model_json_schema()),
        example_reference_json=json.dumps(definition.example_reference),
        takes_artifacts=definition.takes_artifacts,
    )


def _put(
    results: "RepeatedCompositeFieldContainer[reward_pb2.Result]", records: Iterable[ResultRecord]
) -> None:
    """Append results. Their fields are set in place, and only those that say something: to make
    each part and have it copied takes half as much time again."""
    for record in records:
        body = unpack_body(record.body)
        result = results.add()
        result.request_id = record.request_id
        result.group_id = record.group_id
        result.outcome = OUTCOME[record.outcome]
        if record.reward is not None:
            result.reward = record.reward
        put_evidence(result.evidence, body.evidence, error=record.error)
        use = result.resource_use
        use.cpu_s = body.use.cpu_s
        use.memory_bytes_peak = body.use.memory_bytes_peak
        for timing in record.stages:
            _put_timing(result.stages.add(), timing)
        result.attempts = record.attempts
        for one in body.components:
            result.components.add(name=one.name, value=one.value, weight=one.weight)
        result.pipeline_version = body.pipeline_version
        result.rescorable = body.rescorable


def _put_timing(into: common_pb2.StageTiming, timing: StageTiming) -> None:
    into.stage = timing.stage
    into.enqueued_ns = timing.enqueued_ns
    into.claimed_ns = timing.claimed_ns
    into.started_ns = timing.started_ns
    into.finished_ns = timing.finished_ns
    into.released_ns = timing.released_ns
    into.attempts = timing.attempts
    into.worker = timing.worker
