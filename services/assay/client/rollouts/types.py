"""What a trainer sends to the rollout service and gets from it; no protobuf."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from assay.core.advantages import Estimator, advantages

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from assay.client.types import Evidence, GroupSummary, Outcome
    from assay.core.trajectory import TrajectoryTokens


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How responses are sampled; `None` = the session's or the service's default."""

    temperature: float | None = None
    """0 = greedy."""
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    max_tokens: int | None = None
    stop_ids: tuple[int, ...] = ()
    stop_strings: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NextTurn:
    """Continues one trajectory of a group."""

    member: int
    """Its position in that group."""
    environment_ids: Sequence[int] = ()
    """What the environment adds before the policy continues: masked, without log-probs."""
    environment_text: str = ""
    """Instead of `environment_ids`, for the model's tokenizer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One prompt, and how many responses to it; or the next turns of a group's trajectories."""

    group_id: str
    k: int
    seed: int
    """Response i is sampled with seed + i."""
    prompt_ids: Sequence[int] = ()
    text: str = ""
    """Instead of `prompt_ids`, for the model's tokenizer."""
    sampling: SamplingParams = field(default_factory=SamplingParams)
    reference: Mapping[str, Any] | bytes = b""
    """What responses are judged against, in the pipeline's form."""
    batch_id: str = ""
    continues: str = ""
    """Instead of a prompt: the group that continues. It was read and is acknowledged with this
    submission at the earliest."""
    turns: Sequence[NextTurn] = ()
    """With `continues`: k of them."""
    scored: bool = True
    """False: no reward, for a turn that is not the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBatch:
    """Deadline and end of a reward batch: the rollouts that one training step consumes together."""

    batch_id: str
    deadline_s: float | None = None
    """When their rewards are needed, in seconds from now."""
    last: bool = False
    """No more prompts for it will come."""
    enough_groups: int = 0
    """When this many of its groups have ended, the others are cancelled; 0 = never."""
    only_varied: bool = False
    """Only groups whose rewards differ count as enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """One response with its token columns. The three columns have one length."""

    member: int
    tokens: TrajectoryTokens
    """Prompt and columns; `assay.core.trajectory` joins, packs and unpacks them."""
    finish_reason: str
    """`length`, `stop_id`, `stop_string`, `cancelled` or `failed`."""
    outcome: Outcome | None
    """`None`: the session has no rewards."""
    reward: float | None
    evidence: Evidence
    seed: int
    attempts: int
    submitted_ns: int
    """Unix time by the service's clock, as the next ones."""
    decoded_ns: int
    """The engine had made the last token."""
    reward_asked_ns: int
    """The message with its reward request was handed to gRPC; 0: no reward was requested."""
    reward_stored_ns: int
    """The reward service had stored the request; 0: it did not."""
    ended_ns: int

    @property
    def response_ids(self) -> memoryview[Any]:
        """int32; everything after the prompt, with the environment's tokens between turns."""
        return self.tokens.response_ids

    @property
    def response_mask(self) -> memoryview[Any]:
        """uint8; 1 = a token of the policy."""
        return self.tokens.response_mask

    @property
    def rollout_logp(self) -> memoryview[Any]:
        """float32; 0 where the mask is 0."""
        return self.tokens.rollout_logp

    @property
    def policy_versions(self) -> Sequence[tuple[int, int]]:
        """(version, tokens) in order; version -1 for the environment's tokens."""
        return self.tokens.versions


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutGroup:
    """The K trajectories of one prompt."""

    group_id: str
    cursor: int
    prompt_ids: memoryview
    trajectories: Sequence[Trajectory]
    summary: GroupSummary
    staleness: int
    """The policy version when it was read minus the oldest version in it."""

    def advantages(self, estimator: Estimator = Estimator.GRPO) -> list[float | None]:
        """One advantage per trajectory; `None` where it was not judged."""
        return advantages([one.reward for one in self.trajectories], estimator)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """A tensor to push: its bytes, little-endian and contiguous."""

    dtype: str
    """`F32`, `F16` or `BF16`."""
    shape: tuple[int, ...]
    data: memoryview | bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Activated:
    """A change of weights."""

    policy_version: int
    previous_version: int
    wait_s: float
    pause_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PushedWeights:
    """Weights staged beside the active ones."""

    policy_version: int
    bytes: int
    digest: str
    stage_s: float
    holds: bool = False
    """Memory has room for one set of weights, and these wait in a file: their activation holds the
    engine while it exchanges them with those in use."""
    activated: Activated | None = None
    """Of a push that activates them, the change."""
