"""Who sees what on the console: its operations by role, and nothing of another tenant's."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from pydantic import SecretStr
from tests.console.scene import (
    OPERATOR,
    STREAM,
    TENANTS,
    caller,
    fill,
    judged,
    readings,
)

from assay.config.access import OperatorSettings, Role
from assay.console import routes
from assay.console.page import API
from assay.edge.access import rules

if TYPE_CHECKING:
    from pathlib import Path

    from tests.running import RunApi, Running, RunWorker


@pytest.fixture
async def api(run_api: RunApi, run_worker: RunWorker) -> Running:
    """Two tenants with work of every kind, and an operator."""
    operator = OperatorSettings(token=SecretStr(OPERATOR))
    running = await run_api(tenants=TENANTS, tenant_calls_per_s_max=1e6, operator=operator)
    await run_worker(judged)
    for tenant in TENANTS:
        await fill(running, tenant)
    return running


def operations(running: Running) -> list[tuple[str, str, str]]:
    """Name, method and path of each of the console's operations."""
    console = running.api.console
    assert console is not None
    router: Any = routes._router(console.feed, console.lookup, console.guard.door)
    found = [
        (route.name, method, route.path)
        for route in router.routes
        for method in route.methods - {"HEAD"}
    ]
    assert {name for name, _, _ in found} == set(rules.CONSOLE), "each has a rule, each rule a call"
    return found


def path_of(pattern: str, tenant: str) -> str:
    """The operation's path for what a tenant has."""
    path = pattern.replace("{batch_id}", f"{tenant}-done").replace("{job_id}", "0" * 16)
    return f"{path}?request_id={tenant}-wrong" if path.endswith("/request") else path


async def test_each_operation_is_for_its_roles_alone(api: Running) -> None:
    for name, method, pattern in operations(api):
        path = path_of(pattern, "blue")
        for token in ("", "unknown", "blue"):
            answer = await caller(api, token).ask(path, method=method)
            assert answer.status_code == 401, (name, token)
        for role in Role:
            if role in rules.CONSOLE[name] and path == STREAM:
                await caller(api, f"blue-{role}").look()
                continue
            asks = caller(api, f"blue-{role}")
            answer = await asks.ask(path, method=method, headers={"x-assay-console": "1"})
            lacks = "lacks the role" in answer.text
            assert lacks == (role not in rules.CONSOLE[name]), (name, role, answer.text)


async def test_a_tenant_sees_nothing_of_another(api: Running) -> None:
    red = caller(api, "red-read")
    told = [str(await red.look()), (await red.ask(f"{API}dead-letters")).text]
    for name, method, pattern in operations(api):
        if pattern == STREAM or method == "POST":
            continue
        told.append((await red.ask(path_of(pattern, "red"))).text)
        for tenant in ("blue", "nobodys"):
            for named in ("", "&tenant=blue", "&tenant=red"):
                path = path_of(pattern, tenant)
                path += named if "?" in path else named.replace("&", "?")
                if "batch_id" in pattern:
                    answer = await red.ask(path)
                    refusals = (f"no batch {tenant}-done", "pools are shared")
                    assert any(map(answer.text.__contains__, refusals)), (name, path, answer.text)
                    told.append(answer.text.replace(f"{tenant}-done", "it"))
    assert any("red-wrong" in one for one in told)
    assert not any("blue" in one for one in told)


async def test_foreign_and_missing_batches_are_refused_in_the_same_words(api: Running) -> None:
    red = caller(api, "red-read")
    for part in ("", "/results", "/request?request_id=x"):
        foreign = await red.ask(f"{API}batches/blue-done{part}")
        missing = await red.ask(f"{API}batches/none-done{part}")
        assert foreign.status_code == missing.status_code == 404
        assert foreign.text.replace("blue", "none") == missing.text


