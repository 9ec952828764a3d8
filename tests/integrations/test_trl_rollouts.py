"""TRL's `rollout_func` on a running rollout service; the trainer is a stand-in."""

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("numpy")

import numpy as np
from tests.integrations.stand_in import RIGHT, Judge
from tests.rollout.engine.exact import Exact, probabilities
from tests.rollout.service.served import rollouts
from tests.rollout.service.test_service import weights_of
from tests.rollout.test_weight_slots import version_of

from assay.core.errors import FailedPrecondition
from assay.integrations.trainers import trl_rollouts
from assay.integrations.trainers.trl import Reward
from assay.integrations.trainers.trl_rollouts import Rollouts, columns
from assay.rollout.models.driver import TokenSampling

PROMPTS = ["3 1 4"] * 3 + ["1 5 9"] * 2
IDS = {"3 1 4": [3, 1, 4], "1 5 9": [1, 5, 9]}


class Words:
    """A tokenizer whose words are ids."""

    eos_token_id = 0

    def __call__(self, text: str) -> dict[str, list[int]]:
        return {"input_ids": IDS[text]}


@dataclass
class Trainer:
    """What the function reads of TRL's `GRPOTrainer`, in its names."""

    model: int = 1
    processing_class: Words = field(default_factory=Words)
    temperature: float = 0.9
    top_p: float = 1.0
    top_k: int = 0
    min_p: float | None = None
    max_completion_length: int = 12
    chat_template: None = None
    chat_template_kwargs: dict[str, Any] = field(default_factory=dict)
    args: Any = field(default_factory=lambda: SimpleNamespace(seed=7))
    state: Any = field(default_factory=lambda: SimpleNamespace(global_step=0))
    accelerator: Any = field(
        default_factory=lambda: SimpleNamespace(num_processes=1, unwrap_model=lambda model: model)
    )


def exact_logps(version: int, prompt: list[int], response: list[int]) -> list[float]:
    """By a forward pass in double precision that shares no code with the engine."""
    logits = np.asarray(Exact(version_of(version)).logits([*prompt, *response]))
    how = TokenSampling(temperature=0.9)
    first = len(prompt) - 1
    return [
        float(np.log(probabilities(logits[first + at], how)[token]))
        for at, token in enumerate(response)
    ]


async def test_rollouts_come_in_order_from_the_pushed_weights_with_their_log_probs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trl_rollouts, "weights_of", weights_of)  # the tests' models are no torch's
    async with rollouts() as own:
        function, trainer = Rollouts(own.address), Trainer()
        seen = []
        for step in (1, 2):
            trainer.model = trainer.state.global_step = step
            found = await asyncio.to_thread(function, PROMPTS, trainer)
            assert found["prompt_ids"] == [IDS[prompt] for prompt in PROMPTS]
            assert found["rollout_failed"] == [False] * 5
            assert found["policy_version"] == [step] * 5
            for prompt, ids, logps, mask in zip(
                *(found[name] for name in ("prompt_ids", "completion_ids", "logprobs", "env_mask")),
                strict=True,
            ):
                assert len(ids) == len(logps) == len(mask) <= 12
                assert set(mask) == {1}
                assert logps == pytest.approx(exact_logps(step, prompt, ids), abs=1e-3)
            seen.append(found["completion_ids"])
        again = await asyncio.to_thread(function, PROMPTS, trainer)
        assert again["policy_version"] == [2] * 5  # not pushed again within a step
        assert again["completion_ids"] not in seen  # and not the same samples
        trainer.accelerator.num_processes = 2
        with pytest.raises(FailedPrecondition, match="several processes"):
            await asyncio.to_thread(function, PROMPTS, trainer)
        await asyncio.to_thread(function.close)


async def test_a_rollout_that_failed_has_no_loss_and_no_reward(judge: Judge) -> None:
    """Its one token is masked, and the response that there is not is not judged as an empty one."""
    empty = np.array([], dtype=np.int32)
    found = columns(
        [[1, 2]] * 2,
        [
            SimpleNamespace(  # type: ignore[list-item]
                finish_reason="failed", response_ids=empty, policy_versions=[]
            ),
            SimpleNamespace(  # type: ignore[list-item]
                finish_reason="stop_id",
                response_ids=np.array([5], dtype=np.int32),
                rollout_logp=np.array([-0.5], dtype=np.float32),
                response_mask=np.array([1], dtype=np.uint8),
                policy_versions=[(3, 1)],
            ),
        ],
        eos=9,
    )
    assert found["completion_ids"] == [[9], [5]]
    assert found["env_mask"] == [[0], [1]]
    assert found["policy_version"] == [-1, 3]
    reward = Reward("math")
    rewards = await asyncio.to_thread(
        reward,
        prompts=["2 + 3?"] * 2,
        completions=["", RIGHT],
        answer=["5", "5"],
        rollout_failed=found["rollout_failed"],
    )
    await asyncio.to_thread(reward.scorer.close)
    assert rewards == [None, 1.0]
    assert len(judge.claims) == 1
