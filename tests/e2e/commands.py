"""`assay` as a user runs it: a process with a data directory of its own, on free ports."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ASSAY = [sys.executable, "-P", "-m", "assay.cli"]
"""As the installed command starts: without the working directory among the places of modules."""
HANGS_S = 300
"""Against hanging, not against slowness."""
FREE_PORTS = {
    "ASSAY_REWARD__GRPC_PORT": "0",
    "ASSAY_REWARD__HTTP_PORT": "0",
    "ASSAY_WORKER__CONTROL_PORT": "0",
    "ASSAY_PLANNER__GRPC_PORT": "0",
}


def environment(data_dir: Path) -> dict[str, str]:
    return {**os.environ, **FREE_PORTS, "ASSAY_DATA_DIR": str(data_dir), "ASSAY_WORKER__SLOTS": "1"}


def assay(
    *arguments: str | Path, data_dir: Path, cwd: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ASSAY, *map(str, arguments)],
        env={**environment(data_dir), **variables},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )


@asynccontextmanager
async def platform_up(
    data_dir: Path, *flags: str, **variables: str
) -> AsyncIterator[dict[str, Any]]:
    process = await asyncio.create_subprocess_exec(
        *ASSAY,
        "up",
        "--plain",
        *flags,
        env={**environment(data_dir), **variables},
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(HANGS_S):
            assert b"gRPC" in await process.stdout.readline()
        yield json.loads((data_dir / "run" / "reward.json").read_text())
    finally:
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(HANGS_S):
            await process.communicate()
    assert process.returncode == 0
