"""The reward functions of `examples/`, called with the arguments that TRL and verl pass.

API and store are real; what judges is a function, so that a response can be one that the platform
fails to judge.
"""

import asyncio
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from assay.core.codec import pack_body
from assay.core.outcome import Outcome
from assay.core.records import Claim, EndRequest, Finish
from assay.core.verdict import Evidence, ResourceUse
from assay.integrations.scorer import close

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
RIGHT, WRONG, UNJUDGED = "so \\boxed{5}", "so \\boxed{6}", "the platform fails on this"


def judge(claim: Claim) -> Finish:
    """Take 5 for the right answer; fail to judge one response."""
    unjudged = claim.response.decode() == UNJUDGED
    return EndRequest(
        outcome=Outcome.INFRA_FAILED if unjudged else Outcome.SCORED,
        reward=None if unjudged else float(claim.response.decode() == RIGHT),
        body=pack_body(Evidence(verdict="pass"), ResourceUse()),
    )


def example(name: str, url: str, patch: pytest.MonkeyPatch) -> ModuleType:
    """Import an example that talks to `url`."""
    patch.setenv("ASSAY_URL", url)
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("chat", [False, True])
async def test_trl_gets_a_reward_or_none_per_completion(
    api: Any, run_worker: Any, monkeypatch: pytest.MonkeyPatch, chat: bool
) -> None:
    await run_worker(judge, stage="math.verify")
    module = example("trl_reward", api.addresses.grpc, monkeypatch)
    texts: list[Any] = [RIGHT, WRONG, UNJUDGED, RIGHT]
    try:
        rewards = await asyncio.to_thread(
            module.reward,
            prompts=["2 + 3?"] * 4,
            completions=[[{"role": "assistant", "content": t}] for t in texts] if chat else texts,
            completion_ids=[[1]] * 4,
            answer=["5", "5", "5", 5],
            trainer_state=None,
            log_extra=None,
            log_metric=None,
        )
    finally:
        await asyncio.to_thread(module.reward.scorer.close)
    assert rewards == [1.0, 0.0, None, 1.0]


async def test_verl_gets_a_score_and_learns_what_was_not_judged(
    api: Any, run_worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run_worker(judge, stage="math.verify")
    module = example("verl_reward", api.addresses.grpc, monkeypatch)
    found = await asyncio.gather(
        *(
            module.compute_score(
                data_source="gsm8k",
                solution_str=text,
                ground_truth="5",
                extra_info={"num_turns": 1},
            )
            for text in (RIGHT, WRONG, UNJUDGED)
        )
    )
    await asyncio.to_thread(close)
    assert found == [
        {"score": 1.0, "acc": 1.0, "infra_failed": 0.0, "outcome": "SCORED"},
        {"score": 0.0, "acc": 0.0, "infra_failed": 0.0, "outcome": "SCORED"},
        {"score": 0.0, "acc": 0.0, "infra_failed": 1.0, "outcome": "INFRA_FAILED"},
    ]
