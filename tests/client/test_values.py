"""A value that a message cannot hold is refused by its field's name, before anything is sent."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from assay.client import Client
from assay.client.rollouts import (
    NextTurn,
    Prompt,
    RolloutClient,
    RolloutSession,
    SamplingParams,
    StepBatch,
)
from assay.core.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

NOWHERE = "127.0.0.1:1"
HUGE = 1 << 64
GOOD = Prompt(group_id="g", k=1, seed=1, prompt_ids=[1])
PROMPTS: list[tuple[dict[str, Any], str]] = [
    ({"k": HUGE}, "k"),
    ({"k": "two"}, "k"),
    ({"k": 1.5}, "k"),
    ({"seed": -1}, "seed"),
    ({"seed": HUGE}, "seed"),
    ({"group_id": b"\xff"}, "group_id"),
    ({"prompt_ids": [1 << 31]}, "prompt_ids"),
    ({"reference": {"x": math.nan}}, "reference"),
    ({"sampling": SamplingParams(top_k=1 << 31)}, "sampling.top_k"),
    ({"sampling": SamplingParams(max_tokens=HUGE)}, "sampling.max_tokens"),
    ({"sampling": SamplingParams(stop_ids=(1, 1 << 31))}, "sampling.stop_ids"),
    ({"turns": [NextTurn(member=0), NextTurn(member=HUGE)]}, "turns[1].member"),
]
BATCHES: list[tuple[dict[str, Any], str]] = [
    ({"deadline_s": math.nan}, "deadline_s"),
    ({"deadline_s": math.inf}, "deadline_s"),
    ({"deadline_s": 1e300}, "deadline_ms"),
    ({"enough_groups": HUGE}, "enough_groups"),
]
SESSIONS: list[tuple[dict[str, Any], str]] = [
    ({"groups_open_max": HUGE}, "session.groups_open_max"),
    ({"staleness_max": HUGE}, "session.staleness_max"),
    ({"minority_min": "two"}, "session.minority_min"),
    ({"sampling": SamplingParams(top_k=HUGE)}, "session.sampling.top_k"),
    ({"pipeline": "math", "reward_wait_s": math.nan}, "session.reward.wait_s"),
    ({"pipeline": "math", "reward_wait_s": 1e300}, "session.reward.wait_ms_max"),
]


async def refused(call: Callable[[], Awaitable[object]], field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await call()
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")


@pytest.mark.parametrize(("changes", "field"), PROMPTS)
async def test_of_a_prompt(changes: dict[str, Any], field: str) -> None:
    async with RolloutClient(NOWHERE) as client:
        session = RolloutSession("s", client._connection, client._stub, tokens_max=8)
        prompts = [GOOD, replace(GOOD, **changes)]
        await refused(lambda: session.submit(prompts), f"prompts[1].{field}")


@pytest.mark.parametrize(("changes", "field"), BATCHES)
async def test_of_a_batch_of_prompts(changes: dict[str, Any], field: str) -> None:
    async with RolloutClient(NOWHERE) as client:
        batch = StepBatch(batch_id="b", **changes)
        session = RolloutSession("s", client._connection, client._stub, tokens_max=8)
        await refused(lambda: session.submit([], batches=[batch]), f"batches[0].{field}")


@pytest.mark.parametrize(("changes", "field"), SESSIONS)
async def test_of_a_session(changes: dict[str, Any], field: str) -> None:
    async with RolloutClient(NOWHERE) as client:
        await refused(lambda: client.open_session("s", **changes), field)


async def test_of_a_task_and_a_batch() -> None:
    async with Client(NOWHERE) as client:
        await refused(
            lambda: client.register_task("t", pipeline="math", batch_size=HUGE), "task.batch_size"
        )
        await refused(lambda: client.open_batch("t", group_size=HUGE), "group_size")
        await refused(lambda: client.open_batch("t", deadline_s=math.nan), "deadline_s")
