"""Bodies of answers."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Self

from assay.core.codec import unpack_body
from assay.core.group import GroupSummary
from assay.core.outcome import Outcome
from assay.core.records import BatchRecord, BatchState, ResultRecord, Submitted
from assay.reward.bodies.base import Body
from assay.reward.bodies.incoming import TaskBody
from assay.reward.drafts import Scored
from assay.verifiers.port import PipelineDefinition


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


_EVIDENCE: Final = tuple(EvidenceBody.model_fields)
_USE: Final = tuple(ResourceUseBody.model_fields)
_STAGE: Final = tuple(StageTimingBody.model_fields)
_COMPONENT: Final = tuple(ComponentBody.model_fields)


def result_json(record: ResultRecord) -> str:
    """`ResultBody.of(record)` as JSON, at a quarter of its cost.

    Pages are converted on the event loop, in steps between other tenants' calls, and a tenant that
    never reads its streams has them made all the time.
    """
    body = unpack_body(record.body)
    evidence = _members(body.evidence, _EVIDENCE)
    if record.error:
        evidence["error"] = record.error
    said = {
        "request_id": record.request_id,
        "group_id": record.group_id,
        "outcome": record.outcome.value,
        "reward": record.reward,
        "evidence": evidence,
        "resource_use": _members(body.use, _USE),
        "stages": [_members(timing, _STAGE) for timing in record.stages],
        "attempts": record.attempts,
        "components": [_members(one, _COMPONENT) for one in body.components],
        "pipeline_version": body.pipeline_version,
        "rescorable": body.rescorable,
    }
    try:
        return json.dumps(said, separators=(",", ":"), allow_nan=False)
    except ValueError:  # JSON has no infinite numbers
        return ResultBody.of(record).model_dump_json()


def _members(value: object, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


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
    """The pipelines that this service has."""

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
