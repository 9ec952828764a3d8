"""Agents of others, unchanged, as processes that know two environment variables."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.rollout.gateway import models

from assay.core.codec import pack_body
from assay.core.outcome import Outcome
from assay.core.records import EndRequest, Finish
from assay.core.verdict import Evidence, ResourceUse

if TYPE_CHECKING:
    from tests.rollout.gateway.gateways import RunGateway
    from tests.running import Running, RunWorker

    from assay.core.records import Claim

AGENTS = Path(__file__).resolve().parents[3] / "examples" / "agents"
SCRIPT = {models.REPLY: ["<tool_call>", models.CALL, "</tool_call>"], models.FINAL: ["5."]}
S_MAX = 120.0


def needs(package: str) -> pytest.MarkDecorator:
    missing = importlib.util.find_spec(package) is None
    return pytest.mark.skipif(missing, reason=f"the package {package} is not installed")


def judge(claim: Claim) -> Finish:
    """Takes the answer of the script."""
    body = pack_body(Evidence(verdict=claim.batch_id), ResourceUse())
    reward = float(claim.response.decode().strip() == "5.")
    return EndRequest(outcome=Outcome.SCORED, reward=reward, body=body)


async def printed(*command: str) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENAI_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        env=environment,
        cwd=AGENTS,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(S_MAX):
        out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return out.decode()


@pytest.mark.parametrize(
    "agent",
    [
        pytest.param("calculator.py", marks=needs("openai")),
        pytest.param("calculator_sdk.py", marks=needs("agents")),
    ],
)
async def test_attempts_of_an_agent_are_trajectories_with_rewards(
    run_gateway: RunGateway, api: Running, run_worker: RunWorker, agent: str
) -> None:
    await run_worker(judge, stage="math.verify")
    model = models.scripted(SCRIPT, models.tokenizer())
    own = await run_gateway(model, reward_url=api.addresses.grpc, tokens_max=4096)
    collect = ["collect.py", "--url", own.url, "--k", "3", "--temperature", "0"]
    lines = (await printed(*collect, "--", sys.executable, agent)).splitlines()
    assert len(lines) == 3, "one trajectory per attempt: its turns were joined"
    for line in lines:
        assert line.startswith("SCORED reward 1.0: 2 turns, 6 of "), line
    assert len(own.sessions) == 0
