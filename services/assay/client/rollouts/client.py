"""The connection to a rollout service: sessions, weights, pauses, status."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import grpc

from assay.client import wire
from assay.client.backoff import Backoff
from assay.client.connection import Connection, Identity
from assay.client.failures import error_of
from assay.client.rollouts import messages, pushes
from assay.client.rollouts.pauses import PauseKeeper
from assay.client.rollouts.session import RolloutSession
from assay.client.rollouts.types import Activated, PushedWeights, SamplingParams
from assay.v1 import rollout_pb2, rollout_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
    from types import TracebackType

    from assay.client.rollouts.types import Weight

AnswerT = TypeVar("AnswerT")
PUSH_WEIGHTS: Final = "/assay.v1.RolloutService/PushWeights"


class RolloutClient:
    """A connection to the rollout service; safe to share between the tasks of one event loop."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        root_certificates: bytes | None = None,
        identity: Identity | None = None,
        backoff: Backoff | None = None,
        timeout_s: float = 120.0,
    ) -> None:
        """Make a client; arguments are those of `Client`."""
        self._connection = Connection(
            url,
            token=token,
            root_certificates=root_certificates,
            identity=identity,
            backoff=backoff or Backoff(),
            timeout_s=timeout_s,
        )
        self._hold_timeout_s = timeout_s
        self._stub = rollout_pb2_grpc.RolloutServiceStub(self._connection.channel)
        self._keeper = PauseKeeper(self._connection, self._stub)
        # Messages of megabytes are serialized by `pushes`: protobuf would copy them twice more.
        self._push_bodies: Any = self._connection.channel.stream_unary(
            PUSH_WEIGHTS, response_deserializer=rollout_pb2.PushWeightsResponse.FromString
        )

    async def __aenter__(self) -> Self:
        """No message is sent yet."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection; sessions continue on the server, pauses end within 30 s."""
        await self._keeper.close()
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
        at_activation: str = "in_place",
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
            at_activation: what becomes of running rollouts when weights are activated in mode
                `sessions`: they continue on the new ones (`in_place`), keep theirs to their end
                (`finish`), or continue with keys and values computed again (`retract`).

        Raises:
            InvalidRequest: a field is wrong.
            NotFound: no such pipeline, or another model is served.
            Conflict: a session of that name exists with other content.
        """
        message = wire.filled(
            rollout_pb2.Session,
            "session",
            session_id=session_id,
            model=model,
            sampling=messages.sampling_message(sampling or SamplingParams(), "session.sampling"),
            reward=messages.plan_message(pipeline, settings, reward_wait_s) if pipeline else None,
            groups_open_max=groups_open_max,
            staleness_max=staleness_max,
            stale_groups=messages.stale_groups(retry=retry_stale),
            minority_min=minority_min,
            at_activation=messages.pause_mode(at_activation),
        )
        request = rollout_pb2.OpenSessionRequest(session=message)
        answer = await self._connection.call(self._stub.OpenSession, request)
        return RolloutSession(
            session_id, self._connection, self._stub, tokens_max=answer.tokens_max
        )

    async def push_weights(
        self,
        version: int,
        weights: Mapping[str, Weight],
        *,
        core_share_max: float = 0.0,
        checksums: bool = True,
        activate: str | None = None,
    ) -> PushedWeights:
        """Stage weights beside the active ones, while generation continues.

        Args:
            version: the number that identifies them permanently.
            weights: every tensor of the model, by its Hugging Face name.
            core_share_max: share of one core that staging may take; 0 = all of it.
            checksums: send the CRC-32 of each message. Without, damage on the way is left to the
                transport to find.
            activate: switch to them once they are staged, in this mode, as `activate` does: a call
                less per step. If that fails they are staged, and `activate` may be called.

        Raises:
            InvalidRequest: a tensor is unknown, missing, damaged or of another shape or dtype.
            FailedPrecondition: another push is in progress.
        """
        first = pushes.activating(pushes.full_push(version, core_share_max), activate)
        return await self._push(pushes.bodies(first, weights, checksums=checksums))

    async def push_adapter(
        self,
        version: int,
        config: Mapping[str, Any],
        weights: Mapping[str, Weight],
        *,
        base_version: int | None = None,
        core_share_max: float = 0.0,
        checksums: bool = True,
        activate: str | None = None,
    ) -> PushedWeights:
        """Stage a LoRA or OFT adapter beside the active weights, while generation continues.

        Args:
            version: the number that identifies the model with this adapter permanently.
            config: the content of peft's adapter_config.json; `peft_type` is LORA or OFT.
            weights: its tensors by their names in peft's adapter_model.safetensors.
            base_version: version of the whole weights that it belongs to; `None` = those in use.
            core_share_max: share of one core that staging may take; 0 = all of it.
            checksums: as in `push_weights`.
            activate: as in `push_weights`.

        Raises:
            InvalidRequest: a tensor is unknown, missing, damaged or of another shape or dtype, or
                the whole weights in use are not those of `base_version`.
            FailedPrecondition: another push is in progress.
        """
        first = pushes.adapter_push(version, config, base_version, core_share_max)
        pushes.activating(first, activate)
        return await self._push(pushes.bodies(first, weights, checksums=checksums))

    async def push_file(
        self,
        version: int,
        name: str,
        *,
        config: Mapping[str, Any] | None = None,
        base_version: int | None = None,
        core_share_max: float = 0.0,
        activate: str | None = None,
    ) -> PushedWeights:
        """Stage the safetensors file `name` in the service's `rollout.shared_dir`.

        With `config` it is an adapter, as in `push_adapter`; otherwise it has every tensor of the
        model. Do not change the file before this returns. `activate` is as in `push_weights`.

        Raises:
            NotFound: no such file.
            FailedPrecondition: the service has no shared folder, or another push is in progress.
            InvalidRequest: as `push_adapter`.
        """
        if config is None:
            first = pushes.full_push(version, core_share_max)
        else:
            first = pushes.adapter_push(version, config, base_version, core_share_max)
        pushes.activating(first, activate).shared_file = name

        async def only() -> AsyncIterator[bytes]:
            yield first.SerializeToString()

        return await self._push(only())

    async def _push(self, bodies: AsyncIterator[bytes]) -> PushedWeights:
        call: Any = self._push_bodies(bodies, metadata=self._connection.metadata)
        try:
            answer = await call
        except grpc.aio.AioRpcError as failed:
            raise error_of(failed) from failed
        return PushedWeights(
            policy_version=answer.policy_version,
            bytes=answer.bytes,
            digest=answer.digest,
            stage_s=answer.stage_s,
            holds=answer.staged_in == rollout_pb2.STAGED_IN_FILE,
            activated=(
                messages.activated(answer.activated) if answer.HasField("activated") else None
            ),
        )

    async def activate(self, version: int, *, mode: str = "sessions") -> Activated:
        """Switch to weights that were pushed.

        Args:
            version: that of the push, or the previous one.
            mode: `in_place`, `finish` or `retract`; `sessions` = the strictest of these that an
                open session asks for (`at_activation`).

        Raises:
            InvalidRequest: no such mode.
            FailedPrecondition: they are not there, or a pause in place holds rollouts that `mode`
                waits for.
            DeadlinePassed: the engine was not held in time; nothing has changed.
        """
        with wire.holding("policy_version"):
            request = rollout_pb2.ActivateRequest(
                policy_version=version, mode=messages.activation_mode(mode)
            )
        answer = await self._holding(self._stub.Activate, request)
        return messages.activated(answer)

    async def policy_version(self) -> int:
        """Version of the weights that generate tokens now."""
        answer = await self._connection.call(self._stub.GetVersion, rollout_pb2.GetVersionRequest())
        return answer.policy_version

    async def pause(self, *, mode: str = "in_place", hold_s: float | None = None) -> str:
        """Stop generation; return the argument for `resume`.

        The pause holds until `resume`, for as long as this client is connected, also if its event
        loop is blocked meanwhile; it ends 30 s after the process or the connection. `resume` of a
        pause that has ended says so.

        Args:
            mode: what happens to running rollouts.
            hold_s: hold it for this long instead (at most a day), whatever becomes of this client.

        Raises:
            InvalidRequest: no such mode, or `hold_s` is out of range.
            FailedPrecondition: a pause in place holds rollouts that `mode` waits for.
            DeadlinePassed: the engine was not held in time; it goes on.
        """
        # With a name of ours, a call whose answer was lost can be sent again.
        pause_id = f"pause-{secrets.token_hex(8)}"
        with wire.holding("hold_s"):
            request = rollout_pb2.PauseRequest(
                mode=messages.pause_mode(mode),
                pause_id=pause_id,
                hold_ms=0 if hold_s is None else round(1000 * hold_s) or 1,
            )
        await self._holding(self._stub.Pause, request)
        if hold_s is None:
            await self._keeper.keep(pause_id)
        return pause_id

    async def _holding(self, method: Callable[..., Awaitable[AnswerT]], request: object) -> AnswerT:
        """A call that waits for the engine: `DeadlinePassed` is its answer, and not repeated."""
        return await self._connection.call_waiting(method, request, timeout_s=self._hold_timeout_s)

    async def resume(self, pause_id: str) -> None:
        """End a pause.

        Raises:
            FailedPrecondition: it has ended.
        """
        self._keeper.leave(pause_id)
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
