"""JSON bodies of the HTTP interface: the messages of reward.proto with the same names.

Two differences, for people with curl: a reference and a task's settings are JSON objects in place,
and outcomes and states are plain words (`SCORED`, `OPEN`).
"""

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Final, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    JsonValue,
    PlainValidator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from assay.core.codec import unpack_body
from assay.core.errors import InvalidRequest
from assay.core.group import GroupSummary
from assay.core.outcome import Outcome
from assay.core.records import (
    Artifact,
    BatchRecord,
    BatchState,
    ResultRecord,
    Submitted,
    TaskRecord,
)
from assay.core.response import response_bytes
from assay.reward.drafts import (
    BatchDraft,
    RequestDraft,
    Scored,
    ScoreDraft,
    TaskDraft,
)
from assay.verifiers.port import PipelineDefinition

UNKNOWN_NAMES_MAX: Final = 16
"""Unknown names in one object that are each located."""


class Body(BaseModel):
    """Base of all bodies. Unknown names are refused: most are misspelt known ones."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, from_attributes=True)

    @model_validator(mode="before")
    @classmethod
    def _first_unknown(cls, value: object) -> object:
        """Report one unknown name where there are many: reporting each would block other calls."""
        if isinstance(value, dict) and len(value) > len(cls.model_fields) + UNKNOWN_NAMES_MAX:
            name = repr(next(name for name in value if name not in cls.model_fields)[:80])
            raise PydanticCustomError("extra_forbidden", "unknown name {name}", {"name": name})
        return value


# -- in ------------------------------------------------------------------------------------------
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
    """Opens a batch."""

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
    """A relative path of plain names."""
    content: str | None = None
    content_base64: str | None = None
    """The same as bytes in base64; instead of `content`."""


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


class HintBody(Body):
    """A rollout phase has begun."""

    size: int = 0
    """Requests that will follow; 0 = the task's batch size."""


# -- out -----------------------------------------------------------------------------------------
class RegisteredBody(Body):
    """The task with its complete settings."""

    task: TaskBody
    created: bool
    """False if the same task was registered before."""


class BatchBody(Body):
    """A batch at one instant: submitted = ended + queued + running."""

    batch_id: str
    task_id: str
    state: BatchState
    size: int
    group_size: int
    opened_ns: int
    deadline_ns: int
    completed_ns: int
    submitted: int
    ended: int
    queued: int
    running: int
    outcomes: dict[Outcome, int]
    deadline_at_risk: bool
    """Set by the planner: with the present capacity, the deadline may be missed."""
    unjudged: dict[Outcome, float]
    """Share of the ended requests that no judge saw, by cause."""
    bias_avoided: float
    """How far zeros in place of missing rewards would have moved the GRPO advantages, on average
    over the requests of the groups that have ended."""

    @classmethod
    def of(cls, record: BatchRecord) -> Self:
        """Convert from the core's type."""
        return cls.model_validate(record, extra="ignore")


class OpenedBody(Body):
    """The batch; `created` is false if it was already open."""

    batch: BatchBody
    created: bool


class SubmittedBody(Body):
    """Result of a message of requests."""

    accepted: int
    """Newly accepted by this call; durable."""
    duplicates: int
    """Submitted before with the same content."""

    @classmethod
    def of(cls, answer: Submitted) -> Self:
        """Convert from the core's type."""
        return cls(accepted=answer.accepted, duplicates=answer.duplicates)


class CancelRequestsBody(Body):
    """Requests to cancel, by id and by group."""

    request_ids: list[str] = Field(default_factory=list)
    group_ids: list[str] = Field(default_factory=list)
    """All requests of these groups that were submitted so far."""


class CancelledBody(Body):
    """The batch, and how many requests this call ended."""

    batch: BatchBody
    cancelled: int


class EvidenceBody(Body):
    """Explains a reward."""

    verdict: str
    tests_passed: int
    tests_total: int
    failed_test: int | None
    stderr_tail: str
    extracted: str
    error: str


class ResourceUseBody(Body):
    """Resources that the request's own work used."""

    cpu_s: float
    memory_bytes_peak: int


class StageTimingBody(Body):
    """Work of one stage; instants by the store's clock."""

    stage: str
    enqueued_ns: int
    claimed_ns: int
    started_ns: int
    finished_ns: int
    released_ns: int
    attempts: int
    worker: str


