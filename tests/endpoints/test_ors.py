"""The Open Reward Standard: sessions, tasks, one terminal tool, streams that resume."""

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.integrations.interpreters import run_program
from tests.integrations.stand_in import ADVANTAGES, BASELINE, FAILS, RIGHT, WRONG, Judge

from assay.core.ids import TenantId, owner_in, owner_of
from assay.reward.endpoints import ors_sessions
from assay.reward.endpoints.ors_environments import TasksUnusableError

TOKEN = "a token of twenty-four characters"
ROWS = [
    {"prompt": "2 + 3?", "reference": "5"},
    {
        "prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}],
        "reference": {"answers": ["5"]},
    },
    {"prompt": "held out", "reference": "5", "split": "test"},
]


def task_file(folder: Path, rows: Any = ROWS) -> Path:
    path = folder / "tasks.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def events(text: str) -> list[tuple[str, str]]:
    """The events of a stream; its client takes white space off both ends of data."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(
            line.split(": ", 1) for line in block.split("\n") if line[:1] not in {"", ":"}
        )
        if "event" in fields:
            found.append((fields["event"], fields.get("data", "").strip()))
    return found


def result(text: str) -> Any:
    """What the events of a call say, put together."""
    found = events(text)
    assert found[0][0] == "task_id"
    assert found[-1][0] == "end", found
    return json.loads("".join(data for name, data in found if name in {"chunk", "end"}))


@pytest.fixture
async def http(run_api: Any, run_worker: Any, tmp_path: Path) -> Any:
    """A client of a platform with an environment `sums`, judged by a stand-in."""
    environments = {"sums": {"pipeline": "math", "tasks": str(task_file(tmp_path))}}
    api = await run_api(environments=environments)
    await run_worker(Judge(), stage="math.verify")
    async with httpx.AsyncClient(base_url=api.addresses.http, timeout=300) as client:
        yield client


async def session(http: httpx.AsyncClient, **create: Any) -> dict[str, str]:
    """Headers of a new session; by default of the default environment's first task."""
    made = events((await http.post("/create_session")).text)
    assert [name for name, _ in made] == ["task_id", "end"]
    headers = {"X-Session-ID": made[0][1], "X-Deployment": "env"}
    body = create or {"split": "train", "index": 0}
    created = await http.post("/create", json=body, headers=headers)
    assert created.status_code == 200, created.text
    return headers


def submit(text: str) -> dict[str, Any]:
    return {"name": "submit", "input": {"response": text}}


async def test_environments_and_their_tasks_without_references(http: httpx.AsyncClient) -> None:
    names = (await http.get("/list_environments")).json()
    assert names[0] == "sums"
    assert {"math", "code.python", "choice"} < set(names)
    splits = (await http.get("/splits", headers={"X-Deployment": "env"})).json()
    assert splits == [{"name": "train", "type": "train"}, {"name": "test", "type": "test"}]
    assert (await http.post("/sums/num_tasks", json={"split": "train"})).json()["num_tasks"] == 2
    listed = (await http.post("/sums/tasks", json={"split": "train"})).json()
    assert listed == {
        "tasks": [{"split": "train", "index": 0}, {"split": "train", "index": 1}],
        "env_name": "sums",
    }
    ranged = (await http.post("/sums/task_range", json={"split": "train", "start": -1})).json()
    assert ranged["tasks"] == [{"split": "train", "index": 1}]
    assert (await http.post("/task", json={"split": "train", "index": 9})).status_code == 400
    assert (await http.get("/math/splits")).json() == []
    assert (await http.get("/missing/splits")).status_code == 404
    tools = (await http.get("/sums/tools")).json()
    assert (tools["tools"], tools["terminal_tool"]["arg"]) == ([], "response")
    as_tool = (await http.get("/sums.tool/tools")).json()
    assert as_tool["terminal_tool"] is None
    assert [tool["name"] for tool in as_tool["tools"]] == ["submit"]


async def test_an_episode_ends_with_the_reward_of_its_response(http: httpx.AsyncClient) -> None:
    headers = await session(http)
    prompt = (await http.get("/prompt", headers=headers)).json()
    assert [block["text"] for block in prompt] == ["2 + 3?"]
    assert (await http.post("/ping", headers=headers)).json() == {"status": "ok"}
    for refused, reason in (
        ({"name": "other", "input": {}}, "not_found"),
        ({"name": "submit", "input": {"answer": "5"}}, "input_validation"),
    ):
        told = result((await http.post("/call", json=refused, headers=headers)).text)
        assert (told["ok"], told["reason"]) == (False, reason)
    told = result((await http.post("/call", json=submit(RIGHT), headers=headers)).text)
    assert told["ok"] is True
    assert (told["output"]["reward"], told["output"]["finished"]) == (1.0, True)
    again = result((await http.post("/call", json=submit(RIGHT), headers=headers)).text)
    assert again == told, "a call whose answer was lost is the same call"
    other = result((await http.post("/call", json=submit(WRONG), headers=headers)).text)
    assert other["reason"] == "episode_finished"
    await http.post("/delete", headers=headers)
    assert (await http.post("/ping", headers=headers)).status_code == 404


