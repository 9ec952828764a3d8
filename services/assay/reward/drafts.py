"""The caller's arguments, as received and not yet checked; the same from gRPC and from HTTP."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from assay.core.group import GroupSummary
from assay.core.records import Artifact, BatchRecord, ResultRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDraft:
    """What `RegisterTask` asks for, from either door; not yet checked."""

    task_id: str
    pipeline: str
    settings_json: bytes = b""
    batch_size: int = 0
    delay_budget_ms: int | None = None
    trainer_cost_rate: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDraft:
    """What `OpenBatch` asks for, from either door; not yet checked."""

    task_id: str
    batch_id: str = ""
    size: int = 0
    group_size: int = 0
    deadline_ms: int | None = None
    deadline_ns: int | None = None
    """An instant, in place of `deadline_ms`."""
    of_pipeline: str = ""
    """The pipeline that the task has to have; empty: any."""


class RequestDraft(NamedTuple):
    """One response to score. A tuple, because thousands are made per second."""

    request_id: str
    group_id: str
    response: bytes
    reference: bytes
    messages: bytes = b""
    artifacts: tuple[Artifact, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreDraft:
    """Arguments of Score without its requests: either a registered task or a pipeline."""

    task_id: str = ""
    of_pipeline: str = ""
    """The pipeline that the task has to have; empty: any."""
    pipeline: str = ""
    settings_json: bytes = b""
    timeout_s: float | None = None
    """How long the caller waits; `None` = as long as the batch may take."""
    deadline_ns: int | None = None
    """When the caller stops waiting, as an instant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A parsed message, its requests not yet checked."""

    score: ScoreDraft
    """Arguments of `Score` other than the requests."""
    batch_id: str = ""
    """Batch of a `Submit` over gRPC."""
    requests: Sequence[RequestDraft]
    each: bool = False
    """Each request is accepted or refused by itself; otherwise all of them or none."""
    context: str = ""
    """What an endpoint in another system's form needs for its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsPage:
    """Some results of a batch, in the order in which they ended."""

    results: Sequence[ResultRecord]
    groups: Sequence[GroupSummary]
    cursor: int
    """Cursor of the next page."""
    batch: BatchRecord
    last: bool
    """The batch is complete and this page ends its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """Result of Score, in the order of the requests."""

    results: Sequence[ResultRecord]
    groups: Sequence[GroupSummary]