class ComponentBody(Body):
    """A named part of a reward."""

    name: str
    value: float
    weight: float
    """With what it counts in the reward; 0: for information only."""


class ResultBody(Body):
    """How one request ended."""

    request_id: str
    group_id: str
    outcome: Outcome
    reward: float | None
    """Present for SCORED and RESOURCE_LIMIT only."""
    evidence: EvidenceBody
    resource_use: ResourceUseBody
    stages: list[StageTimingBody]
    attempts: int
    components: list[ComponentBody]
    """Named parts of the reward, where the pipeline has several."""
    pipeline_version: str
    """Content hash of the code, settings and tools that judged; empty: nothing did."""
    rescorable: bool
    """The same request may be judged again later, by this version or another."""

    @classmethod
    def of(cls, record: ResultRecord) -> Self:
        """Convert from the core's type."""
        body = unpack_body(record.body)
        evidence = body.evidence
        if record.error:
            evidence = replace(evidence, error=record.error)
        return cls(
            request_id=record.request_id,
            group_id=record.group_id,
            outcome=record.outcome,
            reward=record.reward,
            evidence=EvidenceBody.model_validate(evidence),
            resource_use=ResourceUseBody.model_validate(body.use),
            stages=[StageTimingBody.model_validate(timing) for timing in record.stages],
            attempts=record.attempts,
            components=[ComponentBody.model_validate(one) for one in body.components],
            pipeline_version=body.pipeline_version,
            rescorable=body.rescorable,
        )


class GroupBody(Body):
    """Statistics over the rewards of a finished group."""

    group_id: str
    size: int
    rewards: int
    mean: float | None
    std: float | None
    """Population standard deviation."""
    degenerate: bool

    @classmethod
    def of(cls, summary: GroupSummary) -> Self:
        """Convert from the core's type."""
        return cls.model_validate(summary)


class ResultsBody(Body):
    """A page of results; ask again with its `cursor` until `last`."""

    results: list[ResultBody]
    groups: list[GroupBody]
    cursor: int
    batch: BatchBody
    last: bool
    """The batch is complete and these are its last results."""


class ScoredBody(Body):
    """Results in the order of the requests."""

    results: list[ResultBody]
    groups: list[GroupBody]

    @classmethod
    def of(cls, answer: Scored) -> Self:
        """Convert from the core's type."""
        return cls(
            results=[ResultBody.of(record) for record in answer.results],
            groups=[GroupBody.of(summary) for summary in answer.groups],
        )


class PipelineBody(Body):
    """A pipeline, with the form of its settings and references."""

    name: str
    description: str
    stages: list[str]
    settings_schema: dict[str, Any]
    reference_schema: dict[str, Any]
    example_reference: dict[str, Any]
    takes_artifacts: bool
    """Requests may come with artifacts."""

    @classmethod
    def of(cls, definition: PipelineDefinition) -> Self:
        """Convert from a pipeline definition."""
        return cls(
            name=definition.spec.name,
            description=definition.spec.description,
            stages=list(definition.spec.stages),
            settings_schema=definition.settings.model_json_schema(),
            reference_schema=definition.reference.model_json_schema(),
            example_reference=dict(definition.example_reference),
            takes_artifacts=definition.takes_artifacts,
        )


class PipelinesBody(Body):
    """All pipelines."""

    pipelines: list[PipelineBody]


class ErrorDetailBody(Body):
    """`ErrorDetail` of common.proto."""

    reason: str
    field: str
    retry_after_ms: int
    message: str


class ErrorBody(Body):
    """Body of a failed call's response."""

    error: ErrorDetailBody


def _drafts(requests: Iterable[RewardRequestBody]) -> list[RequestDraft]:
    return [
        RequestDraft(
            request.request_id,
            request.group_id,
            _response(request, f"requests[{index}].response"),
            _json(request.reference, f"requests[{index}].reference"),
            json.dumps(request.messages).encode("ascii") if request.messages else b"",
            tuple(
                Artifact(
                    one.name,
                    _bytes(
                        None if one.content is None else response_bytes(one.content),
                        one.content_base64,
                        f"requests[{index}].artifacts[{number}].content",
                    ),
                )
                for number, one in enumerate(request.artifacts)
            ),
        )
        for index, request in enumerate(requests)
    ]


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
