"""Bodies of calls."""

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Self

from pydantic import FailFast, Field, JsonValue, PlainValidator
from pydantic_core import PydanticCustomError

from assay.core.errors import InvalidRequest
from assay.core.records import Artifact, TaskRecord
from assay.core.tools.response import response_bytes
from assay.reward.bodies.base import Body
from assay.reward.drafts import BatchDraft, RequestDraft, ScoreDraft, TaskDraft


class TaskBody(Body):
    """One RL training job."""

    task_id: str
    """The caller's name for it, unique for the tenant."""
    pipeline: str
    """One of GET /v1/pipelines."""
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    """The pipeline's settings."""
    batch_size: int = 0
    """Requests per batch; 0 = unknown."""
    delay_budget_ms: int | None = None
    """D: extra delay that the task tolerates over the batch's natural span."""
    trainer_cost_rate: float = 0.0
    """What one second of waiting costs the trainer, in GPU-seconds."""

    def draft(self) -> TaskDraft:
        """Convert to the core's type."""
        return TaskDraft(
            task_id=self.task_id,
            pipeline=self.pipeline,
            settings_json=_json(self.settings, "settings"),
            batch_size=self.batch_size,
            delay_budget_ms=self.delay_budget_ms,
            trainer_cost_rate=self.trainer_cost_rate,
        )

    @classmethod
    def of(cls, record: TaskRecord) -> Self:
        """Convert from the core's type."""
        return cls(
            task_id=record.task_id,
            pipeline=record.pipeline,
            settings=json.loads(record.settings_json),
            batch_size=record.batch_size,
            delay_budget_ms=record.delay_budget_ms,
            trainer_cost_rate=record.trainer_cost_rate,
        )


class OpenBatchBody(Body):
    """`OpenBatchRequest` of reward.proto."""

    task_id: str
    batch_id: str = ""
    """The caller's name for it; empty: the service makes one."""
    size: int = 0
    """Requests it will hold; reaching it seals the batch. 0 = open until sealed."""
    group_size: int = 0
    """K: responses per group."""
    deadline_ms: int | None = None
    """When the trainer needs it, in milliseconds from now."""
    deadline_ns: int | None = None
    """The same as an instant, in place of `deadline_ms`: Unix time by the store's clock."""

    def draft(self) -> BatchDraft:
        """Convert to the core's type."""
        return BatchDraft(
            task_id=self.task_id,
            batch_id=self.batch_id,
            size=self.size,
            group_size=self.group_size,
            deadline_ms=self.deadline_ms,
            deadline_ns=self.deadline_ns,
        )


def _text(value: object) -> bytes:
    if not isinstance(value, str):
        raise PydanticCustomError("string_type", "Input should be a valid string")
    return response_bytes(value)


class ArtifactBody(Body):
    """A file that comes with a request."""

    name: str
    """A relative path."""
    content: str | None = None
    content_base64: str | None = None
    """The same as bytes in base64; instead of `content`."""
    sha256: str = ""
    """Of a file that was uploaded before (`PutArtifact`), in hex; instead of its content."""


class RewardRequestBody(Body):
    """One response to score."""

    request_id: str
    """Chosen by the caller; idempotent within its batch."""
    group_id: str = ""
    """The group (prompt) it belongs to."""
    response: Annotated[
        bytes | None, PlainValidator(_text, json_schema_input_type=str), Field(default=None)
    ]
    """What the model wrote: any JSON string, NUL and lone surrogates included."""
    response_base64: str | None = None
    """The same as bytes in base64; instead of `response`, for bytes that are not UTF-8."""
    messages: Annotated[list[dict[str, JsonValue]], FailFast()] = Field(default_factory=list)
    """The transcript: chat messages, each with a `role`. With it, `response` may be absent: the
    text of the last message of the assistant."""
    artifacts: Annotated[list[ArtifactBody], FailFast()] = Field(default_factory=list)
    """Files that the pipeline judges too, if it takes any."""
    reference: dict[str, JsonValue]
    """What to judge it against, in the pipeline's form."""


class SubmitBody(Body):
    """All requests are accepted or none."""

    requests: Annotated[list[RewardRequestBody], FailFast()]

    def drafts(self) -> list[RequestDraft]:
        """Convert to the core's type."""
        return _drafts(self.requests)


class ScoreBody(Body):
    """Submit requests and wait for their results."""

    task_id: str = ""
    """A registered task; or leave it out and name a pipeline."""
    pipeline: str = ""
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    requests: Annotated[list[RewardRequestBody], FailFast()]
    timeout_s: float | None = Field(default=None, gt=0, le=7 * 24 * 3600)
    """How long to wait before the work is cancelled."""
    deadline_ns: int | None = None
    """The same as an instant: Unix time. The earlier of the two counts."""

    def draft(self) -> ScoreDraft:
        """Convert to the core's type."""
        return ScoreDraft(
            task_id=self.task_id,
            pipeline=self.pipeline,
            settings_json=_json(self.settings, "settings") if self.settings else b"",
            timeout_s=self.timeout_s,
            deadline_ns=self.deadline_ns,
        )

    def drafts(self) -> list[RequestDraft]:
        """Convert to the core's type."""
        return _drafts(self.requests)


def _drafts(requests: Iterable[RewardRequestBody]) -> list[RequestDraft]:
    return [
        RequestDraft(
            request.request_id,
            request.group_id,
            _response(request, f"requests[{index}].response"),
            _json(request.reference, f"requests[{index}].reference"),
            json.dumps(request.messages).encode("ascii") if request.messages else b"",
            tuple(
                _artifact(one, f"requests[{index}].artifacts[{number}].content")
                for number, one in enumerate(request.artifacts)
            ),
        )
        for index, request in enumerate(requests)
    ]


def _artifact(body: ArtifactBody, field: str) -> Artifact:
    if body.sha256 and body.content is None and body.content_base64 is None:
        return Artifact(body.name, b"", body.sha256)
    text = None if body.content is None else response_bytes(body.content)
    return Artifact(body.name, _bytes(text, body.content_base64, field), body.sha256)


def _response(request: RewardRequestBody, field: str) -> bytes:
    text, coded = request.response, request.response_base64
    if text is None and coded is None and request.messages:
        return b""
    return _bytes(text, coded, field)


def _bytes(text: bytes | None, coded: str | None, field: str) -> bytes:
    """Bytes that are given as text or in base64."""
    if text is not None and coded is None:
        return text
    if text is not None or coded is None:
        name = field.rpartition(".")[2]
        message = f"{field}: exactly one of {name} and {name}_base64"
        raise InvalidRequest(message, field=field)
    try:
        return base64.b64decode(coded, validate=True)
    except ValueError as error:
        message = f"{field}_base64: {error}"
        raise InvalidRequest(message, field=f"{field}_base64") from None


def _json(value: Mapping[str, JsonValue], field: str) -> bytes:
    return _utf8(json.dumps(value, ensure_ascii=False), field)


def _utf8(text: str, field: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        message = f"{field}: not UTF-8 (a lone surrogate at character {error.start})"
        raise InvalidRequest(message, field=field) from None
