"""NeMo-RL's environment and baseline, NeMo-Gym's answer; called as they call them, without them."""

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.integrations.stand_in import (
    ADVANTAGES,
    BASELINE,
    DEADLINE_S,
    FAILS,
    RIGHT,
    WRONG,
    Judge,
    honest_advantages,
    injected,
)

from assay.core.errors import InvalidRequest
from assay.integrations.environments.nemo_gym import Scored
from assay.integrations.environments.nemo_rl import Environment, UnscoredError, filled, filling
from assay.integrations.environments.nemo_rl_rollouts import FILLED, replacement
from assay.integrations.scorer import close


def log(text: str, prompt: str = "2 + 3?") -> list[dict[str, Any]]:
    """A message log as `calculate_rewards` hands it over: roles and contents only."""
    return [{"role": "user", "content": prompt}, {"role": "assistant", "content": text}]


async def test_a_step_is_one_batch_and_the_unjudged_have_their_groups_mean(judge: Judge) -> None:
    environment = Environment({"pipeline": "math", "num_workers": 8, "deadline_s": DEADLINE_S})
    logs = [log(text) for text in BASELINE] + [log(FAILS, "7?"), log(FAILS, "7?")]
    rows = [{"ground_truth": "5"}] * 6
    rewards = await asyncio.to_thread(environment.rewards, logs, rows)
    # Of the second group nothing was judged: its one number is the mean of all that was.
    assert rewards == pytest.approx([1, 1 / 3, 0, 0, 1 / 3, 1 / 3])
    assert len(judge.batches) == 1
    assert judge.budgets_s == {DEADLINE_S}
    assert len(judge.groups) == 2
    # NeMo-RL's baseline leaves the sample itself out: the same proportion, larger by n / (n - 1).
    group = rewards[:4]
    left_out = [one - (sum(group) - one) / 3 for one in group]
    assert [one * 3 / 4 for one in left_out] == pytest.approx([ADVANTAGES[0], 0.0, *ADVANTAGES[1:]])
    _, metrics = environment.global_post_process_and_metrics({})
    assert metrics["unscored_share/INFRA_FAILED"] == pytest.approx(0.5)
    with pytest.raises(InvalidRequest, match="ground_truth"):
        environment.rewards([log(RIGHT)], [{"answer": "5"}])
    await asyncio.to_thread(close)


async def test_a_sample_that_comes_alone_fails_as_infrastructure(judge: Judge) -> None:
    """Its group is elsewhere, so there is no mean to fill in; NeMo-RL generates it again."""
    environment = Environment({"pipeline": "math", "reference_key": "gold", "quiet_s": 0.1})
    row = [{"gold": "5"}]
    assert await asyncio.to_thread(environment.rewards, [log(WRONG)], row) == [0.0]
    with pytest.raises(UnscoredError, match="INFRA_FAILED") as caught:
        await asyncio.to_thread(environment.rewards, [log(FAILS)], row)
    marked = [{**row[0], FILLED: True}]  # as rollouts do that fill in
    assert math.isnan((await asyncio.to_thread(environment.rewards, [log(FAILS)], marked))[0])
    assert await asyncio.to_thread(environment.rewards, [log(RIGHT)], marked) == [1.0]
    assert isinstance(caught.value, ConnectionError)  # what NeMo-RL takes for infrastructure
    await asyncio.to_thread(close)


def test_injected_failures_change_no_advantage_of_the_others() -> None:
    for texts in injected(groups=200, size=8, share=0.1):
        rewards = [None if text == FAILS else float(text == RIGHT) for text in texts]
        found = filled(rewards, ["g"] * 8)
        mean = sum(found) / 8
        fair = [advantage or 0.0 for advantage in honest_advantages(texts)]
        assert [one - mean for one in found] == pytest.approx(fair)


class Numbers(list[float]):
    """Token ids or rewards, as much of a tensor as is asked for."""

    def tolist(self) -> list[float]:
        return list(self)


def asked_of(groups: list[list[str]]) -> dict[str, Any]:
    """A batch before its rollout: a prompt per group."""
    prompts = [at for at, texts in enumerate(groups) for _ in texts]
    return {
        "message_log": [
            [{"role": "user", "content": "", "token_ids": Numbers([at])}] for at in prompts
        ],
        "extra_env_info": [{"says": text} for texts in groups for text in texts],
    }


async def test_rollouts_that_fill_in_change_no_advantage_over_200_groups() -> None:
    """Each row is marked on its way to the environment, and has its group's mean behind it."""
    given = injected(groups=200, size=8, share=0.1)

    async def rolled_out(_policy: Any, input_batch: Any) -> Any:
        rows = [dict(row) for row in input_batch["extra_env_info"]]
        assert all(row[FILLED] for row in rows)
        rewards = [
            math.nan if row["says"] == FAILS else float(row["says"] == RIGHT) for row in rows
        ]
        return (
            {"extra_env_info": rows, "total_reward": Numbers(rewards)},
            [{"total_reward": reward} for reward in rewards],
        )

    fills = replacement()(rolled_out)
    assert replacement()(fills) is fills
    asked = asked_of(given)
    found, metrics = await fills(policy_generation=None, input_batch=asked)
    assert found["extra_env_info"] == asked["extra_env_info"]
    assert [one["total_reward"] for one in metrics] == found["total_reward"]
    for at, texts in enumerate(given):
        rewards = found["total_reward"][8 * at : 8 * at + 8]
        mean = sum(rewards) / 8
        fair = [advantage or 0.0 for advantage in honest_advantages(texts)]
        assert [one - mean for one in rewards] == pytest.approx(fair)


