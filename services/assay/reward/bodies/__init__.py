"""JSON bodies of the HTTP interface: the messages of reward.proto with the same names.

Two differences, for people with curl: a reference and a task's settings are JSON objects in place,
and outcomes and states are plain words (`SCORED`, `OPEN`).
"""

from assay.reward.bodies.answers import (
    BatchBody,
    CancelledBody,
    ComponentBody,
    ErrorBody,
    ErrorDetailBody,
    EvidenceBody,
    GroupBody,
    OpenedBody,
    PipelineBody,
    PipelinesBody,
    RegisteredBody,
    ResourceUseBody,
    ResultBody,
    ResultsBody,
    ScoredBody,
    StageTimingBody,
    SubmittedBody,
    UploadedBody,
    result_json,
)
from assay.reward.bodies.base import (
    Body,
)
from assay.reward.bodies.incoming import (
    ArtifactBody,
    CancelRequestsBody,
    HintBody,
    OpenBatchBody,
    RewardRequestBody,
    ScoreBody,
    SubmitBody,
    TaskBody,
)

__all__ = [
    "ArtifactBody",
    "BatchBody",
    "Body",
    "CancelRequestsBody",
    "CancelledBody",
    "ComponentBody",
    "ErrorBody",
    "ErrorDetailBody",
    "EvidenceBody",
    "GroupBody",
    "HintBody",
    "OpenBatchBody",
    "OpenedBody",
    "PipelineBody",
    "PipelinesBody",
    "RegisteredBody",
    "ResourceUseBody",
    "ResultBody",
    "ResultsBody",
    "RewardRequestBody",
    "ScoreBody",
    "ScoredBody",
    "StageTimingBody",
    "SubmitBody",
    "SubmittedBody",
    "TaskBody",
    "UploadedBody",
    "result_json",
]
