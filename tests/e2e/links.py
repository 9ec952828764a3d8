"""TCP links between parts of the platform that can be partitioned and slowed down.

A link is a relay in this process: what one part calls in place of the other. `silent` passes
nothing and says nothing, as a network that loses all packets; `reset` breaks all connections and
refuses new ones; `slow` delays each piece and bounds the bytes per second. Each ends by itself.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

TROUBLES: Final = ("silent", "reset", "slow")
DELAY_S: Final = 0.15
BYTES_PER_S: Final = 256 * 1024
PIECE: Final = 64 * 1024


@dataclass(slots=True)
class Link:
    """From those who call `address` to `target`, `HOST:PORT` or the path of a socket."""

    name: str
    target: str
    address: str = ""
    is_slow: bool = False
    is_refusing: bool = False
    passed: int = 0
    """Pieces so far."""
    _passing: asyncio.Event = field(default_factory=asyncio.Event)
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    async def trouble(self, kind: str, seconds: float) -> None:
        """Have one of `TROUBLES` for a while."""
        self.is_slow, self.is_refusing = kind == "slow", kind == "reset"
        if kind == "silent":
            self._passing.clear()
        if kind == "reset":
            self.drop()
        try:
            await asyncio.sleep(seconds)
        finally:
            self.is_slow = self.is_refusing = False
            self._passing.set()

    def drop(self) -> None:
        """Break all connections."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            await self._passing.wait()
            if self.is_refusing:
                return
            with contextlib.suppress(OSError):  # the part behind is dead, or was killed
                there, back = await self._connected()
                self._writers.add(back)
                try:
                    await asyncio.gather(self._pass(reader, back), self._pass(there, writer))
                finally:
                    self._writers.discard(back)
                    back.transport.abort()
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.target.startswith("/"):
            return await asyncio.open_unix_connection(self.target)
        host, _, port = self.target.rpartition(":")
        return await asyncio.open_connection(host, int(port))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(PIECE):
            await self._passing.wait()
            if self.is_slow:
                await asyncio.sleep(DELAY_S + len(piece) / BYTES_PER_S)
            writer.write(piece)
            await writer.drain()
            self.passed += 1
        raise ConnectionResetError  # one side is closed: so is the other


@asynccontextmanager
async def linked(name: str, target: str, *, listens: str = "127.0.0.1") -> AsyncIterator[Link]:
    """Relay until the block ends."""
    link = Link(name, target)
    link._passing.set()
    server = await asyncio.start_server(link.serve, listens, 0)
    link.address = f"{listens}:{server.sockets[0].getsockname()[1]}"
    try:
        yield link
    finally:
        server.close()
        link._passing.set()
        link.drop()
