"""Bodies and headers that no client sends: each gets a typed answer, and no one else's work."""

import asyncio
import json
import random
from typing import Any

import httpx
import pytest
from tests.endpoints.bodies import BODIES, LONG, TASK, VALUES, changed, damaged, places
from tests.integrations.stand_in import RIGHT, Judge

REFERENCE = {"answers": ["5"]}


@pytest.fixture
async def http(run_api: Any, run_worker: Any, tmp_path: Any) -> Any:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text(json.dumps(TASK))
    api = await run_api(environments={"sums": {"pipeline": "math", "tasks": str(tasks)}})
    judge = Judge()
    for stage in ("math.verify", "python.run"):
        await run_worker(judge, stage=stage)
    async with httpx.AsyncClient(base_url=api.addresses.http, timeout=120) as client:
        yield client


@pytest.mark.parametrize("path", BODIES)
async def test_no_field_of_any_value_breaks_an_endpoint(http: httpx.AsyncClient, path: str) -> None:
    seen: list[tuple[Any, ...]] = []
    limit = asyncio.Semaphore(8)

    async def ask(number: int, at: tuple[Any, ...], value: Any) -> None:
        sid = f"s{number}"
        headers = {"Content-Type": "application/json", "X-Session-ID": sid}
        async with limit:
            if path.startswith("/v1/ors/math/"):
                body = {"env_name": "math", "task_spec": TASK}
                begun = await http.post("/v1/ors/create", json=body, headers=headers)
                assert begun.status_code == 200, begun.text
            content = json.dumps(changed(BODIES[path], at, value))
            answer = await http.post(path, content=content, headers=headers)
        if answer.status_code >= 500 and answer.status_code != 504:
            seen.append((at, repr(value)[:40], answer.status_code, answer.text[:200]))
        elif answer.status_code >= 400:
            error = answer.json()["error"]
            if not error["reason"] or not error["message"]:
                seen.append((at, repr(value)[:40], answer.text[:200]))

    waits = path.endswith("/submit") and "fusion" in path  # large ones are read one by one
    values = [one for one in VALUES if not waits or one != LONG]
    cases = [(at, value) for at in places(BODIES[path]) for value in values]
    await asyncio.gather(*(ask(number, *case) for number, case in enumerate(cases)))
    assert seen == []


SESSIONS = "/v1/ors/"
AGGREGATE = "/v1/nemo_gym/math/aggregate_metrics"


@pytest.mark.parametrize(
    "path", [one for one in BODIES if one.startswith(SESSIONS) or one == AGGREGATE]
)
async def test_several_faults_at_once_break_no_endpoint(http: httpx.AsyncClient, path: str) -> None:
    """Bodies of the other paths are read apart (`test_message_forms.py`)."""
    chance = random.Random(path)
    for number in range(30):
        headers = {"Content-Type": "application/json", "X-Session-ID": f"s{number}"}
        if path.startswith("/v1/ors/math/"):
            begin = {"env_name": "math", "task_spec": TASK}
            await http.post("/v1/ors/create", json=begin, headers=headers)
        body = json.dumps(damaged(BODIES[path], chance))
        answer = await http.post(path, content=body, headers=headers)
        assert answer.status_code < 500, (body, answer.text)
        assert answer.status_code < 400 or answer.json()["error"]["reason"], (body, answer.text)


async def test_the_name_of_a_batch_is_not_that_of_a_roll_response(
    http: httpx.AsyncClient,
) -> None:
    rows = [{"request_id": f"r{i}", "response": RIGHT, "reference": REFERENCE} for i in range(2)]
    for path, body in (
        ("tasks", {"task_id": "t", "pipeline": "math"}),
        ("batches", {"task_id": "t", "batch_id": "b", "size": 2}),
        ("batches/b/requests", {"requests": rows}),
    ):
        assert (await http.post(f"/v1/{path}", json=body)).status_code == 200
    while len((await http.get("/v1/batches/b/results")).json()["results"]) < 2:
        pass
    asked = {"reward_request_id": "b"}
    refused = await http.request("GET", "/v1/roll/result", json=asked)
    assert refused.status_code == 400
    assert refused.json()["error"]["field"] == "reward_request_id"
