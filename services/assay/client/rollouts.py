"""The asynchronous client of the rollout service.

    async with RolloutClient("127.0.0.1:8480") as client:
        session = await client.open_session("run-7", pipeline="math", max_tokens=256)
        await session.submit([Prompt(group_id="p1", text="2 + 3 =", k=8, seed=1,
                                     reference={"answers": ["5"]})])
        async for group in session.groups():
            for trajectory in group.trajectories:
                trajectory.response_ids, trajectory.rollout_logp, trajectory.reward
            session.acknowledge(group)

Token columns are memoryviews into the message (`int32`, `uint8`, `float32`): `numpy.asarray(view)`
and `torch.frombuffer(view, dtype=...)` see them without a copy. Everything may be repeated: a group
that was submitted twice is one group; groups that were not acknowledged come again.
"""

from __future__ import annotations

import array
import asyncio
import hashlib
import sys
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

import grpc

from assay.client import wire
from assay.client.backoff import Backoff
from assay.client.connection import Connection
from assay.client.failures import error_of
from assay.core.advantages import Estimator, advantages
from assay.v1 import rollout_pb2, rollout_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
    from types import TracebackType

    from assay.client.types import Evidence, GroupSummary, Outcome

MESSAGE_PROMPTS: Final = 256
PIECE_BYTES: Final = 4 * 1024**2
"""Weights are sent in messages of this size."""
PAUSE_MODES: Final = {
    "in_place": rollout_pb2.PAUSE_MODE_IN_PLACE,
    "finish": rollout_pb2.PAUSE_MODE_FINISH,
    "retract": rollout_pb2.PAUSE_MODE_RETRACT,
}


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
class Prompt:
    """One prompt, and how many responses to it."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBatch:
    """Deadline and end of a reward batch: the rollouts that one training step consumes together."""

    batch_id: str
    deadline_s: float | None = None
    """When their rewards are needed, in seconds from now."""
    last: bool = False
    """No more prompts for it will come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """One response with its token columns. The three columns have one length."""

    member: int
    response_ids: memoryview
    response_mask: memoryview
    rollout_logp: memoryview
    policy_versions: Sequence[tuple[int, int]]
    """(version, tokens) in order."""
    finish_reason: str
    """`length`, `stop_id`, `stop_string`, `cancelled` or `failed`."""
    outcome: Outcome | None
    """`None`: the session has no rewards."""
    reward: float | None
    evidence: Evidence
    seed: int
    attempts: int
    submitted_ns: int
    decoded_ns: int
    ended_ns: int


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
class PushedWeights:
    """Weights staged beside the active ones."""

    policy_version: int
    bytes: int
    digest: str
    stage_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Activated:
    """A change of weights."""

    policy_version: int
    previous_version: int
    wait_s: float
    pause_s: float


