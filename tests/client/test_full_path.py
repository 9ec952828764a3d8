"""Client, API, store and worker host, all real and each a process of its own."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.running import worker_process

from assay.client import Client, Request
from assay.core.errors import InvalidRequest

if TYPE_CHECKING:
    from tests.running import StartProcess

    from assay.config.settings import StoreSettings

FUNCTIONS = Path(__file__).parents[1] / "verifiers" / "functions"
WAIT_S = 60.0
ANSWERS = ("Paris", "Rome", "paris", "Paris ", "", "Paris\n", "In Paris", "Lyon")


async def test_right_rewards_come_out_of_both_doors(
    start: StartProcess, store_settings: StoreSettings, tmp_path: Path
) -> None:
    api = await (await start()).up()
    functions = {"ASSAY_VERIFIERS__FUNCTION_PATHS": json.dumps([str(FUNCTIONS)])}
    stages = "match", "function.run"
    async with (
        worker_process(store_settings, tmp_path, *stages, **functions),
        asyncio.timeout(WAIT_S),
    ):
        await _train(api.grpc)
        await _score_over_http(api.http)
        await _any_bytes(api.grpc, api.http)
        await _transcripts_and_artifacts(api.grpc, api.http)


async def test_a_group_is_judged_as_a_whole_through_both_doors(
    start: StartProcess, store_settings: StoreSettings, tmp_path: Path
) -> None:
    api = await (await start()).up()
    stages = "math.measure", "relative.length"
    async with (
        worker_process(store_settings, tmp_path, *stages),
        asyncio.timeout(WAIT_S),
    ):
        await _group_over_grpc(api.grpc)
        await _group_over_http(api.http)


def _concise(name: str, response: str) -> Request:
    return Request(request_id=name, group_id="p0", response=response, reference={"answers": ["2"]})


async def _group_over_grpc(url: str) -> None:
    async with Client(url) as client:
        task = await client.register_task("concise", pipeline="math.concise")
        with pytest.raises(InvalidRequest) as caught:
            await client.open_batch(task)
        assert caught.value.field == "group_size"
        batch = await client.open_batch(task, group_size=4)
        await batch.submit([_concise("short", "\\boxed{2}"), _concise("gone", "\\boxed{2}")])
        await batch.cancel_requests(request_ids=["gone"])
        await batch.submit([_concise("long", 20 * "so " + "\\boxed{2}")])
        await batch.submit([_concise("wrong", "\\boxed{3}")])
        await batch.seal()
        scores = await batch.collect()
    rewards = {result.request_id: result.reward for result in scores.results}
    assert rewards == {"short": 1.25, "long": 0.75, "wrong": 0.0, "gone": None}


async def _group_over_http(url: str) -> None:
    answers = ["\\boxed{2}", 20 * "so " + "\\boxed{2}"]
    requests: list[dict[str, object]] = [
        {"request_id": str(i), "response": answer, "reference": {"answers": ["2"]}}
        for i, answer in enumerate(answers)
    ]
    body = {"pipeline": "math.concise", "requests": requests}
    async with httpx.AsyncClient(base_url=url, timeout=WAIT_S) as http:
        refused = await http.post("/v1/score", json=body)
        assert refused.status_code == 400
        assert "requests[0].group_id" in refused.text
        for one in requests:
            one["group_id"] = "p0"
        answer = await http.post("/v1/score", json=body)
    found = answer.json()["results"]
    assert [result["reward"] for result in found] == [1.25, 0.75]
    assert [part["name"] for part in found[0]["components"]] == ["right", "length"]


async def _train(url: str) -> None:
    requests = [
        Request(
            request_id=f"p0/k{index}",
            group_id="p0",
            response=answer,
            reference={"answers": ["Paris"]},
        )
        for index, answer in enumerate(ANSWERS)
    ]
    async with Client(url) as client:
        task = await client.register_task("task", pipeline="exact")
        batch = await client.open_batch(task, size=len(requests), group_size=len(requests))
        await batch.submit(requests)
        scores = await batch.collect()
    rewards = {result.request_id: result.reward for result in scores.results}
    right = {f"p0/k{i}" for i, answer in enumerate(ANSWERS) if answer.strip() == "Paris"}
    assert {name for name, reward in rewards.items() if reward == 1.0} == right
    assert len(rewards) == len(ANSWERS)
    [group] = scores.groups
    assert group.mean == len(right) / len(ANSWERS)


async def _score_over_http(url: str) -> None:
    body = {
        "pipeline": "exact",
        "requests": [
            {"request_id": str(i), "response": answer, "reference": {"answers": ["Paris"]}}
            for i, answer in enumerate(ANSWERS[:2])
        ],
    }
    async with httpx.AsyncClient(base_url=url, timeout=WAIT_S) as http:
        answer = await http.post("/v1/score", json=body)
    assert [result["reward"] for result in answer.json()["results"]] == [1.0, 0.0]


async def _transcripts_and_artifacts(grpc_url: str, http_url: str) -> None:
    """What comes with a response reaches the judge; a transcript may stand for the response."""
    said = [{"role": "user", "content": "Where?"}, {"role": "assistant", "content": "Paris"}]
    file = b"\xff" * 30_000  # in a reader process, not in the API
    settings = {"function": "mine:looks_at_all"}
    exact = {"answers": ["Paris"]}
    async with Client(grpc_url) as client, httpx.AsyncClient(base_url=http_url) as http:
        by_messages = Request(request_id="r", messages=said, reference=exact)
        assert (await client.score([by_messages], pipeline="exact")).rewards == [1.0]
        with_file = Request(
            request_id="r", messages=said, artifacts={"out/a.bin": file}, reference={}
        )
        scores = await client.score([with_file], pipeline="python_function", settings=settings)
        assert scores.rewards == [3_003.0]
        assert scores.results[0].rescorable
        stored = {"out/a.bin": await client.put_artifact(file)}
        with_stored = Request(request_id="r", messages=said, artifacts=stored, reference={})
        scores = await client.score([with_stored], pipeline="python_function", settings=settings)
        assert scores.rewards == [3_003.0]
        body: dict[str, Any] = {"request_id": "r", "messages": said, "reference": exact}
        sent: dict[str, Any] = {"pipeline": "exact", "requests": [body]}
        answer = await http.post("/v1/score", json=sent, timeout=WAIT_S)
        assert answer.json()["results"][0]["reward"] == 1.0
        coded = base64.b64encode(file[:10]).decode()
        body |= {
            "reference": {},
            "artifacts": [{"name": "out/a.bin", "content_base64": coded}],
        }
        sent = {"pipeline": "python_function", "settings": settings, "requests": [body]}
        answer = await http.post("/v1/score", json=sent, timeout=WAIT_S)
        [result] = answer.json()["results"]
        assert result["reward"] == 4.0
        assert result["pipeline_version"] == scores.results[0].pipeline_version != ""


STRANGE = (b"\0", b"\xff\xfe", b"Paris\0", b"\xffParis", b"\xed\xa0\x80", b"\xc0\xaf\0")
DEEP_SCHEMA = {
    "type": "object",
    "additionalProperties": {"$ref": "#/$defs/lists"},
    "$defs": {"lists": {"type": "array", "items": {"$ref": "#/$defs/lists"}}},
}
JUDGED: dict[str, tuple[dict[str, Any], bytes]] = {
    "exact": ({"answers": ["Paris"]}, b"Paris"),
    "choice": ({"answer": "B"}, b"The answer is B."),
    "regex": ({"pattern": "Paris", "whole": True}, b"Paris"),
    "json_schema": ({"schema": DEEP_SCHEMA}, b'{"a": ' + b"[" * 900 + b"]" * 900 + b"}"),
}


async def _any_bytes(grpc_url: str, http_url: str) -> None:
    """NUL, lone surrogates and what is not UTF-8 are judged among ordinary responses."""
    async with Client(grpc_url) as client, httpx.AsyncClient(base_url=http_url) as http:
        for pipeline, (reference, right) in JUDGED.items():
            responses: list[str | bytes] = [right, *STRANGE, "\ud800", "a\0b", right.decode()]
            wanted = [1.0, *[0.0] * (len(responses) - 2), 1.0]
            requests = [
                Request(request_id=f"r{at}", response=response, reference=reference)
                for at, response in enumerate(responses)
            ]
            scores = await client.score(requests, pipeline=pipeline)
            assert scores.rewards == wanted
            for result in scores.results:
                result.evidence.extracted.encode()  # valid text, whatever the response was
            body = {
                "pipeline": pipeline,
                "requests": [
                    {"request_id": f"r{at}", "reference": reference, **_as_json(response)}
                    for at, response in enumerate(responses)
                ],
            }
            content = json.dumps(body)
            headers = {"content-type": "application/json"}
            answer = await http.post("/v1/score", content=content, headers=headers, timeout=WAIT_S)
            assert [result["reward"] for result in answer.json()["results"]] == wanted


def _as_json(response: str | bytes) -> dict[str, str]:
    if isinstance(response, bytes):
        return {"response_base64": base64.b64encode(response).decode()}
    return {"response": response}
