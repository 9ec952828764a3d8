"""Typed clients of the reward service; no server code, nothing heavy."""

from assay.client.backoff import Backoff
from assay.client.batch import Batch, SyncBatch
from assay.client.client import Client, SyncClient
from assay.client.connection import Identity
from assay.client.failures import BatchLost
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
    Submitted,
    Task,
)

__all__ = [
    "Backoff",
    "Batch",
    "BatchLost",
    "BatchState",
    "BatchStatus",
    "Client",
    "Component",
    "Evidence",
    "GroupSummary",
    "Identity",
    "Outcome",
    "Page",
    "Pipeline",
    "Request",
    "ResourceUse",
    "Result",
    "Scores",
    "StageTiming",
    "StoredArtifact",
    "Submitted",
    "SyncBatch",
    "SyncClient",
    "Task",
]
