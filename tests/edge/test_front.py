"""What passes of a connection, and that honest clients notice nothing of it."""

from __future__ import annotations

import asyncio
import itertools
import math
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.config.access import OperatorSettings
from assay.edge.connections import front as front_module
from assay.edge.connections import passage as passage_module
from assay.edge.connections.fields import FIELD_BYTES, FieldTable, NotFields
from assay.edge.connections.passage import (
    ADDRESS_BEGINS,
    ADDRESS_STREAMS,
    BLOCK_BYTES_MAX,
    BLOCK_FRAMES_MAX,
    BYTES,
    FIELDS_MAX,
    FRAMES,
    KNOWN_FRAMES,
    KNOWN_STREAMS,
    PREFACE,
    STREAMS,
    TENANT_FRAMES,
    TENANT_UNTAKEN,
    Broken,
    Buckets,
    Passage,
    lone_strangers_pace,
    own_pace,
    strangers_pace,
    tenants_pace,
)
from assay.edge.connections.watch import GrpcConnections
from assay.edge.grpc_edge import server_options, take_port
from assay.v1 import reward_pb2, reward_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from tests.running import RunApi, Running

HEADERS, SETTINGS, PING, CONTINUATION = 1, 4, 6, 9
END_HEADERS, PADDED, PRIORITY = 0x04, 0x08, 0x20
WAIT_S = 60.0


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags])
    return head + stream.to_bytes(4, "big") + payload


def integer(number: int, bits: int, flags: int = 0) -> bytes:
    most = (1 << bits) - 1
    if number < most:
        return bytes([flags | number])
    number -= most
    found = bytes([flags | most])
    while number >= 128:
        found += bytes([number % 128 | 128])
        number //= 128
    return found + bytes([number])


def text(value: bytes) -> bytes:
    return integer(len(value), 7) + value


BEGUN = PREFACE + frame(SETTINGS, 0, 0)
FEW = b"".join(
    b"\x00" + text(name) + text(value)
    for name, value in (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/assay.v1.RewardService/ListPipelines"),
        (b":authority", b"a"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
    )
)


def call(stream: int) -> bytes:
    return frame(HEADERS, END_HEADERS, stream, FEW)


def cut_at(data: bytes, places: Iterable[int]) -> list[bytes]:
    ends = sorted({min(place, len(data)) for place in places})
    return [data[a:b] for a, b in itertools.pairwise([0, *ends, len(data)])]


# -- sizes of fields -------------------------------------------------------------------------------
ADDED, PLAIN, NEVER, AGAIN, RESIZED = range(5)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([ADDED, PLAIN, NEVER, AGAIN, RESIZED]),
            st.binary(min_size=1, max_size=300),
            st.binary(max_size=3_000),
            st.integers(0, 127),
        ),
        max_size=60,
    )
)
def test_fields_are_counted_and_no_block_is_larger_than_it_is_taken_for(
    fields: list[tuple[int, bytes, bytes, int]],
) -> None:
    """An encoder with the table that a decoder would have."""
    table: list[tuple[bytes, bytes]] = []
    block, size = b"", 0
    for form, name, value, which in fields:
        if form == RESIZED:
            block += integer(4_096, 5, 0x20)
            continue
        if form == AGAIN and which < len(table):
            block += integer(62 + which, 7, 0x80)
            size += sum(map(len, table[which])) + FIELD_BYTES
            continue
        if form == ADDED:
            table = [(name, value), *table[:127]]
            block += integer(0, 6, 0x40)
        else:
            block += integer(0, 4, 0x10 if form == NEVER else 0x00)
        block += text(name) + text(value)
        size += len(name) + len(value) + FIELD_BYTES
    count, at_most = FieldTable().measure(block, fields_max=1_000)
    assert count == len(fields)
    assert size <= at_most <= size + 100 * len(fields)


def test_a_text_that_is_coded_is_taken_for_as_long_as_it_may_be() -> None:
    coded = b"\x00" + text(b"x") + integer(1_000, 7, 0x80) + bytes(1_000)
    _, size = FieldTable().measure(coded, fields_max=10)
    assert size >= 1_600


