"""Bad input to every call: a typed error that names the field, and nothing stored before.

Good messages are spoilt at random, one field at a time, with values that a field can hold on the
wire and that no one means. What is refused names a field; what is accepted ends as groups do.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
from typing import TYPE_CHECKING, Any, Final

import grpc
import pytest

pytest.importorskip("numpy")

from assay.client.failures import error_of
from assay.client.rollouts import Prompt
from assay.core.errors import (
    AssayError,
    DependencyDown,
    FailedPrecondition,
    InvalidRequest,
    NotFound,
    TooLarge,
)
from assay.v1 import rollout_pb2

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from tests.rollout.service.served import Rollouts, RunRollouts

CASES = 150
OPEN = "open"
"""The session of prompts; a new one for each message."""
TYPED = (InvalidRequest, NotFound, TooLarge, FailedPrecondition)
PATIENCE_S = 240.0
NUMBERS = [-(1 << 31), -1, 0, 1, 97, (1 << 31) - 1]
LONG_NUMBERS = [-(1 << 63), -1, 0, 1, 1 << 32, (1 << 63) - 1]
FRACTIONS = [math.nan, math.inf, -math.inf, -1.0, 0.0, 0.5, 1e308]
TEXTS = ["", " ", "a b", "x" * 300, "\x00", "../x", "\u00e9", "[]", "{"]
BYTES = [b"", b"\x00", b"\xff" * 4, b"\x01\0\0\0", b"x" * 300, b"[1]", b"\xff\xff\xff\x7f"]


def values(field: Any) -> list[Any]:
    """Values that the field can hold on the wire."""
    kind = field.cpp_type
    if kind == field.CPPTYPE_STRING:
        return TEXTS if field.type == field.TYPE_STRING else BYTES
    if kind in {field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT}:
        return FRACTIONS
    if kind == field.CPPTYPE_BOOL:
        return [True]
    if kind in {field.CPPTYPE_UINT64, field.CPPTYPE_UINT32}:
        return [0, (1 << (64 if kind == field.CPPTYPE_UINT64 else 32)) - 1]
    return NUMBERS if kind == field.CPPTYPE_INT32 else LONG_NUMBERS


def spoil(message: Message, rng: random.Random) -> str:
    """Change one field, somewhere in the message; returns what was done."""
    field: Any = rng.choice(list(message.DESCRIPTOR.fields))
    if field.cpp_type == field.CPPTYPE_MESSAGE:
        inner = getattr(message, field.name)
        if field.is_repeated:
            inner = rng.choice(inner) if inner and rng.random() < 0.8 else inner.add()
        return f"{field.name}.{spoil(inner, rng)}"
    if field.cpp_type == field.CPPTYPE_ENUM:
        value: Any = rng.choice([-1, 99])
    else:
        value = rng.choice(values(field))
    if field.is_repeated:
        getattr(message, field.name).append(value)
    else:
        setattr(message, field.name, value)
    return f"{field.name}={value!r:.40}"


def session_request(rng: random.Random) -> rollout_pb2.OpenSessionRequest:
    session = rollout_pb2.Session(session_id=f"s{rng.randrange(1 << 30)}")
    session.sampling.max_tokens = 4
    return rollout_pb2.OpenSessionRequest(session=session)


def prompts_request(rng: random.Random) -> rollout_pb2.SubmitPromptsRequest:
    request = rollout_pb2.SubmitPromptsRequest(session_id=OPEN)
    for _ in range(2):
        prompt = request.prompts.add(group_id=f"g{rng.randrange(1 << 30)}", k=1, seed=1)
        prompt.prompt_ids = b"\x01\0\0\0"
        prompt.sampling.max_tokens = 3
    request.batches.add(batch_id="b", last=True)
    return request


def push_request(_rng: random.Random) -> rollout_pb2.PushWeightsRequest:
    request = rollout_pb2.PushWeightsRequest(policy_version=1)
    request.tensor.name = "model.norm.weight"
    request.tensor.dtype = "F32"
    request.tensor.shape.append(96)
    return request


async def call(own: Rollouts, message: Message) -> AssayError | None:
    """Send it; returns the error."""
    stub = own.client._stub
    try:
        match message:
            case rollout_pb2.OpenSessionRequest():
                await stub.OpenSession(message)
            case rollout_pb2.SubmitPromptsRequest():
                await stub.SubmitPrompts(message)
            case rollout_pb2.ActivateRequest():
                await stub.Activate(message)
            case _:

                async def only() -> Any:
                    yield message

                await stub.PushWeights(only())
    except grpc.aio.AioRpcError as failed:
        return error_of(failed)
    return None


async def waiting(own: Rollouts) -> int:
    status = await own.client.status()
    return status.groups_waiting + status.groups_running + status.groups_ended


async def test_whatever_is_wrong_is_refused_by_its_field_or_ends_as_groups_do(
    run_rollouts: RunRollouts,
) -> None:
    own, rng, refused = await run_rollouts(), random.Random(7), 0
    for _ in range(CASES):
        session = await own.client.open_session(OPEN)
        make = rng.choice([session_request, prompts_request, prompts_request, push_request])
        message = make(rng)
        what = f"{make.__name__}: {spoil(message, rng)}"
        before, staged = await waiting(own), own.engine.ready_version
        error = await call(own, message)
        assert own.engine.ready_version == staged, what
        if error is not None:
            refused += 1
            unreachable = "reward.pipeline" in what and isinstance(error, DependencyDown)
            assert isinstance(error, TYPED) or unreachable, f"{what}: {error!r}"
            assert error.field or unreachable, f"{what}: {error!r} names no field"
            assert await waiting(own) == before, f"{what}: something was stored"
        await session.close()
    assert refused > CASES // 3
    async with asyncio.timeout(PATIENCE_S):
        while own.runtime.stats().in_flight:
            await asyncio.sleep(0.02)
    assert own.service.why_not_ready == ""


GOOD: Final[dict[str, Any]] = {
    "CloseSession": rollout_pb2.CloseSessionRequest(session_id=OPEN),
    "StreamGroups": rollout_pb2.StreamGroupsRequest(session_id=OPEN, cursor=0, after=0),
    "CancelRollouts": rollout_pb2.CancelRolloutsRequest(session_id=OPEN, group_ids=["g"]),
    "Activate": rollout_pb2.ActivateRequest(policy_version=0),
    "Pause": rollout_pb2.PauseRequest(mode=rollout_pb2.PAUSE_MODE_IN_PLACE, pause_id="p"),
    "KeepPaused": rollout_pb2.KeepPausedRequest(pause_id="p"),
    "Continue": rollout_pb2.ContinueRequest(pause_id="p"),
    "GetStatus": rollout_pb2.GetStatusRequest(rollouts=True),
}
"""Of each other call that has fields, a message that is taken when the calls come in this order."""


async def answered(own: Rollouts, name: str, message: Message) -> AssayError | None:
    """Send it; returns the error. A stream that begins is left."""
    calling = getattr(own.client._stub, name)(message)
    try:
        if name in {"StreamGroups", "KeepPaused"}:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await calling.read()
            calling.cancel()
        else:
            await calling
    except grpc.aio.AioRpcError as failed:
        return None if failed.code() is grpc.StatusCode.CANCELLED else error_of(failed)
    return None


@pytest.mark.parametrize("name", GOOD)
async def test_each_odd_field_of_the_other_calls_is_refused_by_its_name_or_changes_nothing(
    run_rollouts: RunRollouts, name: str
) -> None:
    own = await run_rollouts()
    good = GOOD[name]
    for field in good.DESCRIPTOR.fields:
        for value in [-1, 99] if field.enum_type else values(field):
            message = type(good)()
            message.CopyFrom(good)
            held = getattr(message, field.name)
            if field.is_repeated:
                held.append(value)
            else:
                setattr(message, field.name, value)
            session = await own.client.open_session(OPEN)
            error = await answered(own, name, message)
            what = f"{name}.{field.name}={value!r:.40}: {error!r}"
            assert error is None or isinstance(error, TYPED), what
            assert error is None or error.field in {field.name, "pause_id", "mode"}, what
            with contextlib.suppress(NotFound):
                await session.close()
    own.service.pauses.close()
    async with own.client as client:
        session = await client.open_session("after")
        await session.submit([Prompt(group_id="g", prompt_ids=[1], k=2, seed=1)])
        async with asyncio.timeout(PATIENCE_S):
            group = await anext(session.groups())
        assert len(group.trajectories) == 2
