"""The platform of one machine as a whole: work on it does not outlive it."""

import asyncio
from pathlib import Path

import pytest

from assay.cli.platform.local import LocalPlatform
from assay.config.settings import load_settings
from assay.core.errors import DependencyDown
from assay.core.tools.restarts import RestartPolicy
from assay.edge.clock import Clock


async def test_a_crash_loop_ends_the_block_that_works_on_the_platform_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("REWARD__GRPC_PORT", "REWARD__HTTP_PORT", "WORKER__CONTROL_PORT"):
        monkeypatch.setenv(f"ASSAY_{name}", "0")
    monkeypatch.setenv("ASSAY_WORKER__STAGES", '["match"]')
    monkeypatch.setenv("ASSAY_DATA_DIR", str(tmp_path))
    platform = LocalPlatform(load_settings(), clock=Clock())
    await platform.start()
    try:
        parts = platform._platform
        parts._restarts = RestartPolicy(short_lives_max=2, pause_first_s=0.01)
        reward = next(child for child in parts._children if child.name == "reward")
        reward.argv = ["-c", "raise SystemExit('out of luck')"]
        assert reward.process is not None
        reward.process.kill()
        with pytest.raises(DependencyDown, match="out of luck"):
            async with asyncio.timeout(60), platform.kept():
                await asyncio.Event().wait()
    finally:
        await platform.stop()