@given(st.binary(max_size=200))
def test_any_bytes_are_measured_or_malformed(block: bytes) -> None:
    with suppress(NotFields):
        count, size = FieldTable().measure(block, fields_max=FIELDS_MAX)
        assert 0 <= count <= len(block)
        assert size >= 0


# -- what passes -----------------------------------------------------------------------------------
@given(
    sizes=st.lists(st.integers(0, 20_000), min_size=1, max_size=8),
    places=st.lists(st.integers(0, 100_000), max_size=30),
    known_after=st.integers(0, 30),
)
def test_all_that_a_client_with_a_token_sends_passes_as_it_was_sent(
    sizes: Sequence[int], places: Sequence[int], known_after: int
) -> None:
    """However it is cut into pieces, and whenever its token is seen."""
    sent = BEGUN
    for number, size in enumerate(sizes):
        sent += call(2 * number + 1)
        for begins in range(0, size + 1, 16_384):
            sent += frame(0, 0, 2 * number + 1, bytes(min(16_384, size - begins)))
    passage, passed = Passage(shared=strangers_pace()), b""
    for number, piece in enumerate(cut_at(sent, places)):
        if number == known_after:
            passage.widen(tenants_pace(), own_pace())
        some, _ = passage.take(piece, 0.0)
        passed += some
        assert sent.startswith(passed)
    passage.widen(tenants_pace(), own_pace())
    some, wait_s = passage.take(b"", 0.0)
    assert (passed + some, wait_s) == (sent, 0.0)
    assert passage.held == 0


@given(
    steps=st.lists(st.tuples(st.integers(0, 200), st.floats(0, 3)), max_size=20),
    small=st.booleans(),
)
def test_a_stranger_gets_no_more_through_than_its_pace(
    steps: list[tuple[int, float]], *, small: bool
) -> None:
    passage, streams, now_s = Passage(shared=strangers_pace()), itertools.count(1, 2), 0.0
    passed, _ = passage.take(BEGUN, now_s)
    for many, after_s in steps:
        now_s += after_s
        units = [frame(PING, 0, 0, bytes(8)) if small else call(next(streams)) for _ in range(many)]
        some, _ = passage.take(b"".join(units), now_s)
        passed += some
        at_once, per_s = FRAMES if small else STREAMS
        through = (len(passed) - len(BEGUN)) // len(
            frame(PING, 0, 0, bytes(8)) if small else call(1)
        )
        assert through <= at_once + per_s * now_s + 1


