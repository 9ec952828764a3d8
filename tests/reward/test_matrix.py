"""Every RPC and every HTTP operation of the reward API by each role and by another tenant.

Operations are read from the descriptors and from the OpenAPI document, so that a new one is tested
without a line here.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

import grpc
import httpx
import pytest
from tests.edge import every_call
from tests.reward.openapi import operations

from assay.config.access import Role
from assay.edge.access import rules

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.running import RunApi, Running, RunWorker

REWARD = [m for m in every_call.methods() if m.containing_service.name == "RewardService"]
OWN = {"task_id": "reds-task", "batch_id": "reds-batch"}
NONE = {"task_id": "no-task", "batch_id": "no-batch"}
TENANTS = {
    "red": {"token_sha256": hashlib.sha256(b"red").hexdigest()},
    "blue": {
        "token_sha256": hashlib.sha256(b"blue").hexdigest(),
        "tokens": [
            {"sha256": hashlib.sha256(role.encode()).hexdigest(), "roles": [role]} for role in Role
        ],
    },
}


@pytest.fixture
async def api(run_api: RunApi, run_worker: RunWorker) -> Running:
    """A service with two tenants, of whom red has a task, a batch and a result."""
    running = await run_api(tenants=TENANTS, tenant_calls_per_s_max=1e6)
    await run_worker()
    async with _http(running, "red") as http:
        task = {"task_id": OWN["task_id"], "pipeline": "noop"}
        batch = {**OWN, "size": 2}
        request = {"request_id": "r", "response": "x", "reference": {}}
        for path, body in (
            ("tasks", task),
            ("batches", batch),
            (f"batches/{OWN['batch_id']}/requests", {"requests": [request]}),
        ):
            answer = await http.post(f"/v1/{path}", json=body)
            assert answer.status_code == 200, answer.text
        while not (await _reds(http))["results"]:
            pass
    return running


def _http(running: Running, token: str) -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    return httpx.AsyncClient(base_url=running.addresses.http, headers=headers, timeout=60)


async def _reds(http: httpx.AsyncClient) -> dict[str, Any]:
    answer = await http.get(f"/v1/batches/{OWN['batch_id']}/results")
    found: dict[str, Any] = answer.json()
    return found


@pytest.fixture
async def channel(api: Running) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(api.addresses.grpc) as channel:
        yield channel


async def test_each_operation_is_for_its_roles_alone(api: Running) -> None:
    async with _http(api, "x") as http:
        found = await operations(http)
        assert [one.name for one in found if not rules.rule_of_operation(one.name)] == []
        for one in found:
            path, body = one.request({**OWN, "pipeline": "noop"})
            for shown in (None, "Bearer unknown", "Basic red", "Bearer"):
                headers = {"authorization": shown} if shown else {"authorization": ""}
                answer = await http.request(one.method, path, content=body, headers=headers)
                assert answer.status_code == 401, (one.name, shown)
                assert answer.json()["error"]["reason"] == "unauthenticated"
            rule = rules.rule_of_operation(one.name) or frozenset()
            for role in Role:
                headers = {"authorization": f"Bearer {role}"}
                answer = await http.request(one.method, path, content=body, headers=headers)
                refused = answer.status_code == 403
                assert refused == (role not in rule), (one.name, role)


async def test_another_tenant_sees_changes_and_learns_nothing(
    api: Running, channel: grpc.aio.Channel
) -> None:
    async with _http(api, "red") as http:
        before = await _reds(http)
    for method in REWARD:
        errors = [
            await every_call.ended(channel, method, every_call.body(method, _given(names)), "blue")
            for names in (OWN, NONE)
        ]
        named = {"task_id", "batch_id"} & set(method.input_type.fields_by_name)
        if named or method.name.startswith("Submit"):
            assert errors[0] is not None, method.name
            assert errors[0].code() == grpc.StatusCode.NOT_FOUND, (method.name, errors[0])
        assert _told(errors[0]) == _told(errors[1]), "as if it did not exist"
    async with _http(api, "blue") as http:
        for one in await operations(http):
            told = []
            for names in (OWN, NONE):
                path, body = one.request({**_given(names), "response": "x"})
                answer = await http.request(one.method, path, content=body)
                told.append(_words(answer.text))
                named = set(NONE) & set(re.findall(r"{(\w+)}", one.path))
                if named or one.name == "OpenBatch":
                    assert answer.status_code == 404, (one.name, answer.text)
            assert told[0] == told[1], one.name
    async with _http(api, "red") as http:
        assert await _reds(http) == before


def _given(names: dict[str, str]) -> dict[str, Any]:
    return {**names, "pipeline": "", "settings_json": "", "reference_json": b"{}", "size": 2}


def _told(error: grpc.aio.AioRpcError | None) -> tuple[object, ...]:
    if error is None:
        return ()
    trailers = dict(error.trailing_metadata() or ())
    return (error.code(), _words(error.details() or ""), trailers["reason"], trailers.get("field"))


def _words(text: str) -> str:
    """A text without what the caller itself has sent, and without names made for it."""
    return re.sub(r"reds-\w+|no-\w+|[0-9a-f]{32}|\d{13,}", "NAME", text)
