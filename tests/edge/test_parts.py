"""A message in parts before hostile clients: what they hold is bounded; each sees its status."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from tests.edge.jumps import Ahead, until

from assay.edge import grpc_edge
from assay.edge.auth import Tenants
from assay.edge.calls import CallGuard
from assay.edge.clock import Clock
from assay.edge.door import DISCARDS_MAX, UPLOADS_MAX, Door, DoorLimits, Kind
from assay.edge.grpc_edge import PART_BYTES_MAX, GrpcEdge, server_options
from assay.edge.tracing import NoTracer
from assay.v1 import reward_pb2, reward_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    Parts = Callable[[], AsyncIterator[reward_pb2.MessagePart]]

WHOLE_BYTES_MAX = 2 * PART_BYTES_MAX
SLOTS = 2 * UPLOADS_MAX  # there is one tenant
KIB = 1024


class Service(reward_pb2_grpc.RewardServiceServicer):
    """Accepts as many requests as a message has bytes."""

    async def SubmitParts(self, request_iterator: Any, context: Any) -> Any:
        return reward_pb2.SubmitResponse(accepted=sum(map(len, request_iterator)))

    RegisterTask = OpenBatch = Submit = SealBatch = Score = None  # type: ignore[assignment]
    SubmitStream = ScoreParts = CancelRequests = PutArtifact = None  # type: ignore[assignment]
    CancelBatch = ListPipelines = Hint = StreamResults = GetBatch = None  # type: ignore[assignment]


class Rig:
    """A door, and a client of the server behind it."""

    def __init__(self, door: Door, stub: reward_pb2_grpc.RewardServiceStub) -> None:
        self.door = door
        self._stub: Any = stub

    async def send(self, parts: AsyncIterator[reward_pb2.MessagePart]) -> tuple[Any, str]:
        """The status of a call, and its reason or how much was accepted."""
        try:
            answer = await self._stub.SubmitParts(parts)
        except grpc.aio.AioRpcError as failed:
            trailers = dict(failed.trailing_metadata() or ())
            return failed.code(), str(trailers.get("reason", failed.details()))
        return grpc.StatusCode.OK, str(answer.accepted)


@asynccontextmanager
async def serving(*, body_s_max: float, bytes_max: int = 64 * 1024**2) -> AsyncIterator[Rig]:
    """A server with these limits."""
    door = Door(DoorLimits(calls_max=4, streams_max=4, bytes_max=bytes_max, body_s_max=body_s_max))
    guard = CallGuard(
        callers=Tenants({}), door=door, clock=Clock(), tracer=NoTracer(), on_call=lambda *_: None
    )
    edge = GrpcEdge(
        guard=guard,
        message_bytes_max=PART_BYTES_MAX,
        parts=frozenset({"SubmitParts"}),
        whole_bytes_max=WHOLE_BYTES_MAX,
    )
    server = grpc.aio.server(interceptors=[edge], options=server_options(PART_BYTES_MAX))
    reward_pb2_grpc.add_RewardServiceServicer_to_server(Service(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield Rig(door, reward_pb2_grpc.RewardServiceStub(channel))
            async with asyncio.timeout(60):
                while door.held(Kind.UPLOAD) or door.bytes_held:
                    await asyncio.sleep(0.01)
    finally:
        await server.stop(0)


async def parts(count: int, size: int) -> AsyncIterator[reward_pb2.MessagePart]:
    """So many parts of this size."""
    for _ in range(count):
        yield reward_pb2.MessagePart(data=b"x" * size)


async def half(size: int) -> AsyncIterator[reward_pb2.MessagePart]:
    """One part, and no end."""
    yield reward_pb2.MessagePart(data=b"x" * size)
    await asyncio.Event().wait()


async def endless(size: int) -> AsyncIterator[reward_pb2.MessagePart]:
    """Parts of this size, slowly, forever."""
    while True:
        yield reward_pb2.MessagePart(data=b"x" * size)
        await asyncio.sleep(0.01)


async def test_a_refused_stream_is_told_why_though_it_is_in_the_middle_of_its_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grpc_edge, "DISCARD_IDLE_S", 60.0)
    monkeypatch.setattr(grpc_edge, "DISCARD_S_MAX", 60.0)
    async with serving(body_s_max=60.0) as rig:
        held = [asyncio.create_task(rig.send(half(10))) for _ in range(SLOTS)]
        async with asyncio.timeout(60):
            while rig.door.held(Kind.UPLOAD) < SLOTS:
                await asyncio.sleep(0.01)
        ends = [await rig.send(parts(8, PART_BYTES_MAX)) for _ in range(6)]
        assert ends == [(grpc.StatusCode.RESOURCE_EXHAUSTED, "saturated")] * 6
        for one in held:
            one.cancel()
        await asyncio.gather(*held, return_exceptions=True)
        async with asyncio.timeout(60):
            while rig.door.held(Kind.UPLOAD):
                await asyncio.sleep(0.01)
        for count, size in ((3, PART_BYTES_MAX), (12, PART_BYTES_MAX), (4, PART_BYTES_MAX + KIB)):
            end = await rig.send(parts(count, size))
            assert end == (grpc.StatusCode.INVALID_ARGUMENT, "too_large"), (count, size)
        assert await rig.send(parts(4, KIB)) == (grpc.StatusCode.OK, str(4 * KIB))


async def test_refused_streams_beyond_a_few_are_not_kept_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grpc_edge, "DISCARD_IDLE_S", 600.0)
    monkeypatch.setattr(grpc_edge, "DISCARD_S_MAX", 600.0)
    few, more = 2 * DISCARDS_MAX, 20
    async with serving(body_s_max=600.0) as rig:
        sent = [asyncio.create_task(rig.send(half(10))) for _ in range(SLOTS + few + more)]
        async with asyncio.timeout(60):
            ends = [await end for end in itertools.islice(asyncio.as_completed(sent), more)]
        assert ends == [(grpc.StatusCode.RESOURCE_EXHAUSTED, "saturated")] * more
        assert sum(not one.done() for one in sent) == SLOTS + few
        assert rig.door.refusals_held == few
        for one in sent:
            one.cancel()
        await asyncio.gather(*sent, return_exceptions=True)


@pytest.mark.parametrize("size", [0, 1, KIB])
async def test_parts_that_do_not_end_hold_nothing_after_their_time(size: int) -> None:
    limit_s = 30.0
    async with serving(body_s_max=limit_s) as rig:
        with Ahead() as ahead:
            halves = [asyncio.create_task(rig.send(half(size))) for _ in range(SLOTS // 2)]
            others = [asyncio.create_task(rig.send(endless(size))) for _ in range(SLOTS // 2)]
            await until(lambda: rig.door.held(Kind.UPLOAD) == SLOTS)
            await rig.send(parts(1, KIB))  # by now they are read
            ahead.jump(0.99 * limit_s)
            saturated = (grpc.StatusCode.RESOURCE_EXHAUSTED, "saturated")
            assert await rig.send(parts(1, KIB)) == saturated, "they hold their places"
            ahead.jump(0.02 * limit_s)
            await until(lambda: rig.door.held(Kind.UPLOAD) == 0)
            for _ in range(2 * SLOTS):  # the rest of each is read for this long
                ahead.jump(grpc_edge.DISCARD_S_MAX)
                await rig.send(parts(1, KIB))
            ends = await asyncio.gather(*halves)
            rest = await asyncio.gather(*others)
        assert ends == [(grpc.StatusCode.DEADLINE_EXCEEDED, "deadline_passed")] * len(halves)
        assert grpc.StatusCode.OK not in {code for code, _ in rest}


async def test_bytes_of_unfinished_messages_are_bounded_together() -> None:
    async with serving(body_s_max=60.0, bytes_max=WHOLE_BYTES_MAX) as rig:
        held = asyncio.create_task(rig.send(half(PART_BYTES_MAX)))
        async with asyncio.timeout(60):
            while not rig.door.bytes_held:
                await asyncio.sleep(0.01)
        end = await rig.send(parts(2, PART_BYTES_MAX))
        assert end == (grpc.StatusCode.RESOURCE_EXHAUSTED, "saturated")
        held.cancel()
        await asyncio.gather(held, return_exceptions=True)
