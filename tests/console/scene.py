"""A reward API with two tenants, whose batches, failures and dead letters differ in every name."""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from assay.core.codec import pack_body
from assay.core.outcome import Outcome
from assay.core.records import Claim, EndRequest, FailAttempt, Finish
from assay.core.verdict import Evidence, ResourceUse

if TYPE_CHECKING:
    from tests.running import Running

TENANTS = {
    name: {
        "tokens": [
            {"sha256": hashlib.sha256(f"{name}-{role}".encode()).hexdigest(), "roles": [role]}
            for role in ("submit", "read", "operate", "worker")
        ]
    }
    for name in ("red", "blue")
}
OPERATOR = "the-operators-token"
STREAM = "/console/api/stream"


def judged(claim: Claim) -> Finish:
    """Say in the evidence what the response says: `dead` fails, `wrong` has no reward."""
    text = claim.response.decode()
    if text.startswith("dead"):
        return FailAttempt(error=f"tool broke: {text}")
    reward = 0.0 if text.startswith("wrong") else 1.0
    evidence = Evidence(verdict="fail" if reward == 0 else "pass", stderr_tail=text, error=text)
    body = pack_body(evidence, ResourceUse(cpu_s=0.5, memory_bytes_peak=2**20))
    return EndRequest(outcome=Outcome.SCORED, reward=reward, body=body)


@dataclass(frozen=True, slots=True)
class Caller:
    """One token at one service."""

    base: str
    token: str

    def headers(self) -> dict[str, str]:
        """What its calls show."""
        return {"authorization": f"Bearer {self.token}"} if self.token else {}

    async def ask(self, path: str, method: str = "GET", **more: Any) -> httpx.Response:
        headers = {**self.headers(), **more.pop("headers", {})}
        async with httpx.AsyncClient(base_url=self.base, headers=headers, timeout=60) as http:
            return await http.request(method, path, **more)

    async def found(self, path: str, **more: Any) -> Any:
        """The answer of a call that succeeds."""
        answer = await self.ask(path, **more)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def look(self) -> dict[str, Any]:
        """The first reading of a stream."""
        async with asyncio.timeout(60):
            async for kind, data in readings(self):
                assert kind == "look", data
                found: dict[str, Any] = data
                return found
        raise AssertionError("the stream ended")

    async def submit(
        self, task: str, batch: str, texts: dict[str, str], size: int, group_size: int = 4
    ) -> None:
        """Submit these responses by request id."""
        opened = {"task_id": task, "batch_id": batch, "size": size, "group_size": group_size}
        for path, body in (
            ("tasks", {"task_id": task, "pipeline": "noop"}),
            ("batches", opened),
            (
                f"batches/{batch}/requests",
                {
                    "requests": [
                        {"request_id": name, "response": text, "reference": {}, "group_id": "g"}
                        for name, text in texts.items()
                    ]
                },
            ),
        ):
            await self.found(f"/v1/{path}", method="POST", json=body)


async def readings(caller: Caller) -> Any:
    """The events of a stream."""
    async with (
        httpx.AsyncClient(base_url=caller.base, headers=caller.headers(), timeout=60) as http,
        http.stream("GET", STREAM) as lines,
    ):
        assert lines.status_code == 200
        assert lines.headers["content-type"].startswith("text/event-stream")
        kind = ""
        async for line in lines.aiter_lines():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                yield kind, json.loads(line.removeprefix("data: "))


def caller(running: Running, token: str) -> Caller:
    """Calls with a token."""
    return Caller(running.addresses.http, token)


async def until_ended(running: Running, tenant: str, batch: str, ended: int) -> None:
    """Wait for results."""
    asks = caller(running, f"{tenant}-read")
    while (await asks.found(f"/v1/batches/{batch}"))["ended"] < ended:
        await asyncio.sleep(0.02)


async def fill(running: Running, tenant: str) -> None:
    """A complete batch with a wrong, a right and a dead request, and an open one."""
    asks = caller(running, f"{tenant}-submit")
    texts = {
        f"{tenant}-right": f"{tenant}-text",
        f"{tenant}-wrong": f"wrong {tenant}-text",
        f"{tenant}-dead": f"dead {tenant}-text",
    }
    await asks.submit(f"{tenant}-task", f"{tenant}-done", texts, size=3)
    await asks.submit(f"{tenant}-task", f"{tenant}-open", {f"{tenant}-1": f"{tenant}-t"}, size=5)
    await until_ended(running, tenant, f"{tenant}-done", 3)
    await until_ended(running, tenant, f"{tenant}-open", 1)
