"""slime's reward function and post-processing, called as slime calls them; without slime."""

import asyncio
import math
from dataclasses import dataclass, field
from enum import Enum
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from tests.integrations.stand_in import (
    ADVANTAGES,
    BASELINE,
    DEADLINE_S,
    FAILS,
    RIGHT,
    Judge,
    honest_advantages,
    injected,
)

from assay.integrations.scorer import close
from assay.integrations.trainers.slime import custom_rm, post_process_rewards


@dataclass
class Sample:
    """The fields of `slime.utils.types.Sample` that matter here, with its defaults."""

    class Status(Enum):
        PENDING = "pending"
        COMPLETED = "completed"
        FAILED = "failed"

    group_index: int | None = None
    prompt: str | list[dict[str, str]] = ""
    response: str = ""
    label: str | None = None
    reward: float | dict[str, Any] | None = None
    remove_sample: bool = False
    status: Status = Status.PENDING
    metadata: dict[str, Any] = field(default_factory=dict)

    def get_reward_value(self, _args: object) -> float:
        assert isinstance(self.reward, float)
        return self.reward


ARGS = SimpleNamespace(
    advantage_estimator="grpo",
    rewards_normalization=True,
    grpo_std_normalization=False,
    n_samples_per_prompt=4,
)


@pytest.mark.parametrize("form", ["sample", "group"])
async def test_unscored_samples_are_failed_removed_and_out_of_the_baseline(
    judge: Judge, monkeypatch: pytest.MonkeyPatch, form: Literal["sample", "group"]
) -> None:
    monkeypatch.setenv("ASSAY_STEP_SIZE", "4")
    monkeypatch.setenv("ASSAY_DEADLINE_S", str(DEADLINE_S))
    done = Sample.Status.COMPLETED
    samples = [
        Sample(group_index=3, prompt="2+3?", response=text, label="5", status=done)
        for text in BASELINE
    ]
    found: Any
    if form == "group":
        found = await custom_rm(ARGS, samples)
    else:
        found = await asyncio.gather(*(custom_rm(ARGS, sample) for sample in samples))
    await asyncio.to_thread(close)
    assert found == [1.0, 0.0, 0.0, 0.0]
    assert [sample.remove_sample for sample in samples] == [False, True, False, False]
    assert [sample.status for sample in samples] == [done, Sample.Status.FAILED, done, done]
    assert samples[1].metadata["assay_unscored"].startswith("INFRA_FAILED")
    assert len(judge.batches) == 1
    assert judge.budgets_s == {DEADLINE_S}
    for sample, reward in zip(samples, found, strict=True):
        sample.reward = reward
    raw, rewards = post_process_rewards(ARGS, samples)
    assert raw == found
    assert rewards == pytest.approx([ADVANTAGES[0], 0.0, *ADVANTAGES[1:]])
    # With slime's division by the sample deviation, which is that of 1, 0, 0.
    scaling = SimpleNamespace(**{**vars(ARGS), "grpo_std_normalization": True})
    _, scaled = post_process_rewards(scaling, samples)
    assert [one * 3**-0.5 for one in scaled] == pytest.approx(rewards, abs=1e-5)
    samples[1].metadata, samples[1].reward = {}, math.nan  # as the endpoint says it
    assert post_process_rewards(ARGS, samples)[1] == rewards
    samples[1].reward = 0.0
    samples[1].metadata = {"assay_unscored": "INFRA_FAILED"}
    for name in ("gspo", "cispo", "reinforce_plus_plus_baseline"):
        centred = SimpleNamespace(**{**vars(ARGS), "advantage_estimator": name})
        assert post_process_rewards(centred, samples)[1] == rewards, name
    plain = SimpleNamespace(**{**vars(ARGS), "advantage_estimator": "ppo"})
    assert post_process_rewards(plain, samples) == (raw, raw)


def test_injected_failures_change_no_advantage_of_the_others() -> None:
    groups = [*injected(groups=200, size=4, share=0.1), [FAILS] * 4]
    samples = [
        Sample(
            group_index=number,
            reward=float(text == RIGHT),
            metadata={"assay_unscored": "INFRA_FAILED"} if text == FAILS else {},
        )
        for number, texts in enumerate(groups)
        for text in texts
    ]
    _, found = post_process_rewards(ARGS, samples)
    fair = [advantage or 0.0 for texts in groups for advantage in honest_advantages(texts)]
    assert found == pytest.approx(fair)
