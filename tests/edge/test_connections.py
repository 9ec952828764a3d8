"""What a connection sends that no call accounts for is bounded, and no honest client is cut."""

from __future__ import annotations

import asyncio
import itertools
import os
import resource
import socket
import threading
import time
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import grpc
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from assay.edge.connections import front as front_module
from assay.edge.connections import sockets, watch
from assay.edge.connections.traffic import (
    ANSWER_BYTES,
    CALL_BYTES,
    KNOWN_BYTES_MAX,
    STRANGER_BYTES_MAX,
    Traffic,
)
from assay.edge.connections.watch import GrpcConnections
from assay.edge.grpc_edge import STREAMS_PER_CONNECTION_MAX
from assay.v1 import reward_pb2, reward_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.running import RunApi, Running

WINDOW = 65_535
"""Bytes that HTTP/2 lets a client send on a stream before the server says more."""
WAIT_S = 60.0
MIB = 1024**2


# -- accounts --------------------------------------------------------------------------------------
@given(
    read=st.lists(st.integers(0, 5 * MIB), max_size=50),
    waiting=st.integers(0, STREAMS_PER_CONNECTION_MAX),
    reading=st.integers(0, 5 * MIB),
    refused=st.integers(0, 5_000),
)
def test_an_honest_client_is_within_its_allowance_whatever_waits(
    read: list[int], waiting: int, reading: int, refused: int
) -> None:
    account = Traffic(since_s=0.0)
    received = 24 + 9 + 16 * 1024
    for size in read:
        account.identify("someone")
        received += 1_000 + size + 9 * (size // 16_384 + 1) + 29 * (size // 16_384 + 1)
        account.read(size)
    account.identify("someone")  # the call whose message is being read
    for _call in range(refused):  # their messages came, and no one read them
        account.identify("someone")
        received += WINDOW + 16 * 1024
    received += waiting * (WINDOW + 1_000) + reading
    with account.reading(5 * MIB):
        assert account.excess(received=received, sent=0) <= account.allowance(0.0)


@given(calls=st.integers(0, 10_000), sent=st.integers(0, 10 * MIB))
def test_frames_without_calls_exceed_it_however_many_calls_came_before(
    calls: int, sent: int
) -> None:
    account = Traffic(since_s=0.0)
    for _ in range(calls):
        account.identify("someone")
    account.answer(sent)
    received = calls * CALL_BYTES + KNOWN_BYTES_MAX + sent // 16 + 1
    assert account.excess(received=received, sent=sent) > account.allowance(0.0)


@given(
    answers=st.lists(st.integers(0, 5 * MIB), max_size=50),
    received=st.integers(0, 100 * MIB),
    refused=st.integers(0, 5_000),
    age_s=st.integers(0, 10**6),
)
def test_what_an_honest_client_causes_to_be_sent_is_within_its_allowance(
    answers: list[int], received: int, refused: int, age_s: int
) -> None:
    account = Traffic(since_s=0.0)
    sent = 100 + 13 * refused + 17 * (age_s // 10)  # settings, refusals, answers to keepalive
    sent += 2 * 13 * (received // 8_192)  # window updates
    for size in answers:
        account.identify("someone")
        account.answer(size)
        sent += 2_000 + size + 9 * (size // 16_384 + 1) + 29 * (size // 16_384 + 1)
    assert account.induced(received=received, sent=sent, now_s=float(age_s)) <= 0


@given(refused=st.integers(0, 2_000), answers=st.lists(st.integers(0, MIB), max_size=50))
def test_what_was_sent_of_streams_that_grpc_refused_is_accounted_for(
    refused: int, answers: list[int]
) -> None:
    account = Traffic(since_s=0.0)
    account.identify("someone")
    sent = 13 * refused
    for size in answers:
        account.answer(size)
        sent += size
    received = refused * WINDOW
    assert account.excess(received=received, sent=sent) <= account.allowance(0.0)


@given(calls=st.integers(0, 1_000), answered=st.integers(0, 10 * MIB))
def test_answers_to_frames_exceed_it_however_much_was_answered(calls: int, answered: int) -> None:
    account = Traffic(since_s=0.0)
    for _ in range(calls):
        account.identify("someone")
    account.answer(answered)
    pings = 3 * MIB // 17 + (calls * ANSWER_BYTES + answered) // 8
    received = 17 * pings
    assert account.induced(received=received, sent=answered + 17 * pings, now_s=1.0) > 0


def test_a_stranger_may_send_no_more_than_a_first_call() -> None:
    account = Traffic(since_s=0.0)
    assert account.excess(received=STRANGER_BYTES_MAX + 1, sent=0) > account.allowance(0.0)
    assert account.excess(received=WINDOW + 32 * 1024, sent=0) <= account.allowance(0.0)


# -- the watch -------------------------------------------------------------------------------------
class Port:
    """A port whose connections no one reads: what they send stays in the kernel."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.number: int = self.listener.getsockname()[1]
        self.ours: list[socket.socket] = []
        self.clients: list[socket.socket] = []

    def connect(self) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.number))
        self.clients.append(client)
        self.ours.append(self.listener.accept()[0])
        return client

    def close(self) -> None:
        for one in (self.listener, *self.ours, *self.clients):
            one.close()


@pytest.fixture
def port() -> Iterator[Port]:
    found = Port()
    yield found
    found.close()


def _peer(client: socket.socket) -> str:
    return "ipv4:{}:{}".format(*client.getsockname())


def _is_cut(client: socket.socket) -> bool:
    client.settimeout(WAIT_S)
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


UNREAD = 1_000


def _send(port: Port, at: int, size: int) -> None:
    """Have a client send so many bytes, of which the last are not read."""
    sending = threading.Thread(target=port.clients[at].sendall, args=(bytes(size),))
    sending.start()
    left = size - UNREAD
    while left:
        left -= len(port.ours[at].recv(min(left, 2**16)))
    sending.join()
    port.ours[at].recv(UNREAD, socket.MSG_PEEK | socket.MSG_WAITALL)


def test_only_the_connection_that_exceeds_its_allowance_is_cut(port: Port) -> None:
    clock = iter(float(n) for n in range(100))
    connections = GrpcConnections(time_s=lambda: next(clock), memory_bytes=lambda: 0)
    connections.listen(port.number)
    stranger, known, quiet = (port.connect() for _ in range(3))
    connections.account(_peer(known)).identify("someone")
    size = STRANGER_BYTES_MAX + 64 * 1024
    for at in range(2):
        _send(port, at, size)
    while connections.cut < 1:
        connections.look()
    connections.look()
    assert connections.cut == 1
    assert _is_cut(stranger)
    for client in (known, quiet):
        client.sendall(b"x")  # still there
    assert port.ours[1].recv(1) == b"\0"
    with suppress(OSError):
        assert port.ours[0].recv(1) == b"", "what it had sent can still be read"


def test_when_memory_is_short_the_largest_goes_first_and_none_that_calls_account_for(
    port: Port,
) -> None:
    memory = [0]
    connections = GrpcConnections(time_s=lambda: 0.0, memory_bytes=lambda: memory[0])
    connections.listen(port.number)
    large, small, honest = (port.connect() for _ in range(3))
    for at, (client, size) in enumerate(((large, MIB), (small, MIB // 2), (honest, MIB))):
        account = connections.account(_peer(client))
        account.identify("someone")
        _send(port, at, size)
    connections.account(_peer(honest)).read(MIB)
    connections.look()
    assert connections.cut == 0
    memory[0] = watch.MEMORY_BYTES_MAX + 1
    for cut, client in enumerate((large, small), start=1):
        connections.look()
        assert connections.cut == cut
        assert _is_cut(client)
    connections.look()
    assert connections.cut == 2
    honest.sendall(b"x")


def test_a_descriptor_that_was_used_again_is_left_alone() -> None:
    first, second = socket.socketpair()
    with first, second:
        inode = os.fstat(first.fileno()).st_ino
        with pytest.raises(OSError, match="used again"), sockets.while_same(second.fileno(), inode):
            pass


async def test_a_watch_leaves_no_descriptor_open_whatever_is_open_here(port: Port) -> None:
    reads, writes = os.pipe()
    connections = GrpcConnections(time_s=time.monotonic, memory_bytes=lambda: 0)
    connections.listen(port.number)
    client = port.connect()
    open_before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(3):
        running = asyncio.create_task(connections.run())
        while connections._accounts == {}:
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        connections._accounts.clear()
    assert sorted(os.listdir("/proc/self/fd")) == open_before
    client.sendall(b"x")
    os.close(reads)
    os.close(writes)


@pytest.mark.parametrize("connected", [False, True])
async def test_a_watch_looks_seldom_while_there_is_no_connection(
    port: Port, *, connected: bool
) -> None:
    looked_s: list[float] = []

    def memory_bytes() -> int:
        looked_s.append(time.monotonic())
        return 0

    connections = GrpcConnections(time_s=time.monotonic, memory_bytes=memory_bytes)
    connections.listen(port.number)
    looked_s.clear()
    if connected:
        port.connect()
    running = asyncio.create_task(connections.run())
    while len(looked_s) < 4:
        await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    apart_s = watch.LOOK_EVERY_S if connected else watch.LOOK_ALONE_S
    gaps_s = [after - before for before, after in itertools.pairwise(looked_s)]
    assert apart_s <= min(gaps_s[1:]) + 0.01
    if connected:
        assert min(gaps_s[1:]) < watch.LOOK_ALONE_S


async def test_a_watch_behind_a_front_waits_for_something_to_move(port: Port) -> None:
    looked_s: list[float] = []

    def memory_bytes() -> int:
        looked_s.append(time.monotonic())
        return 0

    connections = GrpcConnections(time_s=time.monotonic, memory_bytes=memory_bytes)
    connections.listen(port.number)
    port.connect()
    with socket.create_server(("127.0.0.1", 0)) as in_front:
        connections.gate_at(in_front)
        running = asyncio.create_task(connections.run())
        try:
            await asyncio.sleep(8 * watch.LOOK_EVERY_S)  # the first looks, of a new connection
            looked_s.clear()
            await asyncio.sleep(5 * watch.LOOK_EVERY_S)
            assert not looked_s
            moved_s = time.monotonic()
            connections.moved()
            async with asyncio.timeout(watch.LOOK_CALM_S / 2):
                while not looked_s:
                    await asyncio.sleep(0.01)
            assert looked_s[0] - moved_s >= watch.LOOK_EVERY_S / 2  # not one look per byte
            looked_s.clear()
            connections.fruitless("127.0.0.1")
            async with asyncio.timeout(watch.LOOK_CALM_S / 2):
                while not looked_s:
                    await asyncio.sleep(0.01)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


@contextmanager
def _no_descriptor_left() -> Iterator[None]:
    """This process may open no more than it has open."""
    was, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (was, hard))


async def test_a_watch_outlives_a_time_without_descriptors(port: Port) -> None:
    looks = 0

    def memory_bytes() -> int:
        nonlocal looks
        looks += 1
        return 0

    connections = GrpcConnections(time_s=time.monotonic, memory_bytes=memory_bytes)
    connections.listen(port.number)
    running = asyncio.create_task(connections.run())
    while looks < 2:
        await asyncio.sleep(0)
    client = port.connect()
    with structlog.testing.capture_logs() as logged, _no_descriptor_left():
        async with asyncio.timeout(WAIT_S):
            while not logged:
                await asyncio.sleep(0)
    assert [line["event"] for line in logged] == ["connections_not_seen"]
    await asyncio.to_thread(_send, port, 0, STRANGER_BYTES_MAX + 64 * 1024)
    assert await asyncio.to_thread(_is_cut, client)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def test_a_connection_that_could_not_be_seen_is_seen_by_the_next_look(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = GrpcConnections(time_s=lambda: 0.0, memory_bytes=lambda: 0)
    connections.listen(port.number)
    port.connect()
    with monkeypatch.context() as one:
        one.setattr(watch, "descriptors", partial(list, sockets.descriptors()))
        with _no_descriptor_left():
            connections.look()
    assert connections._accounts == {}
    connections.look()
    assert len(connections._accounts) == 1


def test_a_connection_that_is_gone_leaves_no_account(port: Port) -> None:
    connections = GrpcConnections(time_s=lambda: 0.0, memory_bytes=lambda: 0)
    connections.listen(port.number)
    client = port.connect()
    account = connections.account(_peer(client))
    connections.look()
    assert connections.account(_peer(client)) is account
    client.close()
    port.ours.pop().close()
    connections.look()
    assert connections._accounts == {}


@pytest.mark.parametrize("seen", [False, True])
def test_a_stranger_whose_calls_may_be_unseen_has_longer(port: Port, *, seen: bool) -> None:
    now_s = 0.0
    connections = GrpcConnections(time_s=lambda: now_s, memory_bytes=lambda: 0)
    connections.listen(port.number)
    client = port.connect()
    _send(port, 0, 2 * STRANGER_BYTES_MAX)
    connections.look()
    now_s += 2 * watch.GRACE_S
    connections.account(_peer(client) if seen else "ipv4:127.0.0.9:1")
    connections.look()
    assert connections.cut == seen
    now_s += watch.GRACE_BUSY_S + watch.GRACE_S
    connections.look()
    assert connections.cut >= 1


@pytest.mark.parametrize("size", [1, 20_000])
@pytest.mark.parametrize("read", [False, True])
def test_an_address_whose_connections_end_without_a_message_waits(
    port: Port, *, read: bool, size: int
) -> None:
    connections = GrpcConnections(time_s=lambda: 0.0, memory_bytes=lambda: 0)
    connections.listen(port.number)
    for _ in range(300 if size == 1 else 8):
        client = port.connect()
        client.sendall(bytes(size))
        port.ours[-1].recv(size, socket.MSG_PEEK | socket.MSG_WAITALL)
        connections.look()
        if read:
            connections.account(_peer(client)).read(1)
        client.close()
        port.ours.pop().close()
        connections.look()
    assert connections.held_off == (() if read else ("127.0.0.1",))


@pytest.mark.parametrize(
    ("text", "peer"),
    [
        ("ipv4:127.0.0.1:80", ("127.0.0.1", 80)),
        ("ipv6:%5B::1%5D:80", ("::1", 80)),
        ("ipv6:[fe80::1%252]:80", ("fe80::1", 80)),
        ("ipv6:%5B::ffff:10.0.0.1%5D:7", ("10.0.0.1", 7)),
        ("unix:/tmp/socket", ("unix:/tmp/socket", 0)),
    ],
)
def test_a_peer_is_named_by_grpc_as_by_its_socket(text: str, peer: tuple[str, int]) -> None:
    assert sockets.peer_named(text) == peer


# -- a server --------------------------------------------------------------------------------------
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags])
    return head + stream.to_bytes(4, "big") + payload


SETTINGS, CONFIRMED = _frame(4, 0, 0), _frame(4, 1, 0)
BLOCK = b"".join(
    b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value
    for name, value in (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/assay.v1.RewardService/Score"),
        (b":authority", b"a"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
    )
)
FIELD, AGAIN = b"\x40\x01x\x00", b"\xbe"
FLOODS = {
    "settings": (SETTINGS + CONFIRMED, SETTINGS * 2_000),
    "unknown": (SETTINGS + CONFIRMED, _frame(0x55, 0, 0, b"z" * 100) * 200),
    "a block without an end, by one that confirms nothing": (
        SETTINGS + _frame(1, 0, 1, BLOCK + FIELD),
        _frame(9, 0, 1, AGAIN * 4_000),
    ),
}


@asynccontextmanager
async def _raw(address: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.close()


async def _flooded(
    address: str, begun: bytes, piece: bytes, more: Iterator[bytes] | None = None
) -> None:
    """Send until the server ends it: `piece` again and again, or once and then `more`."""
    async with _raw(address) as (reader, writer):

        async def read_away() -> None:
            with suppress(ConnectionError):
                while await reader.read(2**16):
                    pass

        reading = asyncio.create_task(read_away())
        writer.write(PREFACE + begun)
        with suppress(ConnectionError):
            while not reading.done():
                writer.write(piece)
                if more is not None:
                    piece = b"".join(itertools.islice(more, 200))
                await writer.drain()
                await asyncio.sleep(0)
        await reading


def _behind(api: Running) -> str:
    """Where gRPC listens: a flood of frames that the front cannot see, as with TLS."""
    return f"127.0.0.1:{api.api.server.connections.port}"


@pytest.mark.parametrize("front", [True, False])
@pytest.mark.parametrize("flood", FLOODS)
async def test_floods_of_strangers_end_with_their_connection(
    run_api: RunApi, monkeypatch: pytest.MonkeyPatch, flood: str, *, front: bool
) -> None:
    monkeypatch.setattr(front_module, "HELD_S_MAX", 0.5)
    api = await run_api()
    begun, piece = FLOODS[flood]
    async with AsyncExitStack() as stack:
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(api.addresses.grpc))
        stub: Any = reward_pb2_grpc.RewardServiceStub(channel)
        async with asyncio.timeout(WAIT_S):
            await _flooded(api.addresses.grpc if front else _behind(api), begun, piece)
        await stub.ListPipelines(reward_pb2.ListPipelinesRequest(), timeout=WAIT_S)
    assert api.api.server.connections.cut >= 1


async def test_many_large_messages_at_once_on_one_new_connection_are_not_cut(
    run_api: RunApi,
) -> None:
    api = await run_api()
    requests = [
        reward_pb2.RewardRequest(request_id=f"r{n}", response=b"x" * 60_000, reference_json=b"{}")
        for n in range(1)
    ]
    async with grpc.aio.insecure_channel(api.addresses.grpc) as channel:
        stub: Any = reward_pb2_grpc.RewardServiceStub(channel)
        opening = [
            stub.Submit(reward_pb2.SubmitRequest(batch_id="none", requests=requests))
            for _ in range(8)
        ]
        for call in opening:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call
            assert refused.value.code() is not grpc.StatusCode.UNAVAILABLE
    assert api.api.server.connections.cut == 0


async def test_pings_of_one_with_a_token_end_for_what_they_cause_to_be_sent(
    run_api: RunApi,
) -> None:
    api = await run_api()
    with structlog.testing.capture_logs() as logged:
        async with asyncio.timeout(WAIT_S):
            await _flooded(
                _behind(api),
                SETTINGS + CONFIRMED + _frame(1, 4, 1, BLOCK),
                _frame(6, 0, 0, bytes(8)) * 2_000,
            )
    cut = [line for line in logged if line["event"] == "connection_cut"]
    assert [line["why"] for line in cut] == ["answers to frames"]


def _rapid_resets() -> Iterator[bytes]:
    for stream in itertools.count(1, 2):
        yield _frame(1, 4, stream, BLOCK) + _frame(3, 0, stream, (8).to_bytes(4, "big"))


async def test_streams_that_are_reset_without_an_end_are_cut_and_their_address_waits(
    run_api: RunApi,
) -> None:
    api = await run_api()
    watched = api.api.server.connections
    async with grpc.aio.insecure_channel(api.addresses.grpc) as channel:
        stub: Any = reward_pb2_grpc.RewardServiceStub(channel)
        await stub.ListPipelines(reward_pb2.ListPipelinesRequest(), timeout=WAIT_S)
        async with asyncio.timeout(WAIT_S):
            while not watched.held_off:
                pieces = _rapid_resets()
                await _flooded(
                    _behind(api),
                    SETTINGS + CONFIRMED,
                    b"".join(itertools.islice(pieces, 200)),
                    more=pieces,
                )
        assert watched.cut >= 2
        assert watched.held_off == ("127.0.0.1",)
        await stub.ListPipelines(reward_pb2.ListPipelinesRequest(), timeout=WAIT_S)


async def test_a_trainer_that_gives_up_many_calls_at_once_is_never_cut(run_api: RunApi) -> None:
    api = await run_api()
    request = reward_pb2.ScoreRequest(
        pipeline="noop",
        requests=[
            reward_pb2.RewardRequest(request_id="r", response=b"x" * 9_000, reference_json=b"{}")
        ],
    )
    async with grpc.aio.insecure_channel(api.addresses.grpc) as channel:
        stub: Any = reward_pb2_grpc.RewardServiceStub(channel)

        async def ended(call: Any) -> bool:
            try:
                await call
            except grpc.aio.AioRpcError as refused:
                # gRPC's own: it still has streams that the client has given up
                assert "code 7" in (refused.details() or "")  # noqa: PT017
                return False
            return True

        async def call(seconds: float) -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await ended(stub.Score(request))

        for seconds in (0.05, 0.5):
            await asyncio.gather(*(call(seconds) for _ in range(600)))
        async with asyncio.timeout(WAIT_S):
            while not await ended(stub.ListPipelines(reward_pb2.ListPipelinesRequest())):
                await asyncio.sleep(0.05)
    assert api.api.server.connections.cut == 0


async def test_a_client_that_pings_often_and_makes_no_calls_is_not_cut(run_api: RunApi) -> None:
    api = await run_api()
    async with _raw(api.addresses.grpc) as (reader, writer):
        writer.write(PREFACE + SETTINGS + CONFIRMED)
        answered = 0
        left = b""
        for sent in range(1, 101):  # twenty minutes of keepalive, one each twelve seconds
            writer.write(_frame(6, 0, 0, sent.to_bytes(8, "big")))
            async with asyncio.timeout(WAIT_S):
                while answered < sent:
                    some = await reader.read(2**16)
                    assert some, "the server ended it"
                    left += some
                    while len(left) >= 9 + int.from_bytes(left[:3], "big"):
                        size = 9 + int.from_bytes(left[:3], "big")
                        answered += left[3:5] == b"\x06\x01"
                        left = left[size:]
    assert api.api.server.connections.cut == 0
