"""`python -m assay.rollout` as an operator runs it: ready file, probes, drain, plain errors."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx
import pytest

pytest.importorskip("numpy")

from tests.rollout.checkpoints import write_checkpoint

from assay.client.rollouts import Prompt, RolloutClient, SamplingParams
from assay.edge.lifecycle import EXIT_CONFIGURATION

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

START_S_MAX = 120.0


async def start(
    data_dir: Path, given: Mapping[str, str] | None = None, /, **settings: str
) -> asyncio.subprocess.Process:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("ASSAY_")}
    chosen = {f"ASSAY_ROLLOUT__{name}": value for name, value in settings.items()}
    ports = {f"ASSAY_ROLLOUT__{name}_PORT": "0" for name in ("GRPC", "HTTP", "GATEWAY")}
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "assay.rollout",
        env={**inherited, "ASSAY_DATA_DIR": str(data_dir), **(given or {}), **ports, **chosen},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )


@asynccontextmanager
async def running(
    data_dir: Path, given: Mapping[str, str] | None = None, /, **settings: str
) -> AsyncIterator[dict[str, str]]:
    """Its addresses, from the ready file, until it has drained."""
    process = await start(data_dir, given, **settings)
    ready = data_dir / "run" / "rollout.json"
    try:
        async with asyncio.timeout(START_S_MAX):
            while not ready.exists():
                assert process.returncode is None
                await asyncio.sleep(0.05)
        yield json.loads(ready.read_text())
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(START_S_MAX):
            assert await process.wait() == 0
        assert not ready.exists()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_it_serves_says_where_and_drains(tmp_path: Path) -> None:
    model = write_checkpoint(tmp_path / "some.bin", dim=64, hidden=176, layers=2, positions=128)
    async with running(tmp_path / "data", MODEL=str(model), TOKENS_MAX="64") as where:
        async with httpx.AsyncClient(base_url=where["http"]) as http:
            assert (await http.get("/readyz")).status_code == 200
        async with RolloutClient(where["grpc"]) as client, asyncio.timeout(START_S_MAX):
            session = await client.open_session("s", sampling=SamplingParams(max_tokens=8))
            await session.submit([Prompt(group_id="p", prompt_ids=[1, 2], k=2, seed=1)])
            async for group in session.groups():
                assert [len(t.response_ids) for t in group.trajectories] == [8, 8]
                break
        async with httpx.AsyncClient(base_url=where["http"]) as http:
            assert 'method="SubmitPrompts"' in (await http.get("/metrics")).text


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({}, b"rollout.model"),
        ({"MODEL": "/no/such/model.bin"}, b"/no/such/model.bin"),
        ({"MODEL": "/no/such/model.bin", "HOST": "0.0.0.0"}, b"rollout.host=0.0.0.0"),
    ],
)
async def test_what_keeps_it_from_starting_is_one_line(
    tmp_path: Path, settings: dict[str, str], named: bytes
) -> None:
    process = await start(tmp_path, **settings)
    async with asyncio.timeout(START_S_MAX):
        _, said = await process.communicate()
    assert process.returncode == EXIT_CONFIGURATION
    assert named in said
    assert b"Traceback" not in said
