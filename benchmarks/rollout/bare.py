"""What grpcio alone reaches on this machine: a stream of bytes to a process that drops them.

It is the floor under a push of weights over gRPC: the same channel, options, event loops and sizes
of messages, without protobuf, checksums, packing, limits or tenants.

    python -m benchmarks.rollout.bare        # the receiving process; prints its port
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import grpc

from assay.edge.grpc_edge import server_options
from assay.rollout.service.server import FRAME_BYTES_MAX
from benchmarks.rollout.process import process_cpu_s

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

METHOD: Final = "/bare.Bare/Push"
MESSAGE_BYTES: Final = 4 * 1024**2
"""As large as the pieces of a push."""


async def _dropped(bodies: AsyncIterator[bytes], _context: object) -> bytes:
    size = 0
    async for body in bodies:
        size += len(body)
    return str(size).encode()


class _Handlers(grpc.GenericRpcHandler):
    def service(self, _details: object) -> Any:  # noqa: ANN401 grpc's handlers have no type
        return grpc.stream_unary_rpc_method_handler(_dropped)


async def receive() -> None:
    """Serve until this process is ended; print the port first."""
    options = server_options(4 * MESSAGE_BYTES, frame_bytes_max=FRAME_BYTES_MAX)
    server = grpc.aio.server(options=options)
    server.add_generic_rpc_handlers((_Handlers(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


@dataclass(slots=True)
class Bare:
    """A receiving process, and what was measured."""

    pid: int
    push: Any
    mb_s: list[float] = field(default_factory=list)
    receiver_ms: list[float] = field(default_factory=list)
    """CPU per MB."""
    sender_ms: list[float] = field(default_factory=list)

    async def measure(self, megabytes: float) -> None:
        """Send this much once."""
        body, left = bytes(MESSAGE_BYTES), round(megabytes * 1e6)

        async def bodies() -> AsyncIterator[bytes]:
            for _ in range(left // len(body)):
                yield body
            yield body[: left % len(body)]

        receiver_s, sender_s = process_cpu_s(self.pid), time.process_time()
        began_s = time.perf_counter()
        await self.push(bodies())
        took_s = time.perf_counter() - began_s
        self.mb_s.append(megabytes / took_s)
        self.receiver_ms.append(1e3 * (process_cpu_s(self.pid) - receiver_s) / megabytes)
        self.sender_ms.append(1e3 * (time.process_time() - sender_s) / megabytes)


@asynccontextmanager
async def bare() -> AsyncIterator[Bare]:
    """A receiving process, until the block ends."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.rollout.bare",
        stdout=asyncio.subprocess.PIPE,
        env=dict(os.environ),
    )
    try:
        port = int(await process.stdout.readline() if process.stdout else b"")
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield Bare(process.pid, channel.stream_unary(METHOD))
    finally:
        process.kill()
        await process.wait()


if __name__ == "__main__":
    asyncio.run(receive())
