"""What a hostile tenant does in `benchmarks/tenants.py`; each attack runs until it is cancelled."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

import grpc
import httpx

from assay.v1 import reward_pb2, reward_pb2_grpc

MIB = 1024**2
BOMB_BYTES = 12 * 1000**2
SEED = 1


class Attacker:
    """Target and token of an attack, and counts of its calls."""

    def __init__(self, grpc_address: str, http_address: str, token: str) -> None:
        self.grpc_address = grpc_address
        self.http_address = http_address
        self.metadata = (("authorization", f"Bearer {token}"),)
        self.headers = {
            "authorization": f"Bearer {token}",
            "content-type": "application/json",
        }
        self.seen: Counter[str] = Counter()
        self.channels = [
            grpc.aio.insecure_channel(
                grpc_address,
                options=[
                    ("grpc.use_local_subchannel_pool", 1),
                    ("grpc.max_send_message_length", -1),
                    ("grpc.max_receive_message_length", -1),
                ],
            )
            for _ in range(4)
        ]
        self.randomness = random.Random(SEED)

    def stub(self) -> Any:  # noqa: ANN401 the stubs do not know aio calls
        return reward_pb2_grpc.RewardServiceStub(self.randomness.choice(self.channels))

    async def tried(self, call: Awaitable[Any]) -> bool:
        """Count how a call ended."""
        try:
            answer = await call
        except grpc.aio.AioRpcError as failed:
            self.seen[failed.code().name] += 1
            return False
        except (httpx.HTTPError, OSError, EOFError, RuntimeError) as failed:
            self.seen[type(failed).__name__] += 1
            return False
        self.seen[str(getattr(answer, "status_code", "ok"))] += 1
        return True

    async def again(self, width: int, act: Callable[[], Awaitable[Any]]) -> None:
        """Do `act` forever, `width` at once; a failure is followed by a short pause."""

        async def one() -> None:
            while True:
                if not await self.tried(act()):
                    await asyncio.sleep(0.02)

        await asyncio.gather(*(one() for _ in range(width)))


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


async def json_bombs_grpc(attacker: Attacker) -> None:
    """References of 12 MB, and 4 million empty requests in one message."""
    messages = [*map(_bomb_message, bombs(BOMB_BYTES)), b"\x22\x00" * (BOMB_BYTES // 2)]
    await attacker.again(8, lambda: _raw_score(attacker, attacker.randomness.choice(messages)))


async def small_bombs_grpc(attacker: Attacker) -> None:
    """The same, below the size from which messages are parsed in a separate process."""
    messages = [*map(_bomb_message, bombs(60_000)), b"\x22\x00" * 30_000]
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
    """Messages of 1 GB that gzip compresses to 1 MB."""
    body = b"\x22\x00" * (64 * MIB)
    gzip = grpc.Compression.Gzip
    await attacker.again(1, lambda: _raw_score(attacker, body, compression=gzip))


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
    messages = [*map(_bomb_message, bombs(BOMB_BYTES)), b"\x22\x00" * (BOMB_BYTES // 2)]
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
    where = urlsplit(attacker.http_address)

    async def drip() -> None:
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        try:
            head = "".join(f"{name}: {value}\r\n" for name, value in attacker.headers.items())
            head += "host: a\r\ncontent-length: 1000000\r\n\r\n"
            writer.write(f"POST /v1/score HTTP/1.1\r\n{head}".encode())
            while not reader.at_eof():
                writer.write(b"[")
                await writer.drain()
                await asyncio.sleep(1.0)
        finally:
            writer.close()

    await attacker.again(1_500, drip)


async def strangers(attacker: Attacker) -> None:
    """1,500 connections without a token that send headers a byte at a time."""
    where = urlsplit(attacker.http_address)

    async def drip() -> None:
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        try:
            writer.write(b"POST /v1/score HTTP/1.1\r\n")
            while not reader.at_eof():
                writer.write(b"a")
                await writer.drain()
                await asyncio.sleep(0.5)
        finally:
            writer.close()

    await attacker.again(1_500, drip)


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
        deadline_flood,
        task_flood,
    )
}
