"""The port of probes: who asks there shares no limit with callers, and learns one word."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx
import pytest

from assay.config.settings import StoreSettings
from assay.store.valkey import ValkeyStore

if TYPE_CHECKING:
    from pathlib import Path

    from tests.running import RunApi

HELD = 3


async def test_probes_are_answered_while_callers_hold_all_connections_of_their_address(
    run_api: RunApi,
) -> None:
    api = await run_api(probe_port=0, connections_max=HELD, connections_per_peer_max=HELD)
    where = httpx.URL(api.addresses.http)
    held = [await asyncio.open_connection(where.host, where.port) for _ in range(HELD)]
    async with asyncio.timeout(60):
        while True:  # each is counted in its turn
            reader, writer = await asyncio.open_connection(where.host, where.port)
            writer.write(b"GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
            try:
                if not await reader.read():
                    break
            except ConnectionError:
                break
            finally:
                writer.close()
    async with httpx.AsyncClient(base_url=api.addresses.probes, timeout=60) as probes:
        assert (await probes.get("/healthz")).status_code == 200
        assert (await probes.get("/readyz")).status_code == 200
        for path in ("/metrics", "/v1/pipelines", "/docs", "/console"):
            assert (await probes.get(path)).status_code == 404
    for _, held_writer in held:
        held_writer.close()


async def test_it_says_why_the_service_is_not_ready(run_api: RunApi, tmp_path: Path) -> None:
    url = f"unix://{tmp_path}/nowhere.sock"
    api = await run_api(store=ValkeyStore(StoreSettings(url=url), url=url), probe_port=0)
    async with httpx.AsyncClient(base_url=api.addresses.probes, timeout=60) as probes:
        answer = await probes.get("/readyz")
        assert answer.status_code == 503
        assert "nowhere.sock" in answer.text
        assert (await probes.get("/healthz")).status_code == 200


async def test_there_is_none_unless_it_is_set_and_a_taken_port_is_named(run_api: RunApi) -> None:
    first = await run_api()
    assert first.addresses.probes == ""
    assert "probes" not in first.addresses.as_mapping()
    taken = httpx.URL(first.addresses.http).port
    with pytest.raises(OSError, match=r"reward\.probe_port: cannot listen"):
        await run_api(probe_port=taken)
