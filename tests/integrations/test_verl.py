"""verl's reward function and the baseline that keeps unscored samples out; without verl itself."""

import asyncio
import inspect
import sys
from functools import partial
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
from assay.integrations.scorer import close
from assay.integrations.trainers.verl import (
    Scored,
    compute_score,
    group_mean_filled,
    install_baseline,
    score_row,
)


async def test_every_sample_has_the_same_keys_and_the_steps_batch(judge: Judge) -> None:
    function = partial(
        compute_score,
        pipeline="math",
        step_size=4,
        deadline_s=DEADLINE_S,
        settings={"strict": False},
    )
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
    assert judge.budgets_s == {DEADLINE_S}
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


async def test_an_agent_loops_output_is_scored_unless_it_has_a_reward_of_its_own(
    judge: Judge,
) -> None:
    """What is judged is what the model wrote after the last tool's tokens."""

    class Base:
        tokenizer = SimpleNamespace(
            decode=lambda ids, **_: "".join(map(chr, ids))  # ids are code points
        )

        async def run(
            self, _sampling_params: Any, *, text: str, reward: float | None, **_: Any
        ) -> Any:
            ids = [ord(letter) for letter in "let me see" + "TOOL" + text]
            mask = [1] * 10 + [0] * 4 + [1] * len(text)
            output = SimpleNamespace(
                response_ids=ids, response_mask=mask, reward_score=reward, extra_fields={}
            )
            return [SimpleNamespace(reward_score=None), output]

    class Loop(Scored, Base):  # type: ignore[misc]  # as verl's own `run`, with keywords
        assay_scoring = {"pipeline": "math", "step_size": 4, "deadline_s": DEADLINE_S}  # noqa: RUF012 - as a user writes it

    row = {"data_source": "gsm8k", "reward_model": {"ground_truth": "5"}, "uid": "u1"}
    calls = [Loop().run({}, text=text, reward=None, **row) for text in BASELINE]
    outputs = [found[-1] for found in await asyncio.gather(*calls)]
    [_, own] = await Loop().run({}, text=RIGHT, reward=0.5, **row)
    await asyncio.to_thread(close)
    assert [one.reward_score for one in outputs] == [1.0, 0.0, 0.0, 0.0]
    infos = [one.extra_fields["reward_extra_info"] for one in outputs]
    assert [one["infra_failed"] for one in infos] == [0.0, 1.0, 0.0, 0.0]
    assert (own.reward_score, own.extra_fields) == (0.5, {})
    assert sorted(claim.response.decode() for claim in judge.claims) == sorted(BASELINE)
    assert len(judge.batches) == 1
    assert judge.budgets_s == {DEADLINE_S}
    assert len(judge.groups) == 1


@pytest.mark.parametrize(
    "column", [{}, {"infra_failed": [0.0, SimpleNamespace(data=1.0), 0, 0, 0]}]
)
def test_rows_in_verls_queue_are_marked_before_their_advantages_are_computed(
    monkeypatch: pytest.MonkeyPatch, column: dict[str, Any]
) -> None:
    """With verl's names; `test_real_trainers.py` runs its trainer. What a trainer has scored itself
    has a column, and no more than that."""
    infos = [{"infra_failed": 0.0}, {"infra_failed": 1.0}, {"score": 0.5}, None]
    stored = [SimpleNamespace(data={"reward_extra_info": one}) for one in infos]
    seen: list[list[bool]] = []

    class Queue:
        def kv_batch_get(self, keys: Any, partition_id: Any, select_fields: Any) -> Any:
            assert (keys, partition_id) == (["k"], "train")
            assert select_fields == ["extra_fields", "infra_failed"]
            return {"extra_fields": [{}] * 5 if column else [*stored, {}], **column}

    class PPOTrainer:
        def _compute_advantage(self, _batch: Any, metrics: dict[str, Any]) -> Any:
            data = SimpleNamespace(non_tensor_batch={})
            metrics["rows"] = base.compute_advantage_for_multi_trajectories(data, batch_keys=[])
            seen.append(list(data.non_tensor_batch["infra_failed"]))
            return metrics["rows"]

    def compute_advantage(data: Any) -> Any:
        return data

    base = SimpleNamespace(
        PPOTrainer=PPOTrainer,
        tq=Queue(),
        compute_advantage_for_multi_trajectories=lambda _data, batch_keys: len(batch_keys),
    )
    ray_trainer = SimpleNamespace(compute_advantage=compute_advantage)
    elsewhere = SimpleNamespace(compute_advantage=compute_advantage)
    for name, module in {
        "verl.trainer.ppo": SimpleNamespace(ray_trainer=ray_trainer),
        "verl.trainer.ppo.ray_trainer": ray_trainer,
        "verl.trainer.ppo.v1": SimpleNamespace(trainer_base=base),
        "verl.experimental.separation.ray_trainer": elsewhere,
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    install_baseline()
    once = PPOTrainer._compute_advantage
    install_baseline()
    assert PPOTrainer._compute_advantage is once
    assert elsewhere.compute_advantage is ray_trainer.compute_advantage is not compute_advantage
    batch = SimpleNamespace(keys=["k"], partition_id="train")
    assert PPOTrainer()._compute_advantage(batch, metrics={}) == 0
    assert seen == [[False, True, False, False, False]]


async def test_a_row_without_a_label_is_an_error_that_names_it() -> None:
    with pytest.raises(InvalidRequest, match="ground_truth"):
        await score_row({"reward_model": {"style": "rule"}}, RIGHT, {"pipeline": "math"})
