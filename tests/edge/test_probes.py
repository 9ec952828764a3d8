"""The port of probes, as its service stops."""

import asyncio

import pytest

from assay.edge import probes as probes_module
from assay.edge.probes import Probes


async def test_a_stop_ends_the_connections_that_are_open_and_writes_no_error_to_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probes_module, "TIMEOUT_S", 3_600.0)
    probes = Probes(why_not_ready=lambda: "")
    port = await probes.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /healthz")
    await writer.drain()
    await asyncio.sleep(0.01)
    await probes.stop()
    async with asyncio.timeout(20):
        assert await reader.read() == b""
    writer.close()
