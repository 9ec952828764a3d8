"""Tenants and outages: who may call, what it may hold, and what a dead store is to callers."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
from typing import TYPE_CHECKING, Any

import grpc
import httpx
from tests.reward.faces import GrpcFace, HttpFace, Item, refused

from assay.config.settings import StoreSettings
from assay.core.errors import DependencyDown, NotFound, Saturated, Unauthenticated
from assay.store.embedded import EmbeddedValkey
from assay.store.valkey import ValkeyStore

if TYPE_CHECKING:
    from pathlib import Path

    from tests.reward.faces import Face
    from tests.running import RunApi


# -- tenants -------------------------------------------------------------------------------------
def _tenant(token: str, **quota: int) -> dict[str, Any]:
    return {"token_sha256": hashlib.sha256(token.encode()).hexdigest(), **quota}


def _bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def test_over_quota_and_strangers_over_http(run_api: RunApi) -> None:
    api = await run_api(
        tenants={"red": _tenant("r3d", requests_open_max=3), "blue": _tenant("blu")}
    )
    base = api.addresses.http
    async with httpx.AsyncClient(base_url=base, headers=_bearer("r3d")) as http:
        face = HttpFace(http)
        await face.register("task", "exact")
        batch = await face.open("task", batch_id="b")
        assert await face.submit(batch, [Item("a"), Item("b")]) == (2, 0)
        call = face.submit(batch, [Item("c"), Item("d")])
        refusal = await refused(face, call, Saturated)
        assert refusal.retry_after_ms > 0
        assert await face.submit(batch, [Item("c")]) == (1, 0)
    async with httpx.AsyncClient(base_url=base, headers=_bearer("blu")) as http:
        await refused(HttpFace(http), HttpFace(http).state("b"), NotFound, "batch_id")
    async with httpx.AsyncClient(base_url=base) as http:
        await refused(HttpFace(http), HttpFace(http).state("b"), Unauthenticated)
        assert (await http.get("/healthz")).status_code == 200


async def test_a_dead_store_is_said_and_survived(run_api: RunApi, tmp_path: Path) -> None:
    valkey = EmbeddedValkey(tmp_path / "dying")
    await valkey.start()
    keeping = None
    try:
        settings = StoreSettings(url=valkey.url, timeout_s=2.0)
        api = await run_api(store=ValkeyStore(settings, url=valkey.url))
        async with (
            grpc.aio.insecure_channel(api.addresses.grpc) as channel,
            httpx.AsyncClient(base_url=api.addresses.http) as http,
        ):
            faces: tuple[Face, Face] = (GrpcFace(channel), HttpFace(http))
            await faces[0].register("task", "exact")
            batch = await faces[0].open("task", batch_id="batch")
            pid = valkey.pid
            assert pid
            os.kill(pid, signal.SIGKILL)
            for face in faces:
                await refused(face, face.submit(batch, [Item("a")]), DependencyDown)
            assert (await http.get("/readyz")).status_code == 503
            assert (await http.get("/healthz")).status_code == 200
            keeping = asyncio.create_task(valkey.keep_alive())
            await _until_ready(http)
            for face in faces:
                # As a trainer does after a failure: everything again, which is no error.
                await face.register("task", "exact")
                assert await face.open("task", batch_id=batch) == batch
                assert sum(await face.submit(batch, [Item("a")])) == 1
    finally:
        if keeping:
            keeping.cancel()
            await asyncio.wait([keeping])
        await valkey.stop()


async def _until_ready(http: httpx.AsyncClient) -> None:
    async with asyncio.timeout(120):
        while (await http.get("/readyz")).status_code != 200:
            await asyncio.sleep(0.02)
