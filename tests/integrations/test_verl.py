"""verl's reward function and the baseline that keeps unscored samples out; without verl itself."""

import asyncio
import inspect
from functools import partial
from typing import Any

import pytest
from tests.integrations.stand_in import (
    ADVANTAGES,
    BASELINE,
    FAILS,
    RIGHT,
    Judge,
    honest_advantages,
    injected,
)

from assay.integrations.scorer import close
from assay.integrations.trainers.verl import compute_score, group_mean_filled


async def test_every_sample_has_the_same_keys_and_the_steps_batch(judge: Judge) -> None:
    function = partial(compute_score, pipeline="math", step_size=4, settings={"strict": False})
    assert inspect.iscoroutinefunction(function)  # how verl decides to await it
    calls = [
        function(
            data_source="gsm8k",
            solution_str=text,
            ground_truth="5",
            extra_info={"index": 3, "num_turns": None},
            reward_router_address="verl adds this",
        )
        for text in BASELINE
    ]
    found: list[dict[str, Any]] = await asyncio.gather(*calls)
    await asyncio.to_thread(close)
    assert len({tuple(one) for one in found}) == 1
    assert all(value is not None for one in found for value in one.values())
    assert [one["infra_failed"] for one in found] == [0.0, 1.0, 0.0, 0.0]
    assert len(judge.batches) == 1
    filled = group_mean_filled(
        [one["score"] for one in found], [bool(one["infra_failed"]) for one in found], [0] * 4
    )
    mean = sum(filled) / 4
    assert [score - mean for score in filled] == pytest.approx(
        [ADVANTAGES[0], 0.0, *ADVANTAGES[1:]]
    )


def test_injected_failures_change_no_advantage_of_the_others() -> None:
    for texts in [*injected(groups=200, size=8, share=0.1), [FAILS] * 8]:
        failed = [text == FAILS for text in texts]
        scores = group_mean_filled([float(text == RIGHT) for text in texts], failed, ["g"] * 8)
        mean = sum(scores) / len(scores)
        fair = [advantage or 0.0 for advantage in honest_advantages(texts)]
        assert [score - mean for score in scores] == pytest.approx(fair)
