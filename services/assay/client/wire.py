"""Conversion between protobuf and the client's types; the only client module that knows both."""

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, MutableSequence, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar, cast

from google.protobuf.message import Message

from assay.client.types import (
    BatchState,
    BatchStatus,
    Component,
    Evidence,
    GroupSummary,
    Outcome,
    Page,
    Pipeline,
    Request,
    ResourceUse,
    Result,
    Scores,
    StageTiming,
    StoredArtifact,
    Task,
)
from assay.core.errors import InvalidRequest
from assay.core.ids import GroupId, StageName, WorkerId
from assay.core.outcome import by_outcome
from assay.core.tools.response import SENT_BYTES_MAX, response_bytes
from assay.core.tools.splitting import Runs
from assay.v1 import common_pb2, reward_pb2, rollout_pb2

T = TypeVar("T")
M = TypeVar("M", reward_pb2.RewardRequest, rollout_pb2.Prompt)

OUTCOME: Final = {
    common_pb2.Outcome.Value(f"OUTCOME_{outcome.value}"): outcome for outcome in Outcome
}
BATCH_STATE: Final = {
    reward_pb2.BatchState.Value(f"BATCH_STATE_{state.value}"): state for state in BatchState
}
PART_BYTES: Final = 512 * 1024
"""Size of the parts of a message that is sent in parts; the service accepts up to 1 MiB."""
REQUEST_OVERHEAD_BYTES: Final = 64
"""Upper bound of a request's overhead on the wire beyond the text of its ids and tags."""


# -- out -----------------------------------------------------------------------------------------
def reward_requests(requests: Sequence[Request]) -> list[reward_pb2.RewardRequest]:
    """Requests as messages; a reference object shared by many is serialized once.

    Raises:
        InvalidRequest: an id is not UTF-8, or a reference is not a JSON object.
    """
    written: dict[int, bytes] = {}
    messages = []
    for index, request in enumerate(requests):
        reference = written.get(id(request.reference))
        if reference is None:
            reference = object_bytes(request.reference, f"requests[{index}].reference")
            written[id(request.reference)] = reference
        messages.append(
            reward_pb2.RewardRequest(
                request_id=_id(request.request_id, f"requests[{index}].request_id"),
                group_id=_id(request.group_id, f"requests[{index}].group_id"),
                response=response_bytes(request.response)[:SENT_BYTES_MAX],
                reference_json=reference,
                messages_json=_messages(request.messages, f"requests[{index}].messages"),
                artifacts=_artifacts(request.artifacts, f"requests[{index}].artifacts"),
            )
        )
    return messages


def _messages(messages: Sequence[Mapping[str, Any]], field: str) -> bytes:
    if not messages:
        return b""
    try:
        # In ASCII: a lone surrogate of a candidate is written as its escape.
        return json.dumps(list(messages), allow_nan=False).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"{field}: not JSON: {error}", field=field) from None


def _artifacts(
    artifacts: Mapping[str, bytes | StoredArtifact], field: str
) -> list[reward_pb2.Artifact]:
    with holding(field):
        return [
            reward_pb2.Artifact(name=name, sha256=given.sha256)
            if isinstance(given, StoredArtifact)
            else reward_pb2.Artifact(name=name, content=given)
            for name, given in artifacts.items()
        ]


@contextmanager
def holding(field: str) -> Iterator[None]:
    """Make messages: a value that its field cannot hold is an error that names it.

    Raises:
        InvalidRequest: a number is out of range, or a value is of another type.
    """
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidRequest(f"{field}: {error}", field=field) from None


def filled(kind: Callable[..., T], where: str, **fields: object) -> T:
    """A message of this kind; `where` is its place in the call, for errors; empty: the call.

    Raises:
        InvalidRequest: names the field that cannot hold its value.
    """
    try:
        return kind(**fields)
    except (TypeError, ValueError, OverflowError):
        for name, value in fields.items():
            with holding(f"{where}.{name}" if where else name):
                kind(**{name: value})
        raise  # each alone is right


def milliseconds(seconds: float | None, field: str) -> int | None:
    """A time as messages have it.

    Raises:
        InvalidRequest: it is not finite.
    """
    with holding(field):
        return None if seconds is None else round(seconds * 1000)


def runs(messages: Sequence[M], *, bytes_max: int, items_max: int) -> Runs[M]:
    """Runs of requests or prompts that fit one message each."""
    return Runs(messages, weigh=_size_within, bytes_max=bytes_max, items_max=items_max)


def _size_within(message: Message) -> int:
    return message.ByteSize() + REQUEST_OVERHEAD_BYTES


def parts(
    message: reward_pb2.SubmitRequest | reward_pb2.ScoreRequest,
) -> list[reward_pb2.MessagePart]:
    """Split one message that is too large for the service to receive at once."""
    return pieces(message.SerializeToString())


def pieces(data: bytes) -> list[reward_pb2.MessagePart]:
    """Split what is too large to be received at once; at least one piece."""
    return [
        reward_pb2.MessagePart(data=data[first : first + PART_BYTES])
        for first in range(0, max(1, len(data)), PART_BYTES)
    ]


def object_bytes(value: Mapping[str, Any] | bytes, field: str) -> bytes:
    """A JSON object as bytes.

    Raises:
        InvalidRequest: it is not one.
    """
    if isinstance(value, bytes):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"{field}: not a JSON object: {error}", field=field) from None


