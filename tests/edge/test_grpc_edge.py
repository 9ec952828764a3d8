"""The gRPC edge before a servicer that does as the test says: every ending has its status."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc._cython import cygrpc  # type: ignore[attr-defined]  # not in the stubs
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from pydantic import SecretStr
from structlog.testing import capture_logs
from tests.edge.jumps import Ahead, until

from assay.config.access import TenantSettings
from assay.core.errors import AssayError, InvalidRequest, Saturated, Unauthenticated
from assay.edge.auth import Tenants
from assay.edge.calls import REFUSALS_LOGGED_BURST, Arrival, CallGuard, current_call
from assay.edge.clock import Clock
from assay.edge.door import Door, DoorLimits, Kind
from assay.edge.grpc_edge import GrpcEdge, open_server, server_options
from assay.edge.status import STATUS
from assay.edge.tracing import NoTracer
from assay.v1 import reward_pb2, reward_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

BYTES_MAX = 10_000
CALLS_MAX = 2
BODY_S_MAX = 30.0
STREAMED = 10
METHOD = "/assay.v1.RewardService/"


class Puppet(reward_pb2_grpc.RewardServiceServicer):
    """Does what a test sets."""

    def __init__(self) -> None:
        self.act: Callable[[], Awaitable[None]] = self.nothing
        self.entered = asyncio.Semaphore(0)

    async def nothing(self) -> None: ...

    def raising(self, error: BaseException) -> None:
        """Raise in every method from now on."""

        async def act() -> None:
            raise error

        self.act = act

    async def GetBatch(self, request: Any, context: Any) -> Any:
        self.entered.release()
        await self.act()
        tenant = current_call().tenant.tenant_id
        return reward_pb2.GetBatchResponse(batch=reward_pb2.Batch(batch_id=tenant))

    async def StreamResults(self, request: Any, context: Any) -> AsyncIterator[Any]:
        yield reward_pb2.StreamResultsResponse(cursor=1)
        await self.act()
        yield reward_pb2.StreamResultsResponse(cursor=2)

    async def SubmitStream(self, request_iterator: Any, context: Any) -> Any:
        total = 0
        async for request in request_iterator:
            total += len(request.requests)
        await self.act()
        return reward_pb2.SubmitResponse(accepted=total)

    RegisterTask = OpenBatch = Submit = SealBatch = Score = None  # type: ignore[assignment]
    SubmitParts = ScoreParts = CancelRequests = PutArtifact = None  # type: ignore[assignment]
    CancelBatch = ListPipelines = Hint = None  # type: ignore[assignment]


class Rig:
    """A server with the edge, a channel to it, and what the edge reported."""

    def __init__(
        self,
        puppet: Puppet,
        channel: grpc.aio.Channel,
        calls: list[tuple[str, str]],
        guard: CallGuard,
    ) -> None:
        self.puppet = puppet
        self.guard = guard
        self.door = guard.door
        self.channel = channel
        self.stub = reward_pb2_grpc.RewardServiceStub(channel)
        self.calls = calls


@pytest.fixture
def tenants() -> Tenants:
    """Everyone is the default tenant."""
    return Tenants({})


@pytest.fixture
async def rig(tenants: Tenants) -> AsyncIterator[Rig]:
    """A listening server."""
    calls: list[tuple[str, str]] = []
    guard = CallGuard(
        callers=tenants,
        door=Door(
            DoorLimits(
                calls_max=CALLS_MAX,
                streams_max=CALLS_MAX,
                bytes_max=10 * BYTES_MAX,
                body_s_max=BODY_S_MAX,
            )
        ),
        clock=Clock(),
        tracer=NoTracer(),
        on_call=lambda method, reason, _s: calls.append((method, reason)),
    )
    edge = GrpcEdge(guard=guard, message_bytes_max=BYTES_MAX)
    checks = health.aio.HealthServicer()
    server = open_server(edge, server_options(BYTES_MAX))
    puppet = Puppet()
    reward_pb2_grpc.add_RewardServiceServicer_to_server(puppet, server)
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield Rig(puppet, channel, calls, guard)
    await server.stop(0)


async def _failure(call: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


def _trailers(error: grpc.aio.AioRpcError) -> dict[str, Any]:
    return dict(error.trailing_metadata() or ())


async def _drain(stream: Any) -> list[int]:
    return [message.cursor async for message in stream]


async def test_a_call_waits_for_the_next_call_and_not_for_that_of_each_method(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[int] = []
    wait = asyncio.wait

    def counting(futures: Any, **given: Any) -> Any:
        futures = list(futures)
        waited.append(len(futures))
        return wait(futures, **given)

    monkeypatch.setattr(asyncio, "wait", counting)
    for _ in range(3):
        await rig.stub.GetBatch(reward_pb2.GetBatchRequest())
    assert set(waited) == {1}


@pytest.mark.parametrize("kind", STATUS)
async def test_each_error_of_a_unary_method_has_its_status_and_trailers(
    rig: Rig, kind: type[AssayError]
) -> None:
    rig.puppet.raising(kind("why", field="size", retry_after_s=0.5))
    failed = await _failure(rig.stub.GetBatch(reward_pb2.GetBatchRequest()))
    assert failed.code() == STATUS[kind].grpc
    assert failed.details() == "why"
    trailers = _trailers(failed)
    assert trailers["reason"] == kind.reason
    assert trailers["field"] == "size"
    assert trailers["retry-after-ms"] == "500"
    assert trailers["call-id"]
    assert rig.calls == [("GetBatch", kind.reason)]


@pytest.mark.parametrize("kind", STATUS)
async def test_each_error_in_the_middle_of_a_stream_has_its_status(
    rig: Rig, kind: type[AssayError]
) -> None:
    rig.puppet.raising(kind("why"))
    stream = rig.stub.StreamResults(reward_pb2.StreamResultsRequest())
    assert await stream.read() == reward_pb2.StreamResultsResponse(cursor=1)
    failed = await _failure(stream.read())
    assert failed.code() == STATUS[kind].grpc
    assert _trailers(failed)["reason"] == kind.reason


async def test_an_error_after_a_client_stream_has_its_status(rig: Rig) -> None:
    rig.puppet.raising(InvalidRequest("why", field="requests[0]"))

    async def requests() -> AsyncIterator[reward_pb2.SubmitRequest]:
        yield reward_pb2.SubmitRequest()

    failed = await _failure(rig.stub.SubmitStream(requests()))
    assert failed.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert _trailers(failed)["field"] == "requests[0]"


async def test_a_call_that_goes_well_is_left_alone(rig: Rig) -> None:
    answer = await rig.stub.GetBatch(reward_pb2.GetBatchRequest())
    assert answer.batch.batch_id == "default"
    assert await _drain(rig.stub.StreamResults(reward_pb2.StreamResultsRequest())) == [1, 2]
    assert rig.calls == [("GetBatch", "ok"), ("StreamResults", "ok")]


async def test_a_bug_is_a_traceback_in_the_log_and_nothing_on_the_wire(rig: Rig) -> None:
    rig.puppet.raising(RuntimeError("the password is swordfish"))
    with capture_logs() as logs:
        failed = await _failure(rig.stub.GetBatch(reward_pb2.GetBatchRequest()))
    assert failed.code() == grpc.StatusCode.INTERNAL
    assert "swordfish" not in str(failed.details()) + str(_trailers(failed))
    assert _trailers(failed)["reason"] == "internal"
    [line] = [line for line in logs if line["event"] == "call_failed"]
    assert line["exc_info"]
    rig.puppet.act = rig.puppet.nothing
    assert await rig.stub.GetBatch(reward_pb2.GetBatchRequest())


async def test_bytes_that_are_no_message_are_an_invalid_request(rig: Rig) -> None:
    send: Any = rig.channel.unary_unary(METHOD + "GetBatch")
    failed = await _failure(send(b"\xff\xff\xff"))
    assert failed.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert _trailers(failed)["reason"] == "invalid_request"
    assert _trailers(failed)["field"] == "message"


async def test_a_string_that_is_not_utf8_is_an_invalid_request(rig: Rig) -> None:
    send: Any = rig.channel.unary_unary(METHOD + "GetBatch")
    failed = await _failure(send(b"\x0a\x02\xff\xfe"))  # batch_id = two bytes, no UTF-8
    assert failed.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_bytes_that_are_no_message_end_a_client_stream(rig: Rig) -> None:
    send: Any = rig.channel.stream_unary(METHOD + "SubmitStream")

    async def bodies() -> AsyncIterator[bytes]:
        yield reward_pb2.SubmitRequest().SerializeToString()
        yield b"\xff\xff\xff"

    failed = await _failure(send(bodies()))
    assert failed.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_a_message_over_the_limit_is_too_large_in_our_words(rig: Rig) -> None:
    request = reward_pb2.GetBatchRequest(batch_id="x" * (BYTES_MAX + 1))
    failed = await _failure(rig.stub.GetBatch(request))
    assert _trailers(failed)["reason"] == "too_large"
    assert failed.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_a_message_far_over_the_limit_is_refused_by_the_transport(rig: Rig) -> None:
    request = reward_pb2.GetBatchRequest(batch_id="x" * (5 * BYTES_MAX))
    failed = await _failure(rig.stub.GetBatch(request))
    assert failed.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "larger than max" in str(failed.details())
    assert await rig.stub.GetBatch(reward_pb2.GetBatchRequest())


async def test_calls_over_the_limit_are_told_when_to_come_back(rig: Rig) -> None:
    release = asyncio.Event()

    async def wait() -> None:
        await release.wait()

    rig.puppet.act = wait
    held = [
        asyncio.ensure_future(_answer(rig.stub.GetBatch(reward_pb2.GetBatchRequest())))
        for _ in range(CALLS_MAX)
    ]
    for _ in held:
        await rig.puppet.entered.acquire()
    failed = await _failure(rig.stub.GetBatch(reward_pb2.GetBatchRequest()))
    assert failed.code() == STATUS[Saturated].grpc
    assert int(_trailers(failed)["retry-after-ms"]) > 0
    release.set()
    await asyncio.gather(*held)
    assert await rig.stub.GetBatch(reward_pb2.GetBatchRequest())


async def test_a_call_whose_caller_went_away_gives_its_place_back(rig: Rig) -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    rig.puppet.act = wait
    for _ in range(CALLS_MAX + 1):
        call = rig.stub.GetBatch(reward_pb2.GetBatchRequest())
        await rig.puppet.entered.acquire()
        call.cancel()
        async with asyncio.timeout(60):
            while not rig.calls:
                await asyncio.sleep(0)
        assert rig.calls.pop() == ("GetBatch", "cancelled")


async def test_a_message_that_does_not_come_is_given_up(rig: Rig) -> None:
    call: Any = rig.channel.stream_unary(METHOD + "GetBatch")

    async def never() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    with Ahead() as ahead:
        waiting = asyncio.create_task(_failure(call(never())))
        await until(lambda: rig.door.held(Kind.CALL) == 1)
        assert await rig.stub.GetBatch(reward_pb2.GetBatchRequest()), "by now it is read"
        ahead.jump(0.99 * BODY_S_MAX)
        assert await rig.stub.GetBatch(reward_pb2.GetBatchRequest())
        assert (rig.door.held(Kind.CALL), waiting.done()) == (1, False)
        ahead.jump(0.02 * BODY_S_MAX)
        await until(waiting.done)
    failed = await waiting
    assert failed.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert _trailers(failed)["reason"] == "deadline_passed"
    assert await rig.stub.GetBatch(reward_pb2.GetBatchRequest())


async def test_what_a_refused_stream_still_sends_is_read_before_its_status(rig: Rig) -> None:
    """A client whose call ends in the middle of a message shows INTERNAL in place of our status."""
    sent = 0

    async def requests() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < STREAMED:
            sent += 1
            yield b"\xff\xff"
            await asyncio.sleep(0.02)

    method: Any = rig.channel.stream_unary(METHOD + "SubmitStream")
    async with asyncio.timeout(20):
        failed = await _failure(method(requests()))
    assert failed.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert sent == STREAMED


async def test_held_streams_leave_the_slots_of_calls_alone_and_have_their_own_end(
    rig: Rig,
) -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    rig.puppet.act = wait
    streams: list[Any] = [
        rig.stub.StreamResults(reward_pb2.StreamResultsRequest()) for _ in range(CALLS_MAX)
    ]
    for stream in streams:
        assert (await stream.read()).cursor == 1
    failed = await _failure(rig.stub.StreamResults(reward_pb2.StreamResultsRequest()).read())
    assert failed.code() == STATUS[Saturated].grpc
    rig.puppet.act = rig.puppet.nothing
    assert await rig.stub.GetBatch(reward_pb2.GetBatchRequest())
    for stream in streams:
        stream.cancel()


async def test_a_compressed_message_is_refused_before_it_is_unpacked(rig: Rig) -> None:
    request = reward_pb2.GetBatchRequest(batch_id="x" * 100 * BYTES_MAX)
    failed = await _failure(rig.stub.GetBatch(request, compression=grpc.Compression.Gzip))
    assert failed.code() == grpc.StatusCode.UNIMPLEMENTED
    assert await rig.stub.GetBatch(reward_pb2.GetBatchRequest())


async def _answer(call: Any) -> Any:
    return await call


class TestWithTenants:
    """A token is asked for."""

    @pytest.fixture
    def tenants(self) -> Tenants:
        digest = hashlib.sha256(b"r3d").hexdigest()
        return Tenants({"red": TenantSettings(token_sha256=SecretStr(digest))})

    async def test_the_tenant_is_that_of_the_token(self, rig: Rig) -> None:
        metadata = (("authorization", "Bearer r3d"),)
        answer = await rig.stub.GetBatch(reward_pb2.GetBatchRequest(), metadata=metadata)
        assert answer.batch.batch_id == "red"

    async def test_unary_and_streaming_methods_refuse_strangers(self, rig: Rig) -> None:
        failed = await _failure(rig.stub.GetBatch(reward_pb2.GetBatchRequest()))
        assert failed.code() == grpc.StatusCode.UNAUTHENTICATED
        stream = rig.stub.StreamResults(reward_pb2.StreamResultsRequest())
        failed = await _failure(stream.read())
        assert failed.code() == grpc.StatusCode.UNAUTHENTICATED
        assert not rig.puppet.entered._value

    async def test_a_stranger_is_refused_before_its_message_is_read(self, rig: Rig) -> None:
        call: Any = rig.channel.stream_unary(METHOD + "GetBatch")

        async def never() -> AsyncIterator[bytes]:
            await asyncio.Event().wait()
            yield b""

        failed = await _failure(call(never()))
        assert failed.code() == grpc.StatusCode.UNAUTHENTICATED
        assert rig.calls == [("GetBatch", "unauthenticated")]

    async def test_health_is_checked_without_a_token_but_not_watched(self, rig: Rig) -> None:
        stub: Any = health_pb2_grpc.HealthStub(rig.channel)
        request = health_pb2.HealthCheckRequest()
        assert (await stub.Check(request)).status == health_pb2.HealthCheckResponse.SERVING
        failed = await _failure(stub.Watch(request).read())
        assert failed.code() == grpc.StatusCode.UNAUTHENTICATED
        watch = stub.Watch(request, metadata=(("authorization", "Bearer r3d"),))
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        watch.cancel()


class Gone:
    """The context of a call whose client has just gone: gRPC does not know it yet."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def write(self, message: object) -> None:
        raise self._error

    async def abort(self, *status: object, **trailers: object) -> None:
        raise self._error


