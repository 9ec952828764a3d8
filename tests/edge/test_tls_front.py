"""TLS ends in front of gRPC: what clients send over it has the bounds and the pace of the rest."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.certificates import Authority

from assay.edge.connections import passage as passage_module
from assay.edge.connections.passage import (
    KNOWN_FRAMES,
    PREFACE,
    Broken,
    Passage,
    own_pace,
    strangers_pace,
    tenants_pace,
)
from assay.edge.connections.tls import HANDSHAKE_BYTES_MAX, TlsSession, server_tls
from assay.v1 import reward_pb2, reward_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.running import RunApi, Running

WAIT_S = 20.0
SETTINGS = bytes.fromhex("000000040000000000")
TENANTS = {name: {"token_sha256": sha256(name.encode()).hexdigest()} for name in "ab"}
MANY_FIELDS = b"\x00\x01x\x01y" * 200
BROKEN = {
    "many fields": PREFACE + SETTINGS + len(MANY_FIELDS).to_bytes(3, "big") + b"\x01\x04\0\0\0\x01"
    + MANY_FIELDS,
    "a large frame": PREFACE + SETTINGS + b"\x01\x00\x00\x00\x00\0\0\0\x01",
    "a lone CONTINUATION": PREFACE + SETTINGS + b"\0\0\x01\x09\x04\0\0\0\x01\x82",
    "another protocol": b"GET / HTTP/1.1\r\n\r\n",
}  # fmt: skip


class Ends:
    """Both ends of TLS in memory."""

    def __init__(self, folder: Path) -> None:
        authority = Authority(folder, "ca")
        certificate, key = authority.signed("service", "DNS:localhost")
        self.context = server_tls(certificate, key, None, setting="a.port")
        assert self.context is not None
        self.trusting = ssl.create_default_context(cafile=str(authority.certificate))

    def session(self) -> tuple[TlsSession, Client]:
        assert self.context is not None
        return TlsSession(self.context), Client(self.trusting)


class Client:
    """The other end."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.session = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def shake(self, server: TlsSession) -> None:
        for _ in range(4):
            with suppress(ssl.SSLWantReadError):
                self.session.do_handshake()
            assert server.receive(self.outgoing.read()) == b""
            self.incoming.write(server.send(b""))

    def says(self, data: bytes) -> bytes:
        self.session.write(data)
        return self.outgoing.read()


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> Ends:
    return Ends(tmp_path_factory.mktemp("tls"))


@given(
    said=st.lists(st.binary(min_size=1, max_size=40_000), min_size=1, max_size=4),
    pieces=st.integers(1, 20_000),
)
def test_what_is_said_arrives_however_it_is_cut(
    ends: Ends, said: Sequence[bytes], pieces: int
) -> None:
    server, client = ends.session()
    client.shake(server)
    sealed = b"".join(client.says(each) for each in said)
    heard = b"".join(
        server.receive(sealed[at : at + pieces]) for at in range(0, len(sealed), pieces)
    )
    assert heard == b"".join(said)
    client.incoming.write(server.send(heard))
    answered = b""
    with suppress(ssl.SSLWantReadError):
        while len(answered) < len(heard):
            answered += client.session.read(65_536)
    assert answered == heard


@given(st.binary(min_size=10))
def test_bytes_that_are_no_tls_end_a_connection(ends: Ends, data: bytes) -> None:
    server, _ = ends.session()
    with suppress(Broken):
        assert server.receive(b"GET" + data) == b""


