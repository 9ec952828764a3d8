"""Episodes under calls that are doubled, dropped, resumed, mixed, and in two processes at once."""

from __future__ import annotations

import asyncio
import json
import random
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.endpoints.bodies import TASK
from tests.endpoints.test_ors import events, result
from tests.integrations.stand_in import FAILS, RIGHT, WRONG, Judge

from assay.reward.endpoints import ors_sessions

if TYPE_CHECKING:
    from tests.running import RunApi, RunWorker

TRUE = {RIGHT: 1.0, WRONG: 0.0}
BODY = {"env_name": "math", "task_spec": TASK}


def call_of(text: str, task_id: str | None = None) -> dict[str, Any]:
    return {"name": "submit", "input": {"response": text}, "task_id": task_id}


async def first_event(http: httpx.AsyncClient, body: Any, headers: dict[str, str]) -> str:
    """Leave a call after its first event, which names its work."""
    async with http.stream("POST", "/math/call", json=body, headers=headers) as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data: "):
                return line.removeprefix("data: ")
    return ""


async def asked(
    http: httpx.AsyncClient, headers: dict[str, str], text: str, chance: random.Random
) -> tuple[str, Any]:
    """Submit a text in some way; returns it with what was answered."""
    task_id = None
    if chance.random() < 0.4:
        task_id = await first_event(http, call_of(text), headers)
    answer = await http.post("/math/call", json=call_of(text, task_id), headers=headers)
    assert answer.status_code == 200, answer.text
    found = events(answer.text)
    if found[-1][0] == "error":
        return text, found[-1][1]
    return text, result(answer.text)


@pytest.mark.parametrize("seed", range(2))
async def test_one_response_of_an_episode_has_a_reward_and_it_is_its_own(
    run_api: RunApi, run_worker: RunWorker, seed: int
) -> None:
    api, judge = await run_api(), Judge()
    chance = random.Random(seed)
    async with httpx.AsyncClient(base_url=api.addresses.http, timeout=300) as http:
        await run_worker(judge, stage="math.verify")
        for episode in range(3):
            headers = {"X-Session-ID": f"s{seed}-{episode}"}
            begun = await asyncio.gather(
                *(http.post("/create", json=BODY, headers=headers) for _ in range(3))
            )
            assert sorted(one.status_code for one in begun) == [200, 409, 409]
            texts = chance.choices((RIGHT, WRONG, FAILS), k=7)
            told = await asyncio.gather(*(asked(http, headers, text, chance) for text in texts))
            rewards = {(text, one["output"]["reward"]) for text, one in told if "output" in one}
            assert len(rewards) <= 1, told
            for text, reward in rewards:
                assert reward == TRUE[text]
            for text, one in told:
                if isinstance(one, str):
                    assert text == FAILS
                    assert "INFRA_FAILED" in one
                elif "output" not in one:
                    assert one["reason"] in {"episode_finished", "not_found"}, one
    seen = [bytes(claim.response).decode() for claim in judge.claims]
    assert seen.count(RIGHT) + seen.count(WRONG) <= 3, "equal calls are judged once"


async def test_a_response_that_is_being_judged_is_the_only_one(
    run_api: RunApi, run_worker: RunWorker
) -> None:
    api = await run_api()
    headers = {"X-Session-ID": "s"}
    async with httpx.AsyncClient(base_url=api.addresses.http, timeout=300) as http:
        assert (await http.post("/create", json=BODY, headers=headers)).status_code == 200
        first = await first_event(http, call_of(RIGHT), headers)
        again = await first_event(http, call_of(RIGHT), headers)
        assert first == again, "the same call is the same work"
        other = await http.post("/math/call", json=call_of(WRONG), headers=headers)
        assert result(other.text)["reason"] == "episode_finished"
        judge = Judge()
        await run_worker(judge, stage="math.verify")
        told = await asyncio.gather(
            *(
                http.post("/math/call", json=call_of(RIGHT, first), headers=headers)
                for _ in range(5)
            )
        )
        assert {result(one.text)["output"]["reward"] for one in told} == {1.0}
        assert len(judge.claims) == 1


async def test_an_episode_that_no_one_names_ends_with_its_work_and_is_known_no_more(
    run_api: RunApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = await run_api()
    headers = {"X-Session-ID": "left"}
    async with httpx.AsyncClient(base_url=api.addresses.http, timeout=300) as http:
        await http.post("/create", json=BODY, headers=headers)
        task_id = await first_event(http, call_of(RIGHT), headers)
        async with asyncio.timeout(60):
            while not await api.store.batches(batches_max=1):  # before, there is nothing to cancel
                await asyncio.sleep(0.02)
        monkeypatch.setattr(ors_sessions, "TTL_S", 0.0)
        monkeypatch.setattr(ors_sessions, "SWEEP_EVERY_S", 0.0)
        gone = await http.post("/math/call", json=call_of(RIGHT, task_id), headers=headers)
        assert gone.status_code == 404
        async with asyncio.timeout(60):
            while await api.store.batches(batches_max=1):
                await asyncio.sleep(0.02)
            while 'cause="CANCELLED"' not in (await http.get("/metrics")).text:
                await asyncio.sleep(0.02)


async def test_a_stream_is_resumed_where_its_work_is_not(
    run_api: RunApi, run_worker: RunWorker
) -> None:
    """In another API process, after the one that had begun it went away; under any name of it."""
    first, second = await run_api(), await run_api()
    headers = {"X-Session-ID": "s", "Content-Type": "application/json"}
    async with httpx.AsyncClient(base_url=first.addresses.http, timeout=300) as http:
        await http.post("/create", json=BODY, headers=headers)
        task_id = await first_event(http, call_of(RIGHT), headers)
    await first.api.stop()
    await run_worker(Judge(), stage="math.verify")
    async with httpx.AsyncClient(base_url=second.addresses.http, timeout=300) as http:
        for name in (task_id, "", "..", "\ud800", "x" * 5_000):
            content = json.dumps(call_of(RIGHT, name))
            answer = await http.post("/math/call", content=content, headers=headers)
            assert result(answer.text)["output"]["reward"] == 1.0
        other = await http.post("/math/call", json=call_of(WRONG, task_id), headers=headers)
        assert result(other.text)["reason"] == "episode_finished"
