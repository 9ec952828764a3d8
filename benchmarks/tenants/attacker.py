"""The attacker of `benchmarks.tenants.interference`: its target, its token, and its counts."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import grpc
import httpx

from assay.v1 import reward_pb2_grpc

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
        self.sent_bytes = 0

    def stub(self) -> Any:  # noqa: ANN401 the stubs do not know aio calls
        return reward_pb2_grpc.RewardServiceStub(self.randomness.choice(self.channels))

    def head(self, line: str, *more: str) -> bytes:
        """The head of an HTTP request."""
        fields = [f"{name}: {value}" for name, value in self.headers.items()]
        return "\r\n".join([f"{line} HTTP/1.1", "host: a", *fields, *more, "", ""]).encode()

    @asynccontextmanager
    async def connection(
        self, *, grpc_port: bool = False
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A connection of its own."""
        where = urlsplit(f"//{self.grpc_address}" if grpc_port else self.http_address)
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        self.seen["connections"] += 1
        try:
            yield reader, writer
        finally:
            writer.close()

    async def drip(
        self, begun: bytes, piece: bytes, pause_s: float, *, grpc_port: bool = False
    ) -> None:
        """Send `begun`, then `piece` after `piece`, until the connection is closed."""
        async with self.connection(grpc_port=grpc_port) as (reader, writer):
            writer.write(begun)
            while not (reader.at_eof() or writer.is_closing()):
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(pause_s)

    async def flood(
        self, begun: bytes, pieces: Iterator[bytes], *, grpc_port: bool = False
    ) -> None:
        """Send `begun`, then each piece as fast as it is taken, until the connection is closed.

        What the server sends is read away, so that it is never the one that waits.
        """
        async with self.connection(grpc_port=grpc_port) as (reader, writer):

            async def read_away() -> None:
                while await reader.read(2**16):
                    pass

            writer.write(begun)
            reading = asyncio.create_task(read_away())
            try:
                for piece in pieces:
                    if reading.done() or writer.is_closing():
                        return
                    writer.write(piece)
                    self.sent_bytes += len(piece)
                    self.seen["sent MB"] = self.sent_bytes >> 20
                    await writer.drain()
                    await asyncio.sleep(0)
                await reading
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)

    async def tried(self, call: Awaitable[Any]) -> bool:
        """Count a call, and how it ended."""
        self.seen["begun"] += 1
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
