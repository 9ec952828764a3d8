"""rollout.proto over gRPC: each method parses with `wire`, calls the service, replies with `wire`.

`assay.edge` turns errors raised here into a status. Method names are the proto's.
"""
# ruff: noqa: N802

from __future__ import annotations

import asyncio
import contextlib
import functools
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from assay.core.errors import AssayError, FailedPrecondition
from assay.edge.calls import current_call
from assay.edge.grpc_edge import parsed_message, shown_in
from assay.rollout.errors import WeightsNotReady
from assay.rollout.service import wire
from assay.rollout.service.group_messages import groups
from assay.rollout.service.pauses import held_for
from assay.rollout.service.records import SessionKey
from assay.rollout.service.weights import Pushes, ServerFolder, apart
from assay.v1 import rollout_pb2, rollout_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    import grpc

    from assay.core.ids import TenantId
    from assay.rollout.interface.rollouts import Activation
    from assay.rollout.layout import PauseMode
    from assay.rollout.models.staging import StagedWeights
    from assay.rollout.service.service import RolloutService
    from assay.rollout.service.weights import WeightPart, WeightSlots

    Context = grpc.aio.ServicerContext[Any, Any]

RAW: Final = frozenset({"SubmitPrompts", "PushWeights"})
"""Methods with possibly large messages; they get bytes, which are parsed here."""
_BEARER: Final = "bearer "
DISCARD_S_MAX: Final = 5.0
"""How long the rest of a refused push is read."""


