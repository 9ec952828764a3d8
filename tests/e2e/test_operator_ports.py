"""TLS of the operator's ports of one platform: the pool service, the planner, and their metrics.

Of the callers one is the operator. The platform's parts call each other in the same way, so its
planner sees the pools only where both ends hold.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import ssl
from typing import TYPE_CHECKING, Any

import grpc
import httpx
import pytest
from tests.certificates import Authority
from tests.e2e.commands import HANGS_S, assay, platform_up

from assay.config.access import OperatorSettings
from assay.edge.access.channels import OperatorChannels
from assay.v1 import planner_pb2, planner_pb2_grpc, worker_pb2, worker_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NAME = "assay.internal"
OPERATOR = "the operator's"
TENANT = "a tenant's"


class Caller:
    """What a caller believes and shows."""

    def __init__(self, believed: Path | None, shown: tuple[Path, Path] | None, token: str) -> None:
        certificate, key = shown or (None, None)
        self.tls = OperatorSettings(tls_ca=believed, tls_server_name=NAME)
        self.shown = shown
        self.token = token
        self.channels = OperatorChannels(
            self.tls.model_copy(update={"tls_certificate": certificate, "tls_key": key})
        )

    async def over_grpc(self, address: str, *, of_planner: bool) -> str:
        async with self.channels.to(address) as channel:
            stub: Any
            if of_planner:
                stub = planner_pb2_grpc.PlannerServiceStub(channel).GetPlan
                request: Any = planner_pb2.GetPlanRequest()
            else:
                stub = worker_pb2_grpc.PoolServiceStub(channel).ListPools
                request = worker_pb2.ListPoolsRequest()
            metadata = (("authorization", f"Bearer {self.token}"),) if self.token else ()
            try:
                await stub(request, metadata=metadata, timeout=60)
            except grpc.aio.AioRpcError as failed:
                return failed.code().name
        return "OK"

    async def over_http(self, address: str, path: str) -> str:
        context: Any = False
        if self.tls.tls_ca is not None:
            context = ssl.create_default_context(cafile=str(self.tls.tls_ca))
            if self.shown is not None:
                context.load_cert_chain(*self.shown)
        scheme = "http" if self.tls.tls_ca is None else "https"
        headers = {"authorization": f"Bearer {self.token}"} if self.token else {}
        async with httpx.AsyncClient(verify=context, headers=headers, timeout=60) as http:
            try:
                url, names = f"{scheme}://{address}{path}", {"sni_hostname": NAME}
                return str((await http.get(url, extensions=names)).status_code)
            except httpx.TransportError:
                return "no answer"


@pytest.fixture
def callers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Caller]:
    """By name; the environment of the platform and of commands is set for them."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    ours, others = Authority(tmp_path, "ours"), Authority(theirs, "others")
    service = ours.signed("service", f"DNS:{NAME}")
    shown, forged = ours.signed("who", "DNS:who"), others.signed("who", "DNS:who")
    tenants = {"red": {"token_sha256": hashlib.sha256(TENANT.encode()).hexdigest()}}
    for name, value in {
        "OPERATOR__TLS_CERTIFICATE": service[0],
        "OPERATOR__TLS_KEY": service[1],
        "OPERATOR__TLS_CLIENT_CA": ours.certificate,
        "OPERATOR__TLS_SERVER_NAME": NAME,
        "OPERATOR__TOKEN": OPERATOR,
        "REWARD__TENANTS": json.dumps(tenants),
        "WORKER__STAGES": '["match"]',
    }.items():
        monkeypatch.setenv(f"ASSAY_{name}", str(value))
    return {
        "operator": Caller(ours.certificate, shown, OPERATOR),
        "tenant": Caller(ours.certificate, shown, TENANT),
        "without token": Caller(ours.certificate, shown, ""),
        "without certificate": Caller(ours.certificate, None, OPERATOR),
        "forged certificate": Caller(ours.certificate, forged, OPERATOR),
        "wrong authority": Caller(others.certificate, shown, OPERATOR),
        "in the clear": Caller(None, None, OPERATOR),
    }


OVER_GRPC = {
    "operator": "OK",
    "tenant": "UNAUTHENTICATED",
    "without token": "UNAUTHENTICATED",
    "without certificate": "UNAVAILABLE",
    "forged certificate": "UNAVAILABLE",
    "wrong authority": "UNAVAILABLE",
    "in the clear": "UNAVAILABLE",
}
OF_METRICS = {
    "operator": "200",
    "tenant": "401",
    "without token": "401",
    "without certificate": "401",
    "forged certificate": "no answer",
    "wrong authority": "no answer",
    "in the clear": "no answer",
}


async def test_the_operators_ports_answer_the_operator_alone_and_over_tls(
    callers: dict[str, Caller], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    async with platform_up(data):
        ports = {part: await _ports(data, part) for part in ("worker", "planner")}
        found = {
            name: await one.over_grpc(ports["worker"]["control"], of_planner=False)
            for name, one in callers.items()
        }
        assert found == OVER_GRPC
        found = {
            name: await one.over_grpc(ports["planner"]["grpc"], of_planner=True)
            for name, one in callers.items()
        }
        assert found == OVER_GRPC
        for part in ports.values():
            for path, expected in (("/metrics", OF_METRICS), ("/healthz", {})):
                found = {
                    name: await one.over_http(part["http"], path) for name, one in callers.items()
                }
                wanted = {name: expected.get(name, "200") for name in OF_METRICS}
                if not expected:  # the machine's own probes show no certificate
                    wanted |= {n: v for n, v in OF_METRICS.items() if v == "no answer"}
                assert found == wanted
        pools = await _pools_of_planner(callers["operator"], ports["planner"]["grpc"])
        assert pools == {"match"}
        status = await asyncio.to_thread(assay, "status", "--json", data_dir=data)
        told = json.loads(status.stdout)
        assert told["planner"] != "does not answer"
        assert len(told["hosts"]) == 1
        resized = await asyncio.to_thread(assay, "pool", "resize", "match", "2", data_dir=data)
        assert resized.returncode == 0, resized.stderr


async def _ports(data: Path, part: str) -> Mapping[str, str]:
    """`assay up` is ready before its planner is."""
    file = data / "run" / f"{part}.json"
    async with asyncio.timeout(HANGS_S):
        while not file.exists():
            await asyncio.sleep(0.1)
    ports: Mapping[str, str] = json.loads(file.read_text())
    return ports


async def _pools_of_planner(caller: Caller, address: str) -> set[str]:
    """As soon as it leads and has seen the worker host."""
    metadata = (("authorization", f"Bearer {caller.token}"),)
    async with asyncio.timeout(HANGS_S), caller.channels.to(address) as channel:
        stub: Any = planner_pb2_grpc.PlannerServiceStub(channel)
        while True:
            request = planner_pb2.GetPoolsRequest()
            answer = await stub.GetPools(request, metadata=metadata, timeout=60)
            if answer.leading and answer.pools:
                return {one.stage for one in answer.pools}
            await asyncio.sleep(0.1)
