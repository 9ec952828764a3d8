"""Records of sessions, groups and their members; no protobuf, no clock.

Units: `_ns` Unix time; tokens are counts; ids are the model's token ids.
"""

from __future__ import annotations

import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from assay.core.verdict import Evidence
from assay.rollout.layout import Stop
from assay.rollout.rollouts import Sampling

if TYPE_CHECKING:
    from assay.core.group import GroupSummary
    from assay.core.ids import TenantId
    from assay.core.outcome import Outcome


class SessionKey(NamedTuple):
    """Identifies one session of one tenant."""

    tenant_id: TenantId
    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """How the responses of a group are sampled and when they stop."""

    sampling: Sampling = field(default_factory=Sampling)
    max_tokens: int = 256
    stop_ids: tuple[int, ...] = ()
    stop_strings: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardPlan:
    """How the responses of a session are scored."""

    pipeline: str
    settings_json: str
    wait_s_max: float
    """How long a response may wait for its reward before it ends as INFRA_FAILED."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardBatch:
    """A trainer's description of a reward batch when it submits prompts of it."""

    batch_id: str
    deadline_s: float | None
    """When the trainer needs it, in seconds from now; `None`: the reward service's estimate."""
    last: bool
    """No more prompts of the batch will come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSpec:
    """Parameters of a session."""

    decoding: Decoding
    reward: RewardPlan | None
    groups_open_max: int
    staleness_max: int | None
    retry_stale: bool
    """A group that is too stale is generated again; otherwise it is dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """One prompt, and the parameters of its K responses."""

    group_id: str
    prompt: tuple[int, ...]
    k: int
    seed: int
    """Response i is sampled with seed + i."""
    decoding: Decoding
    reference_json: bytes = b""
    batch_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """A finished rollout of the engine."""

    stop: Stop
    tokens: array.array[int]
    """int32, same length as the next two."""
    logps: array.array[float]
    """float32, under the distribution that each token was sampled from."""
    versions: array.array[int]
    """Policy version of the weights that made each token."""


NOT_DECODED = Decoded(
    stop=Stop.NONE, tokens=array.array("i"), logps=array.array("f"), versions=array.array("I")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """How the scoring of one response ended; `reward` only for SCORED and RESOURCE_LIMIT."""

    outcome: Outcome | None
    """`None`: no reward was requested."""
    reward: float | None = None
    evidence: Evidence = field(default_factory=Evidence)


NOT_ASKED = Judged(outcome=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """One member of an ended group."""

    member: int
    seed: int
    decoded: Decoded
    judged: Judged
    attempts: int
    submitted_ns: int
    decoded_ns: int
    ended_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedGroup:
    """All members of a group, in order."""

    spec: GroupSpec
    trajectories: tuple[Trajectory, ...]
    summary: GroupSummary

    def staleness(self, version: int) -> int:
        """`version` minus the oldest version that made a token of the group; 0 without tokens."""
        oldest = min(
            (min(t.decoded.versions) for t in self.trajectories if t.decoded.versions),
            default=version,
        )
        return version - oldest