def object_text(value: Mapping[str, Any] | None, field: str) -> str:
    """As `object_bytes`, for settings; `None` gives the empty text."""
    return object_bytes(value, field).decode() if value else ""


# -- in ------------------------------------------------------------------------------------------
def made(kind: type[T], message: Message, **known: object) -> T:
    """A message as an answer: fields have the same names, except those that are `known`.

    Results are many per second, so they are converted field by field below.
    """
    names = [one.name for one in dataclasses.fields(cast("Any", kind)) if one.name not in known]
    return kind(**{name: _value(message, name) for name in names}, **known)


def _value(message: Message, name: str) -> Any:  # noqa: ANN401 any field
    """Its field; `None` where that may be absent and is."""
    field = message.DESCRIPTOR.fields_by_name[name]
    if field.has_presence and not message.HasField(name):
        return None
    value = getattr(message, name)
    return tuple(value) if isinstance(value, MutableSequence) else value


def task(answer: reward_pb2.RegisterTaskResponse) -> Task:
    """A registered task."""
    settings = json.loads(answer.task.settings_json)
    return made(Task, answer.task, settings=settings, created=answer.created)


def batch_status(message: reward_pb2.Batch) -> BatchStatus:
    """A batch at one instant."""
    return BatchStatus(
        batch_id=message.batch_id,
        task_id=message.task_id,
        state=BATCH_STATE.get(message.state, _state_by_end(message)),
        size=message.size,
        group_size=message.group_size,
        opened_ns=message.opened_ns,
        deadline_ns=message.deadline_ns,
        completed_ns=message.completed_ns,
        submitted=message.submitted,
        ended=message.ended,
        queued=message.queued,
        running=message.running,
        outcomes=by_outcome(message.outcomes),
        deadline_at_risk=message.deadline_at_risk,
        unjudged=by_outcome(message.unjudged),
        bias_avoided=message.bias_avoided,
    )


def _state_by_end(message: reward_pb2.Batch) -> BatchState:
    """The state of a batch in one that only a later release has."""
    return BatchState.COMPLETE if message.completed_ns else BatchState.SEALED


def page(message: reward_pb2.StreamResultsResponse) -> Page:
    """Results that came together."""
    return Page(
        results=[_result(result) for result in message.results],
        groups=[group_summary(group) for group in message.groups],
        cursor=message.cursor,
        batch=batch_status(message.batch),
    )


def scores(message: reward_pb2.ScoreResponse) -> Scores:
    """Score's answer."""
    return Scores(
        results=[_result(result) for result in message.results],
        groups=[group_summary(group) for group in message.groups],
    )


def pipeline(message: reward_pb2.Pipeline) -> Pipeline:
    """What the service says of a pipeline, as the client's type."""
    return made(
        Pipeline,
        message,
        settings_schema=json.loads(message.settings_schema_json),
        reference_schema=json.loads(message.reference_schema_json),
        example_reference=json.loads(message.example_reference_json),
    )


def _result(message: reward_pb2.Result) -> Result:
    outcome = OUTCOME.get(message.outcome, Outcome.INFRA_FAILED)  # of a later release
    return Result(
        request_id=message.request_id,
        group_id=message.group_id,
        outcome=outcome,
        reward=message.reward if message.HasField("reward") and outcome.carries_reward else None,
        evidence=evidence(message.evidence),
        resource_use=ResourceUse(
            cpu_s=message.resource_use.cpu_s,
            memory_bytes_peak=message.resource_use.memory_bytes_peak,
        ),
        stages=tuple(_timing(stage) for stage in message.stages),
        attempts=message.attempts,
        components=tuple(
            Component(name=one.name, value=one.value, weight=one.weight)
            for one in message.components
        ),
        pipeline_version=message.pipeline_version,
        rescorable=message.rescorable,
    )


def evidence(message: common_pb2.Evidence) -> Evidence:
    """Convert the explanation of a reward."""
    return Evidence(
        verdict=message.verdict,
        tests_passed=message.tests_passed,
        tests_total=message.tests_total,
        failed_test=message.failed_test if message.HasField("failed_test") else None,
        stderr_tail=message.stderr_tail,
        extracted=message.extracted,
        error=message.error,
    )


def _timing(message: common_pb2.StageTiming) -> StageTiming:
    return StageTiming(
        stage=StageName(message.stage),
        enqueued_ns=message.enqueued_ns,
        claimed_ns=message.claimed_ns,
        started_ns=message.started_ns,
        finished_ns=message.finished_ns,
        released_ns=message.released_ns,
        attempts=message.attempts,
        worker=WorkerId(message.worker),
    )


def group_summary(message: reward_pb2.GroupSummary) -> GroupSummary:
    """Statistics of a group."""
    return GroupSummary(
        group_id=GroupId(message.group_id),
        size=message.size,
        rewards=message.rewards,
        mean=message.mean if message.HasField("mean") else None,
        std=message.std if message.HasField("std") else None,
        degenerate=message.degenerate,
    )


def _id(text: str, field: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        message = f"{field}: not UTF-8 (a lone surrogate at character {error.start})"
        raise InvalidRequest(message, field=field) from None
    return text
