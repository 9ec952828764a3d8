"""How a port behind a front ends."""

import asyncio
import time
from typing import Any, cast

import grpc

from assay.config.access import TlsBranch
from assay.edge.connections.port import FrontedPort

HANGS_S = 30.0


async def test_no_descriptor_of_grpcs_is_watched_when_it_closes_them() -> None:
    """The number of a closed one is that of the next socket, which could not be waited for."""
    server = grpc.aio.server()
    port = FrontedPort(time_s=time.monotonic)
    await port.open(server, "127.0.0.1", 0, setting="port", tls=TlsBranch())
    loop = asyncio.get_running_loop()
    added: list[int] = []
    async with asyncio.timeout(HANGS_S):
        while not (added := list(port.connections._listening)):
            await asyncio.sleep(0.01)
    left: list[int] = []

    class Stopping:
        async def stop(self, grace: float) -> None:
            left.extend(one for one in added if loop.remove_reader(one))
            await server.stop(grace)

    await port.stop(cast("Any", Stopping()), 0.0)
    assert left == []