class RolloutClient:
    """A connection to the rollout service; safe to share between the tasks of one event loop."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        root_certificates: bytes | None = None,
        backoff: Backoff | None = None,
        timeout_s: float = 120.0,
    ) -> None:
        """Make a client; arguments are those of `Client`."""
        self._connection = Connection(
            url,
            token=token,
            root_certificates=root_certificates,
            backoff=backoff or Backoff(),
            timeout_s=timeout_s,
        )
        self._stub = rollout_pb2_grpc.RolloutServiceStub(self._connection.channel)

    async def __aenter__(self) -> Self:
        """No message is sent yet."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection; sessions continue on the server."""
        await self._connection.close()

    async def open_session(
        self,
        session_id: str,
        *,
        model: str = "",
        sampling: SamplingParams | None = None,
        pipeline: str = "",
        settings: Mapping[str, Any] | None = None,
        reward_wait_s: float = 0.0,
        groups_open_max: int = 0,
        staleness_max: int | None = None,
        retry_stale: bool = False,
    ) -> RolloutSession:
        """Open a session, or find the identical one.

        Args:
            session_id: your name for it.
            model: the model that must be served; empty = any.
            sampling: default sampling parameters of its prompts.
            pipeline: how responses are scored; empty = they are not.
            settings: settings of the pipeline.
            reward_wait_s: how long a response may wait for its reward; 0 = the service's default.
            groups_open_max: groups submitted and not acknowledged; 0 = the service's default.
            staleness_max: largest staleness of a group when it is read; `None` = any.
            retry_stale: generate a group that is too stale again, instead of dropping it.

        Raises:
            InvalidRequest: a field is wrong.
            NotFound: no such pipeline, or another model is served.
            Conflict: a session of that name differs.
        """
        message = rollout_pb2.Session(
            session_id=session_id,
            model=model,
            sampling=_sampling(sampling or SamplingParams()),
            groups_open_max=groups_open_max,
            staleness_max=staleness_max,
            stale_groups=_stale_groups(retry=retry_stale),
        )
        if pipeline:
            message.reward.pipeline = pipeline
            message.reward.settings_json = wire.object_text(settings, "settings")
            message.reward.wait_ms_max = round(reward_wait_s * 1000)
        request = rollout_pb2.OpenSessionRequest(session=message)
        answer = await self._connection.call(self._stub.OpenSession, request)
        return RolloutSession(
            session_id, self._connection, self._stub, tokens_max=answer.tokens_max
        )

    async def push_weights(
        self, version: int, weights: Mapping[str, Weight], *, core_share_max: float = 0.0
    ) -> PushedWeights:
        """Stage weights beside the active ones, while generation continues.

        Args:
            version: the number that identifies them permanently.
            weights: every tensor of the model, by its Hugging Face name.
            core_share_max: share of one core that staging may take; 0 = all of it.

        Raises:
            InvalidRequest: a tensor is unknown, missing, damaged or of another shape or dtype.
            FailedPrecondition: another push is in progress.
        """
        pieces = _pieces(version, weights, core_share_max)
        call: Any = self._stub.PushWeights(pieces, metadata=self._connection.metadata)
        try:
            answer = await call
        except grpc.aio.AioRpcError as failed:
            raise error_of(failed) from failed
        return PushedWeights(
            policy_version=answer.policy_version,
            bytes=answer.bytes,
            digest=answer.digest,
            stage_s=answer.stage_s,
        )

    async def activate(self, version: int, *, mode: str = "in_place") -> Activated:
        """Switch to weights that were pushed.

        Args:
            version: that of the push, or the previous one.
            mode: `in_place`, `finish` or `retract`.

        Raises:
            FailedPrecondition: they are not there.
        """
        request = rollout_pb2.ActivateRequest(policy_version=version, mode=PAUSE_MODES[mode])
        answer = await self._connection.call(self._stub.Activate, request)
        return Activated(
            policy_version=answer.policy_version,
            previous_version=answer.previous_version,
            wait_s=answer.wait_s,
            pause_s=answer.pause_s,
        )

    async def policy_version(self) -> int:
        """Version of the weights that generate tokens now."""
        answer = await self._connection.call(self._stub.GetVersion, rollout_pb2.GetVersionRequest())
        return answer.policy_version

    async def pause(self, *, mode: str = "in_place") -> str:
        """Stop generation; return the argument for `resume`."""
        request = rollout_pb2.PauseRequest(mode=PAUSE_MODES[mode])
        return (await self._connection.call(self._stub.Pause, request)).pause_id

    async def resume(self, pause_id: str) -> None:
        """End a pause."""
        request = rollout_pb2.ContinueRequest(pause_id=pause_id)
        await self._connection.call(self._stub.Continue, request)

    async def status(self) -> rollout_pb2.GetStatusResponse:
        """State of the service: weights, sessions and counts."""
        return await self._connection.call(self._stub.GetStatus, rollout_pb2.GetStatusRequest())


class RolloutSession:
    """An open session."""

    def __init__(
        self,
        session_id: str,
        connection: Connection,
        stub: rollout_pb2_grpc.RolloutServiceAsyncStub,
        *,
        tokens_max: int,
    ) -> None:
        self.session_id = session_id
        self.tokens_max = tokens_max
        """Tokens of prompt and response together."""
        self._connection = connection
        self._stub = stub
        self._cursor = 0

    async def submit(self, prompts: Iterable[Prompt], *, batches: Iterable[StepBatch] = ()) -> int:
        """Send prompts, in as many messages as they need; return how many were new.

        Raises:
            InvalidRequest: a prompt is wrong; `field` says which (`prompts[3].k`).
            Conflict: a `group_id` is open with other content.
            Saturated: too many groups were open during the whole time of the backoff.
        """
        messages = [_prompt(prompt) for prompt in prompts]
        said = [_batch(batch) for batch in batches]
        accepted = 0
        for first in range(0, max(1, len(messages)), MESSAGE_PROMPTS):
            rest = messages[first : first + MESSAGE_PROMPTS]
            last = first + MESSAGE_PROMPTS >= len(messages)
            request = rollout_pb2.SubmitPromptsRequest(
                session_id=self.session_id,
                prompts=rest,
                batches=said if last else (),
                acknowledged=self._cursor,
            )
            answer = await self._connection.call(self._stub.SubmitPrompts, request)
            accepted += answer.accepted
        return accepted

    async def groups(self) -> AsyncGenerator[RolloutGroup, None]:
        """Yield groups as they end, starting after the last acknowledged one, without end.

        A lost connection is restored; a group may then come a second time.
        """

        def request_from(_cursor: int) -> rollout_pb2.StreamGroupsRequest:
            return rollout_pb2.StreamGroupsRequest(session_id=self.session_id, cursor=self._cursor)

        async def again(cursor: int) -> int:
            return cursor

        stream = self._connection.stream(
            self._stub.StreamGroups, request_from, self._cursor, again=again
        )
        async with aclosing(stream):
            async for message in stream:
                first = message.cursor - len(message.groups) + 1
                for position, group in enumerate(message.groups, start=first):
                    yield _group(group, position)

    def acknowledge(self, group: RolloutGroup) -> None:
        """Mark this group and those before it as handled: they do not come again, and the service
        drops them when it is notified, with the next `submit` or after a lost connection."""
        self._cursor = max(self._cursor, group.cursor)

    async def cancel(self, group_ids: Iterable[str] = ()) -> int:
        """Ask to end groups (none named: all); return the number of rollouts."""
        request = rollout_pb2.CancelRolloutsRequest(session_id=self.session_id, group_ids=group_ids)
        return (await self._connection.call(self._stub.CancelRollouts, request)).rollouts

    async def close(self) -> int:
        """Cancel what has not ended and delete the session; return how many rollouts ended."""
        request = rollout_pb2.CloseSessionRequest(session_id=self.session_id)
        return (await self._connection.call(self._stub.CloseSession, request)).cancelled


