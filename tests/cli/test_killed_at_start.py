"""A part that is killed while it starts, at whatever moment, is started again and serves."""

import asyncio
import os
import random
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from assay.cli.platform.local import LocalPlatform
from assay.client import Client, Request
from assay.config.ready_files import Part, ready_file
from assay.config.settings import load_settings
from assay.edge.clock import Clock

START_S = 3.0
"""About how long a start takes."""
PATIENCE_S = 120.0
PARTS = (Part.REWARD, Part.WORKER, Part.PLANNER)
"""Of a platform that serves no model."""


async def kill_once(platform: LocalPlatform, part: Part, moment_s: float) -> None:
    """Kill -9 the part's first process, `moment_s` after it came."""
    children = platform._platform._children
    while not (found := [child for child in children if child.name == part and child.pid]):
        await asyncio.sleep(0.001)
    pid = found[0].pid
    assert pid is not None
    await asyncio.sleep(moment_s)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


async def until_ready(data_dir: Path) -> None:
    """All parts have said where they listen."""
    while not all(ready_file(data_dir, part).exists() for part in PARTS):
        await asyncio.sleep(0.05)


async def test_parts_killed_at_random_moments_of_their_start_come_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("REWARD__GRPC", "REWARD__HTTP", "WORKER__CONTROL", "PLANNER__GRPC")
    for name in names:
        monkeypatch.setenv(f"ASSAY_{name}_PORT", "0")
    monkeypatch.setenv("ASSAY_WORKER__STAGES", '["noop"]')
    monkeypatch.setenv("ASSAY_DATA_DIR", str(tmp_path))
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    moments = random.Random(seed)
    platform = LocalPlatform(load_settings(), clock=Clock())
    killing = [
        asyncio.create_task(kill_once(platform, part, moments.uniform(0.0, START_S)))
        for part in PARTS
    ]
    try:
        async with asyncio.timeout(PATIENCE_S):
            addresses = await platform.start()
            async with platform.kept():
                await asyncio.gather(*killing)
                await until_ready(tmp_path)
                async with Client(addresses.grpc) as client:
                    answer = await client.score(
                        [Request(request_id="r", response="x", reference={})], pipeline="noop"
                    )
                assert [result.reward for result in answer.results] == [1.0]
    finally:
        for task in killing:
            task.cancel()
        await platform.stop()
