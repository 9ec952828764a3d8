"""A platform for one job alone serves the stages of that job, and no others."""

import json
import os
from pathlib import Path

import pytest
from benchmarks.harness.platform_run import FREE_PORTS, processes_below

from assay.cli.platform.attached import service
from assay.client import Client, Request
from assay.edge.clock import Clock

STAGES = "ASSAY_WORKER__STAGES"
SETTINGS = (STAGES, "ASSAY_DATA_DIR", "ASSAY_PLANNER__ENABLED", "ASSAY_WORKER__PIPELINES_AWAKE")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As before the test, afterwards."""
    for name in SETTINGS:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    for name, port in FREE_PORTS.items():
        monkeypatch.setenv(name, port)
    # no platform runs on the default directory
    monkeypatch.setenv("ASSAY_DATA_DIR", str(tmp_path))


async def test_a_job_without_programs_starts_no_sandbox() -> None:
    request = Request(request_id="a", response="Paris", reference={"answers": ["Paris"]})
    others = processes_below(os.getpid())
    async with (
        service("", None, Clock(), pipelines=["exact"]) as address,
        Client(address) as client,
    ):
        assert json.loads(os.environ[STAGES]) == ["match"]
        assert (await client.score([request], pipeline="exact")).rewards == [1.0]
        below = processes_below(os.getpid())
        started = [command for pid, command in below.items() if pid not in others]
        assert any("assay.worker" in command for command in started)
        assert not any("zygote" in command for command in started)


@pytest.mark.parametrize("why", ["it is for a named directory", "the operator names stages"])
async def test_other_platforms_keep_the_stages_of_their_settings(
    why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    named = tmp_path / "named" if why == "it is for a named directory" else None
    if named is None:
        monkeypatch.setenv(STAGES, '["match", "noop"]')
    async with service("", named, Clock(), pipelines=["exact"]):
        assert os.environ.get(STAGES) == (None if named else '["match", "noop"]')


async def test_a_pipeline_that_is_not_known_restricts_nothing() -> None:
    async with service("", None, Clock(), pipelines=["exact", "exatc"]):
        assert json.loads(os.environ[STAGES]) == []