@pytest.mark.parametrize(
    ("raised", "ends"),
    [
        (cygrpc.ExecuteBatchError("Failed"), asyncio.CancelledError),
        (cygrpc._ServerStoppedError("Server already stopped"), asyncio.CancelledError),
        (grpc.aio.UsageError("a fault of ours"), grpc.aio.UsageError),
        (grpc.aio.AbortError("locally aborted"), grpc.aio.AbortError),
    ],
)
async def test_what_cannot_be_sent_to_a_client_that_has_gone_ends_its_call_as_cancelled(
    rig: Rig, raised: Exception, ends: type[BaseException]
) -> None:
    edge = GrpcEdge(guard=rig.guard, message_bytes_max=BYTES_MAX)
    context: Any = Gone(raised)
    with pytest.raises(ends):
        await edge._written(b"", context)
    with capture_logs() as logs, rig.guard.call(Arrival(method="m", authorization="")) as call:
        raise InvalidRequest("no")
    with pytest.raises(ends):
        await edge._refuse(call, Arrival(method="m", authorization=""), context, context)
    assert [line["event"] for line in logs] == ["call_refused"]


async def test_refused_calls_fill_no_log_and_each_is_counted(rig: Rig) -> None:
    count = 3 * REFUSALS_LOGGED_BURST
    with capture_logs() as logs:
        for _ in range(count):
            with rig.guard.call(Arrival(method="m", authorization="")):
                raise Unauthenticated("authorization: no one has this token")
    assert len(logs) < 2 * REFUSALS_LOGGED_BURST
    assert rig.calls == [("m", Unauthenticated.reason)] * count
