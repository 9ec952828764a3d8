"""How clients of other systems meet the door: tokens, statuses, equal calls, calls given up."""

import asyncio
import hashlib
from typing import Any

import httpx
import pytest

from assay.core.codec import pack_body
from assay.core.ids import TenantId
from assay.core.outcome import Outcome
from assay.core.records import Claim, EndRequest, Finish
from assay.core.verdict import Evidence, ResourceUse
from assay.edge.access import rules
from assay.reward.endpoints import ors, sandbox_fusion, sandbox_fusion_bodies, trainers
from assay.reward.endpoints.calling import Calling, _Shared

TOKEN = "a token of twenty-four characters"
SLIME = {"prompt": "", "response": "\\boxed{5}", "label": "5"}
RUN = {"code": "print(1)", "language": "python", "compile_timeout": 120, "run_timeout": 120}


class Fails:
    """Judges nothing, and counts."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, _claim: Claim) -> Finish:
        self.seen += 1
        body = pack_body(Evidence(error="the slot died"), ResourceUse())
        return EndRequest(outcome=Outcome.INFRA_FAILED, reward=None, body=body)


async def until_calls(api: Any, count: int) -> None:
    while api.api.server.calls != count:
        await asyncio.sleep(0.01)


async def test_a_token_comes_as_bearer_in_the_url_or_in_rolls_header(run_api: Any) -> None:
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    api = await run_api(tenants={"acme": {"token_sha256": digest}})
    async with httpx.AsyncClient(base_url=api.addresses.http, timeout=300) as http:
        ways: list[dict[str, Any]] = [
            {"headers": {"Authorization": f"Bearer {TOKEN}"}},
            {"auth": ("anyone", TOKEN)},
            {"headers": {"XRL-Authorization": f"Bearer {TOKEN}"}},
        ]
        for way in ways:
            found = await http.get("/v1/sandboxfusion/v1/ping", **way)
            assert (found.status_code, found.json()) == (200, "pong")
        wrong: list[dict[str, Any]] = [
            {},
            {"auth": ("anyone", "wrong")},
            {"headers": {"Authorization": "Basic ?"}},
        ]
        for way in wrong:
            assert (await http.get("/v1/sandboxfusion/v1/ping", **way)).status_code == 401
            assert (await http.post("/verify", json={}, **way)).status_code == 401
        own = await http.get("/v1/pipelines", auth=("anyone", TOKEN))
        assert own.status_code == 401, "the platform's own routes take bearer tokens only"


async def test_equal_calls_at_the_same_time_are_one_and_a_failure_is_a_sandbox_error(
    api: Any, run_worker: Any
) -> None:
    worker = Fails()
    async with httpx.AsyncClient(base_url=api.addresses.http, timeout=300) as http:
        calls = [
            asyncio.create_task(http.post("/v1/sandboxfusion/run_code", json=RUN)) for _ in range(4)
        ]
        await until_calls(api, 4)
        calls[0].cancel()  # the others still wait for the same work
        await until_calls(api, 3)
        await run_worker(worker, stage="python.run")
        answers = [await call for call in calls[1:]]
        assert worker.seen == 1
        for answer in answers:
            assert answer.status_code == 200
            assert answer.json()["status"] == "SandboxError"
            assert "the slot died" in answer.json()["message"]
        await http.post("/v1/sandboxfusion/run_code", json=RUN)
        assert worker.seen == 2, "a later call has a result of its own"


async def test_a_call_that_was_given_up_does_not_hide_the_equal_one_after_it() -> None:
    part: Any = None  # neither is used: the work is this test's
    calling = Calling(part, part)
    key = (TenantId("red"), b"equal calls")

    def begun() -> _Shared[None]:
        return _Shared(asyncio.sleep(3_600), lambda ended: calling._forget(key, ended))

    def call_again(_: object) -> None:
        calling._shared[key] = begun()

    first = calling._shared[key] = begun()
    caller = asyncio.create_task(first.joined())
    caller.add_done_callback(call_again)
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.wait([caller])
    second = calling._shared[key]
    while not first.done():
        await asyncio.sleep(0)
    assert calling._shared == {key: second}
    assert second is not first
    second._work.cancel()
    await asyncio.wait([second._work])


async def test_a_busy_platform_answers_504_and_keeps_nothing(
    api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox_fusion_bodies, "WAIT_S", 0.2)
    asked = {**RUN, "compile_timeout": 0.001, "run_timeout": 0.001}
    async with httpx.AsyncClient(base_url=api.addresses.http, timeout=300) as http:
        answer = await http.post("/v1/sandboxfusion/run_code", json=asked)
        assert answer.status_code == 504  # no worker serves the stage
        while 'outcome="CANCELLED"' not in (await http.get("/metrics")).text:
            await asyncio.sleep(0.02)


async def test_a_call_without_a_slot_is_504_for_sandbox_fusion_and_429_elsewhere(
    run_api: Any,
) -> None:
    api = await run_api(calls_concurrent_max=1)
    async with httpx.AsyncClient(base_url=api.addresses.http, timeout=300) as http:
        waiting = asyncio.create_task(http.post("/v1/slime/math/rm", json=SLIME))
        await until_calls(api, 1)
        busy = await http.post("/v1/sandboxfusion/run_code", json=RUN)
        other = await http.post("/v1/slime/math/rm", json=SLIME)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    assert (busy.status_code, other.status_code) == (504, 429)


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("run_code", {"language": "python"}, "code"),
        ("run_code", {"code": "", "language": "cobol"}, "language"),
        ("run_code", {**RUN, "files": {"../x": ""}}, "files"),
        ("run_code", {**RUN, "run_timeout": -1}, "run_timeout"),
        (
            "submit",
            {"dataset": "d", "id": 1, "completion": "", "config": {}},
            "config.provided_data",
        ),
        (
            "submit",
            {
                "dataset": "d",
                "id": 1,
                "completion": "",
                "config": {"provided_data": {}, "custom_extract_logic": "import os"},
            },
            "config.custom_extract_logic",
        ),
    ],
)
async def test_a_wrong_field_is_named(api: Any, path: str, body: Any, field: str) -> None:
    async with httpx.AsyncClient(base_url=api.addresses.http, timeout=300) as http:
        refused = await http.post(f"/v1/sandboxfusion/{path}", json=body)
    assert (refused.status_code, refused.json()["error"]["field"]) == (400, field)


@pytest.mark.parametrize("name", ["\u00e9", "%C3%A9", "%FF", "%00", "%20", "a%2Fb", "%F0%9F%98%80"])
async def test_an_environment_of_any_name_is_not_found(api: Any, name: str) -> None:
    async with httpx.AsyncClient(base_url=api.addresses.http, timeout=300) as http:
        for what in ("tools", "splits"):
            assert (await http.get(f"/{name}/{what}")).status_code == 404


async def test_a_large_message_is_read_apart_from_the_door(api: Any, run_worker: Any) -> None:
    worker = Fails()
    await run_worker(worker, stage="python.run")
    large = {**RUN, "stdin": "1," * 200_000}
    async with httpx.AsyncClient(base_url=api.addresses.http, timeout=300) as http:
        answer = await http.post("/v1/sandboxfusion/run_code", json=large)
    assert answer.json()["status"] == "SandboxError"
    assert worker.seen == 1


async def test_every_route_has_a_rule_and_a_token_that_may_only_read_scores_nothing(
    run_api: Any,
) -> None:
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    reader = {"sha256": digest, "roles": ["read"]}
    api = await run_api(tenants={"acme": {"tokens": [reader]}})
    part: Any = None  # routes are only made here, not called
    made = (sandbox_fusion.routes(part, part), trainers.routes(part, part))
    served = [one for router in (*made, ors.routes(part, part, part)) for one in router.routes]
    assert {getattr(one, "name", "") for one in served} == set(rules.ENDPOINTS)
    async with httpx.AsyncClient(base_url=api.addresses.http, timeout=300) as http:
        for path in ("/v1/sandboxfusion/run_code", "/v1/slime/math/rm", "/verify", "/math/call"):
            refused = await http.post(path, json={}, auth=("anyone", TOKEN))
            assert refused.status_code == 403, path
        splits = await http.get("/math/splits", auth=("anyone", TOKEN))
        assert splits.status_code == 200