async def test_a_pipeline_is_an_environment_whose_tasks_come_with_the_session(
    http: httpx.AsyncClient,
) -> None:
    spec = {"prompt": "2 + 3?", "reference": {"answers": ["5"]}}
    headers = await session(http, env_name="math", task_spec=spec)
    messages = (await http.get("/math/messages", headers=headers)).json()
    assert messages[0]["blocks"][0]["text"] == "2 + 3?"
    told = result((await http.post("/math/call", json=submit(WRONG), headers=headers)).text)
    assert told["output"]["reward"] == 0.0


async def test_what_was_not_judged_is_an_error_and_may_be_submitted_again(
    http: httpx.AsyncClient,
) -> None:
    headers = await session(http)
    for _ in range(2):
        answer = await http.post("/call", json=submit(FAILS), headers=headers)
        found = events(answer.text)
        assert [name for name, _ in found] == ["task_id", "error"]
        assert "INFRA_FAILED" in found[1][1]
    told = result((await http.post("/call", json=submit(RIGHT), headers=headers)).text)
    assert told["output"]["reward"] == 1.0


async def test_a_group_is_scored_whole_or_not_at_all(http: httpx.AsyncClient) -> None:
    def candidate(text: str) -> dict[str, Any]:
        blocks = [{"type": "reasoning", "text": "5?"}, {"type": "text", "text": text}]
        return {"messages": [{"role": "assistant", "blocks": blocks}], "metadata": {"id": text}}

    headers = await session(http)
    group = {"candidates": [candidate(text) for text in (RIGHT, WRONG, WRONG)]}
    scores = result((await http.post("/score_group", json=group, headers=headers)).text)["scores"]
    assert [score["reward"] for score in scores] == [1.0, 0.0, 0.0]
    assert scores[0]["metadata"]["id"] == RIGHT
    mean = sum(score["reward"] for score in scores) / 3
    assert [score["reward"] - mean for score in scores] == pytest.approx(ADVANTAGES)
    unscored = {"candidates": [candidate(text) for text in BASELINE]}
    found = events((await http.post("/score_group", json=unscored, headers=headers)).text)
    assert found[-1][0] == "error"
    assert "INFRA_FAILED" in found[-1][1]


async def test_a_group_is_told_the_metadata_that_came_with_it(http: httpx.AsyncClient) -> None:
    """Equal texts with other metadata are another call."""
    headers = await session(http)
    blocks = [{"type": "text", "text": RIGHT}]
    messages = [{"role": "assistant", "blocks": blocks}]
    for metadata in ({"id": 1}, {"id": 2}, {"id": 1, "more": [None, 0.5]}, None, {"id": 2}):
        group = {"candidates": [{"messages": messages, "metadata": metadata}] * 3}
        told = result((await http.post("/score_group", json=group, headers=headers)).text)
        for score in told["scores"]:
            own = {key: score["metadata"].get(key) for key in ("id", "more")}
            assert own == {"id": None, "more": None, **(metadata or {})}


async def test_a_stream_that_broke_off_is_resumed(run_api: Any, run_worker: Any) -> None:
    api = await run_api()
    async with httpx.AsyncClient(base_url=api.addresses.http, timeout=300) as http:
        spec = {"prompt": "", "reference": {"answers": ["5"]}}
        headers = await session(http, env_name="math", task_spec=spec)
        call = http.stream("POST", "/math/call", json=submit(RIGHT), headers=headers)
        async with call as stream:  # no worker yet; left after the first event
            async for line in stream.aiter_lines():
                if line.startswith("data: "):
                    task_id = line.removeprefix("data: ")
                    break
        await run_worker(Judge(), stage="math.verify")
        resumed = {**submit(RIGHT), "task_id": task_id}
        told = result((await http.post("/math/call", json=resumed, headers=headers)).text)
        assert told["output"]["reward"] == 1.0
        unknown = {**submit(RIGHT), "task_id": "unknown"}
        again = result((await http.post("/math/call", json=unknown, headers=headers)).text)
        assert again == told, "the same call is the same work under any name of it"