def _sampling(params: SamplingParams) -> rollout_pb2.Sampling:
    return rollout_pb2.Sampling(
        temperature=params.temperature,
        top_k=params.top_k,
        top_p=params.top_p,
        min_p=params.min_p,
        max_tokens=params.max_tokens,
        stop_ids=params.stop_ids,
        stop_strings=params.stop_strings,
    )


def _stale_groups(*, retry: bool) -> rollout_pb2.StaleGroups.ValueType:
    return rollout_pb2.STALE_GROUPS_RETRY if retry else rollout_pb2.STALE_GROUPS_DROP


def _prompt(prompt: Prompt) -> rollout_pb2.Prompt:
    ids = array.array("i", prompt.prompt_ids)
    if sys.byteorder != "little":
        ids.byteswap()
    return rollout_pb2.Prompt(
        group_id=prompt.group_id,
        prompt_ids=ids.tobytes(),
        text=prompt.text,
        k=prompt.k,
        sampling=_sampling(prompt.sampling),
        seed=prompt.seed,
        reference_json=wire.object_bytes(prompt.reference, "reference"),
        batch_id=prompt.batch_id,
    )


def _batch(batch: StepBatch) -> rollout_pb2.RewardBatch:
    deadline_ms = None if batch.deadline_s is None else round(batch.deadline_s * 1000)
    return rollout_pb2.RewardBatch(
        batch_id=batch.batch_id, deadline_ms=deadline_ms, last=batch.last
    )


def _group(message: rollout_pb2.Group, position: int) -> RolloutGroup:
    ids, mask, logp = (
        _view(message.response_ids, "i"),
        _view(message.response_mask, "B"),
        _view(message.rollout_logp, "f"),
    )
    trajectories, start = [], 0
    for one in message.trajectories:
        part = slice(start, start + one.tokens)
        trajectories.append(_trajectory(one, ids[part], mask[part], logp[part]))
        start += one.tokens
    return RolloutGroup(
        group_id=message.group_id,
        cursor=position,
        prompt_ids=_view(message.prompt_ids, "i"),
        trajectories=tuple(trajectories),
        summary=wire.group_summary(message.summary),
        staleness=message.staleness,
    )


def _trajectory(
    message: rollout_pb2.Trajectory, ids: memoryview, mask: memoryview, logp: memoryview
) -> Trajectory:
    name = rollout_pb2.FinishReason.Name(message.finish_reason)
    return Trajectory(
        member=message.member,
        response_ids=ids,
        response_mask=mask,
        rollout_logp=logp,
        policy_versions=tuple((run.policy_version, run.tokens) for run in message.versions),
        finish_reason=name.removeprefix("FINISH_REASON_").lower(),
        outcome=wire.OUTCOME.get(message.outcome),
        reward=message.reward if message.HasField("reward") else None,
        evidence=wire.evidence(message.evidence),
        seed=message.seed,
        attempts=message.attempts,
        submitted_ns=message.submitted_ns,
        decoded_ns=message.decoded_ns,
        ended_ns=message.ended_ns,
    )


def _view(column: bytes, code: str) -> memoryview[Any]:
    if sys.byteorder == "little":
        return memoryview(column).cast(code)  # type: ignore[call-overload,no-any-return]
    numbers: array.array[Any] = array.array(code, column)
    numbers.byteswap()
    return memoryview(numbers)


async def _pieces(
    version: int, weights: Mapping[str, Weight], core_share_max: float
) -> AsyncIterator[rollout_pb2.PushWeightsRequest]:
    first = rollout_pb2.PushWeightsRequest(policy_version=version, core_share_max=core_share_max)
    for name, weight in weights.items():
        data = memoryview(weight.data).cast("B")
        first.tensor.CopyFrom(
            rollout_pb2.TensorHead(
                name=name,
                dtype=weight.dtype,
                shape=weight.shape,
                sha256=await asyncio.to_thread(_sha256, data),
            )
        )
        for start in range(0, max(1, len(data)), PIECE_BYTES):
            first.data = bytes(data[start : start + PIECE_BYTES])
            yield first
            first = rollout_pb2.PushWeightsRequest()


def _sha256(data: memoryview) -> str:
    return hashlib.sha256(data).hexdigest()