def test_strangers_of_one_address_share_a_pace_and_each_has_a_first_call() -> None:
    address, other = strangers_pace(), strangers_pace()
    passages = [Passage(shared=address) for _ in range(int(ADDRESS_BEGINS[0]))]
    calls = BEGUN + b"".join(call(stream) for stream in range(1, 17, 2))
    passed = [passage.take(calls, 0.0)[0] for passage in passages]
    through = [(len(each) - len(BEGUN)) // len(call(1)) for each in passed]
    assert min(through) == 1
    assert sum(through) <= ADDRESS_STREAMS[0] + len(passages)
    assert Passage(shared=other).take(calls, 0.0)[0] == calls


@given(st.lists(st.floats(0.0, 0.2), min_size=5, max_size=40))
def test_connections_of_an_address_begin_at_a_pace_and_each_in_the_end(
    pauses: list[float],
) -> None:
    """Nothing of one passes before, and all of it as it was sent."""
    address, now_s = strangers_pace(), 0.0
    began: dict[int, float] = {}
    passages = [Passage(shared=address) for _ in range(100)]
    passed = [b""] * len(passages)
    for step, pause_s in enumerate([0.0, *pauses, *[0.1] * 10]):
        now_s += pause_s
        for number, passage in enumerate(passages):
            some, wait_s = passage.take(b"" if step else BEGUN, now_s)
            assert bool(wait_s) is not bool(some or passed[number])
            passed[number] += some
            if some:
                began.setdefault(number, now_s)
        at_once, per_s = ADDRESS_BEGINS
        assert len(began) <= at_once + per_s * now_s + 1
    assert passed == [BEGUN] * len(passages)
    alone = Passage(shared=lone_strangers_pace())
    assert alone.take(BEGUN, 0.0) == (BEGUN, 0.0)


def test_nothing_of_a_header_block_passes_before_its_end() -> None:
    passage = Passage(shared=strangers_pace())
    assert passage.take(BEGUN + frame(HEADERS, 0, 1, FEW), 0.0)[0] == BEGUN
    for _ in range(BLOCK_FRAMES_MAX - 2):
        assert passage.take(frame(CONTINUATION, 0, 1), 0.0)[0] == b""
    passed, _ = passage.take(frame(CONTINUATION, END_HEADERS, 1, FEW), 0.0)
    assert passed.startswith(frame(HEADERS, 0, 1, FEW))


NEWEST, LARGE = b"\xbe", b"\x40" + text(b"x-large") + text(b"a" * 4_000)
BROKEN = {
    "another protocol": b"GET / HTTP/1.1\r\n\r\n",
    "many fields": BEGUN
    + frame(HEADERS, END_HEADERS, 1, FEW + b"\x40\x01x\x00" + NEWEST * FIELDS_MAX),
    "a large field that is named again": BEGUN
    + frame(HEADERS, END_HEADERS, 1, FEW + LARGE + NEWEST * 8),
    "a large field that was named by another call": BEGUN
    + frame(HEADERS, END_HEADERS, 1, FEW + LARGE)
    + frame(HEADERS, END_HEADERS, 3, FEW + NEWEST * 9),
    "padded": BEGUN
    + frame(HEADERS, END_HEADERS | PADDED, 1, b"\x02" + FEW + NEWEST * FIELDS_MAX + b"zz"),
    "with a priority": BEGUN
    + frame(HEADERS, END_HEADERS | PRIORITY, 1, bytes(5) + FEW + NEWEST * FIELDS_MAX),
    "more padding than there is": BEGUN + frame(HEADERS, END_HEADERS | PADDED, 1, b"\xff" + FEW),
    "in many frames": BEGUN
    + frame(HEADERS, 0, 1, FEW)
    + frame(CONTINUATION, 0, 1) * (BLOCK_FRAMES_MAX - 1),
    "as large as it is sent": BEGUN
    + frame(HEADERS, 0, 1, FEW)
    + frame(CONTINUATION, 0, 1, b"z" * 16_384) * (BLOCK_BYTES_MAX // 16_384),
    "interrupted": BEGUN + frame(HEADERS, 0, 1, FEW) + frame(PING, 0, 0, bytes(8)),
    "of another stream": BEGUN + frame(HEADERS, 0, 1, FEW) + frame(CONTINUATION, 4, 3, FEW),
    "a CONTINUATION frame that continues no headers": BEGUN
    + frame(CONTINUATION, END_HEADERS, 1, FEW),
    "a frame too large": BEGUN + (2**24 - 1).to_bytes(3, "big") + bytes(6),
    "a number without an end": BEGUN + frame(HEADERS, END_HEADERS, 1, b"\xff" * 20),
}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("sent", BROKEN.values(), ids=BROKEN)
def test_what_costs_more_than_it_weighs_ends_a_connection_with_a_token_or_without(
    sent: bytes, *, known: bool
) -> None:
    passage = Passage(shared=strangers_pace())
    if known:
        passage.widen(tenants_pace(), own_pace())
    with pytest.raises(Broken):
        passage.take(sent, 0.0)


def test_as_many_fields_as_there_may_be_pass() -> None:
    few = 6
    passage = Passage(shared=strangers_pace())
    sent = BEGUN + frame(HEADERS, END_HEADERS, 1, FEW + (FIELDS_MAX - few) * b"\x00\x01x\x01y")
    assert passage.take(sent, 0.0) == (sent, 0.0)


def test_small_frames_of_one_with_a_token_are_paced_and_large_ones_are_not() -> None:
    tenant = tenants_pace()
    ping = frame(PING, 0, 0, bytes(8))
    through = 0
    for _ in range(10):
        passage = Passage(shared=strangers_pace())
        passage.widen(tenant, own_pace())
        passed, wait_s = passage.take(BEGUN + call(1) + ping * 20_000, 0.0)
        assert 0.0 < wait_s < 1.0
        pings = (len(passed) - len(BEGUN + call(1))) // len(ping)
        assert pings <= KNOWN_FRAMES[0]
        through += pings
    assert through <= TENANT_FRAMES[0]
    passage = Passage(shared=strangers_pace())
    passage.widen(tenants_pace(), own_pace())
    sent = BEGUN + call(1) + frame(0, 0, 1, bytes(16_384)) * 1_000
    assert passage.take(sent, 0.0) == (sent, 0.0)


def test_calls_that_a_tenant_begins_at_once_go_on_few_at_a_time() -> None:
    """Each costs the event loop time, with or without an end of its own; all are through soon
    while the event loop takes them up."""
    tenant = tenants_pace()
    passages = [Passage(shared=strangers_pace()) for _ in range(8)]
    one = call(1)
    through = 0
    for passage in passages:
        passage.widen(tenant, own_pace())
        passed, _ = passage.take(BEGUN + one * 250, 0.0)
        through += (len(passed) - len(BEGUN)) // len(one)
    assert 0.0001 * through < 0.01, "seconds of the event loop"

    for number in range(1, 201):
        for _ in range(through):
            passages[0].taken_up()
        through = 0
        for passage in passages:
            passed, _ = passage.take(b"", number * 0.005)
            through += len(passed) // len(one)
    assert not any(passage.held for passage in passages), "2,000 calls within a second"


@given(
    st.lists(st.tuples(st.integers(0, 3), st.floats(0.0, 0.05), st.integers(0, 40)), max_size=60)
)
def test_calls_that_are_not_taken_up_are_few(steps: list[tuple[int, float, int]]) -> None:
    """However the calls of a tenant are spread over its connections. gRPC hands over the calls of
    all in their order; the pace of those that it never hands over is that of time."""
    tenant, now_s, untaken, since_s = tenants_pace(), 0.0, 0, 0.0
    passages = [Passage(shared=strangers_pace()) for _ in range(4)]
    for passage in passages:
        passage.widen(tenant, own_pace())
        passage.take(BEGUN, 0.0)
    for which, pause_s, taken in steps:
        now_s += pause_s
        passed, _ = passages[which].take(call(1) * 40, now_s)
        untaken += len(passed) // len(call(1))
        assert untaken <= TENANT_UNTAKEN[0] + TENANT_UNTAKEN[1] * (now_s - since_s) + 1
        for _ in range(min(taken, untaken)):
            passages[which].taken_up()
            untaken -= 1


def test_of_calls_that_grpc_never_hands_over_some_pass_with_time() -> None:
    passage = Passage(shared=strangers_pace())
    passage.widen(tenants_pace(), own_pace())
    passed, wait_s = passage.take(BEGUN + call(1) * 100, 0.0)
    assert len(passed) == len(BEGUN) + TENANT_UNTAKEN[0] * len(call(1))
    assert 0.0 < wait_s < 0.1
    passed, _ = passage.take(b"", wait_s)
    assert passed == call(1)


def test_a_strangers_message_passes_as_far_as_a_window() -> None:
    passage = Passage(shared=strangers_pace())
    sent = BEGUN + call(1) + frame(0, 0, 1, bytes(16_000)) * 10
    passed, wait_s = passage.take(sent, 0.0)
    assert 65_535 <= len(passed) <= BYTES[0] + 16_000
    assert 0.0 < wait_s < math.inf


# -- the port --------------------------------------------------------------------------------------
@asynccontextmanager
async def raw(address: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.close()


async def ended(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionError):
        while await reader.read(2**16):
            pass


async def pipelines(channel: grpc.aio.Channel) -> None:
    stub: Any = reward_pb2_grpc.RewardServiceStub(channel)
    await stub.ListPipelines(reward_pb2.ListPipelinesRequest(), timeout=WAIT_S)


async def test_a_connection_that_breaks_a_bound_is_cut_and_its_address_waits(
    run_api: RunApi,
) -> None:
    api = await run_api()
    watched = api.api.server.connections
    async with grpc.aio.insecure_channel(api.addresses.grpc) as channel:
        await pipelines(channel)
        async with asyncio.timeout(WAIT_S):
            while not watched.held_off:
                async with raw(api.addresses.grpc) as (reader, writer):
                    writer.write(BROKEN["many fields"])
                    await ended(reader)
        assert watched.cut >= 8
        await pipelines(channel)


async def test_who_says_nothing_is_cut_and_counts_for_nothing(
    run_api: RunApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front_module, "BEGIN_S_MAX", 0.05)
    api = await run_api()
    async with asyncio.timeout(WAIT_S):
        for sent in (b"", PREFACE[:10]):
            async with raw(api.addresses.grpc) as (reader, writer):
                writer.write(sent)
                await ended(reader)
    assert api.api.server.connections.cut == 0


async def test_a_crowd_of_strangers_makes_room_for_others(
    run_api: RunApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call with a token, from the same address, while there are as many as there may be."""
    monkeypatch.setattr(front_module, "NEWCOMERS_MAX", 10)
    api = await run_api()
    async with (
        asyncio.timeout(front_module.BEGIN_S_MAX / 2),
        grpc.aio.insecure_channel(
            api.addresses.grpc, options=[("grpc.use_local_subchannel_pool", 1)]
        ) as known,
        grpc.aio.insecure_channel(
            api.addresses.grpc, options=[("grpc.use_local_subchannel_pool", 1)]
        ) as late,
    ):
        await pipelines(known)
        opened = [await asyncio.open_connection(*split(api.addresses.grpc)) for _ in range(12)]
        await asyncio.gather(*(ended(reader) for reader, _ in opened[:2]))
        await pipelines(late)
        await pipelines(known)
        for _, writer in opened:
            writer.close()


def split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


async def test_a_stranger_at_a_pace_goes_on_and_one_with_a_token_waits_for_nothing(
    run_api: RunApi,
) -> None:
    """A hundred first calls at once on a new connection, and a stranger that exceeds its pace."""
    api = await run_api()
    async with raw(api.addresses.grpc) as (_reader, writer):
        writer.write(BEGUN + b"".join(frame(PING, 0, 0, bytes(8)) for _ in range(5_000)))
        async with grpc.aio.insecure_channel(api.addresses.grpc) as channel:
            async with asyncio.timeout(5.0):
                await asyncio.gather(*(pipelines(channel) for _ in range(100)))
    assert api.api.server.connections.cut == 0


def test_a_call_with_many_fields_counts_as_several() -> None:
    def through(block: bytes) -> int:
        passage = Passage(shared=strangers_pace())
        passage.widen(own_pace(), own_pace())
        one = frame(HEADERS, END_HEADERS, 1, block)
        passed, _ = passage.take(BEGUN + one * 2_000, 0.0)
        return (len(passed) - len(BEGUN)) // len(one)

    few = through(FEW)
    assert few == KNOWN_STREAMS[0]
    assert through(FEW + b"\x00\x01x\x01y" * 100) < few / 5
    assert through(FEW + b"\x00\x01x" + text(b"y" * 12_000)) < few / 5


def test_a_strangers_calls_now_and_then_wait_for_no_crowd() -> None:
    """Health checks from the address of a flood."""
    address = strangers_pace()
    passage = Passage(shared=address)
    passage.take(BEGUN, 0.0)
    for number in range(10):
        now_s = 10.0 * number
        for _ in range(100):
            Passage(shared=address).take(BEGUN + call(1), now_s)
        assert passage.take(call(2 * number + 1), now_s) == (call(2 * number + 1), 0.0)


async def calls_answered(api: Running, name: str, times: int) -> int:
    """How many of a tenant's calls are answered."""
    answered = 0
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(api.addresses.grpc, options) as channel:
        stub: Any = reward_pb2_grpc.RewardServiceStub(channel)
        for _ in range(times):
            request = reward_pb2.ListPipelinesRequest()
            metadata = (("authorization", f"Bearer {name}"),)
            with suppress(grpc.aio.AioRpcError):
                # The first call of a service waits until the forms of pipelines are made.
                timeout_s = 1.0 if answered else WAIT_S
                await stub.ListPipelines(request, metadata=metadata, timeout=timeout_s)
                answered += 1
    return answered


async def test_tenants_behind_one_address_do_not_wait_for_each_other(
    run_api: RunApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passage_module, "TENANT_STREAMS", (4.0, 0.001))
    tenants = {name: {"token_sha256": sha256(name.encode()).hexdigest()} for name in "ab"}
    api = await run_api(tenants=tenants)

    assert 1 <= await calls_answered(api, "a", 7) < 7
    assert await calls_answered(api, "b", 4) == 4


async def test_a_call_that_is_taken_up_makes_room_for_the_next(
    run_api: RunApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once: time makes none in this test."""
    monkeypatch.setattr(passage_module, "TENANT_UNTAKEN", (64.0, 1e-9))
    made: list[Buckets] = []

    def recorded() -> Buckets:
        made.append(tenants_pace())
        return made[-1]

    monkeypatch.setattr(front_module, "tenants_pace", recorded)
    tenants = {name: {"token_sha256": sha256(name.encode()).hexdigest()} for name in "ab"}
    api = await run_api(tenants=tenants)
    assert await calls_answered(api, "a", 40) == 40
    assert len(made) == 1
    assert made[0].untaken is not None
    assert made[0].untaken.spent < 1e-3


async def begun(api: Running, count: int) -> int:
    """How many of so many connections without a token gRPC takes up."""
    opened = [await asyncio.open_connection(*split(api.addresses.grpc)) for _ in range(count)]
    for _, writer in opened:
        writer.write(BEGUN)
    heads = [asyncio.create_task(reader.readexactly(9)) for reader, _ in opened]
    done, waiting = await asyncio.wait(heads, timeout=0.5)
    for head in waiting:
        head.cancel()
    for _, writer in opened:
        writer.close()
    return len(done)


async def test_of_a_crowd_that_begins_at_once_some_wait_and_no_one_for_them(
    run_api: RunApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passage_module, "ADDRESS_BEGINS", (4.0, 0.001))
    tenants = {name: {"token_sha256": sha256(name.encode()).hexdigest()} for name in "ab"}
    api = await run_api(tenants=tenants)
    async with grpc.aio.insecure_channel(api.addresses.grpc) as channel:
        stub: Any = reward_pb2_grpc.RewardServiceStub(channel)

        async def answered() -> None:
            metadata = (("authorization", "Bearer a"),)
            await stub.ListPipelines(reward_pb2.ListPipelinesRequest(), metadata=metadata)

        async with asyncio.timeout(WAIT_S):
            await answered()
            assert await begun(api, 7) == 4
            await answered()
    assert await begun(await run_api(), 7) == 7, "with one tenant no one else waits"


async def test_a_service_with_one_tenant_has_no_pace(
    run_api: RunApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pace in ("TENANT_STREAMS", "KNOWN_STREAMS"):
        monkeypatch.setattr(passage_module, pace, (4.0, 0.001))
    assert await calls_answered(await run_api(), "", 30) == 30


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
async def test_every_address_is_of_both_versions(run_api: RunApi, host: str) -> None:
    api = await run_api(host=host, operator=OperatorSettings(allow_open_ports=True))
    port = api.addresses.grpc.rpartition(":")[2]
    for address in ("127.0.0.1", "[::1]"):
        async with grpc.aio.insecure_channel(f"{address}:{port}") as channel:
            await pipelines(channel)


async def test_an_answer_that_is_on_its_way_when_the_service_stops_arrives() -> None:
    answer = bytes(8 * 1024**2)
    begun = asyncio.Event()

    async def answered(_request: bytes, _context: object) -> bytes:
        begun.set()
        return answer

    handlers: dict[str, Any] = {"Get": grpc.unary_unary_rpc_method_handler(answered, None, None)}
    server = grpc.aio.server(options=server_options(1024))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("a.B", handlers),))
    loop = asyncio.get_running_loop()
    watched = GrpcConnections(time_s=loop.time)
    front = front_module.Front(connections=watched, connections_max=10, time_s=loop.time)
    address = front.bind("127.0.0.1", 0, setting="port")
    inner = take_port(server, "127.0.0.1", 0, setting="port")
    await server.start()
    await front.serve(int(inner.rpartition(":")[2]))
    options = [("grpc.max_receive_message_length", -1)]
    async with asyncio.timeout(WAIT_S), grpc.aio.insecure_channel(address, options) as channel:
        get: Any = channel.unary_unary("/a.B/Get")
        calling = asyncio.ensure_future(get(b""))
        await begun.wait()
        await server.stop(WAIT_S)
        await front.stop()
        assert await calling == answer
