"""Every route of the gateway by each role; a new route is tested without a line here."""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
from typing import TYPE_CHECKING, NamedTuple

from assay.config.access import AuditSettings, Role, TenantSettings, TokenSettings
from assay.edge.access import rules
from assay.edge.access.audit import Audit
from assay.edge.clock import Clock
from assay.rollout.gateway import app

if TYPE_CHECKING:
    from pathlib import Path

    import httpx
    from tests.rollout.gateway.gateways import RunGateway


class Call(NamedTuple):
    name: str
    method: str
    path: str


def calls() -> list[Call]:
    """Every `Route(...)` of the application's source: path, handler, methods."""
    found = []
    for node in ast.walk(ast.parse(inspect.getsource(app))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Route":
            path, handler = node.args
            methods = [word.value for word in node.keywords if word.arg == "methods"]
            method = ast.literal_eval(methods[0])[0] if methods else "GET"
            text: str = eval(ast.unparse(path), {"SESSION": app.SESSION})
            found.append(Call(ast.unparse(handler).rpartition(".")[2], method, text))
    return found


def tenant(name: str) -> TenantSettings:
    """With one token per role, named after both."""
    tokens = tuple(
        TokenSettings.model_validate(
            {"sha256": hashlib.sha256(f"{name}-{role}".encode()).hexdigest(), "roles": [role]}
        )
        for role in Role
    )
    return TenantSettings(tokens=tokens)


def test_every_route_has_a_rule_and_every_rule_a_route() -> None:
    assert {call.name for call in calls()} == set(rules.GATEWAY)


async def test_each_route_is_for_its_roles_and_its_tenant_alone(run_gateway: RunGateway) -> None:
    own = await run_gateway(tenants={"red": tenant("red"), "blue": tenant("blue")})

    def key(token: str) -> dict[str, str]:
        return {"authorization": f"Bearer {token}"}

    made = await own.http.post("/sessions", json={}, headers=key(f"red-{Role.SUBMIT}"))
    names = {"session_id": made.json()["session_id"], "model:path": "m"}
    for name, method, path in sorted(calls(), key=lambda call: call.method == "DELETE"):
        url = path
        for field, value in names.items():
            url = url.replace("{" + field + "}", value)
        for token in ("unknown", "red"):
            answer = await own.http.request(method, url, headers=key(token))
            assert answer.status_code == 401, (name, token)
        for role in Role:
            allowed = role in rules.GATEWAY[name]
            foreign = await own.http.request(method, url, headers=key(f"blue-{role}"))
            if not allowed:
                assert foreign.status_code == 403, (name, role)
            elif "session_id" in path:
                assert foreign.status_code == 404, (name, role)
            if not allowed:
                answer = await own.http.request(method, url, headers=key(f"red-{role}"))
                assert answer.status_code == 403, (name, role)
    state = await own.http.get(f"/sessions/{names['session_id']}", headers=key("red-read"))
    assert state.status_code == 200  # no refused call has closed it


async def test_what_was_done_and_who_was_refused_is_in_the_audit_log(
    run_gateway: RunGateway, tmp_path: Path
) -> None:
    audit = Audit(tmp_path, "gateway", AuditSettings(), Clock())
    own = await run_gateway(tenants={"red": tenant("red"), "blue": tenant("blue")}, audit=audit)

    async def call(method: str, path: str, token: str, body: object = None) -> httpx.Response:
        headers = {"authorization": f"Bearer {token}"}
        return await own.http.request(method, path, headers=headers, json=body)

    made = (await call("POST", "/sessions", "red-submit", {})).json()
    place, key = f"/sessions/{made['session_id']}", made["api_key"]
    await call("POST", f"{place}/v1/completions", key, {"prompt": "of", "max_tokens": 2})
    await call("GET", place, "red-read")
    await call("GET", place, "unknown")
    await call("DELETE", place, "blue-read")
    await call("DELETE", place, "red-submit")

    def lines(name: str) -> list[tuple[str, str, str]]:
        text = (tmp_path / f"gateway.{name}.jsonl").read_text()
        assert key not in text
        found = map(json.loads, text.splitlines())
        return [(one["tenant"], one["call"], one["result"]) for one in found]

    assert lines("calls") == [("red", "POST /sessions", "ok"), ("red", f"DELETE {place}", "ok")]
    assert lines("refused") == [
        ("", f"GET {place}", "unauthenticated"),
        ("blue", f"DELETE {place}", "permission_denied"),
    ]
