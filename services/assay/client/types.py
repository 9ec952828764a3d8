"""Arguments and results of the reward client; no protobuf types.

Answers, outcomes, evidence and group summaries are types of the core, which is pure and imports
nothing. What is in `__all__` is exported by `assay.client`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.core import answers
from assay.core.answers import *  # noqa: F403 each answer is named there alone
from assay.core.answers import StoredArtifact
from assay.core.group import GroupSummary
from assay.core.outcome import Outcome
from assay.core.records import BatchState, StageTiming
from assay.core.tools.quick import quick
from assay.core.verdict import Component, Evidence, ResourceUse

__all__ = [
    "BatchState",
    "BatchStatus",
    "Component",
    "Evidence",
    "GroupSummary",
    "Outcome",
    "Page",
    "Pipeline",
    "Request",
    "ResourceUse",
    "Result",
    "Scores",
    "StageTiming",
    "Submitted",
    "Task",
]
__all__ += answers.__all__


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One RL training job as registered."""

    task_id: str
    pipeline: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The pipeline's settings, complete."""
    batch_size: int = 0
    delay_budget_ms: int | None = None
    trainer_cost_rate: float = 0.0
    created: bool = False
    """False if the same task was registered before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One response to score."""

    request_id: str
    """Chosen by the caller; submitting it twice in a batch is one request."""
    response: str | bytes = ""
    """What the model wrote: any text, lone surrogates included, or any bytes. Empty: the text of
    the last message of the assistant in `messages`."""
    reference: Mapping[str, Any] | bytes
    """What to judge it against: an object in the pipeline's form, or its JSON."""
    group_id: str = ""
    """The prompt that it responds to; empty: it is in no group."""
    messages: Sequence[Mapping[str, Any]] = ()
    """The transcript: chat messages, each with its `role`."""
    artifacts: Mapping[str, bytes | StoredArtifact] = field(default_factory=dict)
    """Files that the pipeline judges too, by name, if it takes any: contents, or what
    `Client.put_artifact` returned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """Result of a submission."""

    accepted: int
    """Newly accepted; durable."""
    duplicates: int
    """Submitted before with the same content."""


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How one request ended."""

    request_id: str
    group_id: str
    outcome: Outcome
    reward: float | None
    """Present for SCORED and RESOURCE_LIMIT only: an infrastructure failure is never a reward."""
    evidence: Evidence
    resource_use: ResourceUse
    stages: Sequence[StageTiming]
    attempts: int
    components: Sequence[Component] = ()
    """Named parts of the reward, where the pipeline has several."""
    pipeline_version: str = ""
    """Content hash of the code, settings and tools that judged; empty: nothing did."""
    rescorable: bool = False
    """The same request may be judged again later, by this version of the pipeline or another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStatus:
    """A batch at one instant. `submitted = ended + queued + running`."""

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
    outcomes: Mapping[Outcome, int]
    deadline_at_risk: bool = False
    """Set by the planner: with the present capacity, the deadline may be missed."""
    unjudged: Mapping[Outcome, float] = field(default_factory=dict)
    """Share of the ended requests that no judge saw, by cause."""
    bias_avoided: float = 0.0
    """How far zeros in place of missing rewards would have moved the GRPO advantages, on average
    over the requests of the groups that have ended."""

    @property
    def over(self) -> bool:
        """No more results will come."""
        return self.state in {BatchState.COMPLETE, BatchState.CANCELLED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of results, and the cursor of the next one."""

    results: Sequence[Result]
    groups: Sequence[GroupSummary]
    cursor: int
    batch: BatchStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Results and statistics of a scored list of requests."""

    results: Sequence[Result]
    groups: Sequence[GroupSummary]

    @property
    def rewards(self) -> Sequence[float | None]:
        """In the order of `results`; `None` = not judged."""
        return [result.reward for result in self.results]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A pipeline and the form of its settings and references."""

    name: str
    description: str
    stages: Sequence[str]
    settings_schema: Mapping[str, Any]
    reference_schema: Mapping[str, Any]
    example_reference: Mapping[str, Any]
    takes_artifacts: bool = False
    """Requests may come with artifacts."""
