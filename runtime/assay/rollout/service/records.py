"""Records of sessions, groups and their members; no protobuf, no clock.

Units: `_ns` Unix time; tokens are counts; ids are the model's token ids.
"""

from __future__ import annotations

import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from assay.core.trajectory import PolicyTurn, TrajectoryTokens, append_turn
from assay.core.verdict import Evidence
from assay.rollout.interface.rollouts import Sampling
from assay.rollout.layout import PauseMode, Stop

if TYPE_CHECKING:
    from assay.core.group import GroupSummary
    from assay.core.ids import TenantId
    from assay.core.outcome import Outcome


UNNAMED_MARK: Final = "/"
"""Before the number in the name of a reward batch that the caller did not name; no name has it."""


GROUP_BYTES: Final = 2_048
MEMBER_BYTES: Final = 2_048
TOKEN_BYTES: Final = 40
"""Memory of an open group, rounded up: its own records, those of each response, and what a token
takes: an integer of a prompt, or its columns in the engine's answer and in the trajectory."""


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
    enough_groups: int = 0
    """When this many of its groups have ended, the others are cancelled; 0: never."""
    only_varied: bool = False
    """Only groups whose rewards differ count as enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSpec:
    """Parameters of a session."""

    decoding: Decoding
    reward: RewardPlan | None
    groups_open_max: int
    staleness_max: int | None
    retry_stale: bool
    """A group that is too stale is generated again; otherwise it is dropped."""
    minority_min: int = 0
    """A group that can no longer have this many rewards besides its most common one is cancelled;
    0: never."""
    at_activation: PauseMode = PauseMode.IN_PLACE
    """What becomes of running rollouts when weights are activated without a mode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NextTurn:
    """Continues one trajectory of a group that ended."""

    member: int
    """Its position in that group."""
    environment: tuple[int, ...]
    """Tokens that the environment adds before the policy continues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """One prompt, and the parameters of its K responses."""

    group_id: str
    prompt: tuple[int, ...]
    """The first turn's."""
    k: int
    seed: int
    """Response i is sampled with seed + i."""
    decoding: Decoding
    reference_json: bytes = b""
    batch_id: str = ""
    scored: bool = True
    """False: without a reward, even if the session has a reward plan."""
    continues: str = ""
    """The group whose trajectories its own continue; empty: it begins with the prompt."""
    turns: tuple[NextTurn, ...] = ()
    """With `continues`: one per response."""
    histories: tuple[TrajectoryTokens, ...] = field(default=(), compare=False, repr=False)
    """With `continues`: the trajectory of each response so far."""

    def context(self, member: int) -> tuple[int, ...]:
        """What response `member` is conditioned on."""
        if not self.turns:
            return self.prompt
        return (*self.histories[member].context(), *self.turns[member].environment)

    def tokens(self, member: int, decoded: Decoded) -> TrajectoryTokens:
        """The whole trajectory of response `member`."""
        turn = PolicyTurn(ids=decoded.tokens, logp=decoded.logps, versions=decoded.versions)
        if not self.turns:
            return append_turn(TrajectoryTokens.begin(self.prompt), turn)
        environment = self.turns[member].environment
        return append_turn(self.histories[member], turn, environment=environment)

    @property
    def bytes_max(self) -> int:
        """Memory that the group takes at most until its reader has acknowledged it."""
        begun = sum(len(self.context(member)) for member in range(len(self.turns)))
        tokens = self.k * self.decoding.max_tokens + (begun or len(self.prompt))
        return GROUP_BYTES + len(self.reference_json) + self.k * MEMBER_BYTES + TOKEN_BYTES * tokens

    @property
    def oldest_version(self) -> int | None:
        """The oldest version in the turns before this one; `None` without any."""
        found = [one.oldest_version for one in self.histories]
        return min((version for version in found if version is not None), default=None)


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
    asked_ns: int = 0
    """When its reward request was handed to gRPC; 0: it was not."""
    stored_ns: int = 0
    """When the reward service had stored it; 0: it did not."""


NOT_ASKED = Judged(outcome=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """One member of an ended group."""

    member: int
    seed: int
    tokens: TrajectoryTokens
    """Of all its turns."""
    stop: Stop
    """Why the last turn ended."""
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
        found = [one.tokens.oldest_version for one in self.trajectories]
        return version - min((oldest for oldest in found if oldest is not None), default=version)
