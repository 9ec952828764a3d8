"""Clients of both kinds behind a network that cuts their connections in the middle of anything."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from tests.client.driven import Driven

from assay.client import Backoff, Request, SyncClient
from assay.client.http import AsyncHttpClient, HttpClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.running import RunApi, RunWorker

REQUESTS = 500
CUTS_MAX = 12
BYTES_MAX = {"grpc": 20_000, "http": 240_000, "http of an event loop": 240_000}
"""After which a connection is cut at the latest: less than the results have over each."""
PATIENT = Backoff(first_s=0.01, longest_s=0.05, total_s=120.0)


class Cutting:
    """Between a client and a service; ends its first connections after random numbers of bytes."""

    def __init__(self, host: str, port: int, *, seed: int, most: int) -> None:
        self._target = (host, port)
        self._chance = random.Random(seed)
        self._most = most
        self._left = CUTS_MAX
        self.cut = 0
        self.serving: set[asyncio.Task[None]] = set()

    def accept(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        """Begin with a connection."""
        task = asyncio.ensure_future(self.serve(near, back))
        self.serving.add(task)

    async def serve(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        most = None
        if self._left > 0:
            self._left -= 1
            most = self._chance.randrange(self._most)
        far, forth = await asyncio.open_connection(*self._target)
        ways = [
            asyncio.ensure_future(self._pass(near, forth, None)),
            asyncio.ensure_future(self._pass(far, back, most)),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await asyncio.wait(ways)
        for writer in (back, forth):
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()

    async def _pass(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, most: int | None
    ) -> None:
        passed = 0
        with suppress(OSError):
            while some := await source.read(4_096):
                passed += len(some)
                if most is not None and passed > most:
                    self.cut += 1
                    return
                sink.write(some)
                await sink.drain()


@asynccontextmanager
async def cutting(address: str, kind: str, seed: int) -> AsyncIterator[tuple[Cutting, int]]:
    """A proxy of a service, and its port."""
    parts = urlsplit(address if "://" in address else f"http://{address}")
    proxy = Cutting(str(parts.hostname), int(parts.port or 0), seed=seed, most=BYTES_MAX[kind])
    async with await asyncio.start_server(proxy.accept, "127.0.0.1", 0) as server:
        yield proxy, server.sockets[0].getsockname()[1]
        async with asyncio.timeout(60):
            await asyncio.wait(proxy.serving)  # the client has closed all connections


@pytest.mark.parametrize("kind", BYTES_MAX)
async def test_every_result_arrives_once_and_in_order_through_a_network_that_cuts(
    run_api: RunApi, run_worker: RunWorker, kind: str
) -> None:
    api = await run_api()
    await run_worker()
    address = api.addresses.grpc if kind == "grpc" else api.addresses.http

    def use(port: int) -> list[str]:
        url = f"http://127.0.0.1:{port}"
        if kind == "grpc":
            client: Any = SyncClient(f"127.0.0.1:{port}", backoff=PATIENT)
        elif kind == "http":
            client = HttpClient(url, backoff=PATIENT)
        else:
            client = Driven(lambda: AsyncHttpClient(url, backoff=PATIENT))
        with client:
            task = client.register_task("t", pipeline="noop")
            batch = client.open_batch(task, size=REQUESTS, batch_id="b")
            for first in range(0, REQUESTS, 100):
                batch.submit(
                    Request(request_id=f"r{i}", group_id=f"g{i // 4}", response="x", reference={})
                    for i in range(first, first + 100)
                )
            found = [str(result.request_id) for result in batch.results()]
            status = batch.status()
            assert (status.submitted, status.ended) == (REQUESTS, REQUESTS)
            return found

    for seed in range(2):
        async with cutting(address, kind, seed) as (proxy, port):
            found = await asyncio.to_thread(use, port)
        assert sorted(found) == sorted(f"r{i}" for i in range(REQUESTS))
        assert proxy.cut > 0, "nothing was cut"