async def test_a_group_of_which_nothing_was_judged_has_the_mean_of_the_others() -> None:
    async def rolled_out(_policy: Any, input_batch: Any) -> Any:
        rows = input_batch["extra_env_info"]
        judged = {"yes": 1.0, "no": 0.0}
        rewards = [judged.get(row["says"], math.nan) for row in rows]
        return {"extra_env_info": rows, "total_reward": Numbers(rewards)}, [{} for _ in rows]

    fills = replacement()(rolled_out)
    for groups, expected in (
        ([["yes", "no"], ["?", "?"]], [1.0, 0.0, 0.5, 0.5]),
        ([["?"], ["?"]], [0.0, 0.0]),
    ):
        found, metrics = await fills(None, asked_of(groups))
        assert found["total_reward"] == expected
        assert [one["total_reward"] for one in metrics if one] == expected[-2:]


class Gym:
    """NeMo-RL's actor of NeMo-Gym: streams what the rows say; a row that says nothing ends it."""

    async def run_rollouts(self, examples: list[Any], _prefix: str) -> AsyncIterator[Any]:
        for row in examples:
            if row["says"] is None:
                raise ConnectionError
            yield row["_rowidx"], {"full_result": dict(row["says"])}, None


def row_of(at: int, prompt: str, says: dict[str, Any] | None) -> dict[str, Any]:
    asked = {"input": [{"role": "user", "content": prompt}]}
    return {"_rowidx": at, "responses_create_params": asked, "says": says}


def says(reward: float) -> dict[str, Any]:
    return {"reward": reward, "reward_components": {"reward": reward}}


MASKED = {"reward": 0.0, "instance_config": {"mask_sample": True}}


async def streamed(actor: Any, rows: list[Any], into: dict[int, float]) -> list[int]:
    """Rewards by row into `into`; the rows in the order of their arrival."""
    order = []
    async for at, result, _ in actor.run_rollouts(rows, "timing"):
        full = result["full_result"]
        assert sum(full["reward_components"].values()) == pytest.approx(full["reward"])
        into[at] = full["reward"]
        order.append(at)
    return order


async def test_gyms_masked_rows_wait_for_their_group_and_have_its_mean() -> None:
    """NeMo-RL's loops with a data plane take no `mask_sample` along."""
    firsts = [row_of(0, "a", says(1.0)), row_of(1, "a", MASKED), row_of(2, "a", says(0.0))]
    others = [row_of(3, "b", MASKED), row_of(4, "b", MASKED)]
    found: dict[int, float] = {}
    rows = [firsts[1], others[0], firsts[0], others[1], firsts[2]]
    assert await streamed(filling(Gym)(), rows, found) == [0, 3, 4, 2, 1]
    assert found == {0: 1.0, 1: 0.5, 2: 0.0, 3: 0.0, 4: 0.0}


async def test_gyms_rows_that_are_asked_for_again_count_what_was_judged_before() -> None:
    actor = filling(Gym)()
    found: dict[int, float] = {}
    dying = [row_of(0, "a", says(1.0)), row_of(1, "a", MASKED), row_of(2, "a", None)]
    with pytest.raises(ConnectionError):
        await streamed(actor, dying, found)
    assert found == {0: 1.0}  # NeMo-RL keeps it, and asks for the other two
    await streamed(actor, [row_of(1, "a", MASKED), row_of(2, "a", says(0.0))], found)
    assert found == {0: 1.0, 1: 0.5, 2: 0.0}
    again: dict[int, float] = {}  # the same prompt in a later step: nothing is left over
    await streamed(actor, [row_of(0, "a", MASKED), row_of(1, "a", says(0.0))], again)
    assert again == {0: 0.0, 1: 0.0}


def body(text: str, **row: Any) -> dict[str, Any]:
    """What NeMo-Gym's agent sends to `/verify`."""
    message = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
    return {
        "responses_create_params": {"input": [{"role": "user", "content": "2 + 3?"}]},
        "response": {"output": [{"type": "reasoning", "summary": []}, message]},
        **row,
    }


async def test_nemo_gyms_server_masks_what_was_not_judged(judge: Judge) -> None:
    server = type(
        "Server",
        (Scored,),
        {"assay_scoring": {"pipeline": "math", "step_size": 5, "deadline_s": DEADLINE_S}},
    )()
    rows = [body(text, expected_answer="5", instance_config={"seed": 1}) for text in BASELINE]
    found = await asyncio.gather(*map(server.assay, rows), server.assay(body(RIGHT)))
    assert [one["reward"] for one in found] == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert [one.get("mask_sample", False) for one in found] == [False, True, False, False, True]
    assert found[1]["instance_config"] == {"seed": 1, "mask_sample": True}
    assert found[1]["_ng_failure_class"] == "INFRA_FAILED"
    assert found[1]["_ng_failure_terminal"] is False
    assert found[4]["_ng_failure_terminal"] is True  # no label: another attempt ends alike
    assert all(one["response"] == row["response"] for one, row in zip(found, rows, strict=False))
    assert len(judge.batches) == 1
    assert judge.budgets_s == {DEADLINE_S}
    await asyncio.to_thread(close)
