"""Files that are sent ahead of their requests, through both doors."""

import hashlib
import secrets
from typing import Any

import httpx
import pytest
from tests.running import RunApi, Running

from assay.client import Backoff, Client, Request, StoredArtifact
from assay.core.errors import FailedPrecondition, InvalidRequest, Saturated, TooLarge

CONTENT = secrets.token_bytes(3 * 1024**2)
NAME = hashlib.sha256(CONTENT).hexdigest()
ABSENT = "0" * 64
TENANTS = {
    name: {"token_sha256": hashlib.sha256(name.encode()).hexdigest()} for name in ("red", "blue")
}


def referring(*names: str) -> list[Request]:
    """One request with the files of these hashes."""
    files = {f"f{i}": StoredArtifact(sha256=name) for i, name in enumerate(names)}
    return [Request(request_id="r", response="x", reference={}, artifacts=files)]


def functions() -> dict[str, Any]:
    return {"pipeline": "python_function", "settings": {"function": "mine:looks_at_all"}}


async def submitted(running: Running, token: str, requests: list[Request]) -> tuple[int, int]:
    """Submit in a new batch; how many were accepted, and how many bytes the tenant has open."""
    async with Client(running.addresses.grpc, token=token) as client:
        task = await client.register_task("t", **functions())
        batch = await client.open_batch(task)
        try:
            return (await batch.submit(requests)).accepted, 0
        finally:
            assert (await batch.status()).submitted in {0, len(requests)}


async def test_a_file_is_sent_once_and_named_by_its_hash(run_api: RunApi) -> None:
    running = await run_api(tenants=TENANTS)
    async with Client(running.addresses.grpc, token="red") as client:
        stored = await client.put_artifact(CONTENT)
        again = await client.put_artifact(CONTENT)
    assert (stored.sha256, stored.size) == (NAME, len(CONTENT))
    assert again.kept_until_ns >= stored.kept_until_ns
    assert await submitted(running, "red", referring(NAME, NAME)) == (1, 0)


async def test_what_was_not_uploaded_is_refused_by_its_place_and_nothing_is_stored(
    run_api: RunApi,
) -> None:
    running = await run_api(tenants=TENANTS)
    async with Client(running.addresses.grpc, token="red") as client:
        await client.put_artifact(CONTENT)
    with pytest.raises(FailedPrecondition) as caught:
        await submitted(running, "red", referring(NAME, ABSENT))
    assert caught.value.field == "requests[0].artifacts[1].sha256"


async def test_a_tenant_cannot_learn_that_another_has_uploaded_the_same(run_api: RunApi) -> None:
    running = await run_api(tenants=TENANTS)
    async with Client(running.addresses.grpc, token="red") as client:
        await client.put_artifact(CONTENT)
    refusals = []
    for name in (NAME, ABSENT):
        with pytest.raises(FailedPrecondition) as caught:
            await submitted(running, "blue", referring(name))
        refusals.append((caught.value.message, caught.value.field))
    assert refusals[0] == refusals[1]


@pytest.mark.parametrize("name", ["A" * 64, "0" * 63, "../" + "0" * 61, "0" * 65])
async def test_a_hash_has_one_form(run_api: RunApi, name: str) -> None:
    running = await run_api(tenants=TENANTS)
    with pytest.raises(InvalidRequest) as caught:
        await submitted(running, "red", referring(name))
    assert caught.value.field == "requests[0].artifacts[0].sha256"


async def test_files_are_bounded_alone_in_a_request_and_in_all(run_api: RunApi) -> None:
    tenants = {"red": {**TENANTS["red"], "uploads_bytes_max": 2_500}}
    running = await run_api(tenants=tenants, request_artifacts_bytes_max=1_000)
    async with Client(running.addresses.grpc, token="red") as client:
        with pytest.raises(TooLarge):
            await client.put_artifact(b"x" * 1_001)
        with pytest.raises(InvalidRequest):
            await client.put_artifact(b"")
        names = [(await client.put_artifact(bytes([i]) * 600)).sha256 for i in range(4)]
        with pytest.raises(TooLarge) as caught:
            await submitted(running, "red", referring(*names[:2]))
        assert caught.value.field == "requests[0].artifacts"
    async with Client(running.addresses.grpc, token="red", backoff=Backoff(total_s=0.0)) as client:
        with pytest.raises(Saturated):
            await client.put_artifact(b"y" * 600)


async def test_over_http_a_file_is_put_under_its_hash(run_api: RunApi) -> None:
    running = await run_api(tenants=TENANTS)
    headers = {"authorization": "Bearer red"}
    async with httpx.AsyncClient(base_url=running.addresses.http, headers=headers) as http:
        put = await http.put(f"/v1/artifacts/{NAME}", content=CONTENT)
        assert (put.status_code, put.json()["sha256"]) == (200, NAME)
        for name in (ABSENT, "short"):
            wrong = await http.put(f"/v1/artifacts/{name}", content=CONTENT)
            assert (wrong.status_code, "sha256" in wrong.text) == (400, True)
        await http.post("/v1/tasks", json={"task_id": "t", **functions()})
        await http.post("/v1/batches", json={"task_id": "t", "batch_id": "b"})
        request: dict[str, Any] = {"request_id": "r", "response": "x", "reference": {}}
        for digest, status in ((ABSENT, 409), (NAME, 200)):
            request["artifacts"] = [{"name": "f", "sha256": digest}]
            sent = await http.post("/v1/batches/b/requests", json={"requests": [request]})
            assert sent.status_code == status, sent.text
        request["artifacts"] = [{"name": "f", "sha256": NAME, "content": "x"}]
        both = await http.post("/v1/batches/b/requests", json={"requests": [request]})
        assert both.status_code == 400


async def test_over_http_another_tenants_file_and_none_are_one_answer(run_api: RunApi) -> None:
    """By a submission and by a score; nothing of the message is stored."""
    running = await run_api(tenants=TENANTS)
    async with httpx.AsyncClient(base_url=running.addresses.http, timeout=60) as http:
        red, blue = ({"authorization": f"Bearer {name}"} for name in TENANTS)
        assert (await http.put(f"/v1/artifacts/{NAME}", content=CONTENT, headers=red)).is_success
        await http.post("/v1/tasks", json={"task_id": "t", **functions()}, headers=blue)
        await http.post("/v1/batches", json={"task_id": "t", "batch_id": "b"}, headers=blue)
        told = []
        for name in (NAME, ABSENT):
            request: dict[str, Any] = {"request_id": "r", "response": "x", "reference": {}}
            request["artifacts"] = [{"name": "f", "sha256": name}]
            for path in ("/v1/batches/b/requests", "/v1/score"):
                body = {"requests": [request]} | ({"task_id": "t"} if "score" in path else {})
                answer = await http.post(path, json=body, headers=blue)
                assert answer.status_code == 409
                told.append((path, answer.json(), set(answer.headers)))
        assert told[:2] == told[2:]
        batch = (await http.get("/v1/batches/b", headers=blue)).json()
        assert batch["submitted"] == 0