class RolloutServicer(rollout_pb2_grpc.RolloutServiceServicer):
    """Translates between messages and the service."""

    def __init__(
        self,
        service: RolloutService,
        *,
        served: wire.Served,
        weights: WeightSlots | ServerFolder | None,
        unsupported: Sequence[str],
        shared_dir: Path | None,
    ) -> None:
        self._service = service
        self._served = served
        self._weights = weights
        self._unsupported = unsupported
        self._pushes = None if weights is None else Pushes(weights, shared_dir)
        self._encoding: WeakValueDictionary[TenantId, asyncio.Lock] = WeakValueDictionary()

    async def OpenSession(
        self, request: rollout_pb2.OpenSessionRequest, context: Context
    ) -> rollout_pb2.OpenSessionResponse:
        """Open a session, or find the identical one."""
        spec = wire.session_spec(request.session, self._served)
        key = _key(request.session.session_id)
        created = await self._service.open_session(key, spec, token=_token(context))
        return rollout_pb2.OpenSessionResponse(
            session=request.session,
            created=created,
            vocab_size=self._served.vocab_size,
            tokens_max=self._served.tokens_max,
            policy_version=self._service.status().policy_version,
        )

    async def CloseSession(
        self, request: rollout_pb2.CloseSessionRequest, context: Context
    ) -> rollout_pb2.CloseSessionResponse:
        """Cancel a session and drop it."""
        cancelled = await self._service.close_session(_key(request.session_id))
        return rollout_pb2.CloseSessionResponse(cancelled=cancelled)

    async def SubmitPrompts(  # type: ignore[override] # bytes, see RAW
        self, body: bytes, context: Context
    ) -> rollout_pb2.SubmitPromptsResponse:
        request = parsed_message(rollout_pb2.SubmitPromptsRequest.FromString, body)
        key = _key(request.session_id)
        self._service.spec(key)  # nothing is done for a session that is not open
        wire.check_counts(request, self._served)
        served = await self._encoded(request, key.tenant_id)
        histories = functools.partial(self._service.histories, key)
        specs = wire.group_specs(request, self._service.spec(key), served, histories)
        accepted = self._service.submit(
            key, specs, wire.reward_batches(request), acknowledged=request.acknowledged
        )
        return rollout_pb2.SubmitPromptsResponse(
            accepted=accepted, duplicates=len(specs) - accepted
        )

    async def _encoded(
        self, request: rollout_pb2.SubmitPromptsRequest, tenant_id: TenantId
    ) -> wire.Served:
        """With the ids of the message's texts.

        A megabyte takes a second: threads make them, one for each tenant, so that other calls go
        on. What is refused for its size is not encoded.
        """
        served = self._served
        if served.encode is None or served.encode_more is None:
            return served
        most = served.text_bytes_max
        prompts = [one.text for one in request.prompts if 0 < len(one.text) <= most]
        turns = [turn.environment_text for one in request.prompts for turn in one.turns]
        if not prompts and not any(turns):
            return served
        more = [text for text in turns if 0 < len(text) <= most]
        async with self._encoding.setdefault(tenant_id, asyncio.Lock()):
            first = await asyncio.to_thread(_each, served.encode, prompts)
            then = await asyncio.to_thread(_each, served.encode_more, more)
        return replace(served, encode=first.__getitem__, encode_more=then.__getitem__)

    async def StreamGroups(
        self, request: rollout_pb2.StreamGroupsRequest, context: Context
    ) -> AsyncIterator[rollout_pb2.StreamGroupsResponse]:
        """Groups as they end."""
        pages = self._service.read(_key(request.session_id), request.cursor, after=request.after)
        async with aclosing(pages):
            async for page in pages:
                yield groups(page, records=request.records)

    async def CancelRollouts(
        self, request: rollout_pb2.CancelRolloutsRequest, context: Context
    ) -> rollout_pb2.CancelRolloutsResponse:
        """Request the end of groups."""
        groups = frozenset(request.group_ids) or None
        cancelled = self._service.cancel(_key(request.session_id), groups)
        return rollout_pb2.CancelRolloutsResponse(rollouts=cancelled)

    async def PushWeights(  # type: ignore[override] # bytes, see RAW
        self, bodies: AsyncIterator[bytes], context: Context
    ) -> rollout_pb2.PushWeightsResponse:
        """Stage weights, and activate them where the sender asks for it."""
        try:
            if self._pushes is None:
                message = (
                    "pushes to a remote engine need rollout.engine_weights_dir, a folder that its "
                    "server reads too"
                )
                raise FailedPrecondition(message, field="policy_version")
            pushed = await self._pushes.receive(_parts(bodies))
        except AssayError:
            await _discard(bodies)
            raise
        self._service.pushed(kind=pushed.kind, stage_s=pushed.stage_s)
        answer = rollout_pb2.PushWeightsResponse(
            policy_version=pushed.weights.version,
            bytes=pushed.weights.bytes,
            digest=pushed.weights.digest,
            stage_s=pushed.stage_s,
            staged_in=self._staged_in(pushed.weights),
        )
        if pushed.activate:
            done = await self._activated(pushed.weights.version, pushed.mode)
            answer.activated.CopyFrom(wire.activated(done))
        return answer

    def _staged_in(self, weights: StagedWeights) -> rollout_pb2.StagedIn.ValueType:
        if isinstance(self._weights, ServerFolder):
            return rollout_pb2.STAGED_IN_UNSPECIFIED
        in_file = weights.in_file
        return rollout_pb2.STAGED_IN_FILE if in_file else rollout_pb2.STAGED_IN_MEMORY

    async def Activate(
        self, request: rollout_pb2.ActivateRequest, context: Context
    ) -> rollout_pb2.ActivateResponse:
        """Continue with staged weights."""
        mode = wire.activation_mode(request.mode)
        return wire.activated(await self._activated(request.policy_version, mode))

    async def _activated(self, version: int, mode: PauseMode | None) -> Activation:
        self._check_staged(version)
        tenant_id = current_call().tenant.tenant_id
        return await self._service.activate(version, mode, tenant_id=tenant_id)

    def _check_staged(self, version: int) -> None:
        """Refuse other versions before rollouts are held, drained or retracted for them."""
        if self._weights is None or isinstance(self._weights, ServerFolder):
            return  # the server says what it has
        ready, active = self._weights.ready_version, self._service.status().policy_version
        if version not in {ready, active}:
            raise WeightsNotReady.unstaged(version, ready)

    async def GetVersion(
        self, request: rollout_pb2.GetVersionRequest, context: Context
    ) -> rollout_pb2.GetVersionResponse:
        """The active version and the staged one."""
        return rollout_pb2.GetVersionResponse(
            policy_version=self._service.status().policy_version,
            ready_version=None if self._weights is None else self._weights.ready_version,
        )

    async def Pause(
        self, request: rollout_pb2.PauseRequest, context: Context
    ) -> rollout_pb2.PauseResponse:
        """Make no more tokens."""
        mode, named = wire.pause_mode(request.mode), wire.pause_id(request.pause_id)
        hold_s = held_for(request.hold_ms)
        pause_id = await self._service.pauses.hold(mode, named, hold_s=hold_s)
        return rollout_pb2.PauseResponse(pause_id=pause_id)

    async def KeepPaused(
        self, request: rollout_pb2.KeepPausedRequest, context: Context
    ) -> AsyncIterator[rollout_pb2.KeepPausedResponse]:
        """Hold a pause while the caller is there."""
        holding = self._service.pauses.keep(request.pause_id)
        async with aclosing(holding):
            async for _ in holding:
                yield rollout_pb2.KeepPausedResponse()

    async def Continue(
        self, request: rollout_pb2.ContinueRequest, context: Context
    ) -> rollout_pb2.ContinueResponse:
        """End a pause."""
        self._service.pauses.resume(request.pause_id)
        return rollout_pb2.ContinueResponse()

    async def GetStatus(
        self, request: rollout_pb2.GetStatusRequest, context: Context
    ) -> rollout_pb2.GetStatusResponse:
        """Counts per state."""
        status = self._service.status()
        tenant_id = current_call().tenant.tenant_id
        places = self._service.places(tenant_id) if request.rollouts else []
        return rollout_pb2.GetStatusResponse(
            model=self._served.model,
            policy_version=status.policy_version,
            sessions=status.sessions,
            groups_waiting=status.groups_waiting,
            groups_running=status.groups_running,
            groups_ended=status.groups_ended,
            rewards_waiting=status.rewards_waiting,
            engine=status.engine,
            rollouts=map(wire.place, places),
            unsupported=self._unsupported,
            not_ready=self._service.why_not_ready,
            device=self._served.device,
            device_reason=self._served.device_reason,
        )

    async def StreamTrace(
        self, request: rollout_pb2.StreamTraceRequest, context: Context
    ) -> AsyncIterator[rollout_pb2.StreamTraceResponse]:
        """Events of the engine."""
        pages = self._service.tracer.read()
        async with aclosing(pages):
            async for page in pages:
                yield wire.trace_page(page)


def _each(encode: Callable[[str], list[int]], texts: Sequence[str]) -> dict[str, list[int]]:
    return {text: encode(text) for text in dict.fromkeys(texts)}


async def _discard(bodies: AsyncIterator[bytes]) -> None:
    """Read what the sender still sends: a client whose write fails does not see why."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_S_MAX):
            async for _ in bodies:
                pass


async def _parts(bodies: AsyncIterator[bytes]) -> AsyncIterator[WeightPart]:
    async for body in bodies:
        rest, data = apart(body)
        yield wire.part(parsed_message(rollout_pb2.PushWeightsRequest.FromString, rest), data)


def _key(session_id: str) -> SessionKey:
    return SessionKey(current_call().tenant.tenant_id, session_id)


def _token(context: Context) -> str | None:
    """The caller's token, which is used for its reward requests."""
    shown = shown_in(context.invocation_metadata() or ())
    return shown[len(_BEARER) :].strip() or None