async def test_sessions_are_a_tenants_own_and_end_when_no_one_names_them(
    run_api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenants = {
        name: {"token_sha256": hashlib.sha256((TOKEN + name).encode()).hexdigest()}
        for name in ("one", "two")
    }
    api = await run_api(tenants=tenants)
    async with httpx.AsyncClient(base_url=api.addresses.http, timeout=300) as http:
        http.headers["X-API-Key"] = TOKEN + "one"
        spec = {"prompt": "", "reference": {"answers": ["5"]}}
        headers = await session(http, env_name="math", task_spec=spec)
        assert (await http.post("/ping", headers=headers)).status_code == 200
        foreign = {**headers, "X-API-Key": TOKEN + "two"}
        assert (await http.post("/ping", headers=foreign)).status_code == 404
        assert (await http.post("/ping", headers={**headers, "X-API-Key": "?"})).status_code == 401
        monkeypatch.setattr(ors_sessions, "TTL_S", 0.0)
        monkeypatch.setattr(ors_sessions, "SWEEP_EVERY_S", 0.0)
        await asyncio.sleep(0.01)
        assert (await http.post("/ping", headers=headers)).status_code == 404


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"prompt": "q"}, ":1: 'reference'"),
        ({"prompt": 5, "reference": "5"}, ":1: prompt"),
        ({"prompt": "q", "reference": {"unknown": 1}}, ":1: reference"),
    ],
)
async def test_a_file_of_tasks_that_cannot_be_used_stops_the_start(
    run_api: Any, tmp_path: Path, row: Any, told: str
) -> None:
    tasks = str(task_file(tmp_path, [row]))
    with pytest.raises(TasksUnusableError, match=told):
        await run_api(environments={"sums": {"pipeline": "math", "tasks": tasks}})


async def test_a_session_goes_on_in_another_api_process(
    run_api: Any, run_worker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Begun in one, judged in the other; then no other response has a reward in either."""
    acme, other = "acme-" * 6, "other-" * 6
    tenants = {
        name: {"token_sha256": hashlib.sha256(token.encode()).hexdigest()}
        for name, token in (("acme", acme), ("other", other))
    }
    environments = {"sums": {"pipeline": "math", "tasks": str(task_file(tmp_path))}}
    apis = [await run_api(environments=environments, tenants=tenants) for _ in range(2)]
    await run_worker(Judge(), stage="math.verify")
    async with (
        httpx.AsyncClient(base_url=apis[0].addresses.http, timeout=300) as one,
        httpx.AsyncClient(base_url=apis[1].addresses.http, timeout=300) as two,
    ):

        def headers(token: str = acme, sid: str = "s1") -> dict[str, str]:
            return {"Authorization": f"Bearer {token}", "X-Session-ID": sid}

        async def submit(http: httpx.AsyncClient, text: str, sid: str = "s1") -> Any:
            body = {"name": "submit", "input": {"response": text}}
            answer = await http.post("/sums/call", json=body, headers=headers(sid=sid))
            return answer.text if answer.status_code == 200 else answer.status_code

        task = {"env_name": "sums", "split": "train", "index": 0}
        for sid in ("s1", "s2"):
            begun = await one.post("/create", json=task, headers=headers(sid=sid))
            assert begun.status_code == 200, begun.text
        again = await two.post("/create", json=task, headers=headers())
        assert again.status_code == 409
        stolen = await two.get("/sums/prompt", headers=headers(other))
        assert stolen.status_code == 404, "a session is of its tenant in every process"
        [block] = (await two.get("/sums/prompt", headers=headers())).json()
        assert block["text"] == "2 + 3?"
        assert events(await submit(two, FAILS))[-1][0] == "error"
        assert result(await submit(two, WRONG))["output"]["reward"] == 0.0
        for http in (one, two):
            assert result(await submit(http, RIGHT))["reason"] == "episode_finished"
        assert (await two.post("/delete", headers=headers(sid="s2"))).status_code == 200
        assert await submit(one, RIGHT, "s2") == 404, "closed there, closed here"
        monkeypatch.setattr(ors_sessions, "TTL_S", 0.0)
        await one.post("/create", json=task, headers=headers(sid="s3"))
        assert (await two.post("/ping", headers=headers(sid="s3"))).status_code == 404


async def run_in(program: str, *arguments: str) -> Any:
    """The last line of a program of this folder, run where its packages are; or skip."""
    path = Path(__file__).with_name(program)
    environment = {"OPENREWARD_SESSION_URL": arguments[0]}
    return await run_program(path, "openreward", *arguments, environment=environment)


async def test_the_openreward_client_plays_episodes(http: httpx.AsyncClient) -> None:
    rewards = await run_in("in_openreward.py", str(http.base_url), *BASELINE)
    assert rewards == [1.0, None, 0.0, 0.0]


async def test_trls_specification_trains_on_an_environment(http: httpx.AsyncClient) -> None:
    found = await run_in("in_trl_openreward.py", str(http.base_url), *BASELINE)
    assert found["rewards"] == [1.0, None, 0.0, 0.0]
    assert found["rows"] == 2


def test_what_is_kept_of_an_episode_counts_for_its_tenant() -> None:
    tenant = TenantId("ours")
    assert owner_in(ors_sessions.key_of(tenant, "sid")) == owner_of((tenant,))
