"""A call that shows two tokens is no one's, wherever it shows them; the same one twice is one."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any

import grpc
import httpx
import pytest
from prometheus_client import CollectorRegistry

from assay.config.access import OperatorSettings
from assay.edge.auth import Operator, one_authorization
from assay.edge.probes import Probes
from assay.v1 import reward_pb2, reward_pb2_grpc

if TYPE_CHECKING:
    from tests.running import RunApi

TENANTS = {
    name: {"token_sha256": hashlib.sha256(name.encode()).hexdigest()} for name in ("red", "blue")
}
TWO = [("red", "blue"), ("blue", "red"), ("red", "none"), ("none", "red"), ("red", "red", "blue")]
SAME = [("red",), ("red", "red")]


@pytest.mark.parametrize("tokens", [*TWO, *SAME])
async def test_two_tokens_are_no_ones_token(run_api: RunApi, tokens: tuple[str, ...]) -> None:
    running = await run_api(tenants=TENANTS)
    expected = tokens in SAME
    shown = [("authorization", f"Bearer {token}") for token in tokens]
    async with httpx.AsyncClient(base_url=running.addresses.http, timeout=60) as http:
        status = (await http.get("/v1/pipelines", headers=shown)).status_code
        assert status == (200 if expected else 401)
        own = [*shown[1:], ("x-api-key", tokens[0])]  # a header of the Open Reward Standard
        status = (await http.get("/list_environments", headers=own)).status_code
        assert status == (200 if expected else 401)
    async with grpc.aio.insecure_channel(running.addresses.grpc) as channel:
        stub: Any = reward_pb2_grpc.RewardServiceStub(channel)
        request = reward_pb2.ListPipelinesRequest()
        call = stub.ListPipelines(request, metadata=tuple(shown), timeout=60)
        assert await call.code() is (
            grpc.StatusCode.OK if expected else grpc.StatusCode.UNAUTHENTICATED
        )


@pytest.mark.parametrize(
    ("tokens", "status"), [*((two, 401) for two in TWO), (("red", "red"), 200)]
)
async def test_two_tokens_are_not_the_operators(tokens: tuple[str, ...], status: int) -> None:
    probes = Probes(
        why_not_ready=lambda: "",
        registry=CollectorRegistry(),
        operator=Operator(OperatorSettings.model_validate({"token": "red"})),
    )
    port = await probes.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = "".join(f"Authorization: Bearer {token}\r\n" for token in tokens)
    writer.write(f"GET /metrics HTTP/1.1\r\n{lines}\r\n".encode())
    answer = await reader.readline()
    writer.close()
    await probes.stop()
    assert answer.split()[1] == str(status).encode()


def test_one_authorization_is_that_of_all_values() -> None:
    assert one_authorization([]) == ""
    assert one_authorization(["Bearer a", "Bearer a"]) == "Bearer a"
    assert one_authorization(["Bearer a", "Bearer b"]) == "Bearer a, Bearer b"
