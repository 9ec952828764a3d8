"""The trainers themselves, with Assay's adapters and a platform that fails now and then.

`TRAINERS_PYTHON` names the interpreter of an environment with the trainers, what they need (builds
for the CPU suffice) and `assay`; without it, tests of trainers that are not installed are skipped.
"""

import asyncio
import json
import os
import sys
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.integrations.stand_in import ADVANTAGES, BASELINE, FAILS, RIGHT, WRONG, Judge

from assay.core.codec import pack_body
from assay.core.outcome import Outcome
from assay.core.records import Claim, EndRequest, Finish
from assay.core.verdict import Evidence, ResourceUse

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
TRAINERS_PYTHON = os.environ.get("TRAINERS_PYTHON", sys.executable)


async def run(package: str, url: str, *arguments: str | Path) -> Any:
    """Run a program of this folder in the environment with the trainers; its last line as JSON."""

    async def python(*words: str | Path) -> tuple[int | None, str]:
        process = await asyncio.create_subprocess_exec(
            TRAINERS_PYTHON,
            *words,
            env={**os.environ, "ASSAY_URL": url},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        return process.returncode, output.decode()

    find = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
    code, _ = await python("-c", find)
    if code:
        pytest.skip(f"{TRAINERS_PYTHON} has no {package}")
    code, output = await python(HERE / f"in_{package}.py", *arguments)
    assert code == 0, output
    return json.loads(output.strip().splitlines()[-1])


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_five_steps_of_trl_with_failures_of_the_platform(
    api: Any, run_worker: Any, mode: str
) -> None:
    number = count()

    def judge(_claim: Claim) -> Finish:
        """One of four is not judged; the others alternate between right and wrong."""
        turn = next(number)
        outcome = Outcome.INFRA_FAILED if turn % 4 == 1 else Outcome.SCORED
        reward = None if turn % 4 == 1 else float(turn % 4 == 0)
        return EndRequest(outcome=outcome, reward=reward, body=pack_body(Evidence(), ResourceUse()))

    await run_worker(judge, stage="extract")
    found = await run("trl", api.addresses.grpc, mode)
    assert len(found["rewards"]) == 5
    for rewards, advantages in zip(found["rewards"], found["advantages"], strict=True):
        assert sorted(rewards, key=str) == [0.0, 0.0, 1.0, None]
        for reward, advantage in zip(rewards, advantages, strict=True):
            fair = {None: 0.0, 1.0: 2 / 3, 0.0: -1 / 3}[reward]
            assert advantage == pytest.approx(fair, abs=1e-6)
    assert [one for one in found["shares"] if one is not None] == [pytest.approx(0.25)] * 5


async def test_verls_manager_calls_the_function_and_its_baseline_is_unbiased(
    api: Any, run_worker: Any
) -> None:
    await run_worker(Judge(), stage="extract")
    found = await run("verl", api.addresses.grpc, EXAMPLES / "verl_reward.py", *BASELINE)
    assert found["scores"] == [1.0, 0.0, 0.0, 0.0]
    assert found["failed"] == [0.0, 1.0, 0.0, 0.0]
    assert found["advantages"] == pytest.approx([ADVANTAGES[0], 0.0, *ADVANTAGES[1:]], abs=1e-6)


@pytest.mark.parametrize("texts", [BASELINE, (RIGHT, WRONG, WRONG)])
async def test_openrlhf_replaces_a_group_with_an_unscored_sample(
    api: Any, run_worker: Any, texts: tuple[str, ...]
) -> None:
    await run_worker(Judge(), stage="extract")
    path = EXAMPLES / "openrlhf_reward.py"
    found = await run("openrlhf", api.addresses.grpc, path, *texts)
    assert found["rewards"] == [float(text == RIGHT) for text in texts]
    assert found["failed"] == [float(text == FAILS) for text in texts]
    assert found["kept"] == (FAILS not in texts)


async def test_skyrl_gym_makes_the_environment_and_its_baseline_is_unbiased(
    api: Any, run_worker: Any
) -> None:
    await run_worker(Judge(), stage="extract")
    path = EXAMPLES / "skyrl_environment.py"
    found = await run("skyrl_gym", api.addresses.grpc, path, *BASELINE)
    assert found["rewards"] == [1.0, None, 0.0, 0.0]
    assert found["done"] == [True] * 4
    assert found["metrics"] == {"infra_failed": 0.25}
    assert found["advantages"] == pytest.approx([ADVANTAGES[0], 0.0, *ADVANTAGES[1:]])


async def test_tinkers_group_has_no_member_that_was_not_judged(api: Any, run_worker: Any) -> None:
    await run_worker(Judge(), stage="extract")
    path = EXAMPLES / "tinker_environment.py"
    found = await run("tinker_cookbook", api.addresses.grpc, path, *BASELINE)
    assert found["rewards"] == [1.0, 0.0, 0.0]
    assert found["errors"] == ["UnscoredError"]
    assert found["advantages"] == pytest.approx(ADVANTAGES, abs=1e-6)