def test_a_handshake_ends_or_its_connection_does(ends: Ends) -> None:
    server, client = ends.session()
    with suppress(ssl.SSLWantReadError):
        client.session.do_handshake()
    hello = client.outgoing.read()
    long = b"\x16\x03\x01\x40\x00\x01\x00\xff\xff" + bytes(16_379)
    assert server.receive(hello[:-1]) == b""
    with pytest.raises(Broken):
        server.receive(long * (HANDSHAKE_BYTES_MAX // len(long) + 2))


def test_many_small_records_are_counted(ends: Ends) -> None:
    server, client = ends.session()
    client.shake(server)
    server.receive(b"".join(client.says(b"x") for _ in range(1_000)))
    assert server.small_records == 1_000
    passage = Passage(shared=strangers_pace())
    passage.widen(tenants_pace(), own_pace())
    begun = PREFACE + SETTINGS
    _, wait_s = passage.take(begun, 0.0, small=2)
    assert wait_s == 0
    _, wait_s = passage.take(b"", 0.0, small=2 * int(KNOWN_FRAMES[0]))
    assert wait_s > 0.5
    assert passage.take(b"", 0.0 + wait_s)[1] == 0


def test_a_wrong_file_is_named(ends: Ends, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("no certificate")
    for files in ((wrong, wrong), (tmp_path / "none", wrong)):
        with pytest.raises(OSError, match=r"^a\.port: certificate, key and authorities: "):
            server_tls(*files, None, setting="a.port")


# -- the port --------------------------------------------------------------------------------------
class Port:
    """An API that speaks TLS, and how to call it."""

    def __init__(self, running: Running, authority: Authority) -> None:
        self.running = running
        self.authority = authority
        self.host, _, port = running.addresses.grpc.rpartition(":")
        self.port = int(port)

    async def raw(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        context.set_alpn_protocols(["h2"])
        return await asyncio.open_connection(
            self.host, self.port, ssl=context, server_hostname="localhost"
        )

    def channel(self) -> grpc.aio.Channel:
        credentials = grpc.ssl_channel_credentials(self.authority.certificate.read_bytes())
        options = [("grpc.use_local_subchannel_pool", 1)]
        return grpc.aio.secure_channel(self.running.addresses.grpc, credentials, options)


async def opened(run_api: RunApi, folder: Path, **settings: object) -> Port:
    authority = Authority(folder, "ca")
    certificate, key = authority.signed("service", "DNS:localhost", "IP:127.0.0.1")
    running = await run_api(tls_certificate=certificate, tls_key=key, **settings)
    return Port(running, authority)


async def pipelines(channel: grpc.aio.Channel, token: str, timeout_s: float = WAIT_S) -> None:
    stub: Any = reward_pb2_grpc.RewardServiceStub(channel)
    metadata = (("authorization", f"Bearer {token}"),)
    request = reward_pb2.ListPipelinesRequest()
    await stub.ListPipelines(request, metadata=metadata, timeout=timeout_s)


@pytest.mark.parametrize("sent", BROKEN.values(), ids=BROKEN)
async def test_what_breaks_a_bound_is_cut_over_tls_too(
    run_api: RunApi, tmp_path: Path, sent: bytes
) -> None:
    port = await opened(run_api, tmp_path, tenants=TENANTS)
    reader, writer = await port.raw()
    writer.write(sent)
    with suppress(ConnectionError):
        async with asyncio.timeout(WAIT_S):
            while await reader.read(65_536):
                pass
    writer.close()
    async with port.channel() as channel:
        await pipelines(channel, "a")


async def test_clients_that_do_not_come_to_terms_hold_no_address_off(
    run_api: RunApi, tmp_path: Path
) -> None:
    """One with another authority that tries again and again, and one that speaks no TLS."""
    port = await opened(run_api, tmp_path, tenants=TENANTS)
    for _ in range(20):
        with pytest.raises(ssl.SSLError):
            await asyncio.open_connection(port.host, port.port, ssl=ssl.create_default_context())
        reader, writer = await asyncio.open_connection(port.host, port.port)
        writer.write(PREFACE + SETTINGS)
        with suppress(ConnectionError):
            async with asyncio.timeout(WAIT_S):
                while await reader.read(65_536):
                    pass
        writer.close()
    assert port.running.api.server.connections.cut == 0
    async with port.channel() as channel:
        await pipelines(channel, "a")


async def test_the_pace_of_new_streams_is_that_of_a_tenant(
    run_api: RunApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passage_module, "TENANT_STREAMS", (4.0, 0.001))
    port = await opened(run_api, tmp_path, tenants=TENANTS)
    answered = {"a": 0, "b": 0}
    for token, times in (("a", 8), ("b", 4)):
        async with port.channel() as channel:
            for _ in range(times):
                with suppress(grpc.aio.AioRpcError):
                    await pipelines(channel, token, 1.0)
                    answered[token] += 1
    assert 1 <= answered["a"] < 8
    assert answered["b"] == 4


async def test_who_connects_behind_the_front_is_refused(run_api: RunApi, tmp_path: Path) -> None:
    """There no certificate is asked for."""
    authority = Authority(tmp_path, "clients")
    port = await opened(run_api, tmp_path, tenants=TENANTS, tls_client_ca=authority.certificate)
    behind = f"127.0.0.1:{port.running.api.server.connections.port}"
    async with grpc.aio.insecure_channel(behind) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await pipelines(channel, "a")
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_handshakes_of_an_address_begin_at_a_pace(
    run_api: RunApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passage_module, "ADDRESS_BEGINS", (4.0, 0.001))
    port = await opened(run_api, tmp_path, tenants=TENANTS)
    opening = [asyncio.create_task(port.raw()) for _ in range(12)]
    done, waiting = await asyncio.wait(opening, timeout=2.0)
    assert len(done) == 4
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    for task in done:
        task.result()[1].close()
