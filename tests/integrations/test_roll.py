"""ROLL's worker and its normalisation of rewards; called as ROLL calls them, without it."""

import asyncio
import json
import math
import statistics
import sys
from types import SimpleNamespace
from typing import Any

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

from assay.core.errors import InvalidRequest
from assay.integrations import Judgement, Sample
from assay.integrations.scorer import close, shared_scorer
from assay.integrations.trainers.roll import (
    PIPELINES,
    group_filled,
    install_baseline,
    rewards_of,
    scores_of,
)


async def test_a_workers_batch_is_one_batch_with_nan_where_nothing_was_judged(
    judge: Judge,
) -> None:
    scorer = shared_scorer({"pipeline": "math", "deadline_s": DEADLINE_S})
    columns: dict[str, list[Any]] = {
        "ground_truth": ["5"] * 4,
        "id": [3] * 4,
        "domain": ["math"] * 4,
    }
    rewards = await asyncio.to_thread(rewards_of, scorer, BASELINE, columns)
    assert str(rewards) == "[1.0, nan, 0.0, 0.0]"
    assert scores_of(rewards) == [1.0, 0.0, 0.0, 0.0]
    assert len(judge.batches) == 1
    assert judge.budgets_s == {DEADLINE_S}
    assert len(judge.groups) == 1
    filled = group_filled(rewards, 4)
    assert [one - statistics.fmean(filled) for one in filled] == pytest.approx(
        [ADVANTAGES[0], 0.0, *ADVANTAGES[1:]]
    )
    with pytest.raises(InvalidRequest, match="ground_truth"):
        rewards_of(scorer, BASELINE, {"id": [3] * 4})
    await asyncio.to_thread(close)


def test_tests_of_a_program_become_the_pipelines_reference() -> None:
    seen: list[Sample] = []

    class Scorer:
        def judge_one(self, sample: Sample) -> Judgement:
            seen.append(sample)
            return Judgement(reward=1.0)

    tests = [{"stdin": "", "stdout": "5"}]
    for label in (tests, json.dumps({"tests": tests})):
        rewards_of(Scorer(), [RIGHT], {"test_cases": [label], "case_type": ["input"]})  # type: ignore[arg-type]
    assert [one.reference for one in seen] == [{"tests": tests}] * 2


def test_injected_failures_change_no_advantage_of_the_others() -> None:
    groups = [*injected(groups=200, size=8, share=0.1), [FAILS] * 8]
    rewards = [
        math.nan if one == FAILS else float(one == RIGHT) for group in groups for one in group
    ]
    filled = group_filled(rewards, 8)
    for at, texts in enumerate(groups):
        group = filled[8 * at : 8 * at + 8]
        fair = [advantage or 0.0 for advantage in honest_advantages(texts)]
        assert [one - statistics.fmean(group) for one in group] == pytest.approx(fair)


def test_the_baseline_is_installed_once_and_only_where_a_pipeline_was_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install_baseline()
    assert not any(name in sys.modules for name in PIPELINES)

    def original(data: Any, pipeline_config: Any, running: Any) -> tuple[Any, Any]:
        return data, (pipeline_config, running)

    pipeline = SimpleNamespace(reward_postprocess=original)
    monkeypatch.setitem(sys.modules, PIPELINES[0], pipeline)
    install_baseline()
    installed = pipeline.reward_postprocess
    install_baseline()
    assert pipeline.reward_postprocess is installed is not original
