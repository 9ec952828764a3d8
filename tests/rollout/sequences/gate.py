"""A relay to the reward service that can be shut."""

from __future__ import annotations

import asyncio
from contextlib import suppress


class Gate:
    """A TCP relay to the reward service that can be shut."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._open: set[asyncio.StreamWriter] = set()
        self.shut = False
        self.was_shut = False

    async def start(self) -> str:
        """Listen; the address."""
        self._server = await asyncio.start_server(self._joined, "127.0.0.1", 0)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def close(self) -> None:
        """Reset all connections; new ones are reset too."""
        self.shut = self.was_shut = True
        for one in self._open:
            one.transport.abort()

    def stop(self) -> None:
        self.close()
        self._server.close()

    async def _joined(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.shut:
            writer.transport.abort()
            return
        there = await asyncio.open_connection("127.0.0.1", self._port)
        self._open |= {writer, there[1]}
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_passing(reader, there[1]))
                both.create_task(_passing(there[0], writer))
        finally:
            self._open -= {writer, there[1]}


async def _passing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()