async def test_a_dead_letter_is_replayed_by_its_tenant_or_the_operator_alone(
    api: Running, run_worker: RunWorker
) -> None:
    del run_worker
    own = {"x-assay-console": "1"}
    [letter] = (await caller(api, "red-read").found(f"{API}dead-letters"))["dead_letters"]
    assert letter["error"] == "tool broke: dead red-text"
    path = f"{API}dead-letters/{letter['job_id']}/replay"
    for token, status in (("blue-submit", 404), ("red-read", 403)):
        assert (await caller(api, token).ask(path, "POST", headers=own)).status_code == status
    assert (await caller(api, "red-submit").ask(path, "POST")).status_code == 403, "no header"
    [still] = (await caller(api, "red-read").found(f"{API}dead-letters"))["dead_letters"]
    assert still == letter
    assert (await caller(api, "red-submit").ask(path, "POST", headers=own)).status_code == 200
    async with asyncio.timeout(30):
        while True:  # it fails again, and is a letter again
            letters = (await caller(api, OPERATOR).found(f"{API}dead-letters"))["dead_letters"]
            reds = [one for one in letters if one["tenant"] == "red"]
            if reds and reds[0]["died_ns"] > letter["died_ns"]:
                break
    assert (await caller(api, OPERATOR).ask(path, "POST", headers=own)).status_code == 200


@pytest.mark.parametrize("job", ["..", "p:0000000000000001", "0", "x" * 16, "%00"])
async def test_what_is_no_job_is_no_dead_letter(api: Running, job: str) -> None:
    asks = caller(api, OPERATOR)
    path = f"{API}dead-letters/{job}/replay"
    answer = await asks.ask(path, "POST", headers={"x-assay-console": "1"})
    assert answer.status_code == 404


async def test_the_operator_sees_all_tenants(api: Running) -> None:
    look = await caller(api, OPERATOR).look()
    assert look["operator"]
    assert {one["batch_id"] for one in look["batches"]} == {"red-open", "blue-open"}
    assert {one["batch_id"] for one in look["completed"]} == {"red-done", "blue-done"}
    stages = {one["stage"]: one for one in look["stages"]}
    assert stages["noop"]["dead_letters"] == 2
    tasks = {one["task_id"]: one for one in look["tasks"]}
    assert tasks["red-task"]["unjudged"] == {"INFRA_FAILED": 1}
    page = await caller(api, OPERATOR).ask(f"{API}batches/red-done/results?tenant=red")
    assert "red-wrong" in page.text


async def test_the_token_stands_in_no_log_line(
    api: Running,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    caplog.set_level(logging.DEBUG)
    for token in ("red-read", "wrong-secret"):
        await caller(api, token).ask(f"{API}batches/red-done")
        await caller(api, token).ask(f"{API}batches/none")
    written = caplog.text + "".join(capfd.readouterr())
    written += "".join(file.read_text() for file in tmp_path.rglob("*.jsonl"))
    assert "refused" in written, "something was logged"
    assert "red-read" not in written
    assert "wrong-secret" not in written


async def test_a_stream_ends_when_its_token_is_removed(
    run_api: RunApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.edge.calls.CHECK_AGAIN_S", 0.1)
    file = tmp_path / "tenants.json"
    file.write_text(json.dumps(TENANTS))
    running = await run_api(tenants_file=file)
    seen = []
    async with asyncio.timeout(60):
        with contextlib.suppress(httpx.RemoteProtocolError):  # it is cut
            async for kind, data in readings(caller(running, "red-read")):
                seen.append((kind, data))
                file.write_text(json.dumps({"blue": TENANTS["blue"]}))
    assert seen[0][0] == "look"


async def test_streams_have_the_tenants_limit(run_api: RunApi) -> None:
    tenants = {name: {**one, "streams_concurrent_max": 1} for name, one in TENANTS.items()}
    running = await run_api(tenants=tenants, tenant_calls_per_s_max=1e6)
    red = caller(running, "red-read")
    async with asyncio.timeout(60):
        async for _ in readings(red):
            answer = await red.ask(STREAM)
            assert answer.status_code == 429
            await caller(running, "blue-read").look()
            break
