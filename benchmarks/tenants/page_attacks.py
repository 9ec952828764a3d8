"""Attacks on what the API serves besides scores: pages, probes, results, files, hints."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from assay.v1 import reward_pb2
from benchmarks.tenants.attacker import Attacker

STRANGER = "GET {} HTTP/1.1\r\nhost: a\r\n\r\n"
PAGES = ("/docs/swagger-ui-bundle.js", "/openapi.json", "/console", "/docs")


def _stranger_requests(*paths: str) -> bytes:
    return "".join(STRANGER.format(path) for path in paths).encode()


async def open_pages(attacker: Attacker) -> None:
    """The pages that need no token, on 64 connections; the answers are read."""
    requests = _stranger_requests(*PAGES)
    await attacker.again(64, lambda: attacker.flood(b"", itertools.repeat(requests)))


async def unread_pages(attacker: Attacker) -> None:
    """The largest page on 256 connections, which no one reads."""
    request = _stranger_requests(PAGES[0])
    await attacker.again(256, lambda: attacker.drip(request * 8, b"", 1.0))


async def probes(attacker: Attacker) -> None:
    """Probes of health and readiness without a token, on 64 connections."""
    requests = _stranger_requests("/healthz", "/readyz", "/metrics", "/none") * 2
    await attacker.again(64, lambda: attacker.flood(b"", itertools.repeat(requests)))


async def probe_crowd(attacker: Attacker) -> None:
    """Probes of health and readiness without a token, on as many connections as an address has."""
    requests = _stranger_requests("/healthz", "/readyz") * 2
    await attacker.again(256, lambda: attacker.flood(b"", itertools.repeat(requests)))


async def console_streams(attacker: Attacker) -> None:
    """Streams of the console that no one reads, on 256 connections."""
    head = attacker.head("GET /console/api/stream")
    await attacker.again(256, lambda: attacker.drip(head, b"", 1.0))


async def hints(attacker: Attacker) -> None:
    """Hints of batches to come, 64 at once."""
    task = reward_pb2.Task(task_id="hinted", pipeline="noop")
    registering = reward_pb2.RegisterTaskRequest(task=task)
    await attacker.stub().RegisterTask(registering, metadata=attacker.metadata)

    async def hint() -> None:
        size = attacker.randomness.randint(1, 100_000)
        request = reward_pb2.HintRequest(task_id="hinted", size=size)
        await attacker.stub().Hint(request, metadata=attacker.metadata)

    await attacker.again(64, hint)


def _requests(count: int, of: str = "r") -> list[reward_pb2.RewardRequest]:
    return [
        reward_pb2.RewardRequest(request_id=f"{of}{index}", response=b"x", reference_json=b"{}")
        for index in range(count)
    ]


async def _open(attacker: Attacker, batch_id: str) -> None:
    task = reward_pb2.Task(task_id="pages", pipeline="noop")
    stub = attacker.stub()
    await stub.RegisterTask(reward_pb2.RegisterTaskRequest(task=task), metadata=attacker.metadata)
    opening = reward_pb2.OpenBatchRequest(task_id="pages", batch_id=batch_id)
    await stub.OpenBatch(opening, metadata=attacker.metadata)


async def cancels(attacker: Attacker) -> None:
    """Batches of 4,000 requests that are cancelled as soon as they are accepted, whole or one
    request at a time."""
    count = itertools.count()

    async def one() -> None:
        batch = f"cancelled-{next(count)}"
        await _open(attacker, batch)
        requests = _requests(1_000)
        for part in "abcd":
            for request in requests:
                request.request_id = part + request.request_id[1:]
            message = reward_pb2.SubmitRequest(batch_id=batch, requests=requests)
            await attacker.stub().Submit(message, metadata=attacker.metadata)
        names = [request.request_id for request in requests]
        few = reward_pb2.CancelRequestsRequest(batch_id=batch, request_ids=names)
        await attacker.stub().CancelRequests(few, metadata=attacker.metadata)
        whole = reward_pb2.CancelBatchRequest(batch_id=batch)
        await attacker.stub().CancelBatch(whole, metadata=attacker.metadata)

    await attacker.again(4, one)


async def result_pages(attacker: Attacker) -> None:
    """The results of a batch of 10,000, read again and again, by gRPC and HTTP."""
    await _open(attacker, "read")
    for part in range(10):
        message = reward_pb2.SubmitRequest(batch_id="read", requests=_requests(1_000, f"{part}-"))
        await attacker.stub().Submit(message, metadata=attacker.metadata)
    await attacker.stub().SealBatch(
        reward_pb2.SealBatchRequest(batch_id="read"), metadata=attacker.metadata
    )
    request = reward_pb2.StreamResultsRequest(batch_id="read")

    async def stream() -> None:
        async for _ in attacker.stub().StreamResults(request, metadata=attacker.metadata):
            pass

    page = attacker.head("GET /v1/batches/read/results")
    await asyncio.gather(
        attacker.again(16, stream),
        attacker.again(16, lambda: attacker.flood(b"", itertools.repeat(page))),
    )


async def wide_scores(attacker: Attacker) -> None:
    """`Score` calls of 1,000 requests that succeed, 16 at once."""
    request = reward_pb2.ScoreRequest(pipeline="noop", requests=_requests(1_000))
    await attacker.again(16, lambda: attacker.stub().Score(request, metadata=attacker.metadata))


async def artifacts(attacker: Attacker) -> None:
    """Files of 4 MB, each with a content of its own, 8 at once."""

    async def parts() -> AsyncIterator[bytes]:
        data = attacker.randomness.randbytes(1_000_000)
        for _ in range(4):
            yield reward_pb2.MessagePart(data=data).SerializeToString()

    async def put() -> None:
        call: Any = attacker.randomness.choice(attacker.channels).stream_unary(
            "/assay.v1.RewardService/PutArtifact"
        )
        await call(parts(), metadata=attacker.metadata, timeout=60)

    await attacker.again(8, put)


PAGE_ATTACKS: tuple[Callable[[Attacker], Awaitable[None]], ...] = (
    open_pages,
    unread_pages,
    probes,
    probe_crowd,
    console_streams,
    hints,
    cancels,
    result_pages,
    wide_scores,
    artifacts,
)
