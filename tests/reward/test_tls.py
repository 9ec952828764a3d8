"""TLS in both directions: a caller believes only its own authority, and the service only its own.

A certificate stands for its tenant, and a token of another tenant beside it is refused.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import grpc
import httpx
import pytest
from tests.certificates import Authority

from assay.client import Backoff, Client, Identity
from assay.client.http import AsyncHttpClient, HttpClient
from assay.core.errors import DependencyDown, InvalidRequest, Unauthenticated
from assay.v1 import reward_pb2, reward_pb2_grpc

if TYPE_CHECKING:
    from pathlib import Path

    from tests.running import RunApi, Running

TENANTS = {
    "red": {"certificate_names": ["spiffe://lab/red"]},
    "blue": {"token_sha256": hashlib.sha256(b"blu").hexdigest(), "certificate_names": ["blue"]},
}


class Parties:
    """Two authorities, of whom the service and its callers know one."""

    def __init__(self, folder: Path) -> None:
        (folder / "theirs").mkdir()
        self.ours = Authority(folder, "ours")
        self.theirs = Authority(folder / "theirs", "theirs")
        self.service = self.ours.signed("service", "DNS:localhost", "IP:127.0.0.1")
        self.red = self.ours.signed("r", "URI:spiffe://lab/red")
        self.blue = self.ours.signed("blue", "DNS:b.lab")
        self.proxy = self.ours.signed("proxy", "DNS:p.lab")
        self.forged = self.theirs.signed("forged", "URI:spiffe://lab/red")
        self.ended = self.ours.signed("ended", "URI:spiffe://lab/red", days=-1)


@pytest.fixture
def parties(tmp_path: Path) -> Parties:
    return Parties(tmp_path)


async def _over_grpc(
    running: Running, authority: Path, shown: tuple[Path, Path] | None, token: str
) -> str:
    certificate, key = shown or (None, None)
    credentials = grpc.ssl_channel_credentials(
        authority.read_bytes(),
        None if key is None else key.read_bytes(),
        None if certificate is None else certificate.read_bytes(),
    )
    metadata = (("authorization", f"Bearer {token}"),) if token else ()
    async with grpc.aio.secure_channel(running.addresses.grpc, credentials) as channel:
        stub: Any = reward_pb2_grpc.RewardServiceStub(channel)
        try:
            request = reward_pb2.ListPipelinesRequest()
            await stub.ListPipelines(request, metadata=metadata, timeout=60)
        except grpc.aio.AioRpcError as failed:
            return failed.code().name
    return "OK"


async def _by_our_client(
    running: Running, authority: Path, shown: tuple[Path, Path] | None, token: str
) -> str:
    identity = None
    if shown is not None:
        chain, key = (one.read_bytes() for one in shown)
        identity = Identity(certificate_chain=chain, private_key=key)
    async with Client(
        running.addresses.grpc,
        token=token,
        root_certificates=authority.read_bytes(),
        identity=identity,
        backoff=Backoff(total_s=0.0),
    ) as client:
        try:
            await client.list_pipelines()
        except Unauthenticated:
            return "UNAUTHENTICATED"
        except DependencyDown:
            return "UNAVAILABLE"
    return "OK"


async def _over_http(
    running: Running, authority: Path, shown: tuple[Path, Path] | None, token: str
) -> str:
    context = ssl.create_default_context(cafile=str(authority))
    if shown is not None:
        context.load_cert_chain(*shown)
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with httpx.AsyncClient(
        base_url=running.addresses.http, verify=context, headers=headers, timeout=60
    ) as http:
        with suppress(httpx.TransportError):
            status = (await http.get("/v1/pipelines")).status_code
            return {200: "OK", 401: "UNAUTHENTICATED"}[status]
    return "UNAVAILABLE"


async def _by_our_client_over_http(
    running: Running, authority: Path, shown: tuple[Path, Path] | None, token: str
) -> str:
    def ask() -> str:
        with HttpClient(
            running.addresses.http,
            token=token,
            root_certificates=authority.read_bytes(),
            identity=shown,
            backoff=Backoff(total_s=0.0),
        ) as client:
            try:
                client.list_pipelines()
            except Unauthenticated:
                return "UNAUTHENTICATED"
            except DependencyDown:
                return "UNAVAILABLE"
        return "OK"

    return await asyncio.to_thread(ask)


@pytest.mark.parametrize("over", [_over_grpc, _over_http, _by_our_client, _by_our_client_over_http])
async def test_each_side_believes_its_own_authority_alone(
    run_api: RunApi, parties: Parties, over: Any
) -> None:
    certificate, key = parties.service
    ours, theirs = parties.ours.certificate, parties.theirs.certificate
    running = await run_api(
        tenants=TENANTS, tls_certificate=certificate, tls_key=key, tls_client_ca=ours
    )
    for authority, shown, token, expected in (
        (ours, parties.red, "", "OK"),
        (ours, parties.blue, "", "OK"),
        (ours, parties.blue, "blu", "OK"),
        (ours, parties.proxy, "blu", "OK"),
        (ours, parties.red, "blu", "UNAUTHENTICATED"),
        (ours, parties.proxy, "", "UNAUTHENTICATED"),
        (ours, parties.forged, "blu", "UNAVAILABLE"),
        (ours, parties.ended, "", "UNAVAILABLE"),
        (ours, parties.ended, "blu", "UNAVAILABLE"),
        (ours, None, "blu", "UNAVAILABLE"),
        (theirs, parties.red, "", "UNAVAILABLE"),
    ):
        assert await over(running, authority, shown, token) == expected, (shown, token)


@pytest.mark.parametrize("over", ["grpc", "http"])
async def test_clients_without_arguments_show_what_the_variables_name(
    run_api: RunApi, parties: Parties, monkeypatch: pytest.MonkeyPatch, over: str
) -> None:
    """As adapters of trainers, commands and the rollout service make their clients."""
    certificate, key = parties.service
    running = await run_api(
        tenants=TENANTS,
        tls_certificate=certificate,
        tls_key=key,
        tls_client_ca=parties.ours.certificate,
    )
    for authority, shown, expected in (
        (parties.ours, parties.red, "OK"),
        (parties.ours, parties.proxy, "UNAUTHENTICATED"),
        (parties.ours, parties.forged, "UNAVAILABLE"),
        (parties.theirs, parties.red, "UNAVAILABLE"),
    ):
        monkeypatch.setenv("ASSAY_CA", str(authority.certificate))
        for name, file in zip(("CERTIFICATE", "KEY"), shown, strict=True):
            monkeypatch.setenv(f"ASSAY_{name}", str(file))
        assert await _without_arguments(running, over) == expected
    monkeypatch.delenv("ASSAY_KEY")
    with pytest.raises(InvalidRequest, match="ASSAY_CERTIFICATE and ASSAY_KEY"):
        await _without_arguments(running, over)
    monkeypatch.setenv("ASSAY_CA", "/nowhere")
    with pytest.raises(InvalidRequest, match="ASSAY_CA"):
        await _without_arguments(running, over)
    Client("127.0.0.1:1")  # in the clear they do not count


async def _without_arguments(running: Running, over: str) -> str:
    once = Backoff(total_s=0.0)
    client: Any
    if over == "grpc":
        client = Client(f"grpcs://{running.addresses.grpc}", backoff=once)
    else:
        client = AsyncHttpClient(running.addresses.http, backoff=once)
    async with client:
        try:
            await client.list_pipelines()
        except Unauthenticated:
            return "UNAUTHENTICATED"
        except DependencyDown:
            return "UNAVAILABLE"
    return "OK"
