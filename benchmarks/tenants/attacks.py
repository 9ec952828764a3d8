"""Attacks of `benchmarks.tenants.interference`; each runs until it is cancelled."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import grpc
import httpx

from assay.v1 import reward_pb2
from benchmarks.tenants.attacker import Attacker
from benchmarks.tenants.page_attacks import PAGE_ATTACKS
from benchmarks.tenants.transport_attacks import TRANSPORT_ATTACKS

MIB = 1024**2
BOMB_BYTES = 12 * 1000**2


# -- the attacks -----------------------------------------------------------------------------------
def bombs(size: int) -> Sequence[bytes]:
    """References that cost much more to read than to send."""
    return [
        b'{"answers":[' + b"[]," * (size // 3) + b"[]]}",
        b'{"answers":[' + b"1," * (size // 2) + b"1]}",
        b'{"answers":[' + b"1" * size + b"]}",
        b"{" + b",".join(b'"%d":1' % i for i in range(size // 11)) + b"}",
        b'{"answers":["' + b"\\u00e9" * (size // 6) + b'"]}',
        b'{"x":' + b"[" * (size // 2) + b"]" * (size // 2) + b"}",
        b'{"answers":[' + b'{"a":{}},' * (size // 9) + b"{}]}",
        b'{"answers":["x' + b"\xf0\x9f\x98\x80" * (size // 4) + b'"]}',
    ]


def _bomb_message(reference: bytes) -> bytes:
    request = reward_pb2.RewardRequest(request_id="r", response=b"x", reference_json=reference)
    return reward_pb2.ScoreRequest(pipeline="exact", requests=[request]).SerializeToString()


def _bomb_messages(size: int) -> Sequence[bytes]:
    """A message per bomb, and one that is nothing but empty requests."""
    return [*map(_bomb_message, bombs(size)), b"\x22\x00" * (size // 2)]


def _raw_score(
    attacker: Attacker, body: bytes, compression: grpc.Compression | None = None
) -> Awaitable[Any]:
    call: Any = attacker.randomness.choice(attacker.channels).unary_unary(
        "/assay.v1.RewardService/Score"
    )
    sent: Awaitable[Any] = call(
        body, metadata=attacker.metadata, timeout=60, compression=compression
    )
    return sent


async def nothing(attacker: Attacker) -> None:
    """The control: how much the machine itself varies between the two measurements."""
    await asyncio.Event().wait()


async def spinning(_attacker: Attacker) -> None:
    """Only takes CPU time, as much as it gets: what an attack costs as mere competition."""
    while True:
        for _ in range(10_000):
            pass
        await asyncio.sleep(0)


async def json_bombs_grpc(attacker: Attacker) -> None:
    """References of 12 MB, and 4 million empty requests in one message."""
    messages = _bomb_messages(BOMB_BYTES)
    await attacker.again(8, lambda: _raw_score(attacker, attacker.randomness.choice(messages)))


async def small_bombs_grpc(attacker: Attacker) -> None:
    """The same, below the size from which messages are parsed in a separate process."""
    messages = _bomb_messages(60_000)
    await attacker.again(8, lambda: _raw_score(attacker, attacker.randomness.choice(messages)))


async def json_bombs_http(attacker: Attacker) -> None:
    """Bodies of 12 MB."""
    head = b'{"pipeline":"exact","requests":[{"request_id":"r","response":"x","reference":'
    many = b'{"pipeline":"exact","requests":[' + b"{}," * (BOMB_BYTES // 3) + b"{}]}"
    whole = [*(head + bomb + b"}]}" for bomb in bombs(BOMB_BYTES)), many]
    async with httpx.AsyncClient(base_url=attacker.http_address, timeout=60) as http:
        await attacker.again(
            8,
            lambda: http.post(
                "/v1/score",
                content=attacker.randomness.choice(whole),
                headers=attacker.headers,
            ),
        )


async def compressed_bombs(attacker: Attacker) -> None:
    """Messages of 128 MiB that compression makes small."""
    body = b"\x22\x00" * (64 * MIB)
    kinds = itertools.cycle((grpc.Compression.Gzip, grpc.Compression.Deflate))
    await attacker.again(1, lambda: _raw_score(attacker, body, compression=next(kinds)))


async def big_messages(attacker: Attacker) -> None:
    """Valid `Score` calls of 12 MB."""
    requests = [
        reward_pb2.RewardRequest(request_id=f"r{i}", response=b"x" * 3_000, reference_json=b"{}")
        for i in range(4_000)
    ]
    body = reward_pb2.ScoreRequest(pipeline="noop", requests=requests).SerializeToString()
    await attacker.again(8, lambda: _raw_score(attacker, body))


async def part_bombs(attacker: Attacker) -> None:
    """The references of 12 MB, in parts of 1 MiB."""
    messages = _bomb_messages(BOMB_BYTES)
    await attacker.again(
        8, lambda: _raw_parts(attacker, _cut(attacker.randomness.choice(messages)))
    )


async def held_parts(attacker: Attacker) -> None:
    """1,000 `ScoreParts` calls that send half of their message and wait."""

    async def half() -> AsyncIterator[bytes]:
        yield _part(b"x" * 500_000)
        await asyncio.Event().wait()

    await attacker.again(1_000, lambda: _raw_parts(attacker, half()))


async def tiny_parts(attacker: Attacker) -> None:
    """Parts of one byte that never end."""
    await attacker.again(8, lambda: _raw_parts(attacker, _endless(b"x")))


async def endless_parts(attacker: Attacker) -> None:
    """Parts of 1 MiB that never end."""
    await attacker.again(8, lambda: _raw_parts(attacker, _endless(b"x" * MIB)))


async def _endless(data: bytes) -> AsyncIterator[bytes]:
    while True:
        yield _part(data)


async def _cut(body: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(body), MIB):
        yield _part(body[at : at + MIB])


def _part(data: bytes) -> bytes:
    return reward_pb2.MessagePart(data=data).SerializeToString()


def _raw_parts(attacker: Attacker, parts: AsyncIterator[bytes]) -> Awaitable[Any]:
    call: Any = attacker.randomness.choice(attacker.channels).stream_unary(
        "/assay.v1.RewardService/ScoreParts"
    )
    sent: Awaitable[Any] = call(parts, metadata=attacker.metadata, timeout=60)
    return sent


async def held_streams(attacker: Attacker) -> None:
    """3,000 streams of a batch that never ends."""
    await _open_batch(attacker, "held")
    request = reward_pb2.StreamResultsRequest(batch_id="held")

    async def hold() -> None:
        stream = attacker.stub().StreamResults(request, metadata=attacker.metadata)
        async for _ in stream:
            pass

    await attacker.again(3_000, hold)


async def held_uploads(attacker: Attacker) -> None:
    """1,000 `SubmitStream` calls that send nothing."""

    async def nothing() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    async def hold() -> None:
        await attacker.stub().SubmitStream(nothing(), metadata=attacker.metadata)

    await attacker.again(1_000, hold)


async def slow_bodies(attacker: Attacker) -> None:
    """1,500 HTTP bodies, a byte per second each."""
    head = attacker.head("POST /v1/score", "content-length: 1000000")
    await attacker.again(1_500, lambda: attacker.drip(head, b"[", 1.0))


async def strangers(attacker: Attacker) -> None:
    """1,500 connections without a token that send headers a byte at a time."""
    begun = b"POST /v1/score HTTP/1.1\r\n"
    await attacker.again(1_500, lambda: attacker.drip(begun, b"a", 0.5))


async def idle_connections(attacker: Attacker) -> None:
    """1,500 connections to each port that never make a call."""
    await asyncio.gather(
        attacker.again(1_500, lambda: attacker.drip(b"", b"", 1.0)),
        attacker.again(1_500, lambda: attacker.drip(b"", b"", 1.0, grpc_port=True)),
    )


async def tiny_chunks(attacker: Attacker) -> None:
    """Bodies in chunks of one byte, as fast as they are taken."""
    head = attacker.head("POST /v1/score", "transfer-encoding: chunked")
    await attacker.again(64, lambda: attacker.drip(head, b"1\r\n[\r\n" * 10_000, 0.0))


async def many_headers(attacker: Attacker) -> None:
    """Tens of thousands of headers per request."""
    begun = b"POST /v1/score HTTP/1.1\r\nhost: a\r\n"
    await attacker.again(64, lambda: attacker.drip(begun, b"a:b\r\n" * 10_000, 0.0))


async def pipelined(attacker: Attacker) -> None:
    """Requests that do not wait for the answers of earlier ones, which no one reads."""
    request = attacker.head("GET /v1/pipelines")
    await attacker.again(64, lambda: attacker.drip(b"", request * 1_000, 0.0))


async def upgrades(attacker: Attacker) -> None:
    """WebSocket upgrades, and bodies that wait for `100 Continue` and never come."""
    upgrade = attacker.head("GET /v1/pipelines", "connection: upgrade", "upgrade: websocket")
    expect = attacker.head("POST /v1/score", "content-length: 9", "expect: 100-continue")
    await asyncio.gather(
        attacker.again(64, lambda: attacker.drip(upgrade, b"\x81\x00", 0.1)),
        attacker.again(64, lambda: attacker.drip(expect, b"", 0.1)),
    )


async def unread_streams(attacker: Attacker) -> None:
    """200 HTTP streams of 2,000 results that no one reads."""
    await _open_batch(attacker, "unread")
    requests = [
        reward_pb2.RewardRequest(request_id=str(i), response=b"x", reference_json=b"{}")
        for i in range(2_000)
    ]
    message = reward_pb2.SubmitRequest(batch_id="unread", requests=requests)
    await attacker.stub().Submit(message, metadata=attacker.metadata)
    head = attacker.head("GET /v1/batches/unread/results/stream")
    await attacker.again(200, lambda: attacker.drip(head, b"", 1.0))


async def large_metadata(attacker: Attacker) -> None:
    """Calls with 7 KB of metadata, and with far more than is accepted."""

    async def call() -> None:
        size = attacker.randomness.choice((1_000, 100_000))
        more = tuple((f"x-{index}", "v" * size) for index in range(7))
        request = reward_pb2.ListPipelinesRequest()
        await attacker.stub().ListPipelines(request, metadata=(*attacker.metadata, *more))

    await attacker.again(64, call)


async def tiny_deadlines(attacker: Attacker) -> None:
    """`Score` calls that are over before they can be answered."""
    one = reward_pb2.RewardRequest(request_id="r", response=b"x", reference_json=b"{}")
    request = reward_pb2.ScoreRequest(pipeline="noop", requests=[one])

    async def call() -> None:
        timeout_s = attacker.randomness.choice((0.0, 0.001, 0.01))
        await attacker.stub().Score(request, metadata=attacker.metadata, timeout=timeout_s)

    await attacker.again(64, call)


async def deadline_flood(attacker: Attacker) -> None:
    """Batches of 10,000 requests that are due in a millisecond."""
    await _open_batch(attacker, "first")
    count = iter(range(10**9))

    async def flood() -> None:
        batch = f"due-{next(count)}"
        await _open_batch(attacker, batch, deadline_ms=1)
        for first in range(0, 10_000, 1_000):
            requests = [
                reward_pb2.RewardRequest(
                    request_id=str(first + i), response=b"x", reference_json=b"{}"
                )
                for i in range(1_000)
            ]
            message = reward_pb2.SubmitRequest(batch_id=batch, requests=requests)
            await attacker.stub().Submit(message, metadata=attacker.metadata)

    await attacker.again(2, flood)


async def answered_calls(attacker: Attacker) -> None:
    """Calls that succeed, 512 at once, on four connections."""
    await _open_batch(attacker, "asked")
    request = reward_pb2.GetBatchRequest(batch_id="asked")
    await attacker.again(512, lambda: attacker.stub().GetBatch(request, metadata=attacker.metadata))


async def answered_scores(attacker: Attacker) -> None:
    """`Score` calls of one request that succeed, 256 at once."""
    one = reward_pb2.RewardRequest(request_id="r", response=b"x", reference_json=b"{}")
    request = reward_pb2.ScoreRequest(pipeline="noop", requests=[one])
    await attacker.again(256, lambda: attacker.stub().Score(request, metadata=attacker.metadata))


async def answered_requests(attacker: Attacker) -> None:
    """HTTP requests that succeed, many in a packet, on 64 connections; the answers are read."""
    await _open_batch(attacker, "asked")
    request = attacker.head("GET /v1/batches/asked")
    await attacker.again(64, lambda: attacker.flood(b"", itertools.repeat(request * 7)))


async def task_flood(attacker: Attacker) -> None:
    """A new task per call, and `Score` calls with settings of their own."""
    count = iter(range(10**9))

    async def register() -> None:
        task = reward_pb2.Task(task_id=f"t{next(count)}", pipeline="noop")
        request = reward_pb2.RegisterTaskRequest(task=task)
        await attacker.stub().RegisterTask(request, metadata=attacker.metadata)

    async def score() -> None:
        request = reward_pb2.ScoreRequest(
            pipeline="exact",
            settings_json=json.dumps({"reward_pass": 1.0 + next(count) / 1e6}),
            requests=[
                reward_pb2.RewardRequest(
                    request_id="r", response=b"x", reference_json=b'{"answers":["x"]}'
                )
            ],
        )
        await attacker.stub().Score(request, metadata=attacker.metadata, timeout=5)

    await asyncio.gather(attacker.again(8, register), attacker.again(8, score))


async def _open_batch(attacker: Attacker, batch_id: str, *, deadline_ms: int | None = None) -> None:
    task = reward_pb2.Task(task_id="attack", pipeline="noop")
    stub = attacker.stub()
    await stub.RegisterTask(reward_pb2.RegisterTaskRequest(task=task), metadata=attacker.metadata)
    opening = reward_pb2.OpenBatchRequest(
        task_id="attack", batch_id=batch_id, deadline_ms=deadline_ms
    )
    await stub.OpenBatch(opening, metadata=attacker.metadata)


ATTACKS: dict[str, Callable[[Attacker], Awaitable[None]]] = {
    attack.__name__: attack
    for attack in (
        nothing,
        spinning,
        json_bombs_grpc,
        small_bombs_grpc,
        json_bombs_http,
        compressed_bombs,
        big_messages,
        part_bombs,
        held_parts,
        tiny_parts,
        endless_parts,
        held_streams,
        held_uploads,
        slow_bodies,
        strangers,
        idle_connections,
        tiny_chunks,
        many_headers,
        pipelined,
        upgrades,
        unread_streams,
        *TRANSPORT_ATTACKS,
        *PAGE_ATTACKS,
        large_metadata,
        tiny_deadlines,
        deadline_flood,
        answered_calls,
        answered_scores,
        answered_requests,
        task_flood,
    )
}
