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
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

import grpc

from assay.client import wire
from assay.client.backoff import Backoff
from assay.client.batch import MESSAGE_BYTES
from assay.client.connection import Connection
from assay.client.failures import error_of, shifted
from assay.core.advantages import Estimator, advantages
from assay.core.errors import AssayError, InvalidRequest
from assay.core.trajectory import (
    Segment,
    Speaker,
    TrajectoryTokens,
    VersionRun,
    little_endian,
    view,
)
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
ADAPTER_KINDS: Final = {
    "LORA": rollout_pb2.WEIGHTS_KIND_LORA,
    "OFT": rollout_pb2.WEIGHTS_KIND_OFT,
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
    decoded_ns: int
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
        minority_min: int = 0,
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
            minority_min: cut a group that can no longer have this many rewards besides its most
                common one; 0 = never.

        Raises:
            InvalidRequest: a field is wrong.
            NotFound: no such pipeline, or another model is served.
            Conflict: a session of that name differs.
        """
        with wire.holding("session"):
            message = rollout_pb2.Session(
                session_id=session_id,
                model=model,
                sampling=_sampling(sampling or SamplingParams()),
                groups_open_max=groups_open_max,
                staleness_max=staleness_max,
                stale_groups=_stale_groups(retry=retry_stale),
                minority_min=minority_min,
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
        return await self._push(_pieces(_full_push(version, core_share_max), weights))

    async def push_adapter(
        self,
        version: int,
        config: Mapping[str, Any],
        weights: Mapping[str, Weight],
        *,
        base_version: int | None = None,
        core_share_max: float = 0.0,
    ) -> PushedWeights:
        """Stage a LoRA or OFT adapter beside the active weights, while generation continues.

        Args:
            version: the number that identifies the model with this adapter permanently.
            config: the content of peft's adapter_config.json; `peft_type` is LORA or OFT.
            weights: its tensors by their names in peft's adapter_model.safetensors.
            base_version: version of the whole weights that it belongs to; `None` = those in use.
            core_share_max: share of one core that staging may take; 0 = all of it.

        Raises:
            InvalidRequest: a tensor is unknown, missing, damaged or of another shape or dtype, or
                the whole weights in use are not those of `base_version`.
            FailedPrecondition: another push is in progress.
        """
        first = _adapter_push(version, config, base_version, core_share_max)
        return await self._push(_pieces(first, weights))

    async def push_file(
        self,
        version: int,
        name: str,
        *,
        config: Mapping[str, Any] | None = None,
        base_version: int | None = None,
        core_share_max: float = 0.0,
    ) -> PushedWeights:
        """Stage the safetensors file `name` in the service's `rollout.shared_dir`.

        With `config` it is an adapter, as in `push_adapter`; otherwise it has every tensor of the
        model. Do not change the file before this returns.

        Raises:
            NotFound: no such file.
            FailedPrecondition: the service has no shared folder, or another push is in progress.
            InvalidRequest: as `push_adapter`.
        """
        if config is None:
            first = _full_push(version, core_share_max)
        else:
            first = _adapter_push(version, config, base_version, core_share_max)
        first.shared_file = name

        async def only() -> AsyncIterator[rollout_pb2.PushWeightsRequest]:
            yield first

        return await self._push(only())

    async def _push(self, pieces: AsyncIterator[rollout_pb2.PushWeightsRequest]) -> PushedWeights:
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
            InvalidRequest: no such mode.
            FailedPrecondition: they are not there.
        """
        with wire.holding("policy_version"):
            request = rollout_pb2.ActivateRequest(policy_version=version, mode=_pause_mode(mode))
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
        request = rollout_pb2.PauseRequest(mode=_pause_mode(mode))
        return (await self._connection.call(self._stub.Pause, request)).pause_id

    async def resume(self, pause_id: str) -> None:
        """End a pause."""
        request = rollout_pb2.ContinueRequest(pause_id=pause_id)
        await self._connection.call(self._stub.Continue, request)

    async def status(self, *, rollouts: bool = False) -> rollout_pb2.GetStatusResponse:
        """State of the service: weights, sessions, counts; on request, places of rollouts."""
        request = rollout_pb2.GetStatusRequest(rollouts=rollouts)
        return await self._connection.call(self._stub.GetStatus, request)

    async def trace(self) -> AsyncGenerator[rollout_pb2.StreamTraceResponse, None]:
        """Yield events of the engine from now on, without end; tracing is on meanwhile.

        Raises:
            FailedPrecondition: the engine records no trace.
            PermissionDenied: the tenant may not operate the service.
        """
        request = rollout_pb2.StreamTraceRequest()
        call: Any = self._stub.StreamTrace(request, metadata=self._connection.metadata)
        try:
            async for page in call:
                yield page
        except grpc.aio.AioRpcError as failed:
            raise error_of(failed) from failed
        finally:
            call.cancel()


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
        messages = [_prompt(prompt, f"prompts[{i}]") for i, prompt in enumerate(prompts)]
        said = [_batch(batch, f"batches[{i}]") for i, batch in enumerate(batches)]
        runs = wire.chunks(messages, bytes_max=MESSAGE_BYTES, requests_max=MESSAGE_PROMPTS)
        accepted = 0
        for first, run in list(runs) or [(0, ())]:
            request = rollout_pb2.SubmitPromptsRequest(
                session_id=self.session_id,
                prompts=run,
                batches=said if first + len(run) == len(messages) else (),
                acknowledged=self._cursor,
            )
            try:
                answer = await self._connection.call(self._stub.SubmitPrompts, request)
            except AssayError as error:
                raise shifted(error, first) from error
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


def _pause_mode(mode: str) -> rollout_pb2.PauseMode.ValueType:
    if mode not in PAUSE_MODES:
        raise InvalidRequest(f"mode: one of {', '.join(PAUSE_MODES)}", field="mode")
    return PAUSE_MODES[mode]


def _ids(ids: Sequence[int], where: str) -> bytes:
    with wire.holding(where):
        return little_endian([memoryview(array.array("i", ids))], "i")


def _prompt(prompt: Prompt, where: str) -> rollout_pb2.Prompt:
    with wire.holding(where):
        return rollout_pb2.Prompt(
            group_id=prompt.group_id,
            prompt_ids=_ids(prompt.prompt_ids, f"{where}.prompt_ids"),
            text=prompt.text,
            k=prompt.k,
            sampling=_sampling(prompt.sampling),
            seed=prompt.seed,
            reference_json=wire.object_bytes(prompt.reference, f"{where}.reference"),
            batch_id=prompt.batch_id,
            continues=prompt.continues,
            turns=[
                rollout_pb2.NextTurn(
                    member=turn.member,
                    environment_ids=_ids(
                        turn.environment_ids, f"{where}.turns[{i}].environment_ids"
                    ),
                    environment_text=turn.environment_text,
                )
                for i, turn in enumerate(prompt.turns)
            ],
            unscored=not prompt.scored,
        )


def _batch(batch: StepBatch, where: str) -> rollout_pb2.RewardBatch:
    with wire.holding(where):
        return rollout_pb2.RewardBatch(
            batch_id=batch.batch_id,
            deadline_ms=None if batch.deadline_s is None else round(batch.deadline_s * 1000),
            last=batch.last,
            enough_groups=batch.enough_groups,
            only_varied=batch.only_varied,
        )


def _group(message: rollout_pb2.Group, position: int) -> RolloutGroup:
    prompt, ids, mask, logp = (
        view(message.prompt_ids, "i"),
        view(message.response_ids, "i"),
        view(message.response_mask, "B"),
        view(message.rollout_logp, "f"),
    )
    trajectories, start = [], 0
    for one in message.trajectories:
        part = slice(start, start + one.tokens)
        tokens = TrajectoryTokens(
            prompt_ids=prompt,
            response_ids=ids[part],
            response_mask=mask[part],
            rollout_logp=logp[part],
            versions=tuple(VersionRun(run.policy_version, run.tokens) for run in one.versions),
            segments=tuple(Segment(Speaker(s.speaker), s.tokens) for s in one.segments),
        )
        trajectories.append(_trajectory(one, tokens))
        start += one.tokens
    return RolloutGroup(
        group_id=message.group_id,
        cursor=position,
        prompt_ids=prompt,
        trajectories=tuple(trajectories),
        summary=wire.group_summary(message.summary),
        staleness=message.staleness,
    )


def _trajectory(message: rollout_pb2.Trajectory, tokens: TrajectoryTokens) -> Trajectory:
    name = rollout_pb2.FinishReason.Name(message.finish_reason)
    return Trajectory(
        member=message.member,
        tokens=tokens,
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


def _full_push(version: int, core_share_max: float) -> rollout_pb2.PushWeightsRequest:
    with wire.holding("policy_version"):
        return rollout_pb2.PushWeightsRequest(policy_version=version, core_share_max=core_share_max)


def _adapter_push(
    version: int, config: Mapping[str, Any], base_version: int | None, core_share_max: float
) -> rollout_pb2.PushWeightsRequest:
    kind = str(config.get("peft_type", "")).upper()
    if kind not in ADAPTER_KINDS:
        raise InvalidRequest("config: peft_type is LORA or OFT", field="config")
    with wire.holding("policy_version"):
        return rollout_pb2.PushWeightsRequest(
            policy_version=version,
            core_share_max=core_share_max,
            kind=ADAPTER_KINDS[kind],
            adapter=rollout_pb2.AdapterConfig(
                config_json=wire.object_text(config, "config"), base_version=base_version
            ),
        )


def _pieces(
    first: rollout_pb2.PushWeightsRequest, weights: Mapping[str, Weight]
) -> AsyncIterator[rollout_pb2.PushWeightsRequest]:
    """The messages of a push. Everything is checked before the first: gRPC ends a call whose
    messages raise as if it had been cancelled.

    Raises:
        InvalidRequest: a tensor's bytes are not contiguous, or its head cannot be written.
    """
    tensors = []
    for name, weight in weights.items():
        with wire.holding(f"weights.{name}"):
            head = rollout_pb2.TensorHead(name=name, dtype=weight.dtype, shape=weight.shape)
            tensors.append((head, memoryview(weight.data).cast("B")))
    return _messages(first, tensors)


async def _messages(
    first: rollout_pb2.PushWeightsRequest,
    tensors: Sequence[tuple[rollout_pb2.TensorHead, memoryview]],
) -> AsyncIterator[rollout_pb2.PushWeightsRequest]:
    for head, data in tensors:
        head.sha256 = await asyncio.to_thread(_sha256, data)
        first.tensor.CopyFrom(head)
        for start in range(0, max(1, len(data)), PIECE_BYTES):
            first.data = bytes(data[start : start + PIECE_BYTES])
            yield first
            first = rollout_pb2.PushWeightsRequest()


def _sha256(data: memoryview) -> str:
    return hashlib.sha256(data).hexdigest()
